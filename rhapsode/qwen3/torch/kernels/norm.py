"""RMSNorm of rows, with what is added to them before: residual streams go through memory once.

Knows rows. The sum is rounded to the type of the rows before it is normed, as two separate steps would do.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.qwen3.torch.kernels import has_triton, require, runs_on
from rhapsode.qwen3.torch.transformer import normalise

if has_triton():
    import triton
    import triton.language as tl

    @triton.jit
    def _add_norm(x, more, weight, out, width, eps, MORE: tl.constexpr, WIDTH: tl.constexpr):
        row = tl.program_id(0).to(tl.int64) * width
        place = tl.arange(0, WIDTH)
        inside = place < width
        wide = tl.load(x + row + place, mask=inside, other=0.0)
        if MORE:
            wide = (wide.to(tl.float32) + tl.load(more + row + place, mask=inside, other=0.0)).to(wide.dtype)
            tl.store(x + row + place, wide, mask=inside)
        wide = wide.to(tl.float32)
        normed = wide * tl.rsqrt(tl.sum(wide * wide, 0) / width + eps)
        normed = normed.to(out.dtype.element_ty).to(tl.float32) * tl.load(weight + place, mask=inside, other=0.0)
        tl.store(out + row + place, normed.to(out.dtype.element_ty), mask=inside)


def add_norm(x: Tensor, more: Tensor | None, weight: Tensor, eps: float) -> Tensor:
    """x [n, width] becomes x + more, where there is more; returns its norm times weight [width], of the type of x."""
    if not runs_on(x.device):
        return add_norm_plain(x, more, weight, eps)
    rows, width = x.shape
    require("weight", weight, (width,))
    require("x", x, (rows, width))
    if more is not None:
        require("more", more, (rows, width), x.dtype)
    if not x.is_contiguous() or (more is not None and not more.is_contiguous()):
        raise ValueError("rows that are normed must lie one after the other")
    out = torch.empty_like(x)
    if rows:
        up = triton.next_power_of_2(width)
        warps = min(8, max(1, up // 256))
        _add_norm[(rows,)](
            x, x if more is None else more, weight, out, width, eps, MORE=more is not None, WIDTH=up, num_warps=warps
        )
    return out


def add_norm_plain(x: Tensor, more: Tensor | None, weight: Tensor, eps: float) -> Tensor:
    """The twin of `add_norm`."""
    if more is not None:
        x += more
    return normalise(x, weight, eps)
