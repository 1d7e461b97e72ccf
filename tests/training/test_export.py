"""A checkpoint is written only if it is sound and small enough to be carried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from rhapsode.qwen3.checkpoint import open_checkpoint
from tests.training.stand_in import LABELS, write_texts
from training import export
from training.codec import Codec
from training.common import load, save
from training.layout import NAME, read_configs
from training.talker import Networks


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write_texts(tmp_path)
    model, sound = read_configs(tmp_path / "checkpoint")
    torch.manual_seed(0)
    networks, codec = Networks(model, LABELS), Codec(sound, LABELS, "cpu")
    codec.publish()
    for part in ("talker", "predictor"):
        save(getattr(networks, part).state_dict(), tmp_path / f"{part}.pt")
    save({"encoder": codec.encoder.state_dict(), "decoder": codec.decoder.state_dict()}, tmp_path / "codec.pt")
    return tmp_path


def test_the_size_is_that_of_all_files(work: Path) -> None:
    size = export.export(work, work / "out", "codec")
    assert size == sum(file.stat().st_size for file in (work / "out").rglob("*") if file.is_file())
    header = open_checkpoint(work / "out", "small")
    assert {entry.dtype for entry in header.model_header.values()} == {"BF16"}
    assert {entry.dtype for entry in header.codec_header.values()} == {"F16"}
    assert json.loads((work / "out" / "rhapsode.json").read_text()) == {"name": NAME, "text": "spoken-english"}


def test_too_large_is_refused(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = export.export(work, work / "out", "codec")
    monkeypatch.setattr(export, "MOST_BYTES", size)
    assert export.export(work, work / "out", "codec") == size
    monkeypatch.setattr(export, "MOST_BYTES", size - 1)
    with pytest.raises(ValueError, match=f"has {size:,} bytes; {size - 1:,} are the most"):
        export.export(work, work / "out", "codec")


@pytest.mark.parametrize("value", [float("nan"), 1e6])
def test_what_is_not_finite_is_refused(work: Path, value: float) -> None:
    halves = load(work / "codec.pt")
    name = next(name for name, tensor in halves["encoder"].items() if tensor.dim() > 1)
    halves["encoder"][name].view(-1)[3] = value  # a million is too much for float16
    save(halves, work / "codec.pt")
    with pytest.raises(ValueError, match="is not finite in torch.float16"):
        export.export(work, work / "out", "codec")
    assert not (work / "out" / "speech_tokenizer" / "model.safetensors").exists()
