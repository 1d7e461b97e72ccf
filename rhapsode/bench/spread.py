"""The book over several devices: a process for each with its share of the lines, all of which begin at once.

Knows processes and what each is told. The time is from the word to begin until the last of them is done; how the
sound gets from there into one book is not in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rhapsode.bench.gauge import gauge_of
from rhapsode.bench.measure import BookRun, Whole
from rhapsode.bench.requests import readings
from rhapsode.bench.source import find_source
from rhapsode.bench.stopwatch import Clock, Seconds
from rhapsode.bench.workload import Workload
from rhapsode.engine.meter import Meter
from rhapsode.errors import UserError
from rhapsode.qwen3.devices import Device
from rhapsode.workers import Crew, Gone, Worker, deal


@dataclass(frozen=True, slots=True)
class Job:
    """What one process is to do: a share of a sample, in a format."""

    shapes: str | None
    checkpoint: str | None
    device: str
    format: str
    slots: int
    threads: int | None
    sample: Workload
    share: tuple[int, ...]  # which of its lines


@dataclass(frozen=True, slots=True)
class Row:
    """One device and its share; its own stopwatch, of the run with the median time of all."""

    device: str
    lines: int
    audio_s: float
    seconds: float
    warm_up_s: float
    peak_mb: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        return {
            "device": self.device, "lines": self.lines, "audio_s": self.audio_s, "seconds": self.seconds,
            "x": self.audio_s / self.seconds, "warm_up_s": self.warm_up_s, "peak_mb": self.peak_mb,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Ready:
    warm_up_s: float
    kv_bytes: int


@dataclass(frozen=True, slots=True)
class _Done:
    seconds: float
    meter: Meter
    peak_mb: dict[str, float]


def share_out(sample: Workload, devices: int) -> list[tuple[int, ...]]:
    """Which lines each device reads: by what is known of them beforehand, as a book's are dealt."""
    return [
        tuple(share) for share in deal(range(len(sample.lines)), devices, lambda line: float(sample.lines[line].tokens))
    ]


def read_together(
    job: Job, devices: Sequence[Device], repeats: int, frame_rate: float, clock: Clock, tick: Callable[[str], None]
) -> tuple[Whole, tuple[Row, ...]]:
    """The sample on all devices. `job` is that of all, but for device and share. Raises `UserError`."""
    shares = share_out(job.sample, len(devices))
    crew = Crew([
        Worker("rhapsode.bench.spread:_work", _of(job, device.there, share), device.environment)
        for device, share in zip(devices, shares, strict=True)
    ])  # fmt: skip
    try:
        ready: list[_Ready] = _all(crew, devices)
        runs: list[tuple[float, list[_Done]]] = []
        for number in range(repeats):
            start = clock()
            for worker in range(len(devices)):
                crew.send(worker, "begin")
            done: list[_Done] = _all(crew, devices)
            runs.append((clock() - start, done))
            tick(f"the whole on {len(devices)} devices, {number + 1} of {repeats}: {runs[-1][0]:.1f} s")
    finally:
        crew.end()
    return _together(job, devices, shares, ready, runs, frame_rate)


def _of(job: Job, device: str, share: tuple[int, ...]) -> Job:
    return Job(job.shapes, job.checkpoint, device, job.format, job.slots, job.threads, job.sample, share)


def _all(crew: Crew, devices: Sequence[Device]) -> list[Any]:
    """The next word of each."""
    found: dict[int, Any] = {}
    while len(found) < len(devices):
        worker, said = crew.hear()
        if isinstance(said, Gone):
            raise UserError(f"The process on {devices[worker].name} {said.reason}.")
        found[worker] = said
    return [found[worker] for worker in range(len(devices))]


def _together(
    job: Job, devices: Sequence[Device], shares: Sequence[tuple[int, ...]], ready: Sequence[_Ready],
    runs: Sequence[tuple[float, list[_Done]]], frame_rate: float,
) -> tuple[Whole, tuple[Row, ...]]:  # fmt: skip
    seconds = Seconds(tuple(whole for whole, _ in runs))
    _, middle = sorted(runs, key=lambda run: run[0])[len(runs) // 2]
    meters = [done.meter for done in middle]
    rows = tuple(
        Row(device.name, len(share), done.meter.kept_frames / frame_rate, done.seconds, warm.warm_up_s, done.peak_mb)
        for device, share, done, warm in zip(devices, shares, middle, ready, strict=True)
    )
    kept = sum(meter.kept_frames for meter in meters)
    whole = Whole(
        job.format, job.slots, "refill", len(job.sample.lines), seconds, kept / frame_rate,
        max(meter.steps for meter in meters), sum(meter.prefills for meter in meters), kept,
        sum(meter.lane_frames for meter in meters), sum(one.kv_bytes for one in ready),
        max(one.warm_up_s for one in ready),
    )  # fmt: skip
    return whole, rows


# ---------------------------------------------------------------------- in the process of a device


def _work(job: Job, begin: Iterator[Any], say: Callable[[Any], None]) -> None:
    """Make the model, warm up, say so; then read the share whenever the word comes."""
    source, gauge = find_source(job.shapes, job.checkpoint), gauge_of(job.device)
    with gauge.threads(job.threads):
        model = source.build(job.device, job.format)
        made = readings(job.sample, source.model)
        workload = Workload(tuple(job.sample.lines[line] for line in job.share))
        lines = [made[line] for line in job.share]
        run = BookRun(model, source.model, source.codec, workload, job.slots, "refill", time.perf_counter, lines)
        gauge.forget_peak(job.device)
        warm_up_s, _ = run.watch.time(run.warm_up)
        say(_Ready(warm_up_s, gauge.kv_bytes(run.stepper)))
        for _ in begin:
            seconds, meter = run.watch.time(run.once)
            say(_Done(seconds, meter, gauge.peak_mb(job.device)))
