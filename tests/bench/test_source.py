"""Where the networks come from: the shapes of the embedded voice, with and without one in the installation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from rhapsode.bench import on_torch, run
from rhapsode.bench import source as source_module
from rhapsode.bench.source import find_source
from rhapsode.cli import main
from rhapsode.errors import UserError
from rhapsode.qwen3.checkpoint import open_checkpoint
from rhapsode.qwen3.torch.formats import has_int8
from tests import tiny_checkpoint
from tests.bench.conftest import BOOK


@pytest.fixture
def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny checkpoint in the place of the embedded one."""
    folder = tiny_checkpoint.write(tmp_path / "demo", projection=False)
    monkeypatch.setattr(source_module, "embedded_checkpoint", lambda: folder)
    return folder


def test_demo_has_the_shapes_of_the_embedded_voice_and_not_its_weights(embedded: Path) -> None:
    found, checkpoint = find_source("demo", None), open_checkpoint(embedded)
    assert (found.model, found.codec) == (checkpoint.model, checkpoint.codec)
    assert "demo" in found.name and "random" in found.name
    built = found.build("cpu", "float32").talker.head.weight
    trained = load_file(checkpoint.model_file)["talker.codec_head.weight"]
    assert built.shape == trained.shape and not torch.equal(built, trained)


def test_what_was_read_may_be_changed(embedded: Path) -> None:
    """Whoever asks for the two config.json gets copies."""
    found = find_source("demo", None)
    model, codec = found.read_json()
    assert model == json.loads((embedded / "config.json").read_text(encoding="utf-8"))
    model["talker_config"].clear()
    codec.clear()
    assert all(found.read_json()) and found.read_json()[0]["talker_config"]


def test_without_an_embedded_voice_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "embedded_checkpoint", lambda: None)
    with pytest.raises(UserError, match=r"no embedded voice.*no shapes demo; try 1\.7b or 0\.6b"):
        find_source("demo", None)


def test_demo_from_its_words_to_its_last_line(
    embedded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "draw", lambda: BOOK)
    words = ["--shapes", "demo", "--device", "cpu", "--slots", "2", "--lines", "2", "--repeats", "1", "--json"]
    assert main(["bench", *words]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["source"] == "demo, random weights" and found["whole"]["lines"] == 2


@pytest.mark.parametrize(("shapes", "formats"), [("1.7b", {"bfloat16", "int8"}), ("small", {"float32"})])
def test_auto_compares_what_is_narrower_where_weights_are_heavy(shapes: str, formats: set[str]) -> None:
    model = find_source(shapes, None).model
    wanted = formats if has_int8() else formats - {"int8"}
    assert {one.format for one in on_torch.pick(("auto",), "cpu", model, 64)} == wanted
    assert [one.format for one in on_torch.pick(("float32",), "cpu", model, 64)] == ["float32"]
