"""The loop over a stepper that follows a script: what is handed out, what is read again, what is counted."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from rhapsode.engine.decode import Finished, Policy, decode
from rhapsode.engine.meter import Meter
from rhapsode.engine.stepper import Ending
from tests.engine.scripted import (
    CAPPED,
    LOOPS,
    NAN_CODES,
    NAN_WAVE,
    SILENT,
    Attempt,
    Script,
    ScriptedStepper,
    again,
    codes_of,
    readings,
)

BAD = {
    "loops": LOOPS,
    "no end before the cap": CAPPED,
    "silent": SILENT,
    "not finite": NAN_CODES,
    "not finite wave": NAN_WAVE,
}


def run(
    script: Script, slots: int = 2, policy: Policy | None = None, *, late: bool = False
) -> tuple[dict[int, Finished], ScriptedStepper, Meter]:
    stepper, meter = ScriptedStepper(script, slots, late), Meter()
    finished = list(decode(readings(script), stepper, again, policy, meter))
    lines = [one.line for one in finished]
    assert sorted(lines) == sorted(script), "every line is handed out exactly once"
    assert not stepper.seats and not stepper.handed and not stepper.begun
    for one in finished:
        if one.attempt <= len(script[one.line]):
            np.testing.assert_array_equal(one.codes, codes_of(one.line, one.attempt, script[one.line][one.attempt - 1]))
    return {one.line: one for one in finished}, stepper, meter


def mixture(seed: int, lines: int = 23) -> Script:
    """Lines of all lengths, a third of them bad once or more often."""
    chance = random.Random(seed)
    script = {}
    for line in range(lines):
        attempts = [Attempt(chance.randint(1, 40)) for _ in range(4)]
        for i in range(chance.choice([0, 0, 0, 0, 1, 2, 3])):
            attempts[i] = chance.choice(list(BAD.values()))
        script[line] = attempts
    return script


# ------------------------------------------------------------------ all lines, once


@pytest.mark.parametrize("late", [False, True], ids=["prompt", "late"])
@pytest.mark.parametrize("slots", [1, 2, 3, 8, 23, 40])
def test_every_line_is_handed_out_once(slots: int, late: bool) -> None:
    for seed in range(4):
        script = mixture(seed)
        finished, _, _ = run(script, slots, late=late)
        alone, _, _ = run(script, 1)
        for line, one in finished.items():
            assert (one.attempt, one.tries, one.problem) == (
                alone[line].attempt, alone[line].tries, alone[line].problem
            ), "how a line ends does not depend on the company it keeps"  # fmt: skip
            assert len(one.wave) == 10 * len(one.codes)


def test_nothing_to_read() -> None:
    finished, stepper, meter = run({}, slots=4)
    assert (finished, stepper.read, meter.steps, meter.useful) == ({}, [], 0, 1.0)


def test_takes_come_while_other_lines_are_still_read() -> None:
    script = {line: [Attempt(5)] for line in range(12)} | {99: [Attempt(100)]}
    stepper = ScriptedStepper(script, slots=2)
    first = next(decode(readings(script), stepper, again, Policy(shelf_lines=3)))
    assert first.line != 99
    assert stepper.seats and len(stepper.read) < len(script)


def test_a_line_may_end_without_a_frame() -> None:
    finished, _, _ = run({0: [Attempt(0, Ending.NOT_FINITE)], 1: [Attempt(9)]}, policy=Policy(tries=1))
    assert (finished[0].problem, len(finished[0].wave)) == ("not finite", 0)
    assert finished[1].problem == ""


# ------------------------------------------------------------------ bad readings


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_reading_is_made_again(bad: str) -> None:
    script = {0: [BAD[bad], Attempt(13)], 1: [Attempt(30)]}
    finished, stepper, meter = run(script)
    assert (finished[0].problem, finished[0].attempt, finished[0].tries) == ("", 2, 2)
    assert (finished[1].problem, finished[1].attempt, finished[1].tries) == ("", 1, 1)
    assert [attempt for line, attempt in stepper.read if line == 0] == [1, 2], "with the next attempt's request"
    assert meter.retakes == 1


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("tries", [1, 2, 3, 5])
def test_when_all_are_bad_the_line_comes_with_its_problem(bad: str, tries: int) -> None:
    finished, stepper, meter = run({0: [BAD[bad]] * 6}, policy=Policy(tries=tries))
    assert finished[0].problem == bad.removesuffix(" wave")
    assert finished[0].tries == tries == len(stepper.read)
    assert meter.retakes == tries - 1


@pytest.mark.parametrize(
    ("attempts", "kept"),
    [
        ([CAPPED, LOOPS, NAN_CODES], 2),
        ([LOOPS, CAPPED, NAN_CODES], 1),
        ([NAN_CODES, SILENT, CAPPED], 3),
        ([NAN_CODES, SILENT, NAN_WAVE], 2),
        ([CAPPED, CAPPED, CAPPED], 1),
        # What a reading sounds like is known later than how it ended.
        ([LOOPS, SILENT, NAN_CODES], 1),
        ([LOOPS, CAPPED, SILENT], 1),
        ([CAPPED, NAN_WAVE, SILENT], 1),
        ([SILENT, NAN_WAVE, SILENT], 1),
    ],
)
@pytest.mark.parametrize("shelf", [1, 8])
def test_the_best_of_bad_readings_is_kept(attempts: list[Attempt], kept: int, shelf: int) -> None:
    script = {0: attempts, 1: [Attempt(50)], 2: [Attempt(8)]}
    finished, stepper, _ = run(script, policy=Policy(shelf_lines=shelf))
    assert (finished[0].attempt, finished[0].tries) == (kept, 3)
    assert finished[0].problem in ("loops", "no end before the cap", "silent")
    assert [attempt for line, attempt in stepper.read if line == 0] == [1, 2, 3]


def test_a_loop_is_told_from_a_line_that_reached_its_cap_otherwise() -> None:
    both = replace(LOOPS, ending=Ending.CAPPED)
    finished, _, _ = run({0: [both], 1: [CAPPED]}, policy=Policy(tries=1))
    assert (finished[0].problem, finished[1].problem) == ("loops", "no end before the cap")


def test_a_line_that_was_not_finite_is_that_whatever_its_codes_do() -> None:
    finished, _, _ = run({0: [replace(LOOPS, ending=Ending.NOT_FINITE)]}, policy=Policy(tries=1))
    assert finished[0].problem == "not finite"


# ------------------------------------------------------------------ what is computed


def test_slots_are_refilled_at_once() -> None:
    script = {line: [Attempt(frames)] for line, frames in enumerate([3, 10, 4, 3])}
    _, stepper, meter = run(script, slots=2)
    assert [line for line, _ in stepper.read] == [1, 2, 0, 3], "the longest first, equal ones in order"
    assert (meter.steps, meter.lane_frames, meter.kept_frames, meter.useful) == (10, 20, 20, 1.0)
    assert (meter.prefills, meter.retakes) == (3, 0)


@pytest.mark.parametrize("late", [False, True], ids=["prompt", "late"])
@pytest.mark.parametrize("refill", [1, 2, 5, 8, 100])
def test_lines_admitted_in_groups_are_the_same_lines(refill: int, late: bool) -> None:
    script = mixture(5, 60)
    finished, stepper, meter = run(script, 8, Policy(refill=refill), late=late)
    alone, _, at_once = run(script, 8, late=late)
    for line, one in finished.items():
        assert (one.attempt, one.tries, one.problem) == (alone[line].attempt, alone[line].tries, alone[line].problem)
    assert meter.kept_frames == at_once.kept_frames and meter.lane_frames == 8 * meter.steps
    if refill > 1:
        assert meter.prefills < at_once.prefills and meter.useful < at_once.useful


def test_the_meter_counts_what_was_thrown_away() -> None:
    _, _, meter = run({0: [CAPPED, Attempt(10)]}, slots=3)
    assert (meter.steps, meter.lane_frames, meter.kept_frames, meter.retakes) == (100, 300, 10, 1)
    assert meter.useful == pytest.approx(10 / 300)
    assert meter.prefills == 2


def test_a_late_stepper_costs_a_step_and_no_frame() -> None:
    script = {0: [Attempt(10)], 1: [Attempt(4)], 2: [Attempt(3)]}
    finished, stepper, meter = run(script, slots=1, late=True)
    assert meter.steps == 10 + 4 + 3 + 3
    assert meter.kept_frames == 17
    assert [len(finished[line].codes) for line in range(3)] == [10, 4, 3]


# ------------------------------------------------------------------ codec groups


def test_codec_calls_are_sorted_and_bounded() -> None:
    chance = random.Random(3)
    script = {line: [Attempt(chance.randint(1, 60))] for line in range(50)}
    policy = Policy(shelf_lines=10, group_lines=4, group_frames=100)
    _, stepper, _ = run(script, slots=7, policy=policy)
    made = [frames for group in stepper.groups for frames in group]
    assert sorted(made) == sorted(attempts[0].frames for attempts in script.values())
    for group in stepper.groups:
        assert group == sorted(group)
        assert len(group) <= 4
        assert len(group) == 1 or len(group) * max(group) <= 100
    assert max(map(len, stepper.groups)) == 4
    assert any(len(group) < 4 and len(group) * max(group) > 50 for group in stepper.groups), "the frames bound it too"


@pytest.mark.parametrize("late", [False, True], ids=["prompt", "late"])
def test_a_group_is_collected_when_the_next_was_begun(late: bool) -> None:
    """A device that queues has a group to work on while the host hands out the one before."""
    script = {line: [Attempt(5 + line)] for line in range(12)}
    stepper = ScriptedStepper(script, slots=3, late=late)
    collected = []
    for one in decode(readings(script), stepper, again, Policy(shelf_lines=4, group_lines=2)):
        collected.append((one.line, len(stepper.groups), len(stepper.begun)))
    assert len(collected) == 12
    order = [frames - 5 for group in stepper.groups for frames in group]
    assert [line for line, _, _ in collected] == order, "in the order in which they were begun"
    for place, (_, groups, begun) in enumerate(collected):
        assert (groups, begun) == ((place // 2 + 2, 1) if place < 10 else (6, 0))


def test_a_line_longer_than_a_group_goes_alone() -> None:
    _, stepper, _ = run({0: [Attempt(500)], 1: [Attempt(2)], 2: [Attempt(3)]}, policy=Policy(group_frames=64))
    assert sorted(map(sorted, stepper.groups)) == [[2, 3], [500]]


def test_one_line_a_call() -> None:
    _, stepper, _ = run(mixture(1), slots=5, policy=Policy(group_lines=1))
    assert {len(group) for group in stepper.groups} == {1}
