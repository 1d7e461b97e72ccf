"""Which line sits in which slot, and which comes next: longest expected first, refill the moment one ends.

Knows slots and readings. Knows no array and no model: it moves numbers and names about.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass

from rhapsode.engine.stepper import Request


@dataclass(frozen=True, slots=True)
class Reading:
    """One attempt at one line."""

    line: int  # which line, as the caller counts
    request: Request
    expected: float  # how long it should get; only the order matters
    attempt: int = 1


class Lanes:
    """A queue of readings and the slots they sit in."""

    def __init__(self, slots: int, readings: Iterable[Reading]) -> None:
        # Shortest first, since the longest is taken from the end; equal ones in the order given.
        self._waiting = sorted(readings, key=lambda reading: reading.expected, reverse=True)[::-1]
        self._free = list(range(slots - 1, -1, -1))
        self._sitting: dict[int, Reading] = {}

    @property
    def running(self) -> int:
        return len(self._sitting)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(self, reading: Reading) -> None:
        """Queue one more, at its place by length."""
        bisect.insort(self._waiting, reading, key=lambda other: other.expected)

    def fill(self) -> list[tuple[int, Reading]]:
        """Seat waiting readings in free slots, the longest in the lowest; the group to admit."""
        seated = []
        while self._free and self._waiting:
            slot, reading = self._free.pop(), self._waiting.pop()
            self._sitting[slot] = reading
            seated.append((slot, reading))
        return seated

    def release(self, slot: int) -> Reading:
        """Free a slot; who sat there."""
        self._free.append(slot)
        self._free.sort(reverse=True)
        return self._sitting.pop(slot)
