"""Rows of whole prompts on their way into attention: norms and rotation, keys and values into their slots.

Knows products of rows [lines * width, (heads + 2 kv_heads) * head_dim] and one layer's keys and values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.qwen3.torch.kernels import has_triton, require, runs_on
from rhapsode.qwen3.torch.kernels.attention import Heads
from rhapsode.qwen3.torch.transformer import normalise, rotate

if has_triton():
    import triton
    import triton.language as tl

    from rhapsode.qwen3.torch.kernels.attention import _turned

    @triton.jit
    def _keep(
        qkv, norm_q, norm_k, cos, sin, slots, keys, values, query, width, start, lane_stride, head_stride, eps,
        HEADS: tl.constexpr, HEADS_UP: tl.constexpr, KV: tl.constexpr, KV_UP: tl.constexpr, HALF: tl.constexpr,
    ):  # fmt: skip
        line, at = tl.program_id(0) // width, tl.program_id(0) % width
        dim: tl.constexpr = 2 * HALF
        half, whole = tl.arange(0, HALF), tl.arange(0, dim)
        base = qkv + tl.program_id(0).to(tl.int64) * ((HEADS + 2 * KV) * dim)
        place = start + at
        c = tl.load(cos + place * HALF + half)[None, :].to(tl.float32)
        s = tl.load(sin + place * HALF + half)[None, :].to(tl.float32)
        head = tl.arange(0, HEADS_UP)[:, None]
        first = tl.load(base + head * dim + half[None, :], mask=head < HEADS, other=0.0).to(tl.float32)
        second = tl.load(base + head * dim + HALF + half[None, :], mask=head < HEADS, other=0.0).to(tl.float32)
        first, second = _turned(first, second, norm_q, half, c, s, eps, HALF)
        to = query + ((line.to(tl.int64) * HEADS + head) * width + at) * dim + half[None, :]
        tl.store(to, first.to(query.dtype.element_ty), mask=head < HEADS)
        tl.store(to + HALF, second.to(query.dtype.element_ty), mask=head < HEADS)
        head = tl.arange(0, KV_UP)[:, None]
        base += HEADS * dim
        first = tl.load(base + head * dim + half[None, :], mask=head < KV, other=0.0).to(tl.float32)
        second = tl.load(base + head * dim + HALF + half[None, :], mask=head < KV, other=0.0).to(tl.float32)
        first, second = _turned(first, second, norm_k, half, c, s, eps, HALF)
        to = tl.load(slots + line).to(tl.int64) * lane_stride + head * head_stride + place * dim
        tl.store(keys + to + half[None, :], first.to(keys.dtype.element_ty), mask=head < KV)
        tl.store(keys + to + HALF + half[None, :], second.to(keys.dtype.element_ty), mask=head < KV)
        value = tl.load(base + (KV + head) * dim + whole[None, :], mask=head < KV, other=0.0)
        tl.store(values + to + whole[None, :], value.to(values.dtype.element_ty), mask=head < KV)


def keep_rows(
    qkv: Tensor,
    norms: tuple[Tensor, Tensor],
    turn: tuple[Tensor, Tensor],
    slots: Tensor,
    start: int,
    keys: Tensor,
    values: Tensor,
    heads: Heads,
) -> Tensor:
    """Keys and values of new rows into some slots at positions from `start` on; the queries come back.

    qkv [lines * width, heads.width], norms, turn, keys and values as in `attention.attend_rows`, slots int [lines]
    -> queries [lines, heads, width, head_dim]. Raises `ValueError` for other sizes, and for rows beyond the keys.
    """
    lines, length = len(slots), keys.shape[2]
    if not lines or len(qkv) % lines or start + len(qkv) // lines > min(length, len(turn[0]), len(turn[1])):
        raise ValueError(f"{len(qkv)} rows of {lines} lines from {start} on do not fit {length} positions")
    width, half = len(qkv) // lines, heads.head_dim // 2
    require("qkv", qkv, (lines * width, heads.width))
    require("keys", keys, (None, heads.kv_heads, length, heads.head_dim))
    require("values", values, tuple(keys.shape), keys.dtype)
    for name, norm, one in (("queries", norms[0], turn[0]), ("keys", norms[1], turn[1])):
        require(f"norm of {name}", norm, (heads.head_dim,))
        require("cosine or sine", one, (None, half))
    if not runs_on(qkv.device):
        return keep_rows_plain(qkv, norms, turn, slots, start, keys, values, heads)
    if not (qkv.is_contiguous() and keys[0].is_contiguous() and keys.stride() == values.stride()):
        raise ValueError("products, keys and values must lie one after the other")
    query = qkv.new_empty(lines, heads.heads, width, heads.head_dim)
    if width:
        _keep[(lines * width,)](
            qkv, *norms, *turn, slots, keys, values, query, width, start, keys.stride(0), keys.stride(1), heads.eps,
            HEADS=heads.heads, HEADS_UP=triton.next_power_of_2(heads.heads), KV=heads.kv_heads,
            KV_UP=triton.next_power_of_2(heads.kv_heads), HALF=half,
        )  # fmt: skip
    return query


def keep_rows_plain(
    qkv: Tensor,
    norms: tuple[Tensor, Tensor],
    turn: tuple[Tensor, Tensor],
    slots: Tensor,
    start: int,
    keys: Tensor,
    values: Tensor,
    heads: Heads,
) -> Tensor:
    """The twin of `keep_rows`."""
    lines = len(slots)
    width = len(qkv) // lines
    split = (heads.heads, heads.kv_heads, heads.kv_heads)
    query, key, value = qkv.view(lines, width, -1, heads.head_dim).transpose(1, 2).split(split, dim=1)
    cos, sin = (one[start : start + width] for one in turn)
    keys[slots, :, start : start + width] = rotate(normalise(key, norms[1], heads.eps), cos, sin).to(keys.dtype)
    values[slots, :, start : start + width] = value.to(values.dtype)
    return torch.clone(rotate(normalise(query, norms[0], heads.eps), cos, sin), memory_format=torch.contiguous_format)
