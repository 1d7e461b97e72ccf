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

all_steps = mixed.steps
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


def narrow_names(decoder: CodecDecoder) -> set[str]:
    return {name.rpartition(".")[0] for name, value in decoder.named_parameters() if value.dtype is mixed.NARROW}


def test_what_is_too_much_is_taken_back(decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the steps, those stay with which the sound is within the limit, and nothing of the others."""
    steps = [[(place.owner, place.name) for place in step] for step in mixed.steps(decoder)]
    parts = {id(part): name for name, part in decoder.named_modules()}
    names = [{f"{parts[id(owner)]}.{name}" for owner, name in step} for step in steps]
    everything = copy.deepcopy(decoder)
    monkeypatch.setattr(mixed, "LIMIT", 1.0)
    far = narrow(everything)
    assert narrow_names(everything) == set().union(*names)
    assert {name.rpartition(".")[2] for name in set().union(*names[1:])} == {"conv_2"}
    # As much as two steps cost: another one may cost no more than nothing.
    first = copy.deepcopy(decoder)
    monkeypatch.setattr(mixed, "steps", lambda codec: list(all_steps(codec))[:2])
    limit = narrow(first)
    assert 0.0 < limit < far
    monkeypatch.setattr(mixed, "LIMIT", limit)
    monkeypatch.setattr(mixed, "steps", all_steps)
    wanted, weights = sounds(decoder), copy.deepcopy(decoder.state_dict())
    assert narrow(decoder) <= limit
    taken = narrow_names(decoder)
    assert names[0] | names[1] <= taken < set().union(*names)
    assert all(step <= taken or not step & taken for step in names)
    for name, value in decoder.state_dict().items():
        assert name.rpartition(".")[0] in taken or torch.equal(value, weights[name])
    assert worst(decoder, wanted) > 0.0


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
