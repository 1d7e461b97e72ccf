"""A teacher speaks until its time is over; what is held out is never learned from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.stand_in import HELD_OUT, SENTENCES, Clock, Tone, write_texts
from training import teach
from training.audio import EXTRA, pieces, read_speech
from training.common import Work
from training.layout import FRAME, SAMPLE_RATE
from training.teach import Script, speak_texts

SECONDS = 12 * FRAME / SAMPLE_RATE  # of every text
HOUR = 3600 / SECONDS  # texts


def speak(lines: Sequence[np.ndarray]) -> list[Tone]:
    """Silence of one length for every text."""
    length = round(SECONDS * SAMPLE_RATE)
    return [Tone(torch.zeros(length), np.full(len(line), length // len(line))) for line in lines]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    write_texts(tmp_path)
    (tmp_path / "speech").mkdir()
    return Script.read(tmp_path / "data" / "utterances.npz", "joe")


def run(
    work: Path, script: Script, numbers: Sequence[int], *, hours: float, seconds: float = 1e9, first: int = 0
) -> None:
    teach.teach(
        Work(work, "teach"), script, [speak], numbers, "joe", hours=hours, seconds=seconds, first_piece=first, group=4,
        device="cpu",
    )  # fmt: skip


def spoken(work: Path) -> list[list[int]]:
    return [read_speech(file).utterance.tolist() for file in pieces(work, "joe")]


def test_hours_end_it_after_the_group(tmp_path: Path, script: Script) -> None:
    run(tmp_path, script, range(HELD_OUT, SENTENCES), hours=6 / HOUR)
    assert spoken(tmp_path) == [list(range(HELD_OUT, HELD_OUT + 8))]


def test_seconds_end_it_whatever_the_hours(tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teach, "time", Clock())
    run(tmp_path, script, range(HELD_OUT, SENTENCES), hours=100, seconds=0.25)
    assert spoken(tmp_path) == [list(range(HELD_OUT, HELD_OUT + 12))]


def test_a_file_for_every_hour_numbered_by_part(
    tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teach, "PIECE_HOURS", 4.5 / HOUR)
    for part in range(2):
        run(tmp_path, script, script.numbers("joe", part, 2)[:12], hours=1, first=1000 * part)
    names = [file.stem for file in pieces(tmp_path, "joe")]
    assert names == ["joe-0000", "joe-0001", "joe-0002", "joe-1000", "joe-1001", "joe-1002"]
    assert [len(piece) for piece in spoken(tmp_path)] == [5, 5, 2] * 2
    assert sorted(sum(spoken(tmp_path), [])) == list(range(HELD_OUT, HELD_OUT + 24))


@pytest.mark.parametrize("voice", ["joe", "kokoro", EXTRA])
@pytest.mark.parametrize("parts", [1, 3])
def test_parts_share_all_texts_but_the_held_out(script: Script, voice: str, parts: int) -> None:
    shares = [list(script.numbers(voice, part, parts)) for part in range(parts)]
    assert sorted(sum(shares, [])) == list(range(HELD_OUT, SENTENCES))


def test_other_voices_begin_at_the_end(script: Script) -> None:
    assert script.numbers(EXTRA, 0, 1)[0] == SENTENCES - 1


def test_a_text_without_phonemes_is_passed_over(script: Script) -> None:
    script.end[5] = script.end[4]  # its phonemes fall to the next one
    assert [int(speech.utterance) for speech in speak_texts(script, range(4, 8), speak)] == [4, 6, 7]
