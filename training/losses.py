"""How far a waveform is from another, as ears weigh it; and the discriminators that learn to tell them apart.

Knows waveforms [rows, samples] at 24 kHz, float32. Knows no codec.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.layout import SAMPLE_RATE

_SCALES = ((256, 64, 24), (512, 128, 48), (1024, 256, 96), (2048, 512, 128))  # window, hop, mel bands
_HIGHEST = 11_800.0
# Magnitudes below this share of the window's length count as silence. Without a floor the logarithm of a pause pulls
# harder than speech does: gradients grew a thousandfold, and words suffered for the sake of how quiet a pause is.
_FLOOR = 4e-5
_WINDOW, HOP, BANDS = 1024, SAMPLE_RATE // 100, 80
_QUIET = 1e-2


def mel_filters(window: int, bands: int) -> Tensor:
    """Triangular filters [bands, window / 2 + 1], evenly spaced on the mel scale of 2595 log10(1 + f / 700)."""
    highest = 2595 * math.log10(1 + _HIGHEST / 700)
    corners = 700 * (10 ** (torch.linspace(0, highest, bands + 2, dtype=torch.float64) / 2595) - 1)
    bins = torch.linspace(0, SAMPLE_RATE / 2, window // 2 + 1, dtype=torch.float64)
    rise = (bins - corners[:-2, None]) / (corners[1:-1] - corners[:-2])[:, None]
    fall = (corners[2:, None] - bins) / (corners[2:] - corners[1:-1])[:, None]
    return torch.minimum(rise, fall).clamp(min=0).float()


class LogMel(nn.Module):
    """Log mel bands of every 10 ms, the middle of a window being the middle of its hop."""

    window: Tensor
    mel: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(_WINDOW), persistent=False)
        self.register_buffer("mel", mel_filters(_WINDOW, BANDS), persistent=False)

    def forward(self, wave: Tensor) -> Tensor:
        """A waveform of whole hops [rows, samples] -> [rows, BANDS, samples / HOP], float32."""
        with torch.autocast(wave.device.type, enabled=False):
            padded = F.pad(wave.float(), ((_WINDOW - HOP) // 2, (_WINDOW - HOP) // 2))
            spectrum = torch.stft(padded, _WINDOW, HOP, _WINDOW, self.window, center=False, return_complex=True)
            power = (spectrum.real.square() + spectrum.imag.square() + 1e-9).sqrt()
            return (self.mel @ power + _QUIET).log()


class SpectralLoss(nn.Module):
    """How log magnitudes differ, in mel bands and in single bins, and how magnitudes do, at four resolutions."""

    mel_2: Tensor
    width_2: Tensor

    def __init__(self) -> None:
        super().__init__()
        for i, (window, _, bands) in enumerate(_SCALES):
            self.register_buffer(f"window_{i}", torch.hann_window(window), persistent=False)
            mel = mel_filters(window, bands)
            self.register_buffer(f"mel_{i}", mel, persistent=False)
            # A band sums its bins, and so their floors; some narrow ones lie between two bins and have none.
            self.register_buffer(f"width_{i}", mel.sum(1, keepdim=True).clamp(min=1), persistent=False)

    def magnitude(self, wave: Tensor, scale: int) -> Tensor:
        """Waveforms [rows, samples] -> magnitudes [rows, window / 2 + 1, frames], never quite zero."""
        window, hop, _ = _SCALES[scale]
        shape = getattr(self, f"window_{scale}")
        spectrum = torch.stft(wave, window, hop, window, shape, pad_mode="constant", return_complex=True)
        return (spectrum.real.square() + spectrum.imag.square() + 1e-9).sqrt()

    def forward(self, made: Tensor, wanted: Tensor) -> Tensor:
        total = made.new_zeros(())
        for scale in range(len(_SCALES)):
            a, b = self.magnitude(made, scale), self.magnitude(wanted, scale)
            floor, mel = _FLOOR * _SCALES[scale][0], getattr(self, f"mel_{scale}")
            quiet = floor * getattr(self, f"width_{scale}")
            total = total + F.l1_loss((mel @ a + quiet).log(), (mel @ b + quiet).log())
            total = total + 0.3 * F.l1_loss((a + floor).log(), (b + floor).log())
            # Logarithms are content with the median, which is too quiet.
            total = total + 0.3 * (a - b).norm() / (b.norm() + floor)
        return total / len(_SCALES)

    @torch.no_grad()
    def mel_distance(self, made: Tensor, wanted: Tensor) -> Tensor:
        """Mean difference of log mel magnitudes at one resolution: the figure that stages report."""
        mel = self.mel_2
        floor = _FLOOR * _SCALES[2][0]
        quiet = floor * self.width_2
        a, b = mel @ self.magnitude(made, 2) + quiet, mel @ self.magnitude(wanted, 2) + quiet
        return F.l1_loss(a.log(), b.log())


class SpectrumDiscriminator(nn.Module):
    """Real or made, judged on the complex spectrum at one resolution, magnitudes compressed."""

    window: Tensor

    def __init__(self, window: int, width: int = 24) -> None:
        super().__init__()
        self.size, self.hop = window, window // 4
        self.register_buffer("window", torch.hann_window(window), persistent=False)
        norm = nn.utils.parametrizations.weight_norm
        self.layers = nn.ModuleList([norm(nn.Conv2d(2, width, (3, 9), padding=(1, 4)))])
        for dilation in (1, 2, 4):
            self.layers.append(
                norm(nn.Conv2d(width, width, (3, 9), stride=(1, 2), dilation=(dilation, 1), padding=(dilation, 4)))
            )
        self.layers.append(norm(nn.Conv2d(width, width, (3, 3), padding=1)))
        self.last = norm(nn.Conv2d(width, 1, (3, 3), padding=1))

    def forward(self, wave: Tensor) -> tuple[Tensor, list[Tensor]]:
        """A waveform [rows, samples] -> scores, and what the layers saw."""
        with torch.autocast(wave.device.type, enabled=False):
            spectrum = torch.stft(
                wave.float(), self.size, self.hop, self.size, self.window, pad_mode="constant", return_complex=True
            )
            power = spectrum.real.square() + spectrum.imag.square() + 1e-4
            x = torch.stack((spectrum.real, spectrum.imag), 1) * power.pow(-0.35).unsqueeze(1)
        x = x.transpose(2, 3).contiguous(memory_format=torch.channels_last)
        seen = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.2)
            seen.append(x)
        return self.last(x), seen


class PeriodDiscriminator(nn.Module):
    """Real or made, judged on the waveform folded by a period: hears pitch and its phase."""

    def __init__(self, period: int, width: int = 16) -> None:
        super().__init__()
        self.period = period
        norm = nn.utils.parametrizations.weight_norm
        widths = (1, width, 2 * width, 4 * width, 8 * width)
        self.layers = nn.ModuleList(
            norm(nn.Conv2d(a, b, (5, 1), stride=(3, 1), padding=(2, 0)))
            for a, b in zip(widths, widths[1:], strict=False)
        )
        self.layers.append(norm(nn.Conv2d(widths[-1], widths[-1], (5, 1), padding=(2, 0))))
        self.last = norm(nn.Conv2d(widths[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, wave: Tensor) -> tuple[Tensor, list[Tensor]]:
        rows, samples = wave.shape
        x = wave[:, : samples - samples % self.period].view(rows, 1, -1, self.period)
        x = x.contiguous(memory_format=torch.channels_last)
        seen = []
        for layer in self.layers:
            x = F.leaky_relu(layer(x), 0.2)
            seen.append(x)
        return self.last(x), seen


class Discriminators(nn.ModuleList):
    def __init__(self) -> None:
        super().__init__(
            [
                *(SpectrumDiscriminator(window) for window in (2048, 1024, 512)),
                *(PeriodDiscriminator(period) for period in (2, 3, 5, 7)),
            ]
        )

    def forward(self, wave: Tensor) -> list[tuple[Tensor, list[Tensor]]]:
        return [judge(wave) for judge in self]


def discriminator_loss(real: list[tuple[Tensor, list[Tensor]]], made: list[tuple[Tensor, list[Tensor]]]) -> Tensor:
    """Hinge loss: real above 1, made below -1."""
    terms = [
        F.relu(1 - a.float()).mean() + F.relu(1 + b.float()).mean() for (a, _), (b, _) in zip(real, made, strict=True)
    ]
    return torch.stack(terms).mean()


def generator_losses(
    real: list[tuple[Tensor, list[Tensor]]], made: list[tuple[Tensor, list[Tensor]]]
) -> tuple[Tensor, Tensor]:
    """(adversarial loss, difference of what the layers saw relative to its size)."""
    adversarial = torch.stack([-b.float().mean() for b, _ in made]).mean()
    features = []
    for (_, wanted), (_, got) in zip(real, made, strict=True):
        for a, b in zip(wanted, got, strict=True):
            a, b = a.detach().float(), b.float()
            features.append((a - b).abs().mean() / (a.abs().mean() + 1e-3))
    return adversarial, torch.stack(features).mean()
