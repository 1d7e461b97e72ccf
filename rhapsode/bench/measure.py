"""The fixed book through the engine: how long all of it takes, and where the time goes.

Knows the engine, a stopwatch and a model that steps. The whole is measured undisturbed; stages are measured in a pass
of their own, in which the queue is emptied on both sides of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from rhapsode.bench.counts import Counts
from rhapsode.bench.gauge import Model, gauge_of
from rhapsode.bench.requests import readings
from rhapsode.bench.schedule import groups
from rhapsode.bench.stopwatch import Clock, Seconds, Stages, Stopwatch
from rhapsode.bench.workload import Workload
from rhapsode.engine.decode import Policy, decode
from rhapsode.engine.lanes import Reading
from rhapsode.engine.meter import Meter
from rhapsode.engine.stepper import Request
from rhapsode.qwen3.config import CodecConfig, ModelConfig
from rhapsode.types import Sampling

STAGES = ("prefill", "predictor", "talker", "codec")  # as the stepper names them
OTHER = "other"  # the engine, embedding sums, copies to the host
WARM_FRAMES = 3


@dataclass(frozen=True, slots=True)
class StageRow:
    name: str
    seconds: float
    share: float  # of the staged pass
    ms_frame: float  # for each lane and frame computed; of the codec, for each frame kept
    bytes_s: float | None  # weights and, in the talker, keys and values; None where they are not counted
    operations_s: float | None


@dataclass(frozen=True, slots=True)
class StagePass:
    rows: tuple[StageRow, ...]
    whole_s: float  # of this pass
    excess: float  # by which the pass took longer than the undisturbed whole, as a share of it


@dataclass(frozen=True, slots=True)
class Whole:
    """The book at one format, number of slots and schedule."""

    format: str
    slots: int
    schedule: str
    lines: int
    seconds: Seconds
    audio_s: float
    steps: int
    prefills: int
    kept_frames: int
    lane_frames: int
    kv_bytes: int  # keys and values of all slots, allocated once
    warm_up_s: float = 0.0  # every kernel once: what is compiled, loaded and tried at first use

    @property
    def rtf(self) -> float:
        return self.seconds.median / self.audio_s

    @property
    def x(self) -> float:
        return self.audio_s / self.seconds.median

    @property
    def x_total(self) -> float:
        """As `x`, counting what idle lanes computed as well."""
        return self.x / self.useful

    @property
    def useful(self) -> float:
        return self.kept_frames / self.lane_frames


class BookRun:
    """One model and one sample of the book, ready to be read again and again."""

    def __init__(
        self, model: Model, config: ModelConfig, codec: CodecConfig, workload: Workload, slots: int, schedule: str,
        clock: Clock, lines: Sequence[Reading] | None = None,
    ) -> None:  # fmt: skip
        """`lines`: the readings of the workload, where they are not numbered from 0."""
        self.gauge = gauge_of(model.device)
        self.model, self.codec, self.workload, self.schedule = model, codec, workload, schedule
        self.readings = readings(workload, config) if lines is None else list(lines)
        # Asked before the lanes take their memory.
        self.policy: Policy = model.policy(slots, sum(longest(self.readings)), 1)
        self.stepper = scripted_stepper(model, codec, self.readings, slots)
        self.watch = Stopwatch(self.stepper.synchronise, clock)

    def warm_up(self) -> None:
        """Every kernel once, on lines that end soon; before it, what a stepper can record of its steps."""
        prepare = getattr(self.stepper, "prepare", None)
        if prepare is not None:
            prepare()
        short = [
            replace(reading, request=replace(reading.request, cap=min(WARM_FRAMES, reading.request.cap)))
            for reading in self.readings[: 2 * self.stepper.slots]
        ]
        self._read([short])

    def once(self) -> Meter:
        """The whole sample by the schedule. Raises `RuntimeError` where a line did not end where it should."""
        return self._read(
            [self.readings[n] for n in group] for group in groups(self.workload, self.stepper.slots, self.schedule)
        )

    def _read(self, batches: Iterable[list[Reading]]) -> Meter:
        meter = Meter()
        for batch in batches:
            wanted = {reading.line: reading.request.cap for reading in batch}
            for finished in decode(batch, self.stepper, _never, self.policy, meter):
                if len(finished.codes) != wanted.pop(finished.line):
                    raise RuntimeError(f"line {finished.line} has {len(finished.codes)} frames, not what was scripted")
            if wanted:
                raise RuntimeError(f"{len(wanted)} lines were never finished")
        return meter

    def whole(self, repeats: int, tick: Callable[[str], None]) -> Whole:
        warm_up_s, _ = self.watch.time(self.warm_up)
        runs, meter = [], Meter()
        for number in range(repeats):
            seconds, meter = self.watch.time(self.once)
            runs.append(seconds)
            tick(f"the whole, {number + 1} of {repeats}: {seconds:.1f} s")
        return Whole(
            self.model.format, self.stepper.slots, self.schedule, len(self.readings), Seconds(tuple(runs)),
            meter.kept_frames / self.codec.frame_rate, meter.steps, meter.prefills, meter.kept_frames,
            meter.lane_frames, self.gauge.kv_bytes(self.stepper), warm_up_s,
        )  # fmt: skip

    def stages(self, whole: Whole, counts: Counts) -> StagePass:
        """The same again with a stopwatch at every stage."""
        stages = Stages()
        unwatched, self.stepper.stage = self.stepper.stage, self._watched(stages)
        try:
            seconds, meter = self.watch.time(self.once)
        finally:
            self.stepper.stage = unwatched
        stages.seconds[OTHER] = seconds - stages.total(STAGES)
        rows = [self._row(name, stages, seconds, meter, counts) for name in (*STAGES, OTHER)]
        return StagePass(tuple(rows), seconds, seconds / whole.seconds.median - 1)

    def _watched(self, stages: Stages) -> Callable[[str], AbstractContextManager[None]]:
        return lambda name: self.watch.stage(name, stages)

    def _row(self, name: str, stages: Stages, whole: float, meter: Meter, counts: Counts) -> StageRow:
        seconds, calls = stages.seconds.get(name, 0.0), stages.calls.get(name, 0)
        frames = meter.kept_frames if name == "codec" else meter.lane_frames
        stage = counts.stage(name)
        bytes_s = operations_s = None
        if stage is not None and seconds:
            wide = self.gauge.width(self.model)
            width = wide.codec if name == "codec" else wide.weights
            rows = sum(len(r.request.prompt) - r.request.prompt.shared for r in self.readings)
            kept = self._kv_positions() * counts.kv_numbers * wide.rows if name == "talker" else 0
            bytes_s = (calls * stage.weights * width + kept) / seconds
            operations_s = stage.operations * (rows if name == "prefill" else frames) / seconds
        return StageRow(name, seconds, seconds / whole, 1e3 * seconds / max(1, frames), bytes_s, operations_s)

    def _kv_positions(self) -> int:
        """Positions that all lines together look back at, once for each frame."""
        return sum(
            r.request.cap * len(r.request.prompt) + r.request.cap * (r.request.cap + 1) // 2 for r in self.readings
        )


def scripted_stepper(model: Model, codec: CodecConfig, lines: Sequence[Reading], slots: int) -> Any:
    """Slots with room for any of the lines, each of which ends at its cap and nowhere else."""
    prompt, frames = longest(lines)
    return model.stepper(
        Sampling(), slots=slots, prompt=prompt, frames=frames, sample_rate=codec.sample_rate, scripted=True
    )


def longest(lines: Sequence[Reading]) -> tuple[int, int]:
    """Rows of the longest prompt, and the most frames of a line."""
    return max(len(one.request.prompt) for one in lines), max(one.request.cap for one in lines)


def _never(line: int, attempt: int) -> Request:
    raise RuntimeError(f"line {line} was to be read again; a scripted line is read once")
