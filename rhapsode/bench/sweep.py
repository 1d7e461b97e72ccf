"""The table of formats: how fast lanes step in each format, and how far its numbers are from float32's.

Knows which models to build, one at a time, and what to ask of each. Prints nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from rhapsode.bench.deviation import Deviation, Trace, deviation, trace
from rhapsode.bench.gauge import Model, gauge_of
from rhapsode.bench.measure import scripted_stepper
from rhapsode.bench.requests import readings
from rhapsode.bench.source import Source
from rhapsode.bench.stopwatch import Clock, Seconds, Stopwatch
from rhapsode.bench.workload import Script, Workload
from rhapsode.engine.stepper import Request

REFERENCE = "float32"
WARM_STEPS = 2
STEPS = 4  # in each measurement
# Readings before, where a step is recorded at its second run: what is measured is replayed, as in nearly all of a book.
RECORDED = 2


@dataclass(frozen=True, slots=True)
class Ceiling:
    copy_bytes_s: float  # read and written
    operations_s: dict[str, float]  # by format
    floor_s: dict[str, dict[int, float]]  # by format and lanes: seconds of a frame of all lanes


@dataclass(frozen=True, slots=True)
class Cell:
    format: str
    slots: int
    step: Seconds  # of one frame of all lanes: talker, predictor and the choice of codes
    floor_s: float  # of one frame of all lanes, were there nothing but its products

    @property
    def ms_lane_frame(self) -> float:
        return 1e3 * self.step.median / self.slots

    @property
    def x_floor(self) -> float:
        """How many times the floor a step takes."""
        return self.step.median / self.floor_s


@dataclass(frozen=True, slots=True)
class Sweep:
    ceiling: Ceiling
    cells: tuple[Cell, ...]
    deviations: dict[str, Deviation]  # by format; without float32 itself, and empty where there is no room for it
    weights_bytes: dict[str, int]

    @property
    def fastest(self) -> Cell:
        return min(self.cells, key=lambda cell: cell.ms_lane_frame)


def sweep(
    source: Source, device: str, formats: Sequence[str], slots: Sequence[int], workload: Workload, *,
    repeats: int, clock: Clock, compare: bool, tick: Callable[[str], None],
) -> Sweep:  # fmt: skip
    """Every format at every number of slots. `compare`: whether there is room to build the float32 model too."""
    cells: list[Cell] = []
    rates: dict[str, float] = {}
    floors: dict[str, dict[int, float]] = {}
    weights: dict[str, int] = {}
    deviations: dict[str, Deviation] = {}
    reference: Trace | None = None
    others = [format for format in formats if format != REFERENCE]
    gauge = gauge_of(device)
    watch = Stopwatch(lambda: gauge.synchronise(device), clock)
    copy = gauge.copy_rate(device, watch)
    # The reference comes first; without anything to compare it is built only where it is asked for.
    for format in ([REFERENCE] if REFERENCE in formats or (compare and others) else []) + others:
        tick(f"{format}: making the model")
        model = source.build(device, format)
        if compare and others:
            with gauge.exact() if reference is None else nullcontext():
                traced = trace(model, source.model, source.codec)
            reference = reference or traced
            if format != REFERENCE:
                deviations[format] = deviation(traced, reference)
        if format in formats:
            weights[format] = gauge.weight_bytes(model)
            rates[format], floors[format] = gauge.product_rate(model, watch), {}
            for lanes in slots:
                floors[format][lanes] = gauge.floor(model, lanes, watch)
                cells.append(_cell(model, source, lanes, workload, repeats, clock, floors[format][lanes]))
                tick(f"{format}, {lanes} slots: {cells[-1].ms_lane_frame:.2f} ms per lane and frame")
        del model
        gauge.forget()
    return Sweep(Ceiling(copy, rates, floors), tuple(cells), deviations, weights)


def _cell(
    model: Model, source: Source, lanes: int, workload: Workload, repeats: int, clock: Clock, floor_s: float
) -> Cell:
    """Steps of lanes that all run, at the place where a line of the book has its middle."""
    frames = WARM_STEPS + repeats * STEPS + 1
    # Half of a line's frames stand in its prompt as text, so that attention looks as far back as in the middle.
    lines = [workload.lines[n % len(workload.lines)] for n in range(lanes)]
    middle = Workload(tuple(Script(line.tokens + line.frames // 2, frames) for line in lines))
    made = readings(middle, source.model)
    stepper = scripted_stepper(model, source.codec, made, lanes)
    placements = [(slot, reading.request) for slot, reading in enumerate(made)]
    for _ in range(RECORDED if model.device.startswith("cuda") else 0):
        _through(stepper, placements)
    stepper.admit(placements)
    watch = Stopwatch(stepper.synchronise, clock)
    for _ in range(WARM_STEPS):
        stepper.step()

    def steps() -> None:
        for _ in range(STEPS):
            stepper.step()
            stepper.finished()

    times = watch.repeat(steps, warm_up=0, times=repeats)
    return Cell(model.format, lanes, Seconds(tuple(run / STEPS for run in times.runs)), floor_s)


def _through(stepper: Any, placements: Sequence[tuple[int, Request]]) -> None:
    """The lines from their first frame to their last."""
    stepper.admit(placements)
    left = len(placements)
    while left:
        stepper.step()
        for slot, frames, _ in stepper.finished():
            stepper.codes(slot, frames)
            left -= 1
