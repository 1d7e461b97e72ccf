"""A small recogniser of phonemes that learns beside the codec, so that speech is given back as it is understood.

Knows waveforms [rows, samples] and the label of every 20 ms. It learns from real speech alone; what comes out of the
decoder is to look the same to it, layer by layer. Spectra say how sound differs, this says whether it matters.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.losses import BANDS, LogMel


class Listener(nn.Module):
    """Convolutions over log mel bands of 10 ms, the first of which halves the rate."""

    def __init__(self, labels: int, width: int = 192, layers: int = 5) -> None:
        super().__init__()
        self.spectrum = LogMel()
        self.first = nn.Conv1d(BANDS, width, 5, padding=2)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 5, stride=1 + (i == 0), padding=2) for i in range(layers))
        self.norms = nn.ModuleList(nn.GroupNorm(1, width) for _ in range(layers))
        self.last = nn.Conv1d(width, labels, 1)

    def forward(self, wave: Tensor) -> tuple[Tensor, list[Tensor]]:
        """A waveform of whole frames -> logits [rows, labels, slots], and what the layers saw."""
        x = F.gelu(self.first(self.spectrum(wave)))
        seen = []
        for i, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            step = F.gelu(norm(layer(x)))
            x = step if i == 0 else x + step
            seen.append(x)
        return self.last(x), seen


def recognition_loss(listener: Listener, wave: Tensor, labels: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
    """What the listener learns by: real speech, labels [rows, frames, SLOTS] -> loss, what it saw, share right."""
    logits, seen = listener(wave)
    wanted = labels.flatten(1)
    with torch.no_grad():
        right = (logits.argmax(1) == wanted).float().mean()
    return F.cross_entropy(logits.float(), wanted), seen, right


def hearing_loss(listener: Listener, made: Tensor, labels: Tensor, wanted: list[Tensor]) -> Tensor:
    """What the codec learns by: how differently the listener sees speech that was made, and what it mistakes it for."""
    logits, seen = listener(made)
    apart = torch.stack(
        [(a.float() - b.detach().float()).abs().mean() / (b.detach().float().abs().mean() + 1e-3)
         for a, b in zip(seen, wanted, strict=True)]
    )  # fmt: skip
    return apart.mean() + 0.3 * F.cross_entropy(logits.float(), labels.flatten(1))
