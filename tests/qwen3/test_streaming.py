"""A line that is heard while it is read: its pieces together are the sound of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.engine import judge
from rhapsode.engine.stepper import Request
from rhapsode.narrator import Options
from rhapsode.qwen3 import narrator as qwen3
from rhapsode.qwen3.torch.codec import CodecDecoder
from rhapsode.qwen3.torch.load import Model
from rhapsode.qwen3.torch.stepper import TorchStepper
from rhapsode.qwen3.torch.streaming import PIECES, CodecStream, Streamer
from rhapsode.qwen3.torch.talker import Talker
from rhapsode.types import Line
from tests.engine.test_late import Queueing


class Waiting(Queueing):
    """Nobody may look at what the step in flight writes."""

    steps = 0

    def admit(self, placements: Sequence[tuple[int, Request]]) -> None:
        self.steps = 0
        super().admit(placements)

    def step(self) -> None:
        self.steps += 1
        super().step()

    def drawn(self, slot: int, start: int, stop: int) -> np.ndarray:
        assert stop < self.steps
        return super().drawn(slot, start, stop)


class Late(Streamer):
    """Over a device that queues."""

    def __init__(self, stepper: TorchStepper) -> None:
        super().__init__(stepper)
        self._late = 1


RATE, PER_FRAME = 24000, 1920
TEXTS = ("The old man and the sea, and a boy.", "Oh.", "It was 9 o'clock, and nobody had come to the door.")


@pytest.fixture
def options(custom_folder: Path) -> Options:
    return Options(checkpoint=str(custom_folder), voice="ryan", language="english", device="cpu", slots=4, seed=5)


def line(index: int, text: str) -> Line:
    return Line(index, 1, text, 1000 + index)


@pytest.mark.parametrize("sizes", [(1,) * 40, (4, 8, 16, 25, 25, 25), (90,), (3, 1, 0, 50, 7)], ids=str)
def test_pieces_are_the_whole(custom_model: Model, sizes: tuple[int, ...]) -> None:
    """Across the window of the transformer, and from one frame at a time to all of them."""
    codec = custom_model.codec
    frames = sum(sizes)
    assert codec.config.trunk.window is not None
    codes = np.random.default_rng(3).integers(0, codec.config.codebook_size, (frames, codec.config.codebooks))
    with torch.inference_mode():
        whole = codec(torch.from_numpy(codes)[None])[0].numpy()
    stream, pieces, start = CodecStream(codec), [], 0
    for size in sizes:
        pieces.append(stream(codes[start : start + size]))
        assert len(pieces[-1]) == size * PER_FRAME and pieces[-1].dtype == np.float32
        start += size
    assert np.abs(np.concatenate(pieces) - whole).max() < 1e-4 * np.abs(whole).max()


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of speech is never drawn."""
    logits = Talker.logits

    def without_end(talker: Talker, hidden: torch.Tensor) -> torch.Tensor:
        found = logits(talker, hidden)
        found[:, talker.config.eos] = -1e9
        return found

    monkeypatch.setattr(Talker, "logits", without_end)


def streamed(options: Options, texts: tuple[str, ...]) -> list[list[int]]:
    """Frames of the pieces of each line, whose sound is that of the whole."""
    narrator = qwen3.load(replace(options, tries=1))
    narrator.tell = lambda _: None
    takes = {take.line.index: take for take in narrator.read([line(i, text) for i, text in enumerate(texts)])}
    sizes = []
    for index, text in enumerate(texts):
        pieces = list(narrator.stream(line(index, text)))
        sizes.append([len(piece) // PER_FRAME for piece in pieces])
        sound, wanted = np.concatenate(pieces), takes[index].audio
        assert len(sound) == len(wanted)
        assert np.abs(sound - wanted).max() < 1e-4 * np.abs(wanted).max()
    return sizes


@pytest.fixture(params=[False, True], ids=["prompt", "late"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr("rhapsode.qwen3.torch.load.TorchStepper", Waiting)
        monkeypatch.setattr("rhapsode.qwen3.torch.load.Streamer", Late)


def test_a_line_streams_as_it_is_read(options: Options, device: None) -> None:
    for sizes in streamed(options, TEXTS):
        assert sizes[:-1] == list(PIECES[: len(sizes) - 1])


def test_a_long_line_streams_by_pieces(options: Options, device: None, endless: None) -> None:
    [sizes] = streamed(options, TEXTS[:1])
    assert sizes[:6] == [4, 8, 16, 25, 25, 25] and set(sizes[6:-1]) <= {25} and 0 < sizes[-1] <= 25


def test_who_has_heard_enough_disturbs_no_one(options: Options) -> None:
    narrator = qwen3.load(options)
    wanted = np.concatenate(list(narrator.stream(line(2, TEXTS[2]))))
    for _ in range(2):
        stream = narrator.stream(line(0, TEXTS[0]))
        next(stream)
        stream.close()
    np.testing.assert_array_equal(np.concatenate(list(narrator.stream(line(2, TEXTS[2])))), wanted)


def test_the_lane_is_made_once_and_again_for_a_longer_line(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    narrator, made = qwen3.load(options), []
    allocate = TorchStepper._allocate
    monkeypatch.setattr(TorchStepper, "_allocate", lambda stepper: (made.append(stepper.limits), allocate(stepper)))
    for text in ("Oh.", "Ah, yes.", "word " * 120, "Oh."):
        next(narrator.stream(line(0, text)))
    assert len(made) == 2 and made[0].frames < made[1].frames


def test_what_is_wrong_is_told(options: Options, endless: None) -> None:
    narrator, told = qwen3.load(options), []
    narrator.tell = told.append
    sound = np.concatenate(list(narrator.stream(line(0, "Oh."))))
    assert len(sound) >= judge.cap_seconds("Oh.") * RATE
    assert told == ["line 1: no end before the cap: 'Oh.'"]


def test_a_line_without_a_word_is_a_pause(options: Options) -> None:
    [sound] = qwen3.load(options).stream(line(0, "…"))
    assert not sound.any() and len(sound) == round(qwen3.SILENT_LINE_S * RATE)


def test_sound_that_is_not_finite_is_made_from_the_whole(custom_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a codec in half precision makes it, which looks at what it has made."""
    codec = custom_model.codec
    codes = np.random.default_rng(4).integers(0, codec.config.codebook_size, (20, codec.config.codebooks))
    whole = codec(torch.from_numpy(codes)[None])[0].detach().numpy()
    mix = CodecDecoder._mix
    monkeypatch.setattr(CodecDecoder, "_mix", lambda self, hidden, start, window: (
        mix(self, hidden, start, window) * (np.nan if start == 8 and len(hidden[0]) == 12 else 1)
    ))  # fmt: skip
    stream = CodecStream(codec)
    sound = np.concatenate([stream(codes[:8]), stream(codes[8:])])
    assert np.abs(sound - whole).max() < 1e-4 * np.abs(whole).max()
