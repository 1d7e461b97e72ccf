"""The codec by itself, and one lane by itself: what the whole of a book does not show.

Knows the lines that both are measured on, about ten seconds each, and the stepper. A first sound is timed from a
prompt that nothing was done for yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rhapsode.bench.gauge import Model
from rhapsode.bench.measure import BookRun
from rhapsode.bench.stopwatch import Clock, Seconds
from rhapsode.bench.workload import Script, Workload
from rhapsode.qwen3.config import CodecConfig, ModelConfig

LINE_S = 10.0
TOKENS = 34  # that are said in so many seconds, as the book was fitted
LANE_LINES = 2  # one after the other in the one lane
FIRST_FRAMES = 4  # that are made into sound at once where a sound is waited for: a third of a second
FIRST_TIMES = 5  # measurements of it, at least
WARM_FIRST = 2  # before them: their own kernels, and what is recorded at its second run


@dataclass(frozen=True, slots=True)
class Group:
    """Lines that went through the codec in one call."""

    lines: int
    audio_s: float
    seconds: Seconds

    @property
    def x(self) -> float:
        return self.audio_s / self.seconds.median


@dataclass(frozen=True, slots=True)
class Codec:
    format: str  # what it runs in
    deviation: float | None  # from float32, largest over peak; None where it was not compared
    groups: tuple[Group, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "format": self.format, "deviation": self.deviation,
            "groups": [
                {"lines": group.lines, "audio_s": group.audio_s, "x": group.x, "seconds": group.seconds.median,
                 "spread": group.seconds.spread}
                for group in self.groups
            ],
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lane:
    """One slot, and one line after the other."""

    audio_s: float
    seconds: Seconds
    first_sound: Seconds  # from a prompt to the first samples on the host
    first_samples_s: float  # of sound that those are

    @property
    def x(self) -> float:
        return self.audio_s / self.seconds.median

    def as_json(self) -> dict[str, Any]:
        return {
            "audio_s": self.audio_s, "x": self.x, "seconds": self.seconds.median, "spread": self.seconds.spread,
            "first_sound_ms": 1e3 * self.first_sound.median, "first_samples_s": self.first_samples_s,
            "first_sound_runs_ms": [1e3 * run for run in self.first_sound.runs],
        }  # fmt: skip


def group_sizes(run: BookRun) -> list[int]:
    """One line, and as many of `LINE_S` as the engine gives the codec at once."""
    frames = line_frames(run.codec)
    return sorted({1, max(1, min(run.policy.group_lines, run.policy.group_frames // frames))})


def codec_alone(run: BookRun, sizes: Sequence[int], repeats: int, deviation: float | None) -> Codec:
    """From codes on the host to sound on the host."""
    codec, frames = run.codec, line_frames(run.codec)
    numbers = np.random.Generator(np.random.PCG64(9))
    groups = []
    for lines in sizes:
        codes = numbers.integers(0, codec.decoder.codebook_size, (lines, frames, codec.decoder.codebooks))
        seconds = run.watch.repeat(lambda: _heard(run.stepper, list(codes)), warm_up=1, times=repeats)  # noqa: B023
        groups.append(Group(lines, lines * frames / codec.frame_rate, seconds))
    return Codec(run.model.codec_format, deviation, tuple(groups))


def _heard(stepper: Any, codes: list[np.ndarray]) -> list[np.ndarray]:
    waves: list[np.ndarray] = stepper.vocode(codes).waves()
    return waves


def line_frames(codec: CodecConfig) -> int:
    return max(1, round(LINE_S * codec.frame_rate))


def one_lane(model: Model, config: ModelConfig, codec: CodecConfig, repeats: int, clock: Clock) -> Lane:
    """A few lines through one slot, prefill to sound."""
    workload = Workload((Script(TOKENS, line_frames(codec)),) * LANE_LINES)
    run = BookRun(model, config, codec, workload, 1, "refill", clock)
    run.warm_up()
    # On a device that records its steps the first reading is the one that does.
    seconds = run.watch.repeat(run.once, warm_up=0 if model.device == "cpu" else 1, times=repeats)
    first = Seconds(tuple(_first_sound(run) for _ in range(WARM_FIRST + max(FIRST_TIMES, repeats)))[WARM_FIRST:])
    return Lane(workload.frames / codec.frame_rate, seconds, first, FIRST_FRAMES / codec.frame_rate)


def _first_sound(run: BookRun) -> float:
    """Seconds from a prompt to the sound of its first frames; the line ends soon after."""
    stepper, request = run.stepper, replace(run.readings[0].request, cap=FIRST_FRAMES + 1)

    def first() -> Any:
        stepper.admit([(0, request)])
        for _ in range(FIRST_FRAMES):
            stepper.step()
        return stepper.vocode([stepper.codes(0, FIRST_FRAMES)]).waves()

    seconds, _ = run.watch.time(first)
    ended: list[Any] = []
    while not ended:
        stepper.step()
        ended = stepper.finished()
    stepper.codes(0, ended[0][1])
    return seconds
