"""What `auto` takes: the table of this machine, the format a book was begun in, and how many threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rhapsode.audio.takes import begun_settings
from rhapsode.machine import quota
from rhapsode.qwen3 import remembered as kept
from rhapsode.qwen3.config import ModelConfig
from rhapsode.qwen3.remembered import Chosen, Measured, cache_file
from rhapsode.qwen3.torch import remembered
from rhapsode.qwen3.torch.remembered import pick_format, recall, remember
from rhapsode.qwen3.torch.threads import choose_threads
from tests import tiny_checkpoint


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "formats.json"
    monkeypatch.setattr(kept, "cache_file", lambda: path)
    return path


@pytest.fixture(scope="module")
def config() -> ModelConfig:
    from rhapsode.qwen3.config import model_config

    return model_config(tiny_checkpoint.model_config(), Path("config.json"))


SLOW, GOOD, FAR = Measured(9.0, 0.0, 0.0, 0.0), Measured(5.0, 0.01, 0.01, 0.001), Measured(1.0, 0.9, 0.01, 0.0)


def test_the_fastest_within_its_tolerance_is_taken_and_said(config: ModelConfig) -> None:
    assert pick_format("auto", "cpu", config, 24) == Chosen("float32")
    remember("cpu", config, {24: {"float32": SLOW, "bfloat16": GOOD, "int8": FAR}}, "2026-11-30", trained=True)
    chosen = pick_format("auto", "cpu", config, 20)  # in the same bucket
    assert chosen.format == "bfloat16"
    assert chosen.note == "bfloat16: the fastest within 5% on this machine at 20 slots, measured on 2026-11-30."
    assert pick_format("auto", "cpu", config, 8).format == "float32"
    assert pick_format("float32", "cpu", config, 24) == Chosen("float32")
    loud = Measured(1.0, 0.0, 0.0, 0.006)
    remember("cpu", config, {24: {"float32": SLOW, "bfloat16": loud}}, "2026-12-01", trained=True)
    assert pick_format("auto", "cpu", config, 24).note.startswith("float32: the fastest on this machine")


@pytest.mark.parametrize(("trained", "expected"), [(True, "int8"), (False, "bfloat16")])
def test_random_weights_do_not_speak_for_eight_bits(config: ModelConfig, trained: bool, expected: str) -> None:
    fast = Measured(1.0, 0.01, 0.01, 0.0)
    table = {"float32": SLOW, "bfloat16": GOOD, "int8": fast}
    remember("cpu", config, {24: table}, "2026-11-30", trained=trained)
    assert pick_format("auto", "cpu", config, 24).format == expected


@pytest.mark.parametrize("text", ["", "[]", "{", '{"tables": 3}', "[" * 100_000, "\udcff", "null"])
def test_an_odd_file_is_none(config: ModelConfig, folder: Path, text: str) -> None:
    folder.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert recall("cpu", config, 1) is None
    remember("cpu", config, {1: {"float32": SLOW}}, "2026-11-30", trained=True)
    assert recall("cpu", config, 1) == ("float32", "2026-11-30")


@pytest.mark.parametrize("ms", [0, -1, "1", True, float("nan"), None, 10**400])
def test_an_odd_figure_is_none(config: ModelConfig, folder: Path, ms: Any) -> None:
    import json

    row = {"ms": ms, "talker": 0.0, "predictor": 0.0, "codec": 0.0}
    entry = {"date": "2026-11-30", "trained": True, "formats": {"float32": row, "int3": {**row, "ms": 1}}}
    folder.write_text(json.dumps({"tables": {remembered.key("cpu", config, 1): entry}}))
    assert recall("cpu", config, 1) is None


def test_a_book_goes_on_in_the_format_it_was_begun_in(config: ModelConfig, tmp_path: Path) -> None:
    takes = tmp_path / "a.takes"
    for name, format, sounds in (("a", "int9", 3), ("b", "float32", 2), ("c", "bfloat16", 0)):
        (takes / name).mkdir(parents=True)
        (takes / name / "settings.json").write_text(f'{{"format": "{format}"}}')
        for number in range(sounds):
            (takes / name / f"{number}.wav").touch()
    (takes / "lock").touch()
    begun = begun_settings(takes)
    assert [one["format"] for one in begun] == ["int9", "float32"]
    remember("cpu", config, {1: {"float32": SLOW, "bfloat16": GOOD}}, "2026-11-30", trained=True)
    assert pick_format("auto", "cpu", config, 1, begun).format == "float32"
    assert pick_format("auto", "cpu", config, 1).format == "bfloat16"
    assert begun_settings(tmp_path / "none") == ()


@pytest.mark.parametrize(
    ("asked", "variable", "cores", "default", "wanted"),
    [
        (None, None, 2, 2, 2), (None, None, 2, 64, 2), (None, None, 64, 64, 32), (None, None, 64, 8, 8),
        (None, "3", 2, 2, 3), (None, "4,2", 8, 8, 4), (None, "x", 8, 4, 4), (None, "0", 8, 4, 4), (5, "3", 2, 2, 5),
        (None, None, 1, 1, 1), (None, "", 16, 16, 16),
    ],
)  # fmt: skip
def test_threads(asked: int | None, variable: str | None, cores: int, default: int, wanted: int) -> None:
    assert choose_threads(asked, variable, cores, default) == wanted


@pytest.mark.parametrize(("text", "wanted"), [("150000 100000", 1.5), ("max 100000", None), ("x", None)])
def test_a_share_of_time(tmp_path: Path, text: str, wanted: float | None) -> None:
    group = tmp_path / "sys/fs/cgroup/a/b"
    group.mkdir(parents=True)
    (group.parent / "cpu.max").write_text(text)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/a/b\n")
    assert quota(tmp_path) == wanted


def test_the_file_is_in_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kept.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_file() == tmp_path / "rhapsode" / "formats.json"
