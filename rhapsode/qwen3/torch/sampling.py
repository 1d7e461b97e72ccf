"""Logits to codes: penalty, suppression, temperature, top-k, top-p, and a draw with counter-based numbers.

Knows logits and random words. The random number of a code is a function of (line's seed words, frame, codebook) alone,
in 32-bit arithmetic that any back end can do, so that a line sounds the same in any company.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

# Float32 logits [n, vocab] and uniform numbers [n] in [0, 1) -> codes [n].
Choice = Callable[[Tensor, Tensor], Tensor]
_WORD = 0xFFFFFFFF


def _mix(x: Tensor, first: int, second: int) -> Tensor:
    """A 32-bit finaliser (xor-shift and multiply, twice) on int64 that holds 32 bits."""
    x = x ^ (x >> 16)
    x = (x * first) & _WORD
    x = x ^ (x >> 15)
    x = (x * second) & _WORD
    return x ^ (x >> 16)


def uniforms(seeds: Tensor, counters: Tensor) -> Tensor:
    """Seed words [n, 2] and counters [n, m] (both 32 bits in int64) -> float32 [n, m] in [0, 1), 24 bits each."""
    x = (counters * 0x9E3779B1 + seeds[:, :1]) & _WORD
    x = _mix(x, 0x7FEB352D, 0x846CA68B) ^ seeds[:, 1:]
    x = _mix((x + 0x9E3779B9) & _WORD, 0x21F0AAAD, 0x735A2D97)
    return (x >> 8).float() * 2.0**-24


@dataclass(frozen=True, slots=True)
class Draw:
    """One way of choosing a code from logits."""

    greedy: bool
    temperature: float
    top_k: int
    top_p: float

    def candidates(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Float32 logits [n, vocab] -> logits after temperature, top-k and top-p, and their codes, likeliest first.

        Both [n, k]; what top-p cuts is -inf.
        """
        count = min(self.top_k or logits.shape[-1], logits.shape[-1])
        values, codes = (logits / self.temperature).topk(count, dim=-1)
        if self.top_p < 1.0:
            probability = values.softmax(-1)
            before = probability.cumsum(-1) - probability
            values = values.masked_fill(before >= self.top_p, float("-inf"))
        return values, codes

    def __call__(self, logits: Tensor, uniform: Tensor) -> Tensor:
        """Float32 logits [n, vocab], uniform [n] in [0, 1) -> codes [n]."""
        if self.greedy:
            return logits.argmax(-1)
        values, codes = self.candidates(logits)
        reached = values.softmax(-1).cumsum(-1)
        # The last sum may round below 1; a draw beyond it takes the last candidate that has any weight.
        place = (reached <= (uniform * reached[:, -1]).unsqueeze(-1)).sum(-1, keepdim=True)
        return codes.gather(1, place.clamp(max=codes.shape[1] - 1)).squeeze(1)


def penalise(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Make codes that a line has used less likely: logits [n, vocab], seen bool [n, vocab]."""
    if penalty == 1.0:
        return logits
    return torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)
