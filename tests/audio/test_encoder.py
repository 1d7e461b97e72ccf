"""Pieces of a sound: that they are all of it, that they follow each other unheard, and who encodes them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
import pytest

from rhapsode.audio import encoder
from rhapsode.audio.container import FORMATS, write_audiobook
from rhapsode.audio.encoder import Piece, cut
from rhapsode.audio.marks import Tags
from rhapsode.errors import OutputError
from rhapsode.workers import Crew

RATE = 24_000
CUT = [suffix for suffix, form in FORMATS.items() if form.muxer and form.pieces]
Tone = Callable[[int], np.ndarray]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of half a second to one, and processes for them."""
    monkeypatch.setattr(encoder, "PIECE_S", 0.5)
    monkeypatch.setattr(encoder, "_WORTH_S", 0.5)


def write(path: Path, pcm: np.ndarray, rate: int = RATE) -> bytes:
    blocks = (pcm[at : at + 7_000] for at in range(0, len(pcm), 7_000))
    write_audiobook(path, sample_rate=rate, tracks=[("One", len(pcm))], blocks=blocks, tags=Tags("t"))
    return path.read_bytes()


def decoded(path: Path) -> np.ndarray:
    with av.open(str(path)) as file:
        parts = [frame.to_ndarray()[0] for frame in file.decode(audio=0)]
    sound = np.concatenate(parts)
    return sound / 32768 if sound.dtype == np.int16 else sound


def voiced(tone: Tone, *lengths: int, pause: int = 6_000) -> np.ndarray:
    """Sounds of those lengths, with silence between them."""
    parts: list[np.ndarray] = []
    for length in lengths:
        parts += [tone(length), np.zeros(pause, np.int16)]
    return np.concatenate(parts[:-1])


# ---------------------------------------------------------------------- cutting


def pieces_of(pcm: np.ndarray, frame: int, size: int = 7_000) -> list[Piece]:
    return list(cut((pcm[at : at + size] for at in range(0, len(pcm), size)), RATE, frame))


@pytest.mark.parametrize("frame", [1024, 576, 480])
@pytest.mark.parametrize("samples", [0, 1, 11_999, 12_000, 30_000, 123_457])
@pytest.mark.parametrize("size", [17, 7_000, 200_000])
def test_pieces_are_all_of_a_sound(short: None, tone: Tone, samples: int, frame: int, size: int) -> None:
    pcm = tone(samples)
    pieces = pieces_of(pcm, frame, size)
    at = 0
    for number, piece in enumerate(pieces):
        assert piece.first == at and at % frame == 0 and piece.start % frame == 0
        assert (piece.sound == pcm[piece.start : piece.start + len(piece.sound)]).all()
        if number:
            assert piece.first - piece.start >= min(piece.first, 0.7 * RATE - frame), "what goes before it"
        if piece.end is None:
            assert number == len(pieces) - 1 and piece.start + len(piece.sound) == samples
        else:
            assert piece.start + len(piece.sound) >= piece.end + 4 * frame, "what comes after it"
            assert 0.5 * RATE - frame < piece.end - piece.first < RATE + frame
            at = piece.end
    assert pieces[-1].end is None and len(pieces) > samples // (RATE + 2 * frame)


@pytest.mark.parametrize("frame", [1024, 576, 480])
def test_cuts_lie_in_silence_where_there_is_some(short: None, tone: Tone, frame: int) -> None:
    pcm = voiced(tone, 13_000, 14_000, 9_000, 17_000, 60_000, 5_000)
    cuts = [piece.end for piece in pieces_of(pcm, frame) if piece.end is not None]
    loud = [place for place in cuts if pcm[place - 2 * frame : place + 2 * frame].any()]
    begin = 13_000 + 14_000 + 9_000 + 17_000 + 4 * 6_000
    assert len(cuts) - len(loud) >= 3
    assert loud and all(begin < place < begin + 60_000 for place in loud), "only where it is loud for too long"


def test_the_lowest_sample_is_no_silence(short: None) -> None:
    pcm = np.tile(np.array([0, -32768], np.int16), 20_000)  # whose magnitude two bytes do not hold
    assert pieces_of(pcm, 576)[0].end == 2 * 576 * round(0.5 * RATE / 576)


# ---------------------------------------------------------------------- joining


def apart(path: Path, pcm: np.ndarray) -> np.ndarray:
    """How far a file is from the sound that it was made of: root mean square of each 64th of a second."""
    sound = np.repeat(pcm, 2) if path.suffix == ".opus" else pcm  # which a decoder answers at 48 kHz
    back = decoded(path)
    assert len(sound) - 350 <= len(back) < len(sound) + 1024
    size = min(len(sound), len(back)) // 750 * 750
    return np.sqrt(((back[:size] - sound[:size] / 32768).reshape(-1, 750) ** 2).mean(axis=1))


