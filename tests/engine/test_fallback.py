"""Memory that runs out at any moment: fewer lanes, every line once, and the same takes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence

import numpy as np
import pytest

from rhapsode.engine.decode import Finished, Policy, decode
from rhapsode.engine.fallback import decode_in_room
from rhapsode.engine.meter import Meter
from rhapsode.engine.stepper import Ending, OutOfRoom, Request
from tests.engine.scripted import LOOPS, SILENT, Attempt, Script, ScriptedStepper, Ticket, again, readings

MOMENTS = ("make", "admit", "step", "finished", "codes", "vocode", "waves")
POLICY = Policy(shelf_lines=8, group_lines=4, group_frames=400, refill=2)


class Full(Ticket):
    def waves(self) -> list[np.ndarray]:
        raise OutOfRoom("waves")


class Tight(ScriptedStepper):
    """Has no room for more than `most` slots: says so at a moment, when it is asked for the `turn`-th time."""

    def __init__(self, script: Script, slots: int, moment: str, most: int, turn: int = 1) -> None:
        super().__init__(script, slots)
        self.moment, self.turn, self.full = moment, turn, slots > most
        self.weigh("make")

    def weigh(self, moment: str) -> bool:
        """Whether this is the moment. It comes once."""
        self.turn -= self.full and moment == self.moment
        if self.full and self.turn == 0 and moment == self.moment:
            self.full = False
            if moment != "waves":
                raise OutOfRoom(moment)
            return True
        return False

    def admit(self, placements: Sequence[tuple[int, Request]]) -> None:
        self.weigh("admit")
        super().admit(placements)

    def step(self) -> None:
        self.weigh("step")
        super().step()

    def finished(self) -> list[tuple[int, int, Ending]]:
        self.weigh("finished")
        return super().finished()

    def codes(self, slot: int, frames: int) -> np.ndarray:
        self.weigh("codes")
        return super().codes(slot, frames)

    def vocode(self, codes: Sequence[np.ndarray]) -> Ticket:
        self.weigh("vocode")
        ticket = super().vocode(codes)
        return Full([], self) if self.weigh("waves") else ticket


class Run:
    """All lines of a script in lanes that may be too many."""

    def __init__(self, script: Script, slots: int, most: int, moment: str, turn: int = 1) -> None:
        self.made: list[weakref.ref[Tight]] = []
        self.slots: list[int] = []
        self.policies: list[list[list[int]]] = []
        self.told: list[str] = []
        self.forgotten = 0
        self.meter = Meter()
        self.finished: dict[int, Finished] = {}

        def make(slots: int) -> Tight:
            assert not any(one() for one in self.made), "the one before still holds its memory"
            assert self.forgotten == len(self.slots), "and it was not given back"
            self.slots.append(slots)
            stepper = Tight(script, slots, moment, most, turn)
            self.made.append(weakref.ref(stepper))
            self.policies.append(stepper.groups)
            return stepper

        for one in decode_in_room(
            readings(script), make, slots, again, POLICY, self.meter, forget=self.forget, tell=self.told.append
        ):
            assert one.line not in self.finished, "handed out twice"
            self.finished[one.line] = one
        assert set(self.finished) == set(script)

    def forget(self) -> None:
        self.forgotten += 1
        gc.collect()  # tickets and their stepper know one another


def book() -> Script:
    script: Script = {line: [Attempt(3 + line % 7)] for line in range(80)}
    return script | {3: [LOOPS, Attempt(9)], 11: [SILENT, Attempt(9)], 20: [LOOPS, SILENT, LOOPS]}


@pytest.mark.parametrize("turn", [1, 2, 5])
@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_lost_whenever_it_happens(moment: str, turn: int) -> None:
    if moment == "make":
        turn = 1
    run = Run(book(), 8, 3, moment, turn)
    assert run.slots == [8, 4, 2]
    roomy = {one.line: one for one in decode(readings(book()), ScriptedStepper(book(), 8), again, POLICY)}
    for line, one in run.finished.items():
        np.testing.assert_array_equal(one.codes, roomy[line].codes)
        assert (one.attempt, one.tries, one.problem) == (
            roomy[line].attempt, roomy[line].tries, roomy[line].problem
        )  # fmt: skip
    assert run.told == [
        "Memory ran out with 8 lines side by side; it goes on with 4.",
        "Memory ran out with 4 lines side by side; it goes on with 2.",
    ]
    assert run.forgotten == 2


def test_groups_of_the_codec_become_smaller_too() -> None:
    run = Run({line: [Attempt(30)] for line in range(80)}, 8, 3, "step", 1)
    assert not any(run.policies[:2]) and max(map(len, run.policies[2])) == 1, "four, two, one"


def test_what_was_handed_out_is_not_read_again() -> None:
    read: list[tuple[int, int]] = []
    script: Script = {line: [Attempt(3 + line % 7)] for line in range(80)}
    handed: list[int] = []
    changes: list[tuple[int, int]] = []  # lines read and handed out so far

    def make(slots: int) -> Tight:
        stepper = Tight(script, slots, "step", 4, turn=20)
        stepper.read = read
        changes.append((len(read), len(handed)))
        return stepper

    for one in decode_in_room(
        readings(script), make, 8, again, POLICY, Meter(), forget=lambda: None, tell=lambda _: None
    ):
        handed.append(one.line)
    assert sorted(handed) == sorted(script)
    began, there = changes[1]
    assert there and {line for line, _ in read[began:]} == set(script) - set(handed[:there])


@pytest.mark.parametrize("moment", MOMENTS)
def test_one_lane_that_does_not_fit_is_an_error(moment: str) -> None:
    with pytest.raises(OutOfRoom, match=moment):
        Run(book(), 4, 0, moment)


def test_other_errors_go_their_way() -> None:
    def make(slots: int) -> ScriptedStepper:
        raise RuntimeError("the card fell out")

    with pytest.raises(RuntimeError, match="fell out"):
        list(decode_in_room(
            readings(book()), make, 4, again, POLICY, Meter(),
            forget=lambda: pytest.fail("tried again"), tell=lambda _: None,
        ))  # fmt: skip
