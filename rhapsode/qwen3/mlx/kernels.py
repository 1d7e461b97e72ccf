"""Kernels of our own for a GPU, written for Metal and, to be tried elsewhere, for CUDA. Each has a plain twin.

Knows the language of either. None is used but where `check.py` found it right and faster on the spot: what a kernel
declares and nobody supplies, or a size that it was not made for, fails in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

THREADS = 256
# One number for each thread. Channels lie side by side, so the channel of a number is the rest of its place.
_METAL = """
    uint place = thread_position_in_grid.x;
    if (place >= uint(count[0])) return;
    uint channel = place % uint(C);
    float wave = metal::precise::sin(x[place] * alpha[channel]);
    y[place] = x[place] + wave * wave * height[channel];
"""
_CUDA = """
    auto place = cooperative_groups::this_grid().thread_rank();
    if (place >= count[0]) return;
    auto channel = place % C;
    float wave = sinf(x[place] * alpha[channel]);
    y[place] = x[place] + wave * wave * height[channel];
"""


def snake(x: mx.array, alpha: mx.array, height: mx.array) -> mx.array:
    """SnakeBeta in one pass: x + sin(alpha x)^2 height, for float32 x [.., channels].

    Raises `RuntimeError` where there is no GPU that kernels are written for.
    """
    size = mx.array([x.size], mx.uint32)
    (found,) = _made()(
        inputs=[x, alpha, height, size],
        template=[("C", x.shape[-1])],
        grid=(-(-x.size // THREADS) * THREADS, 1, 1),
        threadgroup=(THREADS, 1, 1),
        output_shapes=[x.shape],
        output_dtypes=[x.dtype],
    )
    return found


_kernel: list[Any] = []


def _made() -> Callable[..., Any]:
    """The kernel in the language of this device, made once."""
    if not _kernel:
        metal = mx.metal.is_available()
        make, source = (mx.fast.metal_kernel, _METAL) if metal else (mx.fast.cuda_kernel, _CUDA)
        inputs = ["x", "alpha", "height", "count"]
        _kernel.append(make(name="rhapsode_snake", input_names=inputs, output_names=["y"], source=source))
    return _kernel[0]
