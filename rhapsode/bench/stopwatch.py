"""A clock that is read only while the device is idle: synchronise, read, run, synchronise, read.

Knows a clock and a way to wait for queued work. Knows no network and no array library.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")
Clock = Callable[[], float]  # seconds


@dataclass(frozen=True, slots=True)
class Seconds:
    """Several measurements of the same work."""

    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    @property
    def spread(self) -> float:
        """From the fastest to the slowest, as a share of the median."""
        return (max(self.runs) - min(self.runs)) / self.median if self.median else 0.0


class Stopwatch:
    def __init__(self, synchronise: Callable[[], None], clock: Clock = time.perf_counter) -> None:
        """`synchronise` returns when everything that was queued is done."""
        self._synchronise, self._clock = synchronise, clock

    def _read(self) -> float:
        self._synchronise()
        return self._clock()

    def time(self, work: Callable[[], Result]) -> tuple[float, Result]:
        """Seconds from an idle device to an idle device, and what the work returned."""
        start = self._read()
        result = work()
        return self._read() - start, result

    def repeat(self, work: Callable[[], object], *, warm_up: int, times: int) -> Seconds:
        """The same work, `warm_up` times unmeasured and then `times` times."""
        for _ in range(warm_up):
            work()
        return Seconds(tuple(self.time(work)[0] for _ in range(times)))

    @contextmanager
    def stage(self, name: str, into: Stages) -> Iterator[None]:
        if into.open is not None:
            raise RuntimeError(f"stage {name} begins within {into.open}: its time would count twice")
        into.open, start = name, self._read()
        try:
            yield
        finally:
            into.add(name, self._read() - start)
            into.open = None


class Stages:
    """Seconds and calls by the name of a stage. Every stage empties the queue on both sides, which costs time."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self.open: str | None = None

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.calls[name] = self.calls.get(name, 0) + 1

    def total(self, names: Sequence[str] | None = None) -> float:
        return sum(seconds for name, seconds in self.seconds.items() if names is None or name in names)
