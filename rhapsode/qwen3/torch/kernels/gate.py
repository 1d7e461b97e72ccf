"""The gate of SwiGLU: silu(gate) * up, of products that lie side by side."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.qwen3.torch.kernels import has_triton, require, runs_on

BLOCK = 1024

if has_triton():
    import triton
    import triton.language as tl

    @triton.jit
    def _swiglu(both, out, width, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = place < width
        gate = tl.load(both + row * 2 * width + place, mask=inside, other=0.0)
        up = tl.load(both + row * 2 * width + width + place, mask=inside, other=0.0)
        wide = gate.to(tl.float32)
        opened = (wide / (1.0 + tl.exp(-wide))).to(gate.dtype).to(tl.float32)
        tl.store(out + row * width + place, (opened * up).to(gate.dtype), mask=inside)


def swiglu(both: Tensor) -> Tensor:
    """[n, 2 * width], gates before what they let through -> [n, width] of the same type."""
    if not runs_on(both.device):
        return swiglu_plain(both)
    require("both", both, (None, both.shape[-1] // 2 * 2))
    if not both.is_contiguous():
        raise ValueError("rows with gates must lie one after the other")
    return launch(both)


def launch(both: Tensor) -> Tensor:
    """The kernel, for what `swiglu` has looked at."""
    rows, width = both.shape[0], both.shape[-1] // 2
    out = both.new_empty(rows, width)
    if rows:
        block = min(BLOCK, triton.next_power_of_2(width))
        _swiglu[(rows, triton.cdiv(width, block))](both, out, width, BLOCK=block)
    return out


def swiglu_plain(both: Tensor) -> Tensor:
    """The twin of `swiglu`."""
    gate, up = both.chunk(2, -1)
    return torch.mul(F.silu(gate), up)
