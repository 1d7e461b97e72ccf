"""Devices that queue report a lane one step late: the same takes, and no line gets the ending of the one before."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rhapsode.engine.decode import decode
from rhapsode.engine.lanes import Reading
from rhapsode.engine.meter import Meter
from rhapsode.engine.stepper import Ending, Request
from rhapsode.qwen3.torch.stepper import TorchStepper
from tests.engine.conftest import TEXTS, Tiny
from tests.engine.torch_lanes import CAP, ONCE, ByHand, Sound, alone, assert_same, limits_for, read, seed_of, stepper

LINES = range(len(TEXTS))


@pytest.fixture(scope="module")
def sounds(tiny: Tiny) -> Sound:
    return alone(tiny.model, tiny.whole, LINES)


class Queueing(TorchStepper):
    """The CPU, taken for a device that queues where results are asked for."""

    def finished(self) -> list[tuple[int, int, Ending]]:
        self.device, real = torch.device("meta"), self.device
        try:
            return super().finished()
        finally:
            self.device = real


@pytest.mark.parametrize("slots", [1, 3, 8])
def test_takes_are_the_same(tiny: Tiny, sounds: Sound, slots: int) -> None:
    assert_same(read(tiny.model, tiny.whole, LINES, slots, kind=Queueing), sounds, f"{slots} slots, late")


def test_an_ending_is_reported_one_step_late(tiny: Tiny) -> None:
    at_once = ByHand(stepper(tiny.model, limits_for(tiny.whole), 1), tiny.whole)
    late = ByHand(stepper(tiny.model, limits_for(tiny.whole), 1, kind=Queueing), tiny.whole)
    for line in LINES:
        at_once.admit(0, line)
        steps = 0
        while 0 in at_once.sitting:
            at_once.step()
            steps += 1
        late.admit(0, line)
        assert late.step(steps) == []
        assert late.step() == [(0, steps, at_once.endings[line])]
        np.testing.assert_array_equal(late.codes[line], at_once.codes[line])


def test_a_new_line_does_not_get_an_old_ending(tiny: Tiny, sounds: Sound) -> None:
    """The letter that was on its way when a slot changed hands speaks of the line before."""
    lanes = ByHand(stepper(tiny.model, limits_for(tiny.whole), 2, kind=Queueing), tiny.whole)
    lanes.admit(0, 0, cap=3)
    lanes.admit(1, 4, cap=CAP)
    assert lanes.step(3) == []
    assert lanes.step() == [(0, 3, Ending.CAPPED)]
    lanes.admit(0, 1, cap=4)
    lanes.finish()
    np.testing.assert_array_equal(lanes.codes[1], sounds[1][0][:4])
    assert lanes.endings[1] == Ending.CAPPED


def test_a_lane_is_reported_once(tiny: Tiny) -> None:
    for kind in (TorchStepper, Queueing):
        lanes = stepper(tiny.model, limits_for(tiny.whole), 2, kind=kind)
        lanes.admit([(1, Request(tiny.whole[0], 2, 5)), (0, Request(tiny.whole[1], 9, 5))])
        reports = []
        for _ in range(7):
            lanes.step()
            reports += lanes.finished()
        assert [slot for slot, _, _ in reports].count(1) == 1


def test_it_costs_a_step_for_each_line(tiny: Tiny) -> None:
    def steps(kind: type[TorchStepper]) -> int:
        meter = Meter()
        lanes = stepper(tiny.model, limits_for(tiny.whole), 1, kind=kind)
        readings = [Reading(line, Request(tiny.whole[line], 5, seed_of(line)), 1.0) for line in (0, 1, 2)]
        list(decode(readings, lanes, lambda *_: pytest.fail("read once"), ONCE, meter))
        return meter.steps

    assert steps(Queueing) == steps(TorchStepper) + 3
