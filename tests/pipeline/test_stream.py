"""`say --stream`: the samples of `say`, written while they are made, as a WAV without a known end."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import av
import numpy as np
import pytest

import rhapsode
from rhapsode import cli, pipeline
from rhapsode.audio.wave import wav_header
from tests.pipeline import fakes

TEXT = "Why not? The old man and the sea.\n\nOh, dear me!"


def samples(data: bytes) -> np.ndarray:
    header = wav_header(24_000, None)
    assert data.startswith(header)
    return np.frombuffer(data[len(header) :], "<i2").astype(int)


def test_it_is_what_say_says(checkpoint: Path, here: Path) -> None:
    pieces: list[bytes] = []
    how = {"checkpoint": str(checkpoint), "device": "cpu", "format": "float32", "tries": 1}
    pipeline.say_aloud(TEXT, pieces.append, **how)
    rhapsode.say(TEXT, "said.wav", **how)
    said = (here / "said.wav").read_bytes()
    streamed = samples(b"".join(pieces))
    wanted = np.frombuffer(said[len(wav_header(24_000, 0)) :], "<i2").astype(int)
    assert len(streamed) == len(wanted) and np.abs(streamed - wanted).max() <= 4
    assert len(pieces) > 6, "piece by piece"


def test_players_read_it(checkpoint: Path, here: Path) -> None:
    pieces: list[bytes] = []
    pipeline.say_aloud(TEXT, pieces.append, checkpoint=str(checkpoint), device="cpu")
    with av.open(io.BytesIO(b"".join(pieces))) as container:
        frames = [frame.to_ndarray()[0] for frame in container.decode(audio=0)]
    np.testing.assert_array_equal(np.concatenate(frames), samples(b"".join(pieces)))


@pytest.mark.parametrize("embedded", [False, True], ids=["checkpoint", "embedded"])
def test_the_command(checkpoint: Path, capsysbinary: pytest.CaptureFixture[bytes], embedded: bool) -> None:
    chosen = [] if embedded else ["--checkpoint", str(checkpoint)]
    assert cli.main(["say", "Oh, 9.", "--stream", "--device", "cpu", *chosen]) == 0
    assert len(samples(capsysbinary.readouterr().out)) > 1000


def test_a_narrator_that_cannot_stream_speaks_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "find", lambda _: fakes.FakeDoor(fakes.FakeNarrator(0.5)))
    pieces: list[bytes] = []
    pipeline.say_aloud("One.", pieces.append)
    assert len(samples(b"".join(pieces))) == fakes.RATE // 2


def test_a_disk_that_is_full_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`rhapsode say TEXT --stream > FILE` where the disk takes no more."""
    if not Path("/dev/full").exists():
        pytest.skip("the system has no disk that is always full")
    monkeypatch.setattr(pipeline, "find", lambda _: fakes.FakeDoor(fakes.FakeNarrator(0.5)))
    heard = io.StringIO()
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr(sys, "stderr", heard)
        assert cli.main(["say", "One.", "--stream", "--quiet"]) == 2
    assert heard.getvalue() == "rhapsode: The sound cannot be written to stdout: No space left on device.\n"


@pytest.mark.parametrize("option", [["--out", "x.wav"], ["--picture", "x.svg"], ["--json"], ["--overwrite"]], ids=str)
def test_what_does_not_go_with_it(option: list[str], capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert cli.main(["say", "Oh.", "--stream", *option]) == 2
    said = capsysbinary.readouterr()
    assert not said.out and f"leave out {option[0]}".encode() in said.err


def test_a_terminal_is_no_player(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["say", "Oh.", "--stream"]) == 2
    assert "pipe it into a player" in capsys.readouterr().err
