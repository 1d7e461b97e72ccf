"""Narrow convolutions in the codec: taken where the sound stays, refused where it does not."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from rhapsode.qwen3.torch import load, mixed
from rhapsode.qwen3.torch.codec import CodecDecoder, Residual, SnakeBeta
from rhapsode.qwen3.torch.load import Model, assemble
from rhapsode.qwen3.torch.mixed import LIMIT, TOLERANCE, is_mixed, narrow

STEEPEST = 50.0  # the frequency of a sine, in the codec under stress


@pytest.fixture
def decoder(custom_model: Model) -> CodecDecoder:
    """A codec whose units add little to their stream: among so few channels, rounding does not average out."""
    decoder = copy.deepcopy(custom_model.codec)
    for part in decoder.modules():
        if isinstance(part, Residual):
            part.conv_2.weight.data *= 0.25
    return decoder


@pytest.fixture
def steep(decoder: CodecDecoder) -> CodecDecoder:
    """The same with frequencies up to `STEEPEST`, each as likely by its logarithm, and heights that go with them."""
    numbers = torch.Generator().manual_seed(1)
    for part in decoder.modules():
        if isinstance(part, SnakeBeta):
            exponents = torch.rand(part.alpha.shape, generator=numbers) * math.log(STEEPEST)
            exponents[0] = math.log(STEEPEST)
            part.alpha.data, part.beta.data = exponents, exponents.clone() / 2
    return decoder


def codes(seed: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 64, (1, 40, 16)))


@torch.inference_mode()
def worst(decoder: CodecDecoder, wanted: list[Tensor]) -> float:
    """The largest deviation of the first sounds from those that are wanted, over the peak of each."""
    found = [decoder(codes(seed)).float() for seed in range(len(wanted))]
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, wanted, strict=True))


@torch.inference_mode()
def sounds(decoder: CodecDecoder) -> list[Tensor]:
    return [decoder(codes(seed)) for seed in range(4)]


def test_a_mild_codec_is_narrowed_and_sounds_the_same(decoder: CodecDecoder) -> None:
    wanted = sounds(decoder)
    assert 0.0 < narrow(decoder) <= LIMIT
    assert is_mixed(decoder)
    assert 0.0 < worst(decoder, wanted) <= TOLERANCE


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_plain_half_precision_fails_under_stress(steep: CodecDecoder, half: torch.dtype) -> None:
    wanted = sounds(steep)
    assert worst(steep.to(half), wanted) > TOLERANCE


def test_under_stress_all_stays_as_it_was(steep: CodecDecoder) -> None:
    wanted, weights = sounds(steep), copy.deepcopy(steep.state_dict())
    assert narrow(steep) > LIMIT
    assert not is_mixed(steep)
    assert worst(steep, wanted) == 0.0
    assert all(torch.equal(value, weights[name]) for name, value in steep.state_dict().items())


def test_a_trial_that_is_not_finite_is_failed(decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "forward", lambda codes: torch.full((1, 8), math.nan))
    assert math.isnan(narrow(decoder))
    assert not is_mixed(decoder)


@pytest.mark.parametrize(
    ("format", "fast", "expected"),
    [("bfloat16", True, "mixed"), ("bfloat16", False, "float32"), ("float32", True, "float32")],
)
def test_who_asks_for_fewer_bits_gets_them_where_they_are_fast(
    custom_model: Model, decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch, format: str, fast: bool, expected: str
) -> None:
    monkeypatch.setattr(load, "has_fast_bfloat16", lambda: fast)
    model = assemble(custom_model.talker, custom_model.predictor, decoder, "cpu", format)
    assert model.codec_format == expected


def test_the_limit_of_the_trial_leaves_room() -> None:
    assert mixed.LIMIT < mixed.TOLERANCE == 0.005
