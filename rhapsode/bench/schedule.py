"""What scheduling alone gives: which line sits in which slot at which step, without any model.

Knows lengths, slots and the engine's own queue. Computes in counts of frames; reads no clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from rhapsode.bench.workload import Workload, batches
from rhapsode.engine.lanes import Lanes, Reading, stretches
from rhapsode.engine.stepper import Request

SCHEDULES = ("refill", "sorted", "book")


@dataclass(frozen=True, slots=True)
class Seat:
    """A line in a slot, from one step to before another."""

    slot: int
    start: int
    stop: int
    line: int


@dataclass(frozen=True, slots=True)
class Plan:
    slots: int
    steps: int
    seats: tuple[Seat, ...]

    @property
    def useful(self) -> float:
        """Frames of lines over frames computed."""
        kept = sum(seat.stop - seat.start for seat in self.seats)
        return kept / (self.steps * self.slots) if self.steps else 1.0


def groups(workload: Workload, slots: int, schedule: str) -> list[list[int]]:
    """Lines that are handed to the engine together; each group is read to its end before the next begins.

    "refill": all of them. "sorted": groups of neighbours by text tokens, the longest first. "book": groups as the
    lines come.
    """
    lines = list(range(len(workload.lines)))
    if schedule == "refill":
        return [lines]
    if schedule == "sorted":
        lines.sort(key=lambda line: -workload.lines[line].tokens)
    elif schedule != "book":
        raise ValueError(f"there is no schedule {schedule!r}; there are {', '.join(SCHEDULES)}")
    return batches(lines, slots)


def plan(workload: Workload, slots: int, schedule: str, refill: int = 1, *, early: bool = False) -> Plan:
    """The seats as the engine gives them on a device that reports an end at once.

    refill: free slots that are waited for before any is taken again. early: a group is read in stretches.
    """
    seats: list[Seat] = []
    now = 0
    for group in groups(workload, slots, schedule):
        tokens = [workload.lines[n].tokens for n in group]
        parts = stretches(tokens, slots) if early else [0] * len(group)
        readings = [
            Reading(n, Request(None, workload.lines[n].frames, 0), expected, stretch=part)
            for n, expected, part in zip(group, tokens, parts, strict=True)
        ]
        lanes = Lanes(slots, readings, refill)
        ends: dict[int, int] = {}
        while lanes.running or lanes.waiting:
            for slot, reading in lanes.fill():
                ends[slot] = now + reading.request.cap
                seats.append(Seat(slot, now, ends[slot], reading.line))
            now = min(ends.values())
            for slot in [slot for slot, end in ends.items() if end == now]:
                lanes.release(slot)
                del ends[slot]
    return Plan(slots, now, tuple(seats))
