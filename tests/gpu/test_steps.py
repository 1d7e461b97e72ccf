"""What needs a card: recorded steps against plain ones, and the card against the CPU.

    python -m pytest tests/gpu

on a machine with CUDA; elsewhere nothing of it runs.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from rhapsode.qwen3.checkpoint import Checkpoint
from rhapsode.qwen3.prompt import Prompt
from rhapsode.qwen3.torch.load import load_model
from rhapsode.qwen3.torch.stepper import TorchStepper
from rhapsode.types import Sampling
from tests.engine import torch_lanes

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

TEXTS = ["Why?", "The old man and the sea, and the boy.", "Three words here.", "A dark and stormy night; rain fell."]
GREEDY = Sampling(greedy=True, predictor_greedy=True)


class Plain(TorchStepper):
    """Never recorded."""

    def step(self) -> None:
        self.recorder.trouble = "not wanted"
        super().step()


@pytest.fixture(scope="module")
def prompts(make_prompt: Callable[[str], Prompt]) -> list[Prompt]:
    return [make_prompt(text) for text in TEXTS * 3]


@pytest.mark.parametrize("format", ["float32", "bfloat16"])
@pytest.mark.parametrize("sampling", [Sampling(), GREEDY], ids=["drawn", "greedy"])
def test_recorded_steps_give_the_same_codes(
    format: str, sampling: Sampling, checkpoint: Checkpoint, prompts: list[Prompt]
) -> None:
    """90 frames reach over a step between two graphs; twelve lines in five slots fill lanes again."""
    model = load_model(checkpoint, "cuda", format)
    sounds = {}
    for kind in (TorchStepper, Plain):
        sounds[kind] = torch_lanes.read(model, prompts, range(len(prompts)), 5, sampling=sampling, kind=kind, cap=90)
    for line, (codes, _) in sounds[TorchStepper].items():
        assert (codes == sounds[Plain][line][0]).all() and len(codes) == len(sounds[Plain][line][0]), line


def test_steps_are_recorded(checkpoint: Checkpoint, prompts: list[Prompt]) -> None:
    from rhapsode.engine.stepper import Request

    lanes = torch_lanes.stepper(load_model(checkpoint, "cuda", "bfloat16"), torch_lanes.limits_for(prompts, 90), 3)
    lanes.admit([(0, Request(prompts[0], 90, 3))])
    for _ in range(6):
        lanes.step()
    assert not lanes.recorder.trouble and lanes.recorder._graphs


@pytest.mark.parametrize("greedy", [True, False], ids=["greedy", "drawn"])
def test_the_card_says_what_the_processor_says(greedy: bool, checkpoint: Checkpoint, prompts: list[Prompt]) -> None:
    """float32: the codes are the same to the last; the sound within 0.1% of the peak."""
    sampling = Sampling(greedy=greedy, predictor_greedy=greedy)
    found = [
        torch_lanes.read(load_model(checkpoint, device, "float32"), prompts, range(4), 4, sampling=sampling, cap=60)
        for device in ("cpu", "cuda")
    ]
    for line, (codes, wave) in found[0].items():
        assert (codes == found[1][line][0]).all(), line
        assert abs(wave - found[1][line][1]).max() < 1e-3 * abs(wave).max()
