"""The same exactness at shapes where a matrix library has more ways to go wrong; no file, no codec."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rhapsode.engine.stepper import Request
from rhapsode.qwen3.config import PredictorConfig, TalkerConfig, TransformerShape
from rhapsode.qwen3.limits import Limits
from rhapsode.qwen3.prompt import Prompt
from rhapsode.qwen3.torch.predictor import Predictor
from rhapsode.qwen3.torch.stepper import TorchStepper
from rhapsode.qwen3.torch.talker import Talker
from rhapsode.types import Sampling

FRAMES = 20
# Below, at and above the steps that rows and keys are rounded up to.
LENGTHS = (5, 7, 8, 9, 13, 15, 16, 17, 21, 24, 30, 33, 41, 50, 64, 90)
CODES = 256


@pytest.fixture(scope="module")
def networks() -> tuple[Talker, Predictor]:
    trunk = TransformerShape(
        hidden=256, intermediate=768, layers=4, heads=4, kv_heads=2, head_dim=64, eps=1e-6, rope_theta=1e6
    )
    deeper = TransformerShape(
        hidden=128, intermediate=384, layers=2, heads=4, kv_heads=2, head_dim=64, eps=1e-6, rope_theta=1e6
    )
    talker = TalkerConfig(
        trunk=trunk, vocab=CODES + TalkerConfig.CONTROL_IDS, text_vocab=64, text_hidden=256, codebooks=16,
        pad=300, bos=301, eos=302, think=303, nothink=304, think_bos=305, think_eos=306,
        languages={}, speakers={}, dialects={},
    )  # fmt: skip
    torch.manual_seed(20)
    modules = Talker(talker), Predictor(PredictorConfig(deeper, CODES), talker)
    for module in modules:
        module.eval().requires_grad_(False)
    modules[0].head.weight.mul_(8)  # far from even, so that draws depend on the state
    modules[0].head.weight[talker.eos] = 0
    return modules


def prompt(length: int) -> Prompt:
    chance = np.random.default_rng(length)
    text, codec = chance.integers(0, 64, length), chance.integers(0, CODES, length)
    return Prompt(tuple(map(int, text)), tuple(map(int, codec)), trailing=(), pad=5, shared=0)


def run(networks: tuple[Talker, Predictor], lengths: tuple[int, ...], slots: int) -> tuple[np.ndarray, torch.Tensor]:
    """Codes [lines, frames, books] and hidden states [lines, frames, hidden] of some lines side by side."""
    codec = SimpleNamespace(config=SimpleNamespace(samples_per_frame=1920))
    limits = Limits(prompt=max(lengths), frames=FRAMES)
    lanes = TorchStepper(*networks, codec, Sampling(), slots=slots, limits=limits, sample_rate=24000)  # type: ignore[arg-type]
    lanes.admit([(slot, Request(prompt(length), FRAMES, length)) for slot, length in enumerate(lengths)])
    states = []
    for _ in range(FRAMES):
        lanes.step()
        states.append(lanes.hidden[: len(lengths)].clone())
    return np.stack([lanes.codes(slot, FRAMES) for slot in range(len(lengths))]), torch.stack(states, 1)


def test_sixteen_side_by_side_are_as_each_alone(networks: tuple[Talker, Predictor]) -> None:
    codes, states = run(networks, LENGTHS, 16)
    assert len({line[:2].tobytes() for line in codes}) == len(LENGTHS)
    for row, length in enumerate(LENGTHS):
        code, state = run(networks, (length,), 1)
        same = (state[0] == states[row]).all(-1)
        assert same.all(), f"prompt of {length}: hidden states differ first at frame {int((~same).int().argmax())}"
        np.testing.assert_array_equal(code[0], codes[row], err_msg=f"prompt of {length}")
