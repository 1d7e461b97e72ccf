"""Two voices, spoken forms and pictures on the way from a text to a file, by the functions and by the command line."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rhapsode
from rhapsode import cli, pipeline
from rhapsode.narrator import SpokenForms
from rhapsode.qwen3 import narrator as qwen3
from rhapsode.types import Line, Take
from tests.pipeline import books, fakes

QUICK: dict[str, Any] = {"device": "cpu", "format": "float32", "slots": 4}


def record(report: rhapsode.Report) -> dict[str, dict[str, Any]]:
    entries = map(json.loads, Path(report.record).read_text().splitlines())
    return {entry["text"]: entry for entry in entries}


# ---------------------------------------------------------------------- two voices


def test_a_book_in_two_voices(checkpoint: Path, book: Path) -> None:
    both = {**QUICK, "checkpoint": checkpoint, "voice": "ryan", "dialogue_voice": "serena", "keep_takes": True}
    report = rhapsode.narrate(book, "tale.m4b", **both)
    lines = rhapsode.split_lines(rhapsode.read_book(book), dialogue=True)
    spoken = [line.text for line in lines if line.speaker == "dialogue"]
    assert spoken == ['"Is it late?"', '"It is not late,"']
    assert report.lines == len(lines) and set(record(report)) == {line.text for line in lines}
    assert b"ryan, serena" in Path("tale.m4b").read_bytes(), "both are among the tags"
    again = rhapsode.narrate(book, "tale.m4b", **both, overwrite=True)
    assert again.resumed == report.lines
    alone = rhapsode.narrate(book, "tale.m4b", **{**both, "dialogue_voice": None}, overwrite=True)
    assert alone.record != report.record and alone.resumed == 0


def test_a_sentence_in_two_voices(checkpoint: Path, here: Path) -> None:
    report = rhapsode.say('"Is it late?" she asked him.', checkpoint=checkpoint, dialogue_voice="serena", **QUICK)
    assert report.lines == 2
    assert rhapsode.say('"Is it late?" she asked him.', checkpoint=checkpoint, **QUICK).lines == 1
    assert [line.speaker for line in rhapsode.lines("“No,” he said. He left us.", dialogue=True)][:2] == [
        "dialogue", "narration",
    ]  # fmt: skip


def test_the_command_line_takes_a_second_voice(
    checkpoint: Path, book: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["--checkpoint", str(checkpoint), "--device", "cpu", "--dialogue-voice"]
    assert cli.main(["narrate", "tale.md", "-o", "tale.wav", *common, "serena", "--json"]) == 0
    lines = rhapsode.split_lines(rhapsode.read_book(book), dialogue=True)
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["lines"] == len(lines)
    for command in (["narrate", "tale.md"], ["say", "Good evening."]):
        assert cli.main([*command, *common, "bob"]) == 2
        assert "no voice 'bob'" in capsys.readouterr().err


# ---------------------------------------------------------------------- the embedded checkpoint


@pytest.fixture
def embedded(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(qwen3, "embedded_checkpoint", lambda: checkpoint)
    return checkpoint


def test_nothing_needs_to_be_named(embedded: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["say", "Good evening to you.", "--device", "cpu"]) == 0
    out, err = capsys.readouterr()
    assert "say.wav" in out and err.count("small embedded voice") == 1
    assert cli.main(["voices"]) == 0
    assert "ryan, serena, eric" in capsys.readouterr().out


def test_without_it_there_is_one_sentence(
    book: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(qwen3, "embedded_checkpoint", lambda: None)
    before = books.contents(book.parent)
    for command in (["narrate", "tale.md"], ["voices"], ["say", "Good evening to you."]):
        assert cli.main(command) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1
        assert err.startswith("rhapsode: This installation has no embedded voice") and "--checkpoint" in err
    assert books.contents(book.parent) == before


# ---------------------------------------------------------------------- spoken forms


class Speller(fakes.FakeNarrator):
    """Wants spoken forms; a letter takes it a hundredth of a second."""

    text_form = "spoken"

    def __init__(self) -> None:
        super().__init__(0.1)
        self.heard: list[Line] = []

    def expected_seconds(self, line: Line) -> float:
        return len(line.text) / 100

    def read(self, lines: Iterable[Line]) -> Iterator[Take]:
        self.heard = list(lines)
        return super().read(reversed(self.heard))


@pytest.fixture
def speller(monkeypatch: pytest.MonkeyPatch) -> Speller:
    def spoken(text: str) -> str:
        return text.replace("9", "nine")

    module = types.ModuleType("rhapsode.book.spoken")
    module.spoken = spoken  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rhapsode.book.spoken", module)
    narrator = Speller()
    monkeypatch.setattr(pipeline, "find", lambda name: fakes.FakeDoor(narrator))
    return narrator


def test_what_is_read_is_spoken_and_what_is_kept_is_written(speller: Speller, here: Path) -> None:
    (here / "nine.txt").write_text("At 9 it was late.\n\nNobody came in.\n")
    report = rhapsode.narrate("nine.txt", "nine.wav", keep_takes=True)
    written = rhapsode.split_lines(rhapsode.read_book(here / "nine.txt"))
    assert [line.text for line in speller.heard] == ["At nine it was late.", "Nobody came in."]
    assert [replace(line, text="") for line in speller.heard] == [replace(line, text="") for line in written]
    assert list(record(report)) == ["Nobody came in.", "At 9 it was late."]
    assert rhapsode.narrate("nine.txt", "nine.wav", overwrite=True).resumed == 2


def test_what_is_spoken_decides_how_long_it_takes(speller: Speller, here: Path) -> None:
    narrator = rhapsode.load()
    [line] = rhapsode.lines("9 9 9 9 came.")
    assert narrator.expected_seconds(line) == len("nine nine nine nine came.") / 100
    [take] = narrator.read([line])
    assert take.line == line
    for name in ("sample_rate", "sampling"):
        assert getattr(narrator, name) == getattr(speller, name)
    assert (narrator.settings(), narrator.notes(), narrator.useful(), narrator.retakes()) == (
        speller.settings(), speller.notes(), speller.useful(), speller.retakes(),
    )  # fmt: skip


def test_a_narrator_that_reads_what_is_written_is_left_alone(speller: Speller, here: Path) -> None:
    speller.text_form = "written"
    assert rhapsode.load() is speller
    rhapsode.say("At 9 it was late.")
    assert [line.text for line in speller.heard] == ["At 9 it was late."]
    speller.text_form = "spoken"
    assert isinstance(rhapsode.load(), SpokenForms)


# ---------------------------------------------------------------------- pictures


def test_a_picture_of_what_was_said(checkpoint: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["say", "Good & late.", "--checkpoint", str(checkpoint), "--device", "cpu", "--picture", "seen/it.svg"]
    assert cli.main(command) == 0
    picture = (here / "seen" / "it.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg ") and "Good &amp; late." in picture
    assert sorted(books.contents(here)) == ["say.wav", "seen", "seen/it.svg"]
    assert cli.main(command) == 2
    assert "seen/it.svg is there already" in capsys.readouterr().err
    assert cli.main([*command, "--overwrite"]) == 0


@pytest.mark.parametrize(
    ("picture", "said"),
    [("it.png", "ends in .svg"), ("it", "ends in .svg"), ("folder.svg", "is a folder"), ("x" * 300 + ".svg", "cannot")],
)
def test_pictures_that_cannot_be(
    picture: str, said: str, checkpoint: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "folder.svg").mkdir()
    assert cli.main(["say", "Good evening.", "--checkpoint", str(checkpoint), "--picture", picture]) == 2
    assert said in capsys.readouterr().err
    assert sorted(books.contents(here)) == ["folder.svg"], "nothing was read"
