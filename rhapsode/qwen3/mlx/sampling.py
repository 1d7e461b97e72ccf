"""Logits to codes on MLX: penalty, temperature, top-k, top-p, and a draw with counter-based numbers.

Knows logits and random words; the same definitions as on PyTorch, in 32-bit arithmetic that wraps by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx

from rhapsode.qwen3.mlx import library

# Float32 logits [n, vocab] and uniform numbers [n] in [0, 1) -> codes int32 [n].
Choice = Callable[[mx.array, mx.array], mx.array]


def _word(value: int) -> mx.array:
    return mx.array(value, mx.uint32)


def _mix(x: mx.array, first: int, second: int) -> mx.array:
    """A 32-bit finaliser: xor-shift and multiply, twice."""
    x = x ^ (x >> _word(16))
    x = x * _word(first)
    x = x ^ (x >> _word(15))
    x = x * _word(second)
    return x ^ (x >> _word(16))


def uniforms(seeds: mx.array, counters: mx.array) -> mx.array:
    """Seed words uint32 [n, 2] and counters uint32 [n, m] -> float32 [n, m] in [0, 1), 24 bits each."""
    x = counters * _word(0x9E3779B1) + seeds[:, :1]
    x = _mix(x, 0x7FEB352D, 0x846CA68B) ^ seeds[:, 1:]
    x = _mix(x + _word(0x9E3779B9), 0x21F0AAAD, 0x735A2D97)
    return (x >> _word(8)).astype(mx.float32) * 2.0**-24


@dataclass(frozen=True, slots=True)
class Draw:
    """One way of choosing a code from logits."""

    greedy: bool
    temperature: float
    top_k: int
    top_p: float

    def candidates(self, logits: mx.array) -> tuple[mx.array, mx.array]:
        """Float32 logits [n, vocab] -> logits after temperature, top-k and top-p, and codes, likeliest first."""
        count = min(self.top_k or logits.shape[-1], logits.shape[-1])
        scaled = logits / self.temperature
        codes = library.order(scaled)[:, :count]
        values = mx.take_along_axis(scaled, codes, axis=-1)
        if self.top_p < 1.0:
            probability = library.softmax(values)
            before = library.running_sum(probability) - probability
            values = mx.where(before >= self.top_p, -mx.inf, values)
        return values, codes

    def __call__(self, logits: mx.array, uniform: mx.array) -> mx.array:
        """Float32 logits [n, vocab], uniform [n] in [0, 1) -> codes int32 [n]."""
        if self.greedy:
            return library.largest(logits).astype(mx.int32)
        values, codes = self.candidates(logits)
        reached = library.running_sum(library.softmax(values))
        # The last sum may round below 1; a draw beyond it takes the last candidate that has any weight.
        place = (reached <= (uniform * reached[:, -1])[:, None]).sum(-1, keepdims=True)
        place = mx.minimum(place, codes.shape[1] - 1)
        return mx.take_along_axis(codes, place, axis=1)[:, 0].astype(mx.int32)


def penalise(logits: mx.array, seen: mx.array, penalty: float) -> mx.array:
    """Make codes that a line has used less likely: logits [n, vocab], seen bool [n, vocab]."""
    if penalty == 1.0:
        return logits
    return mx.where(seen, mx.where(logits < 0, logits * penalty, logits / penalty), logits)
