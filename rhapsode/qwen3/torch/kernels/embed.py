"""The embedding of a code that was just chosen: added to the sum of its frame, and as the predictor's next row.

Knows tables of one codebook.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.qwen3.torch.kernels import has_triton, require, runs_on

if has_triton():
    import triton
    import triton.language as tl

    @triton.jit
    def _embed(
        codes, table, deep, total, x, codes_stride, wide_width, deep_width, WIDE: tl.constexpr, DEEP: tl.constexpr
    ):
        row = tl.program_id(0).to(tl.int64)
        code = tl.load(codes + row * codes_stride)
        place = tl.arange(0, WIDE)
        inside = place < wide_width
        old = tl.load(total + row * wide_width + place, mask=inside, other=0.0)
        more = tl.load(table + code * wide_width + place, mask=inside, other=0.0)
        tl.store(total + row * wide_width + place, old + more.to(tl.float32), mask=inside)
        place = tl.arange(0, DEEP)
        inside = place < deep_width
        next_row = tl.load(deep + code * deep_width + place, mask=inside, other=0.0)
        tl.store(x + row * deep_width + place, next_row, mask=inside)


def embed(codes: Tensor, table: Tensor, deep: Tensor, total: Tensor) -> Tensor:
    """codes int64 [n]; total float32 [n, wide] grows by rows of table [codes, wide]; returns those of deep [n, deep].

    Raises `ValueError` for other sizes. A code beyond the tables is whoever chose it to answer for.
    """
    rows = len(codes)
    require("table", table, (None, total.shape[1]))
    require("deep", deep, (len(table), None), table.dtype)
    require("total", total, (rows, None), torch.float32)
    if not (table.is_contiguous() and deep.is_contiguous() and total.is_contiguous()):
        raise ValueError("tables and sums must lie one row after the other")
    if not runs_on(codes.device):
        return embed_plain(codes, table, deep, total)
    x = deep.new_empty(rows, deep.shape[1])
    if rows:
        wide, narrow = total.shape[1], deep.shape[1]
        _embed[(rows,)](
            codes, table, deep, total, x, codes.stride(0), wide, narrow,
            WIDE=triton.next_power_of_2(wide), DEEP=triton.next_power_of_2(narrow),
        )  # fmt: skip
    return x


def embed_plain(codes: Tensor, table: Tensor, deep: Tensor, total: Tensor) -> Tensor:
    """The twin of `embed`."""
    total += table[codes]
    return deep[codes]
