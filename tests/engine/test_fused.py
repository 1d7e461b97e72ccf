"""Steps as a card takes them against plain steps: the same codes in float32, whatever fills the lanes, however many.

Their kernels' twins compute here but in one test: run statement by statement, kernels are slow.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rhapsode.engine.stepper import Ending, Request
from rhapsode.qwen3.prompt import Prompt
from rhapsode.qwen3.torch import stepper as stepper_module
from rhapsode.qwen3.torch.kernels import has_triton, runs_on
from rhapsode.qwen3.torch.stepper import TorchStepper
from rhapsode.types import Sampling
from tests.engine import torch_lanes
from tests.engine.conftest import Tiny

CAP = 9
GREEDY = Sampling(greedy=True, predictor_greedy=True)
NARROW = Sampling(top_k=7, top_p=0.9, predictor_top_k=5, repetition_penalty=1.3)


class Fused(TorchStepper):
    """Steps by kernels on the CPU; notes how many lanes each computed."""

    def __init__(self, *networks: Any, **rest: Any) -> None:
        super().__init__(*networks, fused=True, **rest)
        self.widths: list[int] = []

    def _step(self) -> None:
        self.widths.append(self._lanes().count)
        super()._step()


@pytest.fixture(autouse=True)
def twins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")


@pytest.fixture(params=["whole", "streaming"])
def prompts(request: pytest.FixtureRequest, tiny: Tiny) -> list[Prompt]:
    return getattr(tiny, request.param)


@pytest.mark.parametrize("sampling", [GREEDY, NARROW], ids=["greedy", "drawn"])
def test_the_same_codes(tiny: Tiny, prompts: list[Prompt], sampling: Sampling) -> None:
    """Five lines in two slots: lanes are filled again while the other goes on."""
    lines = range(5)
    found = {
        kind: torch_lanes.read(tiny.model, prompts, lines, 2, sampling=sampling, kind=kind, cap=CAP)
        for kind in (TorchStepper, Fused)
    }
    for line in lines:
        ours, plain = found[Fused][line][0], found[TorchStepper][line][0]
        assert ours.tolist() == plain.tolist(), line


def test_fewer_lanes_when_fewer_lines_are_left(
    tiny: Tiny, prompts: list[Prompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepper_module, "NARROWER", (1, 2))
    limits = torch_lanes.limits_for(prompts, CAP)
    caps = [3, CAP, 5, 4]
    codes = []
    for kind in (TorchStepper, Fused):
        lanes = torch_lanes.stepper(tiny.model, limits, 4, GREEDY, kind)
        assert lanes.fused is (kind is Fused)
        lanes.admit([(slot, Request(prompts[slot], cap, slot)) for slot, cap in enumerate(caps)])
        done: dict[int, list[list[int]]] = {}
        for _ in range(CAP + 1):
            lanes.step()
            for slot, frames, _ in lanes.finished():
                done[slot] = lanes.codes(slot, frames).tolist()
        assert sorted(done) == [0, 1, 2, 3]
        codes.append(done)
        if isinstance(lanes, Fused):
            assert lanes.widths[0] == 4 and lanes.widths[-1] == 1 and set(lanes.widths) <= {4, 2, 1}
            assert 2 in lanes.widths
    assert codes[0] == codes[1]


def test_what_a_lane_left_is_not_looked_at(tiny: Tiny, prompts: list[Prompt]) -> None:
    lanes = torch_lanes.stepper(tiny.model, torch_lanes.limits_for(prompts, CAP), 2, GREEDY, Fused)
    lanes.prepare()
    for slot in (0, 1, 2):
        torch_lanes.poison(lanes, slot)
    for number, line in enumerate((1, 0)):
        lanes.admit([(0, Request(prompts[line], 4, line))])
        for _ in range(6):
            lanes.step()
            for slot, frames, ending in lanes.finished():
                assert ending is not Ending.NOT_FINITE
                alone = torch_lanes.read(tiny.model, prompts, [line], 1, sampling=GREEDY, cap=4)[line][0]
                assert lanes.codes(slot, frames).tolist() == alone.tolist(), number
        torch_lanes.poison(lanes, 0)


def test_a_lane_that_is_not_finite_says_so(tiny: Tiny) -> None:
    prompts = tiny.whole
    lanes = torch_lanes.stepper(tiny.model, torch_lanes.limits_for(prompts, CAP), 2, GREEDY, Fused)
    lanes.admit([(slot, Request(prompts[slot], CAP, slot)) for slot in (0, 1)])
    torch_lanes.poison(lanes, 1)
    lanes.step()
    assert [(slot, ending) for slot, _, ending in lanes.finished() if ending is Ending.NOT_FINITE] == [
        (1, Ending.NOT_FINITE)
    ]


@pytest.mark.skipif(not has_triton() or torch.cuda.is_available(), reason="Triton is not installed, or there is a card")
def test_kernels_give_the_same_codes(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert runs_on(torch.device("cpu"))
    lines, ours = range(2), {}
    for kind in (TorchStepper, Fused):
        ours[kind] = torch_lanes.read(tiny.model, tiny.streaming, lines, 2, sampling=GREEDY, kind=kind, cap=3)
    for line in lines:
        assert ours[Fused][line][0].tolist() == ours[TorchStepper][line][0].tolist()


def test_prepared_before_anybody_sits(tiny: Tiny) -> None:
    prompts = tiny.whole
    lanes = torch_lanes.stepper(tiny.model, torch_lanes.limits_for(prompts, CAP), 2, GREEDY, Fused)
    lanes.admit([(0, Request(prompts[0], CAP, 0))])
    with pytest.raises(RuntimeError, match="before lines are admitted"):
        lanes.prepare()
