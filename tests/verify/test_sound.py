"""Levels that can be calculated by hand, clicks that were put there, and a resampler that keeps tones."""

from __future__ import annotations

import numpy as np
import pytest

from rhapsode.verify.sound import SILENCE_DB, count_clicks, measure, resample

RATE = 24_000


def tone(frequency: float, seconds: float = 1.0, size: float = 0.5, rate: int = RATE) -> np.ndarray:
    return size * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)


def voice(seconds: float = 1.0) -> np.ndarray:
    """Something like a vowel: pulses of 110 Hz through two resonances, with a slow change of loudness."""
    pulses = np.zeros(round(seconds * RATE))
    pulses[:: RATE // 110] = 1.0
    for frequency, width in ((600, 80), (1400, 120)):
        decay = np.exp(-np.pi * width * np.arange(1200) / RATE)
        pulses = np.convolve(pulses, decay * np.sin(2 * np.pi * frequency * np.arange(1200) / RATE))[: len(pulses)]
    loud = np.sin(np.linspace(0, np.pi, len(pulses)))
    return 0.4 * loud * pulses / np.abs(pulses).max()


def test_level_of_a_tone_between_pauses() -> None:
    pause = np.zeros(RATE)
    found = measure(np.concatenate((pause, tone(200), pause)), RATE)
    assert found.level_db == pytest.approx(20 * np.log10(0.5 / np.sqrt(2)), abs=0.05)
    assert found.peak == pytest.approx(0.5, abs=1e-3)
    assert found.seconds == 3


def test_offset() -> None:
    assert measure(tone(100) + 0.01, RATE).offset == pytest.approx(0.01, abs=1e-6)


@pytest.mark.parametrize("wave", [np.zeros(0), np.zeros(1), np.zeros(5000), np.full(5000, np.nan)])
def test_no_sound(wave: np.ndarray) -> None:
    found = measure(wave, RATE)
    assert (found.level_db, found.peak, found.offset, found.clicks) == (SILENCE_DB, 0, 0, 0)


def test_smooth_sound_has_no_clicks() -> None:
    assert count_clicks(voice(), RATE) == 0
    assert count_clicks(np.concatenate((np.zeros(4000), voice(), np.zeros(4000))), RATE) == 0
    assert count_clicks(0.2 * np.random.default_rng(5).standard_normal(RATE), RATE) == 0


@pytest.mark.parametrize("places", [(7000,), (5000, 12000, 19000)])
def test_samples_that_are_off_are_clicks(places: tuple[int, ...]) -> None:
    wave = voice()
    for place in places:
        wave[place] += 0.3
    assert count_clicks(wave, RATE) == len(places)


def test_a_seam_is_a_click() -> None:
    wave = voice()
    crest = int(np.abs(wave).argmax())
    assert count_clicks(np.concatenate((wave[: crest + 1], np.zeros(6000))), RATE) == 1


@pytest.mark.parametrize(
    ("from_rate", "to_rate"), [(24_000, 16_000), (22_050, 16_000), (44_100, 16_000), (8_000, 16_000)]
)
def test_resampling_keeps_a_tone_and_its_time(from_rate: int, to_rate: int) -> None:
    found = resample(tone(1000, rate=from_rate), from_rate, to_rate)
    wanted = tone(1000, rate=to_rate)
    assert len(found) == len(wanted)
    inner = slice(200, -200)
    assert np.abs(found - wanted)[inner].max() < 2e-4


def test_resampling_lets_nothing_through_above_the_new_limit() -> None:
    for frequency in (8400.0, 10_000.0, 11_900.0):
        assert np.abs(resample(tone(frequency), RATE, 16_000)[200:-200]).max() < 1e-3, frequency
    assert np.abs(resample(tone(7000.0), RATE, 16_000)[200:-200]).max() == pytest.approx(0.5, abs=2e-3)


@pytest.mark.parametrize("samples", [0, 1, 2, 3, 100, 1001])
def test_resampled_lengths(samples: int) -> None:
    assert len(resample(np.ones(samples, np.float32), 24_000, 16_000)) == -(-samples * 2 // 3)
