"""Logits after penalty, suppression, temperature, top-k and top-p: as the official generation makes them."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinNewTokensLengthLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from rhapsode.qwen3.limits import Limits
from rhapsode.qwen3.torch.sampling import Draw
from rhapsode.qwen3.torch.stepper import TorchStepper
from rhapsode.types import Sampling
from tests.parity.conftest import Pair

ROWS = 8


@pytest.mark.parametrize("history", [0, 1, 2, 30])
@pytest.mark.parametrize("top_k, top_p", [(50, 1.0), (5, 1.0), (0, 1.0), (50, 0.8), (0, 0.5)])
def test_talker_logits(pair: Pair, history: int, top_k: int, top_p: float) -> None:
    config = pair.checkpoint.model.talker
    generator = torch.Generator().manual_seed(history * 100 + top_k)
    logits = torch.randn(ROWS, config.vocab, generator=generator) * 3
    used = torch.randint(0, config.codes, (ROWS, history), generator=generator)
    sampling = Sampling(top_k=top_k, top_p=top_p, temperature=0.7, repetition_penalty=1.3)

    suppress = [i for i in range(config.codes, config.vocab) if i != config.eos]
    official = [
        RepetitionPenaltyLogitsProcessor(1.3),
        MinNewTokensLengthLogitsProcessor(0, 2, config.eos, device="cpu"),
        SuppressTokensLogitsProcessor(suppress, device="cpu"),
        TemperatureLogitsWarper(0.7),
    ]
    if top_k:
        official.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        official.append(TopPLogitsWarper(top_p))
    theirs = LogitsProcessorList(official)(used, logits.clone())

    stepper = TorchStepper(
        pair.ours.talker, pair.ours.predictor, pair.ours.codec, sampling,
        slots=ROWS, limits=Limits(8, 64), sample_rate=24000,
    )  # fmt: skip
    stepper.frame = torch.full((ROWS,), history)
    stepper.seen = torch.zeros(ROWS, config.vocab, dtype=torch.bool).scatter(1, used, True)
    values, codes = Draw(False, 0.7, top_k, top_p).candidates(stepper.allowed(logits))
    ours = torch.full_like(logits, float("-inf")).scatter(1, codes, values)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_draws_follow_the_distribution(pair: Pair) -> None:
    """Counter-based draws: frequencies over 40,000 frames against the softmax of the candidates."""
    from rhapsode.qwen3.torch.sampling import uniforms

    logits = torch.linspace(-2, 3, 40).unsqueeze(0)
    draw = Draw(False, 0.9, 20, 1.0)
    count = 40_000
    seeds = torch.tensor([[0x1234567, 0x89ABCDE]])
    drawn = draw(logits.expand(count, -1), uniforms(seeds, torch.arange(0, count * 16, 16).unsqueeze(0))[0])
    values, codes = draw.candidates(logits)
    wanted = torch.zeros(40).scatter(0, codes[0], values[0].softmax(-1))
    found = drawn.bincount(minlength=40) / count
    assert (found[wanted == 0] == 0).all()
    assert ((found - wanted).abs() < 5 * (wanted * (1 - wanted) / count).sqrt() + 1e-6).all()
