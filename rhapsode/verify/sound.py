"""What can be measured of a sound without understanding it: level, offset, peak, clicks; and its resampling.

Knows samples, float [samples] with full scale 1. Knows no text and no file.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

SILENCE_DB = -120.0  # what is reported of a sound that has none
_FRAME_S = 0.02
_ACTIVE_DB = 30.0  # frames so far below the loudest are pauses
_CLICK_NEAR_S, _CLICK_GAP_S = 0.012, 0.001
_CLICK_TIMES, _CLICK_LEAST = 5.0, 0.01
_ORDER, _PREDICT_S = 20, 0.03
_TAPS = 32  # zero crossings of the sinc on either side
_PASS = 0.945  # of the lower Nyquist frequency: where the resampler is 6 dB down
_KAISER = 9.0  # 90 dB of stop band


@dataclass(frozen=True, slots=True)
class Sound:
    """`level_db`: RMS of what is no pause, full scale 0 dB; `offset`: the mean; `peak`: the largest sample."""

    seconds: float
    level_db: float
    offset: float
    peak: float
    clicks: int


def measure(wave: np.ndarray, sample_rate: int) -> Sound:
    """The figures of a sound; samples that are no numbers count as 0."""
    sound = np.nan_to_num(np.asarray(wave, np.float64), posinf=0.0, neginf=0.0)
    return Sound(
        seconds=len(sound) / sample_rate,
        level_db=active_level(sound, sample_rate),
        offset=float(sound.mean()) if len(sound) else 0.0,
        peak=float(np.abs(sound).max(initial=0.0)),
        clicks=count_clicks(sound, sample_rate),
    )


def active_level(wave: np.ndarray, sample_rate: int) -> float:
    """RMS in dB of the frames of 20 ms that are within 30 dB of the loudest; `SILENCE_DB` where there is no sound."""
    size = max(1, round(_FRAME_S * sample_rate))
    frames = wave[: len(wave) // size * size].reshape(-1, size) if len(wave) >= size else wave.reshape(1, -1)
    power = (frames**2).mean(axis=1) if frames.size else np.zeros(1)
    loudest = power.max(initial=0.0)
    if loudest <= 10 ** (SILENCE_DB / 10):
        return SILENCE_DB
    return float(10 * np.log10(power[power >= loudest * 10 ** (-_ACTIVE_DB / 10)].mean()))


def count_clicks(wave: np.ndarray, sample_rate: int) -> int:
    """Places where the sound jumps as it does nowhere near: a sample that is off, a seam between two pieces.

    What linear prediction does not expect there is over 0.01, and over five times as much as anywhere from 1 to 12 ms
    before and after. Places within 1 ms count once. The onset of a consonant is no click, for it goes on.
    """
    surprise = np.abs(unpredicted(wave, sample_rate))
    gap, near = max(1, round(_CLICK_GAP_S * sample_rate)), max(2, round(_CLICK_NEAR_S * sample_rate))
    clicks, last = 0, -near
    for at in np.flatnonzero(surprise > _CLICK_LEAST).tolist():
        before, after = surprise[max(0, at - near) : max(0, at - gap)], surprise[at + gap + 1 : at + near + 1]
        around = max(before.max(initial=0.0), after.max(initial=0.0))
        if surprise[at] > _CLICK_TIMES * around:
            clicks += at - last > gap
            last = at
    return clicks


def unpredicted(wave: np.ndarray, sample_rate: int) -> np.ndarray:
    """What is left of each sample when the 20 before it have told what they can: float [samples]."""
    size = max(_ORDER + 1, round(_PREDICT_S * sample_rate))
    count = -(-len(wave) // size)
    padded = np.zeros(_ORDER + count * size)
    padded[_ORDER : _ORDER + len(wave)] = wave
    out = np.empty((count, size))
    for frame in range(count):
        part = padded[frame * size : (frame + 1) * size + _ORDER]
        tapered = part * np.hanning(len(part))
        lags = np.array([tapered[: len(part) - lag] @ tapered[lag:] for lag in range(_ORDER + 1)])
        lags[0] += 1e-9 + 1e-9 * lags[0]  # silence has a solution too
        steps = np.arange(_ORDER)
        weights = np.linalg.solve(lags[np.abs(steps[:, None] - steps)], lags[1:])
        out[frame] = part[_ORDER:] - sliding_window_view(part[:-1], _ORDER)[:, ::-1] @ weights
    return out.reshape(-1)[: len(wave)]


def resample(wave: np.ndarray, from_rate: int, to_rate: int) -> np.ndarray:
    """float32 [samples] at `to_rate`: a Kaiser-windowed sinc, one set of taps for each phase of the ratio.

    The first sample keeps its time; the length is ceil(samples * to_rate / from_rate).
    """
    wave = np.asarray(wave, np.float32)
    if from_rate == to_rate or not len(wave):
        return wave
    common = gcd(from_rate, to_rate)
    up, down = to_rate // common, from_rate // common
    cutoff = _PASS * min(1.0, up / down)  # of the Nyquist frequency of the source
    half = int(np.ceil(_TAPS / cutoff))
    count = -(-len(wave) * up // down)
    last = (count - 1) * down // up
    padded = np.concatenate(
        (np.zeros(half, np.float32), wave, np.zeros(half + max(0, last - len(wave) + 1) + 1, np.float32))
    )
    windows = sliding_window_view(padded, 2 * half + 1)
    out = np.empty(count, np.float32)
    steps = np.arange(-half, half + 1)
    for phase in range(min(up, count)):
        first, fine = divmod(phase * down, up)
        at = steps - fine / up
        taps = cutoff * np.sinc(cutoff * at) * np.i0(_KAISER * np.sqrt(np.clip(1 - (at / (half + 1)) ** 2, 0, 1)))
        taps = (taps / taps.sum()).astype(np.float32)  # a constant stays what it is
        out[phase::up] = windows[first::down][: len(range(phase, count, up))] @ taps
    return out
