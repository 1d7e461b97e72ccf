"""The loop: readings through lanes to codes, codes to sound, bad readings once more.

Array-free: it moves readings between the queue, the lanes and the shelf of finished codes. Knows no model; the
stepper does the arithmetic, `judge` says what can be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rhapsode.engine import judge
from rhapsode.engine.lanes import Lanes, Reading
from rhapsode.engine.meter import Meter
from rhapsode.engine.stepper import Ending, Pending, Request, Stepper

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Finished:
    """The reading of a line that is kept."""

    line: int
    codes: np.ndarray  # [frames, codebooks]
    wave: np.ndarray  # float32 [samples]
    attempt: int  # which attempt this is
    tries: int  # how many there were
    problem: str  # one of `judge.PROBLEMS`


@dataclass(frozen=True, slots=True)
class Policy:
    """How hard to try, and how much to begin at once."""

    tries: int = 3  # readings of one line at most
    refill: int = 1  # free slots that are waited for before lines are admitted
    shelf_lines: int = 8  # finished lines that are collected and sorted before the codec runs
    group_lines: int = 8  # of these, lines in one codec call at most
    group_frames: int = 1024  # padded frames in one codec call at most


@dataclass(frozen=True, slots=True)
class _Try:
    reading: Reading
    codes: np.ndarray
    problem: str


@dataclass(frozen=True, slots=True)
class _Group:
    """Tries whose sound was begun, how many tries each took, and the sound."""

    members: list[tuple[_Try, int]]
    sound: Pending


# What makes the request of a later attempt: (line, attempt) -> Request.
Again = Callable[[int, int], Request]


def decode(
    readings: Iterable[Reading],
    stepper: Stepper,
    again: Again,
    policy: Policy | None = None,
    meter: Meter | None = None,
) -> Iterator[Finished]:
    """Read all lines; hand each out as soon as its sound is there, in no particular order.

    A reading that loops, is cut off at its cap, is silent or not finite is made again, `policy.tries` times in all;
    then the best of them is handed out with its problem.
    """
    return _Loop(readings, stepper, again, policy or Policy(), meter or Meter()).run()


class _Loop:
    def __init__(
        self, readings: Iterable[Reading], stepper: Stepper, again: Again, policy: Policy, meter: Meter
    ) -> None:
        self.lanes = Lanes(stepper.slots, readings, policy.refill)
        self.stepper, self.again, self.policy, self.meter = stepper, again, policy, meter
        self.shelf: list[tuple[_Try, int]] = []  # what waits for its sound, and how many tries it took
        self.begun: _Group | None = None  # its sound is collected when the next group's was begun
        self.failed: dict[int, _Try] = {}  # the best bad try so far of a line that is read again

    def run(self) -> Iterator[Finished]:
        lanes = self.lanes
        while lanes.running or lanes.waiting or self.shelf or self.begun:
            seated = lanes.fill()
            if seated:
                self.stepper.admit([(slot, reading.request) for slot, reading in seated])
                self.meter.prefills += 1
            if lanes.running:
                self.stepper.step()
                self.meter.step(self.stepper.slots)
                for slot, frames, ending in self.stepper.finished():
                    codes = self.stepper.codes(slot, frames)
                    self._weigh(_Try(lanes.release(slot), codes, _problem(codes, ending)))
            idle = not (lanes.running or lanes.waiting)
            if self.shelf and (idle or len(self.shelf) >= self.policy.shelf_lines):
                yield from self._vocode()
            if idle:
                yield from self._collect()

    def _weigh(self, attempt: _Try) -> None:
        """Put the best try so far on the shelf, or its line back into the queue."""
        reading = attempt.reading
        # A reading that ended well may still be silent: the best bad one is remembered until it was heard.
        best = self._best(attempt) if attempt.problem else attempt
        if best.problem and reading.attempt < self.policy.tries:
            self._retry(best, reading)
        else:
            self.shelf.append((best, reading.attempt))

    def _best(self, attempt: _Try) -> _Try:
        """The better of a bad try and the best bad one before it, which is forgotten."""
        return min(self.failed.pop(attempt.reading.line, attempt), attempt, key=_badness)

    def _retry(self, best: _Try, last: Reading) -> None:
        self.failed[last.line] = best
        self.meter.retakes += 1
        number = last.attempt + 1
        self.lanes.add(replace(last, request=self.again(last.line, number), attempt=number))

    def _vocode(self) -> Iterator[Finished]:
        """Begin the sound of what is on the shelf, a group at a time.

        A group is collected after the next one was begun, so that a device that queues has work all the while.
        """
        shelf, self.shelf = sorted(self.shelf, key=lambda item: len(item[0].codes)), []
        for members in _groups(shelf, self.policy):
            group = _Group(members, self.stepper.vocode([attempt.codes for attempt, _ in members]))
            yield from self._collect()
            self.begun = group

    def _collect(self) -> Iterator[Finished]:
        """Hand out what is good of the group that was begun; the rest is read again."""
        group, self.begun = self.begun, None
        if group is None:
            return
        for (attempt, tries), wave in zip(group.members, group.sound.waves(), strict=True):
            heard = replace(attempt, problem=max(attempt.problem, judge.judge_wave(wave), key=judge.PROBLEMS.index))
            if heard.problem != attempt.problem:
                best = self._best(heard)
                if tries < self.policy.tries:
                    self._retry(best, replace(attempt.reading, attempt=tries))
                    continue
                if best is not heard:
                    self.shelf.append((best, tries))
                    continue
            self.failed.pop(heard.reading.line, None)
            self.meter.kept_frames += len(heard.codes)
            yield Finished(heard.reading.line, heard.codes, wave, heard.reading.attempt, tries, heard.problem)


def _problem(codes: np.ndarray, ending: Ending) -> str:
    if ending is Ending.NOT_FINITE:
        return "not finite"
    if judge.loops(codes):
        return "loops"
    return judge.NO_END if ending is Ending.CAPPED else ""


def _badness(attempt: _Try) -> int:
    return judge.PROBLEMS.index(attempt.problem)


def _groups(shelf: list[tuple[_Try, int]], policy: Policy) -> Iterator[list[tuple[_Try, int]]]:
    """Neighbours by length, as many as the policy lets the codec have at once."""
    group: list[tuple[_Try, int]] = []
    for item in shelf:
        longest = max(len(item[0].codes), 1)
        if group and (len(group) >= policy.group_lines or longest * (len(group) + 1) > policy.group_frames):
            yield group
            group = []
        group.append(item)
    if group:
        yield group
