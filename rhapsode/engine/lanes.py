"""Which line sits in which slot, and which comes next: longest expected first, refilled by ones or by groups; of a
book that is wanted from its beginning on, one stretch after the other.

Knows slots and readings. Knows no array and no model: it moves numbers and names about.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rhapsode.engine.stepper import Request

# A book that is wanted from its beginning on is read in stretches. Each has lines enough to fill all lanes a few times
# over, or the lanes would starve at the end of the last one; more stretches cost more than they bring.
STRETCHES, LINES_OF_A_LANE = 4, 3


@dataclass(frozen=True, slots=True)
class Reading:
    """One attempt at one line."""

    line: int  # which line, as the caller counts
    request: Request
    expected: float  # how long it should get; only the order matters
    attempt: int = 1
    stretch: int = 0  # of the book: all lines of one come before those of the next


def stretches(expected: Sequence[float], slots: int) -> list[int]:
    """The stretch of each line of a book, in its order: parts about equally long, one where lines are few."""
    parts = max(1, min(STRETCHES, len(expected) // (LINES_OF_A_LANE * slots)))
    share, so_far = sum(expected) / parts, 0.0
    found: list[int] = []
    for seconds in expected:
        found.append(min(int(so_far / share), parts - 1) if share else 0)
        so_far += seconds
    return found


def _order(reading: Reading) -> tuple[int, float]:
    """The next to be read is the last by this."""
    return -reading.stretch, reading.expected


class Lanes:
    """A queue of readings and the slots they sit in."""

    def __init__(self, slots: int, readings: Iterable[Reading], refill: int = 1) -> None:
        """`refill`: free slots that are waited for before any is taken again, since a prefill costs much whether it
        is of one line or of many. 1: the moment a line ends."""
        # Shortest first, since the longest is taken from the end; equal ones in the order given.
        self._waiting = sorted(readings, key=_order, reverse=True)[::-1]
        self._free = list(range(slots - 1, -1, -1))
        self._sitting: dict[int, Reading] = {}
        self._refill = refill

    @property
    def running(self) -> int:
        return len(self._sitting)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(self, reading: Reading) -> None:
        """Queue one more, at its place by length."""
        bisect.insort(self._waiting, reading, key=_order)

    def fill(self) -> list[tuple[int, Reading]]:
        """Seat waiting readings in free slots, the longest in the lowest; the group to admit.

        Empty while fewer slots are free than are waited for, unless nothing runs or all that wait find a place.
        """
        seated: list[tuple[int, Reading]] = []
        if len(self._free) < min(self._refill, len(self._waiting)) and self._sitting:
            return seated
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
