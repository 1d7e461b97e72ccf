"""What the losses weigh and what they do not."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from training.layout import SAMPLE_RATE
from training.losses import Discriminators, SpectralLoss, discriminator_loss, generator_losses, mel_filters


def noise(decibels: float, seed: int = 0) -> Tensor:
    """Half a second, at so many decibels of full scale."""
    chance = torch.Generator().manual_seed(seed)
    return 10 ** (decibels / 20) * torch.randn(1, SAMPLE_RATE // 2, generator=chance)


def change(loss: SpectralLoss, before: float, after: float, speech: Tensor) -> float:
    """The loss of a second whose first half is at another level than it should be, the other half being right."""
    return float(loss(torch.cat((noise(after), speech), 1), torch.cat((noise(before), speech), 1)))


@pytest.fixture(scope="module")
def loss() -> SpectralLoss:
    return SpectralLoss()


def test_a_pause_that_is_not_quite_as_silent_weighs_little(loss: SpectralLoss) -> None:
    speech = noise(-20, seed=1)
    pause, spoken = change(loss, -95, -80, speech), change(loss, -35, -20, speech)
    assert spoken > 0.5
    assert pause < 0.1 * spoken  # without a floor it is 0.8


def test_a_pause_does_not_pull_a_thousandfold(loss: SpectralLoss) -> None:
    speech = noise(-20, seed=1)
    wanted = torch.cat((noise(-95, seed=2), speech), 1)
    made = torch.cat((noise(-95, seed=3), noise(-20, seed=4)), 1).requires_grad_(True)
    loss(made, wanted).backward()
    assert made.grad is not None
    pause, spoken = made.grad.split(SAMPLE_RATE // 2, 1)
    assert pause.norm() < 60 * spoken.norm()  # 75 dB quieter; without a floor it is 3,000


def test_what_is_alike_costs_nothing(loss: SpectralLoss) -> None:
    wave = noise(-20)
    assert float(loss(wave, wave)) < 1e-6 and float(loss.mel_distance(wave, wave)) == 0


def test_a_factor_costs_the_same_at_any_level_of_speech(loss: SpectralLoss) -> None:
    quiet, loud = (float(loss(2 * noise(level), noise(level))) for level in (-30, -10))
    assert quiet == pytest.approx(loud, rel=0.05)  # the floor is near
    assert float(loss.mel_distance(2 * noise(-10), noise(-10))) == pytest.approx(math.log(2), rel=0.01)


def test_filters_cover_every_frequency_once() -> None:
    filters = mel_filters(1024, 96)
    assert filters.shape == (96, 513) and filters.min() == 0 and filters.max() <= 1
    inside = filters.sum(0)[20:480]
    assert inside.min() > 0.99 and inside.max() < 1.01


Judged = list[tuple[Tensor, list[Tensor]]]


def judged(*scores: float) -> Judged:
    return [(torch.full((2, 3), score), [torch.full((2, 3), score)]) for score in scores]


def test_judges_want_real_above_one_and_made_below_minus_one() -> None:
    assert float(discriminator_loss(judged(1.5, 2), judged(-1, -3))) == 0
    assert float(discriminator_loss(judged(0, 0), judged(0, 0))) == 2
    assert float(discriminator_loss(judged(-1), judged(1))) == 4


def test_the_decoder_wants_to_be_taken_for_real_and_to_be_seen_alike() -> None:
    fooled, alike = generator_losses(judged(2.0), judged(2.0))
    caught, unlike = generator_losses(judged(2.0), judged(-1.0))
    assert (float(fooled), float(caught)) == (-2, 1)
    assert float(alike) == 0 and float(unlike) == pytest.approx(1.5, rel=1e-3)


def test_features_pull_at_what_is_made_and_not_at_what_is_real() -> None:
    real, made = judged(2.0), judged(1.0)
    for score, seen in (*real, *made):
        score.requires_grad_(True)
        seen[0].requires_grad_(True)
    generator_losses(real, made)[1].backward()
    assert real[0][1][0].grad is None and made[0][1][0].grad is not None


def test_judges_learn_to_tell_two_sounds_apart() -> None:
    torch.manual_seed(0)
    judges = Discriminators()
    optimiser = torch.optim.Adam(judges.parameters(), 2e-3)
    time = torch.arange(4800) / SAMPLE_RATE
    real, made = 0.1 * torch.sin(2 * math.pi * 200 * time)[None], noise(-23)[:, :4800]
    figures = []
    for _ in range(8):
        optimiser.zero_grad()
        value = discriminator_loss(judges(real), judges(made))
        value.backward()
        optimiser.step()
        figures.append(float(value.detach()))
    assert figures[-1] < 0.7 * figures[0]
    assert all(parameter.grad is not None for parameter in judges.parameters())
