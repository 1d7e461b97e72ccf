"""Modules back into files: what was loaded comes out as it was, bit for bit, and what does not fit is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rhapsode.qwen3.checkpoint import Checkpoint, open_checkpoint
from rhapsode.qwen3.torch.export import codec_tensors, model_tensors
from rhapsode.qwen3.torch.weights import load_codec, load_encoder, load_talker
from tests import tiny_checkpoint
from tests.qwen3.test_weights import parameters, same

CPU = torch.device("cpu")
SIDES = (
    ("decoder.quantizer.rvq_first", "encoder.quantizer.semantic_residual_vector_quantizer"),
    ("decoder.quantizer.rvq_rest", "encoder.quantizer.acoustic_residual_vector_quantizer"),
)
UNREAD = {f"{decoding}.input_proj.weight" for decoding, _ in SIDES}
UNREAD |= {f"{encoding}.output_proj.weight" for _, encoding in SIDES}


@pytest.fixture(scope="module")
def equal_widths(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Encoder and decoder project between the same widths, as in the published codec; 0.6B otherwise."""
    config = tiny_checkpoint.codec_config()
    config["encoder_config"].update(
        hidden_size=32, head_dim=16, codebook_dim=16, vector_quantization_hidden_dimension=16, num_residual_layers=2
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny_checkpoint, "codec_config", lambda: config)
        return open_checkpoint(tiny_checkpoint.write(tmp_path_factory.mktemp("equal"), projection=False))


def exported_codec(checkpoint: Checkpoint) -> dict[str, Tensor]:
    return codec_tensors(checkpoint.codec, load_codec(checkpoint, CPU), load_encoder(checkpoint, CPU))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("which", ["custom", "equal_widths"])
def test_talker_and_predictor_come_back(which: str, dtype: torch.dtype, request: pytest.FixtureRequest) -> None:
    checkpoint: Checkpoint = request.getfixturevalue(which)
    tensors = model_tensors(checkpoint.model, *load_talker(checkpoint, dtype, CPU))
    file = load_file(checkpoint.model_file)
    assert tensors.keys() == file.keys()
    for name, tensor in tensors.items():
        assert tensor.dtype == dtype and same(tensor, file[name].to(dtype)), name


@pytest.mark.parametrize("which", ["custom", "equal_widths"])
def test_the_codec_comes_back(which: str, request: pytest.FixtureRequest) -> None:
    checkpoint: Checkpoint = request.getfixturevalue(which)
    tensors, file = exported_codec(checkpoint), load_file(checkpoint.codec_file)
    assert tensors.keys() == file.keys()
    for name, tensor in tensors.items():
        if name.endswith(("cluster_usage", "initialized")):
            assert same(tensor, torch.ones(file[name].shape))
        elif name.endswith(("embedding_sum", "embed_sum")):
            usage = file[f"{name.rpartition('.')[0]}.cluster_usage"].clamp(min=1e-5)
            assert same(tensor, file[name] / usage[:, None]), name
        elif name not in UNREAD:
            assert same(tensor, file[name]), name


def test_projections_that_are_never_read(custom: Checkpoint, equal_widths: Checkpoint) -> None:
    """They are the other side's; where the sides have different widths there is nothing to take."""
    tensors, apart = exported_codec(equal_widths), exported_codec(custom)
    for decoding, encoding in SIDES:
        for part in ("input_proj", "output_proj"):
            assert same(tensors[f"{decoding}.{part}.weight"], tensors[f"{encoding}.{part}.weight"])
    assert all(tensors[name].abs().max() > 0 for name in UNREAD)
    assert all(not apart[name].any() for name in UNREAD)


def test_a_file_of_them_loads_as_the_same_modules(equal_widths: Checkpoint, tmp_path: Path) -> None:
    """Through a file that shares no storage, checked as every other."""
    folder = tiny_checkpoint.write(tmp_path / "again", projection=False)
    (folder / "speech_tokenizer" / "config.json").write_bytes(
        (equal_widths.folder / "speech_tokenizer" / "config.json").read_bytes()
    )
    talker = load_talker(equal_widths, torch.float32, CPU)
    save_file(model_tensors(equal_widths.model, *talker), folder / "model.safetensors")
    save_file(exported_codec(equal_widths), folder / "speech_tokenizer" / "model.safetensors")
    again = open_checkpoint(folder)
    for before, after in (
        (talker[0], load_talker(again, torch.float32, CPU)[0]),
        (talker[1], load_talker(again, torch.float32, CPU)[1]),
        (load_codec(equal_widths, CPU), load_codec(again, CPU)),
        (load_encoder(equal_widths, CPU), load_encoder(again, CPU)),
    ):
        old, new = parameters(before), parameters(after)
        assert old.keys() == new.keys() and all(same(new[name], old[name]) for name in old)


def test_what_does_not_fit_is_refused(custom: Checkpoint, base: Checkpoint) -> None:
    with pytest.raises(ValueError, match=r"speaker_encoder\..* is missing"):
        model_tensors(base.model, *load_talker(base, torch.float32, CPU))
    modules = load_talker(custom, torch.float32, CPU)
    talker = custom.model.talker
    with pytest.raises(ValueError, match=r"1 tensors .*text_embedding.weight has shape .*, not \[9999, 40\]"):
        model_tensors(replace(custom.model, talker=replace(talker, text_vocab=9999)), *modules)
    shorter = replace(talker, trunk=replace(talker.trunk, layers=2))
    with pytest.raises(ValueError, match=r"no place for .*layers\.2\..*q_proj"):
        model_tensors(replace(custom.model, talker=shorter), *modules)
    with pytest.raises(ValueError, match=r"encoder_transformer\.layers\.1\..* is missing"):
        codec_tensors(
            replace(custom.codec, encoder=replace(custom.codec.encoder, layers=2)),
            load_codec(custom, CPU),
            load_encoder(custom, CPU),
        )
    fewer_heads = replace(talker, trunk=replace(talker.trunk, heads=2))
    with pytest.raises(ValueError, match="q_proj.weight and .* rows, not 128"):
        model_tensors(replace(custom.model, talker=fewer_heads), *modules)
