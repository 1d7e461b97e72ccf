"""Ways to compute the same thing, tried on the spot: which are right, which is taken, and what a device came to.

Knows numbers and a clock. Imports no array library but numpy; the back ends say what their ways are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rhapsode.errors import UserError

TIMES = 3  # that a right way is timed; the least counts
QUEUED = 8  # calls that are timed together where a device queues: one alone would be lost in the waiting
GAIN = 0.2  # by which a later way must be faster than one before it: noise is no reason to change

Clock = Callable[[], float]  # seconds


@dataclass(frozen=True, slots=True)
class Way:
    """One way of computing something. The last of a task's ways is the plain one."""

    name: str
    run: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of a task's ways at one size."""

    task: str
    size: str
    tolerance: float  # largest difference over the peak
    errors: Mapping[str, float]  # by way, of those that were tried
    seconds: Mapping[str, float]  # by way, of those that were timed
    taken: str  # a way; "" where none was right

    @property
    def wrong(self) -> list[str]:
        return [name for name, error in self.errors.items() if not error <= self.tolerance]

    @property
    def sentence(self) -> str:
        """What is to be said of it; "" where the first way is right."""
        if not self.wrong:
            return ""
        first = self.wrong[0]
        found = f"{self.task} at {self.size} by {first} is wrong on this device (off by {self.errors[first]:.2g})"
        return f"{found}; {self.taken} is used." if self.taken else f"{found}, and there is no other way."

    def as_json(self) -> dict[str, Any]:
        # JSON has no infinity: a way that failed or made no number is off by -1.
        errors = {name: error if np.isfinite(error) else -1.0 for name, error in self.errors.items()}
        return {**asdict(self), "errors": errors}


@dataclass(frozen=True, slots=True)
class Device:
    """What a back end says of the device that was chosen."""

    name: str  # as --device takes it
    hardware: str
    memory_bytes: int | None  # that it may use; None where it does not say
    formats: tuple[str, ...]
    format: str  # that was tried
    slots: int
    trials: tuple[Trial, ...]
    notes: tuple[str, ...]


def choose(
    task: str, size: str, ways: Sequence[Way], inputs: Sequence[Any], truth: np.ndarray, tolerance: float,
    read: Callable[[Any], np.ndarray], clock: Clock | None = None, wait: Callable[[list[Any]], None] | None = None,
) -> Trial:  # fmt: skip
    """Try ways in their order until one is right; with a clock try all, and take the fastest of the right ones.

    `read` waits for a result and hands it out, `wait` for several, where a device queues. A way that raises is as good
    as wrong. The plain way, tried last, need not be timed to be taken.
    """
    errors: dict[str, float] = {}
    seconds: dict[str, float] = {}
    taken = ""
    for way in ways:
        try:
            errors[way.name] = _apart(read(way.run(*inputs)), truth)
        except (RuntimeError, ValueError, TypeError, NotImplementedError):
            errors[way.name] = float("inf")
        if not errors[way.name] <= tolerance:
            continue
        if clock is None:
            taken = way.name
            break
        seconds[way.name] = min(_time(way, inputs, read, clock, wait) for _ in range(TIMES))
        if not taken or seconds[way.name] < seconds[taken] * (1 - GAIN):
            taken = way.name
    return Trial(task, size, tolerance, errors, seconds, taken)


def require(trials: Sequence[Trial]) -> list[str]:
    """Sentences about slower ways that are taken. Raises `UserError` where something cannot be computed right."""
    said: dict[tuple[str, str, str], list[float]] = {}
    for trial in trials:
        if not trial.taken:
            raise UserError(f"{trial.sentence} Take another --device, or another version of the library.")
        for way in trial.wrong:
            said.setdefault((trial.task, way, trial.taken), []).append(trial.errors[way])
    return [
        f"{task} by {way} is wrong on this device ({len(errors)} of the sizes in use, off by up to {max(errors):.2g}); "
        f"{taken} is used."
        for (task, way, taken), errors in said.items()
    ]


def random_numbers(words: np.ndarray, counters: np.ndarray) -> np.ndarray:
    """What `sampling.uniforms` of either back end should come to: uint32 [n, 2] and [n, m] -> [n, m] in [0, 1)."""

    def mix(x: np.ndarray, first: int, second: int) -> np.ndarray:
        x = (x ^ x >> 16) * np.uint32(first)
        x = (x ^ x >> 15) * np.uint32(second)
        return x ^ x >> 16

    x = mix(counters * np.uint32(0x9E3779B1) + words[:, :1], 0x7FEB352D, 0x846CA68B) ^ words[:, 1:]
    x = mix(x + np.uint32(0x9E3779B9), 0x21F0AAAD, 0x735A2D97)
    return (x >> 8).astype(np.float64) * 2.0**-24


def _time(
    way: Way, inputs: Sequence[Any], read: Callable[[Any], np.ndarray], clock: Clock,
    wait: Callable[[list[Any]], None] | None,
) -> float:  # fmt: skip
    """Seconds of one call."""
    start = clock()
    if wait is None:
        read(way.run(*inputs))
        return clock() - start
    wait([way.run(*inputs) for _ in range(QUEUED)])
    return (clock() - start) / QUEUED


def _apart(found: np.ndarray, truth: np.ndarray) -> float:
    """The largest difference over the peak; infinite for what is no number, or of another shape."""
    if found.shape != truth.shape:
        return float("inf")
    apart = np.abs(found.astype(np.float64) - truth).max() / (np.abs(truth).max() or 1.0)
    return float(apart) if np.isfinite(apart) else float("inf")
