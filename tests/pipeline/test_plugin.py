"""A narrator that another package brings, found through its entry point; and what importing costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rhapsode
from rhapsode import narrator
from tests.pipeline import books, fakes, processes

PLUGIN = """
import numpy as np
from rhapsode.narrator import Voices
from rhapsode.types import Sampling, Take

def load(options):
    return Beep(options)

def voices(options):
    return Voices(("beep", "boop"), ("auto",))

class Beep:
    sample_rate = 16_000
    sampling = Sampling()

    def __init__(self, options):
        self.options = options

    def settings(self):
        return {"narrator": "fake", "voice": self.options.voice}

    def notes(self):
        return []

    def expected_seconds(self, line):
        return 0.5

    def read(self, lines):
        for line in reversed(list(lines)):
            yield Take(line, np.full(8_000, 0.5, np.float32), 16_000, frames=0, seed=0)

    def useful(self):
        return 1.0

    def retakes(self):
        return 0
"""
SCRIPT = """
import dataclasses, json, sys
import rhapsode
report = rhapsode.narrate("tale.md", "tale.m4b", narrator="fake", voice="boop")
print(json.dumps([dataclasses.asdict(report), sorted(sys.modules)]))
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A folder as `pip install` leaves it: a module, and what it says of its entry points."""
    site = tmp_path / "site"
    information = site / "beeps-1.0.dist-info"
    information.mkdir(parents=True)
    (site / "beeps.py").write_text(PLUGIN)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: beeps\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[rhapsode.narrators]\nfake = beeps\nbroken = beeps_with_a_library_that_is_not_there\nempty = beeps:nothing\n"
    )
    return site


def python(code: str, *path: Path, cwd: Path) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=processes.environment(*path), cwd=cwd
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_book_is_read_by_an_installed_narrator_without_torch(plugin: Path, book: Path) -> None:
    report, modules = json.loads(python(SCRIPT, plugin, cwd=book.parent))
    lines = rhapsode.split_lines(rhapsode.read_book(book))
    assert report["lines"] == len(lines) and report["chapters"] == 3
    pauses = sum(round(line.pause_s * 16_000) for line in lines)
    assert report["audio_s"] == round(len(lines) * 0.5 + pauses / 16_000, 3)
    assert b"boop" in Path("tale.m4b").read_bytes(), "the voice is among the tags"
    assert "beeps" in modules
    assert not [name for name in modules if name == "torch" or name.startswith("rhapsode.qwen3")]


def test_a_narrator_that_is_not_installed(plugin: Path, book: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(plugin)
    before = books.contents(book.parent)
    with pytest.raises(rhapsode.UserError, match="no narrator 'beep'; installed are .*empty, fake, .*qwen3"):
        rhapsode.narrate(book, narrator="beep")
    for name in ("broken", "empty"):
        with pytest.raises(rhapsode.UserError, match=f"'{name}' is installed but .*: .*(library|nothing)"):
            rhapsode.narrate(book, narrator=name)
    assert books.contents(book.parent) == before
    assert narrator.find("fake").voices(rhapsode.Options()).voices == ("beep", "boop")


def test_qwen3_comes_from_a_bare_checkout_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrator, "entry_points", lambda group: ())
    assert narrator.find().__name__ == "rhapsode.qwen3.narrator"  # type: ignore[attr-defined]
    with pytest.raises(rhapsode.UserError, match="installed are qwen3"):
        narrator.find("fake")


def test_lines_of_two_texts_are_all_read() -> None:
    """Each text counts its lines from 0; read together, no line may take the place of another."""
    both = [*rhapsode.lines("The first text is here."), *rhapsode.lines("The second text is here.")]
    assert [line.index for line in both] == [0, 0]
    takes = list(narrator.SpokenForms(fakes.FakeNarrator(0.1), str.upper).read(iter(both)))
    assert [take.line for take in takes] == both


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("voice", 3, "a text"), ("device", None, "a text"), ("device", 0, "a text"), ("language", b"en", "a text"),
        ("slots", "8", "a whole number"), ("slots", 8.0, "a whole number"), ("threads", "1", "a whole number"),
        ("seed", "1", "a whole number"), ("seed", 1.5, "a whole number"), ("tries", True, "a whole number"),
        ("seed", None, "a whole number"), ("offline", "no", "true or false"), ("checkpoint", 3, "a text"),
        ("sampling", rhapsode.Sampling(greedy=True), "names with their values"), ("sampling", [1], "names"),
    ],
)  # fmt: skip
def test_an_option_of_the_wrong_kind_is_named(name: str, value: object, wanted: str, book: Path) -> None:
    before = books.contents(book.parent)
    with pytest.raises(rhapsode.UserError, match=f"^{name} must be {wanted}.*, not "):
        rhapsode.narrate(book, **{name: value})
    assert books.contents(book.parent) == before


def test_options_of_every_kind_are_taken(checkpoint: Path) -> None:
    options = rhapsode.Options(
        checkpoint=checkpoint,  # type: ignore[arg-type]
        voice="ryan", slots=2, seed=-1, sampling={"greedy": True}, begun=({"seed": 1},), offline=True,
    )  # fmt: skip
    assert options.checkpoint == str(checkpoint)
    assert rhapsode.Options().voice is None


def test_importing_imports_no_array_library(tmp_path: Path) -> None:
    code = (
        "import json, sys, rhapsode\n"
        "names = [name for name in sys.modules if '.' not in name]\n"
        "there = [callable(getattr(rhapsode, name)) for name in ('narrate', 'load', 'lines', 'say', 'read_book')]\n"
        "print(json.dumps([names, there]))"
    )
    names, there = json.loads(python(code, cwd=tmp_path))
    heavy = {"numpy", "torch", "lxml", "av", "safetensors", "tokenizers", "rich", "huggingface_hub", "sentencex"}
    assert not heavy & set(names)
    assert "rhapsode" in names and all(there)


def test_all_names_are_there() -> None:
    assert sorted(rhapsode.__all__) == rhapsode.__all__
    for name in rhapsode.__all__:
        assert getattr(rhapsode, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'speak'"):
        _ = rhapsode.speak


def test_peak_memory_is_that_of_this_process_alone(tmp_path: Path) -> None:
    """Not of the one that started it, which is this one and large."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the system has only the account that a process inherits")
    ballast = bytearray(os.urandom(1 << 16)) * (200 << 4)  # 200 MiB that are written to
    code = (
        "from rhapsode.memory import peak_rss_mb as peak\n"
        "before = peak(); held = bytearray(b'x') * 100_000_000; after = peak(); del held\n"
        "print(before, after, peak())"
    )
    before, after, still = map(float, python(code, cwd=tmp_path).split())
    assert len(ballast) == 200 << 20
    assert 5 < before < 100
    assert 95 < after - before < 120 and still > after - 5, "the peak stays, but for what the kernel counts late"
