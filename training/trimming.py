"""From a teacher's wave to utterances of one level: silence cut, rumble removed, ends faded, durations kept true.

Knows samples at 24 kHz and where each id ends in them. Knows nothing of any teacher. Decisions are made on the host
from statistics of 10 ms frames, copied in one go, so that an accelerator is waited for once per batch.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F

from training.layout import SAMPLE_RATE as RATE

STEP = RATE // 100  # 10 ms: in which level and silence are measured
LEVEL = 0.08  # root mean square over the active parts
PEAK = 0.95
ACTIVE = 10 ** (-30 / 10)  # of the energy of the loudest 50 ms
QUIET = 10 ** (-40 / 10)  # below this share of it, 10 ms count as silence
FADE = RATE // 200
LEAD = round(0.12 * RATE)
TRAIL = round(0.25 * RATE)


@dataclass(frozen=True)
class Spoken:
    """One utterance.

    samples: float32 [n] at 24 kHz, on the device of the teacher.
    durations: int64 [ids], samples per id; they sum to n.
    """

    samples: torch.Tensor
    durations: np.ndarray


@lru_cache
def _phases(up: int, down: int, half: int, device: torch.device) -> torch.Tensor:
    """[up, 1, down + 2 half]: for each output phase a windowed sinc at its place between the inputs."""
    at = torch.arange(up, dtype=torch.float64)[:, None] * down / up
    taps = torch.arange(down + 2 * half, dtype=torch.float64)[None] - half
    distance = taps - at
    cutoff = 0.95  # of the lower rate's half: leaves room for the slope of the window
    window = torch.special.i0(9.0 * (1 - (distance / half) ** 2).clamp(min=0).sqrt()) / torch.special.i0(
        torch.tensor(9.0, dtype=torch.float64)
    )
    kernel = torch.where(distance.abs() < half, cutoff * torch.sinc(cutoff * distance) * window, 0.0)
    return (kernel / kernel.sum(1, keepdim=True)).float()[:, None].to(device)


def resample(waves: torch.Tensor, up: int = 160, down: int = 147, half: int = 32) -> torch.Tensor:
    """waves [batch, n] -> [batch, ceil(n * up / down)]; by default from 22,050 Hz to 24 kHz."""
    count = waves.shape[-1]
    blocks = math.ceil(count / down)
    padded = F.pad(waves, (half, blocks * down - count + half))
    out = F.conv1d(padded[:, None], _phases(up, down, half, waves.device), stride=down)
    return out.transpose(1, 2).flatten(1)[:, : math.ceil(count * up / down)]


def without_rumble(waves: torch.Tensor) -> torch.Tensor:
    """waves [batch, n] less their mean over 80 ms, weighted as a triangle: what lies below 15 Hz is gone.

    A voice's wave leans to one side; with one mean for all of it, its pauses would be pushed to the other.
    """
    width = round(0.04 * RATE) | 1
    kernel = torch.ones(1, 1, width, device=waves.device) / width
    slow = waves.unsqueeze(1)
    for _ in range(2):
        slow = F.conv1d(F.pad(slow, (width // 2, width // 2), "replicate"), kernel)
    return waves - slow[:, 0]


def statistics(waves: torch.Tensor) -> np.ndarray:
    """waves [batch, n] -> [batch, frames, 4] on the host: sum, sum of squares, highest and lowest of each 10 ms."""
    frames = F.pad(waves, (0, -waves.shape[-1] % STEP)).unflatten(-1, (-1, STEP))
    parts = (frames.sum(-1), frames.square().sum(-1), frames.amax(-1), frames.amin(-1))
    return torch.stack(parts, -1).cpu().numpy().astype(np.float64)


def finish(wave: torch.Tensor, frames: np.ndarray, start: int, ends: np.ndarray) -> Spoken:
    """The utterance from sample `start` of `wave` [n] on, of which id i ends at sample `ends[i]` of the wave.

    frames: `statistics` of this wave, [frames, 4].
    """
    stop = int(ends[-1])
    first = start // STEP
    part = frames[first : max(first + 1, stop // STEP)]
    mean = part[:, 0].sum() / (len(part) * STEP)
    energy = np.maximum(part[:, 1] / STEP - mean * (2 * part[:, 0] / STEP - mean), 0)
    coarse = np.add.reduceat(energy, np.arange(0, len(energy), 5)) / 5
    loudest = coarse.max()
    gain = LEVEL / math.sqrt(coarse[coarse >= loudest * ACTIVE].mean() + 1e-12)
    peak = max(part[:, 2].max() - mean, mean - part[:, 3].min(), 1e-6)
    gain = min(gain, PEAK / peak)
    heard = np.flatnonzero(energy > loudest * QUIET)
    begin, end = start, stop
    if len(heard):
        begin = max(start, (first + int(heard[0])) * STEP - LEAD)
        end = min(stop, (first + int(heard[-1]) + 1) * STEP + TRAIL)
    samples = ((wave[begin:end] - mean) * gain).clamp_(-PEAK, PEAK)
    fade = min(FADE, (end - begin) // 2)
    if fade:
        ramp = (torch.arange(fade, device=wave.device) + 0.5) / fade
        samples[:fade] *= ramp
        samples[-fade:] *= ramp.flip(0)
    return Spoken(samples, np.diff(np.clip(ends, begin, end), prepend=begin))
