"""Stage `export`: trained weights to a checkpoint in the official layout.

`python -m training.export --work W --out FOLDER [--decoder polished]`. Reads W/checkpoint and the .pt files in W; the
encoder is that of W/encoder.pt where `narrow` has made one.
The talker is written in bfloat16 as the released ones are; the codec in float16, whose finer steps its sines need.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from rhapsode.qwen3.checkpoint import open_checkpoint
from rhapsode.qwen3.torch.codec import CodecDecoder
from rhapsode.qwen3.torch.encoder import CodecEncoder
from rhapsode.qwen3.torch.export import codec_tensors, model_tensors
from rhapsode.qwen3.torch.predictor import Predictor
from rhapsode.qwen3.torch.talker import Talker
from training.common import load
from training.layout import NAME, read_configs, write_encoder_width

MOST_BYTES = 30_000_000  # of all files together


def export(work: Path, out: Path, decoder_from: str) -> int:
    """Write the checkpoint; its size in bytes. Raises `ValueError` for weights not finite and for files too large."""
    model_config, codec_config = read_configs(work / "checkpoint")
    talker = Talker(model_config.talker)
    predictor = Predictor(model_config.predictor, model_config.talker)
    talker.load_state_dict(load(work / "talker.pt"))
    predictor.load_state_dict(load(work / "predictor.pt"))
    codec = load(work / "codec.pt")
    narrowed = work / "encoder.pt"
    hears = load(narrowed) if narrowed.exists() else codec["encoder"]
    units = hears["blocks.0.up.weight"].shape[0]
    codec_config = replace(codec_config, encoder=replace(codec_config.encoder, intermediate=units))
    encoder = CodecEncoder(codec_config.encoder, codec_config.codebooks_kept)
    decoder = CodecDecoder(codec_config.decoder)
    encoder.load_state_dict(hears)
    decoder.load_state_dict(codec["decoder"] if decoder_from == "codec" else load(work / f"{decoder_from}.pt"))

    shutil.copytree(work / "checkpoint", out, dirs_exist_ok=True)
    write_encoder_width(out, units)
    _write(model_tensors(model_config, talker, predictor), torch.bfloat16, out / "model.safetensors")
    _write(codec_tensors(codec_config, decoder, encoder), torch.float16, out / "speech_tokenizer" / "model.safetensors")
    # What the product asks of whoever reads with it: this voice knows words only, not figures.
    (out / "rhapsode.json").write_text(json.dumps({"name": NAME, "text": "spoken-english"}, indent=1) + "\n")
    open_checkpoint(out, str(out))
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    if size > MOST_BYTES:
        raise ValueError(f"{out} has {size:,} bytes; {MOST_BYTES:,} are the most that the package is to carry")
    return size


def _write(tensors: dict[str, Tensor], dtype: torch.dtype, file: Path) -> None:
    narrow = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    for name, tensor in narrow.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{name} is not finite in {dtype}")
    save_file(narrow, file, metadata={"format": "pt"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--decoder", default="codec", choices=("codec", "polished"))
    options = parser.parse_args()
    print(f"{options.out}: {export(options.work, options.out, options.decoder):,} bytes")


if __name__ == "__main__":
    main()