@pytest.mark.parametrize("suffix", CUT)
@pytest.mark.parametrize("lengths", [(19_000, 12_000, 8_000, 17_001), (60_000, 25_000, 90_000, 17_001)])
def test_pieces_sound_as_one(
    tmp_path: Path, tone: Tone, monkeypatch: pytest.MonkeyPatch, suffix: str, lengths: tuple[int, ...]
) -> None:
    pcm = voiced(tone, *lengths)
    one, several = tmp_path / f"one{suffix}", tmp_path / f"several{suffix}"
    write(one, pcm)
    monkeypatch.setattr(encoder, "PIECE_S", 0.5)
    assert len(pieces_of(pcm, 1024)) > 3
    write(several, pcm)
    if suffix == ".mp3":  # frames of one size that borrow nothing
        assert several.read_bytes() == one.read_bytes()
    packets = []
    for path in (one, several):
        with av.open(str(path)) as file:
            packets.append([(p.pts, p.duration, [bytes(s) for s in p.iter_sidedata()]) for p in file.demux(audio=0)])
    assert packets[0] == packets[1]
    before, after = apart(one, pcm), apart(several, pcm)
    assert len(before) == len(after)
    assert np.median(after) < 1.2 * np.median(before) + 1e-4
    if suffix != ".opus" or max(lengths) < 20_000:  # it predicts: a cut where it is loud may be heard
        assert after.max() < 1.5 * before.max(), "no worse where pieces meet"


# ---------------------------------------------------------------------- in processes


class Watched(Crew):
    """Counts its processes, and ends one before so many messages have come."""

    made: list[Watched] = []
    fatal = 0

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.made.append(self)
        self._heard = 0

    def hear(self) -> tuple[int, object]:
        self._heard += 1
        if self._heard == self.fatal:
            os.kill(self._processes[0].pid, signal.SIGKILL)
        return super().hear()

    def ended(self) -> list[bool]:
        return [process.poll() is not None for process in self._processes]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> type[Watched]:
    monkeypatch.setattr(encoder, "Crew", Watched)
    monkeypatch.setattr(Watched, "made", [])
    return Watched


def on_cores(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "cores", lambda: count)


@pytest.mark.parametrize("suffix", CUT)
def test_same_bytes_on_any_number_of_cores(
    tmp_path: Path, tone: Tone, short: None, watched: type[Watched], monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    pcm = voiced(tone, 30_000, 10_000, 90_000, 70_001, 50_000)
    written = []
    for count in (1, 2, 5):
        on_cores(count, monkeypatch)
        written.append(write(tmp_path / f"book{suffix}", pcm))
        (tmp_path / f"book{suffix}").unlink()
    assert written[0] == written[1] == written[2]
    assert [crew.ended() for crew in watched.made] == [[True] * 2, [True] * 5]


@pytest.mark.parametrize("fatal", [1, 3])
def test_a_process_that_dies_costs_nothing(
    tmp_path: Path, tone: Tone, short: None, watched: type[Watched], monkeypatch: pytest.MonkeyPatch, fatal: int
) -> None:
    pcm = voiced(tone, 90_000, 70_001, 150_000)
    on_cores(1, monkeypatch)
    alone = write(tmp_path / "a.m4b", pcm)
    on_cores(2, monkeypatch)
    monkeypatch.setattr(Watched, "fatal", fatal)
    assert write(tmp_path / "b.m4b", pcm) == alone.replace(b"a.m4b", b"b.m4b")
    assert [crew.ended() for crew in watched.made] == [[True] * 2]


def test_where_no_process_can_be_started_it_is_done_here(
    tmp_path: Path, tone: Tone, short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pcm = voiced(tone, 90_000, 70_001)
    on_cores(1, monkeypatch)
    alone = write(tmp_path / "a.m4b", pcm)
    on_cores(2, monkeypatch)
    asked = []

    def refuse(*given: object, **_: object) -> None:
        asked.append(given)
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("rhapsode.workers.subprocess.Popen", refuse)
    assert write(tmp_path / "b.m4b", pcm) == alone
    assert asked


def test_no_process_is_left_after_an_error(
    tmp_path: Path, tone: Tone, short: None, watched: type[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cores(2, monkeypatch)

    def blocks() -> Iterator[np.ndarray]:
        for _ in range(10):
            yield tone(12_000)
        raise OutputError("take 12 is damaged")

    with pytest.raises(OutputError, match=r"^take 12 is damaged$"):
        write_audiobook(
            tmp_path / "a.m4b", sample_rate=RATE, tracks=[("One", 300_000)], blocks=blocks(), tags=Tags("t")
        )
    assert [crew.ended() for crew in watched.made] == [[True] * 2]
    assert os.listdir(tmp_path) == []
