"""Uniform numbers of (seed words, counter) in one launch: the arithmetic of `sampling.uniforms` in 32-bit words."""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.qwen3.torch import sampling
from rhapsode.qwen3.torch.kernels import has_triton, require, runs_on

BLOCK = 256

if has_triton():
    import triton
    import triton.language as tl

    @triton.jit
    def _mixed(x, FIRST: tl.constexpr, SECOND: tl.constexpr):
        x = x ^ (x >> 16)
        x = x * FIRST
        x = x ^ (x >> 15)
        x = x * SECOND
        return x ^ (x >> 16)

    @triton.jit
    def _uniforms(seeds, counters, out, count, columns, BLOCK: tl.constexpr):
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = place < count
        row = place // columns
        one = tl.load(seeds + 2 * row, mask=inside, other=0).to(tl.uint32)
        two = tl.load(seeds + 2 * row + 1, mask=inside, other=0).to(tl.uint32)
        counter = tl.load(counters + place, mask=inside, other=0).to(tl.uint32)
        golden = tl.full((BLOCK,), 0x9E3779B1, tl.uint32)
        x = _mixed(counter * golden + one, 0x7FEB352D, 0x846CA68B) ^ two
        x = _mixed(x + tl.full((BLOCK,), 0x9E3779B9, tl.uint32), 0x21F0AAAD, 0x735A2D97)
        tl.store(out + place, (x >> 8).to(tl.float32) * (1.0 / 16777216.0), mask=inside)


def uniforms(seeds: Tensor, counters: Tensor) -> Tensor:
    """As `sampling.uniforms`, to the bit: seed words int64 [n, 2] and counters int64 [n, m] -> float32 [n, m]."""
    if not runs_on(seeds.device):
        return sampling.uniforms(seeds, counters)
    rows, columns = counters.shape
    require("seeds", seeds, (rows, 2), torch.int64)
    require("counters", counters, (rows, columns), torch.int64)
    if not (seeds.is_contiguous() and counters.is_contiguous()):
        raise ValueError("seeds and counters must lie one row after the other")
    out = torch.empty(rows, columns, dtype=torch.float32, device=seeds.device)
    if out.numel():
        grid = (triton.cdiv(out.numel(), BLOCK),)
        _uniforms[grid](seeds, counters, out, out.numel(), columns, BLOCK=BLOCK)
    return out
