"""A stepper without arithmetic: every attempt at every line ends as a script says.

Knows the protocol in `rhapsode.engine.stepper` and complains loudly when the engine breaks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rhapsode.engine.lanes import Reading
from rhapsode.engine.stepper import Ending, Request

BOOKS = 4
PER_FRAME = 10


@dataclass(frozen=True, slots=True)
class Attempt:
    """How one reading of one line goes: its frames, its ending, what it sounds like."""

    frames: int
    ending: Ending = Ending.SPOKEN
    looping: bool = False
    wave: str = "good"  # or "silent", "not finite"


LOOPS, CAPPED = Attempt(60, looping=True), Attempt(90, Ending.CAPPED)
SILENT, NAN_CODES, NAN_WAVE = Attempt(20, wave="silent"), Attempt(7, Ending.NOT_FINITE), Attempt(20, wave="not finite")

Script = dict[int, list[Attempt]]  # line -> its attempts, the first one first


@dataclass(slots=True)
class _Seat:
    line: int
    attempt: int
    script: Attempt
    frames: int = 0
    stands: int = 0  # steps since it ended


@dataclass(slots=True)
class Ticket:
    """Sound that was begun; to be collected once, in order."""

    sound: list[np.ndarray]
    stepper: ScriptedStepper

    def waves(self) -> list[np.ndarray]:
        assert self.stepper.begun.pop(0) is self, "collected out of turn"
        return self.sound


@dataclass(slots=True)
class ScriptedStepper:
    """`late`: lanes are reported one step after they ended, as by a device that queues."""

    script: Script
    slots: int
    late: bool = False
    sample_rate: int = 1000
    samples_per_frame: int = PER_FRAME
    read: list[tuple[int, int]] = field(default_factory=list)  # (line, attempt) in the order of admission
    groups: list[list[int]] = field(default_factory=list)  # frames of the lines of each codec call
    begun: list[Ticket] = field(default_factory=list)  # codec calls that were not collected yet
    most_lines_begun: int = 0  # in them
    seats: dict[int, _Seat] = field(default_factory=dict)
    handed: set[int] = field(default_factory=set)  # slots reported and not fetched yet

    def admit(self, placements: Sequence[tuple[int, Request]]) -> None:
        assert placements
        for slot, request in placements:
            assert 0 <= slot < self.slots and slot not in self.seats, f"slot {slot} is taken"
            line, attempt = request.prompt, request.seed
            self.read.append((line, attempt))
            self.seats[slot] = _Seat(line, attempt, self.script[line][attempt - 1])

    def step(self) -> None:
        assert self.seats, "a step of nothing"
        for seat in self.seats.values():
            if seat.frames < seat.script.frames:
                seat.frames += 1
            else:
                seat.stands += 1

    def finished(self) -> list[tuple[int, int, Ending]]:
        ended = [
            (slot, seat)
            for slot, seat in self.seats.items()
            if seat.frames == seat.script.frames and seat.stands >= self.late and slot not in self.handed
        ]
        self.handed.update(slot for slot, _ in ended)
        return [(slot, seat.frames, seat.script.ending) for slot, seat in ended]

    def codes(self, slot: int, frames: int) -> np.ndarray:
        self.handed.remove(slot)
        seat = self.seats.pop(slot)
        assert frames == seat.frames
        return codes_of(seat.line, seat.attempt, seat.script)

    def vocode(self, codes: Sequence[np.ndarray]) -> Ticket:
        assert len(self.begun) <= 1, "two groups wait to be collected"
        self.groups.append([len(line) for line in codes])
        self.most_lines_begun = max(self.most_lines_begun, sum(len(ticket.sound) for ticket in self.begun) + len(codes))
        self.begun.append(Ticket([self._sound(line) for line in codes], self))
        return self.begun[-1]

    def _sound(self, codes: np.ndarray) -> np.ndarray:
        if not len(codes):
            return np.zeros(0, np.float32)
        line, attempt = int(codes[0, 1]), int(codes[0, 2])
        kind = self.script[line][attempt - 1].wave
        level = {"good": 0.25, "silent": 0.0, "not finite": np.nan}[kind]
        return np.full(len(codes) * PER_FRAME, level, np.float32)

    def synchronise(self) -> None:
        pass


def codes_of(line: int, attempt: int, script: Attempt) -> np.ndarray:
    """Codes [frames, BOOKS] that say whose they are; codebook 0 repeats itself only where the script wants it."""
    codes = np.empty((script.frames, BOOKS), np.int32)
    codes[:, 0] = 3 if script.looping else np.arange(script.frames)
    codes[:, 1:] = line, attempt, 0
    return codes


def readings(script: Script) -> list[Reading]:
    return [Reading(line, again(line, 1), attempts[0].frames) for line, attempts in script.items()]


def again(line: int, attempt: int) -> Request:
    return Request(prompt=line, cap=1000, seed=attempt)
