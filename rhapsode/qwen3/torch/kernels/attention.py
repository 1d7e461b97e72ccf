"""One row or two of every lane through attention: norms and rotation of queries and keys, the new keys and values into
their place, and a look back over as many positions as the lane has written.

Knows products of rows [n, (heads + 2 kv_heads) * head_dim] and one layer's keys and values. No position that was not
written is read, so a lane may hold anything beyond.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rhapsode.qwen3.torch.kernels import has_triton, require, runs_on
from rhapsode.qwen3.torch.transformer import attend, normalise, rotate

LEAST = 16  # queries and positions that a product of the matrix units has at least
# Positions that are looked at at once, warps, and stages of loading: where there are few positions in all, and many.
FEW, MANY = (16, 1, 1), (64, 4, 2)
IDLE = 256  # programs that leave a large card half empty

if has_triton():
    import triton
    import triton.language as tl

    @triton.jit
    def _turned(first, second, weight, half, cos, sin, eps, HALF: tl.constexpr):
        """Both halves of some heads, float32 [heads, HALF], normed and rotated."""
        square = tl.sum(first * first, 1) + tl.sum(second * second, 1)
        scale = tl.rsqrt(square / (2 * HALF) + eps)[:, None]
        first = first * scale * tl.load(weight + half)[None, :].to(tl.float32)
        second = second * scale * tl.load(weight + HALF + half)[None, :].to(tl.float32)
        return first * cos - second * sin, second * cos + first * sin

    @triton.jit
    def _more(query, k, v, written, scale, top, weight, mixed):
        """What a block of positions adds to the highest score, the sum of weights, and what they mix."""
        score = tl.dot(query, k, input_precision="ieee") * scale
        score = tl.where(written[None, :], score, float("-inf"))
        high = tl.maximum(top, tl.max(score, 1))
        old, add = tl.exp(top - high), tl.exp(score - high[:, None])
        mixed = mixed * old[:, None] + tl.dot(add.to(v.dtype), v, input_precision="ieee")
        return high, weight * old + tl.sum(add, 1), mixed

    @triton.jit(do_not_specialize=["same"])
    def _attend(
        qkv, norm_q, norm_k, cos, sin, positions, lanes, keys, values, out,
        lane_stride, head_stride, kv_heads, same, eps, scale,
        GROUP: tl.constexpr, GROUP_UP: tl.constexpr, HALF: tl.constexpr, NEW: tl.constexpr, BLOCK: tl.constexpr,
        ABREAST: tl.constexpr,
    ):  # fmt: skip
        row, head = tl.program_id(0), tl.program_id(1)
        width: tl.constexpr = 2 * HALF
        half, whole, group = tl.arange(0, HALF), tl.arange(0, width), tl.arange(0, GROUP_UP)
        real = group[:, None] < GROUP
        dtype = keys.dtype.element_ty
        if ABREAST:  # few positions, the same for all: they are under way while queries and keys are made
            start = same
            here = row.to(tl.int64) * lane_stride + head * head_stride
            look = tl.arange(0, BLOCK)
            written = look < start
            k_old = tl.load(keys + here + look[None, :] * width + whole[:, None], mask=written[None, :], other=0.0)
            v_old = tl.load(values + here + look[:, None] * width + whole[None, :], mask=written[:, None], other=0.0)
        else:
            start = tl.load(positions + row).to(tl.int32)
            here = tl.load(lanes + row).to(tl.int64) * lane_stride + head * head_stride
        before_1, before_2 = tl.zeros((1, HALF), tl.float32), tl.zeros((1, HALF), tl.float32)
        before_value = tl.zeros((1, width), tl.float32)
        for new in tl.static_range(NEW):
            place = start + new
            base = qkv + (row * NEW + new).to(tl.int64) * (kv_heads * (GROUP + 2) * width)
            c = tl.load(cos + place * HALF + half)[None, :].to(tl.float32)
            s = tl.load(sin + place * HALF + half)[None, :].to(tl.float32)
            at = base + (head * GROUP + group)[:, None] * width + half[None, :]
            first = tl.load(at, mask=real, other=0.0).to(tl.float32)
            second = tl.load(at + HALF, mask=real, other=0.0).to(tl.float32)
            q_1, q_2 = _turned(first, second, norm_q, half, c, s, eps, HALF)
            q_1, q_2 = q_1.to(dtype), q_2.to(dtype)
            at_key = base + (kv_heads * GROUP + head) * width
            first = tl.load(at_key + half)[None, :].to(tl.float32)
            second = tl.load(at_key + HALF + half)[None, :].to(tl.float32)
            k_1, k_2 = _turned(first, second, norm_k, half, c, s, eps, HALF)
            k_1, k_2 = k_1.to(dtype), k_2.to(dtype)
            value = tl.load(at_key + kv_heads * width + whole)[None, :].to(dtype)
            spot = here + place * width
            tl.store(keys + spot + half[None, :], k_1)
            tl.store(keys + spot + HALF + half[None, :], k_2)
            tl.store(values + spot + whole[None, :], value)
            # What was just stored is not read back: another warp of this program may have stored it.
            k_1, k_2, value = k_1.to(tl.float32), k_2.to(tl.float32), value.to(tl.float32)
            top = tl.sum(q_1.to(tl.float32) * k_1 + q_2.to(tl.float32) * k_2, 1) * scale
            weight = tl.zeros((GROUP_UP,), tl.float32) + 1.0
            mixed = tl.zeros((GROUP_UP, width), tl.float32) + value
            if new == 1:
                beside = tl.sum(q_1.to(tl.float32) * before_1 + q_2.to(tl.float32) * before_2, 1) * scale
                both = tl.maximum(top, beside)
                own, other = tl.exp(top - both), tl.exp(beside - both)
                mixed = mixed * own[:, None] + before_value * other[:, None]
                weight, top = own + other, both
            query = tl.reshape(tl.permute(tl.join(q_1, q_2), (0, 2, 1)), (GROUP_UP, width))
            if ABREAST:
                if NEW == 1:
                    top, weight, mixed = _more(query, k_old, v_old, written, scale, top, weight, mixed)
            else:
                for begin in range(0, start, BLOCK):
                    look = begin + tl.arange(0, BLOCK)
                    written = look < start
                    at_look = here + look * width
                    k = tl.load(keys + at_look[None, :] + whole[:, None], mask=written[None, :], other=0.0)
                    v = tl.load(values + at_look[:, None] + whole[None, :], mask=written[:, None], other=0.0)
                    top, weight, mixed = _more(query, k, v, written, scale, top, weight, mixed)
            before_1, before_2, before_value = k_1, k_2, value
            at = out + (row * NEW + new).to(tl.int64) * (kv_heads * GROUP * width)
            at += (head * GROUP + group)[:, None] * width + whole[None, :]
            tl.store(at, (mixed / weight[:, None]).to(out.dtype.element_ty), mask=real)


@dataclass(frozen=True, slots=True)
class Heads:
    """How the rows of a product are cut, and how queries and keys are normed."""

    heads: int
    kv_heads: int
    head_dim: int
    eps: float

    @property
    def width(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.head_dim


def attend_rows(
    qkv: Tensor,
    norms: tuple[Tensor, Tensor],
    turn: tuple[Tensor, Tensor],
    positions: Tensor | int,
    lanes: Tensor | None,
    keys: Tensor,
    values: Tensor,
    heads: Heads,
    new: int = 1,
) -> Tensor:
    """New rows of some lanes, one after the other, against themselves and all that those lanes have written.

    qkv [n * new, heads.width], norms: weights of queries and keys [head_dim], turn: cosine and sine of every position
    [length, head_dim / 2], positions int [n]: of the first new row, lanes int [n]: which row of keys and values
    [lanes, kv_heads, length, head_dim], all different but for those that nobody looks at. Lanes abreast have one
    position for all, a number, and no list: they are the first n rows of keys and values.
    -> [n * new, heads * head_dim]. Raises `ValueError` for other sizes, and for more than two new rows.
    """
    rows = len(qkv) // new
    _require_rows(qkv, norms, turn, positions, lanes, keys, values, heads, new)
    if not runs_on(qkv.device):
        return attend_rows_plain(qkv, norms, turn, positions, lanes, keys, values, heads, new)
    length, group = keys.shape[2], heads.heads // heads.kv_heads
    abreast = isinstance(positions, int) and length <= FEW[0] and (new == 1 or positions == 0)
    if not abreast:
        positions, lanes = _listed(positions, lanes, rows, qkv.device)
    out = qkv.new_empty(rows * new, heads.heads * heads.head_dim)
    block, warps, stages = FEW if length <= 2 * LEAST else MANY
    if block == FEW[0] and (qkv.dtype is torch.float32 or rows * heads.kv_heads <= IDLE):
        warps = 4  # one has no registers for wide numbers, and few programs leave room on the card
    if rows:
        _attend[(rows, heads.kv_heads)](
            qkv, *norms, *turn, qkv if abreast else positions, qkv if abreast else lanes, keys, values, out,
            keys.stride(0), keys.stride(1), heads.kv_heads, positions if abreast else 0, heads.eps,
            heads.head_dim**-0.5, GROUP=group, GROUP_UP=max(LEAST, triton.next_power_of_2(group)),
            HALF=heads.head_dim // 2, NEW=new, BLOCK=block, ABREAST=abreast, num_warps=warps, num_stages=stages,
        )  # fmt: skip
    return out


def _require_rows(
    qkv: Tensor, norms: tuple[Tensor, Tensor], turn: tuple[Tensor, Tensor], positions: Tensor | int,
    lanes: Tensor | None, keys: Tensor, values: Tensor, heads: Heads, new: int,
) -> None:  # fmt: skip
    if new not in (1, 2):
        raise ValueError(f"one row or two of a lane can be new, not {new}")
    length, half = keys.shape[2], heads.head_dim // 2
    if half & (half - 1) or 2 * half < LEAST:
        raise ValueError(f"heads of {heads.head_dim} are not built; powers of two from {LEAST} on are")
    require("qkv", qkv, (len(qkv) // new * new, heads.width))
    require("keys", keys, (None, heads.kv_heads, length, heads.head_dim))
    require("values", values, tuple(keys.shape), keys.dtype)
    for name, one in (("cosine", turn[0]), ("sine", turn[1])):
        require(name, one, (None, half))
        if len(one) < length or not one.is_contiguous():
            raise ValueError(f"the {name} has {len(one)} positions, and the keys {length}")
    require("norm of queries", norms[0], (heads.head_dim,))
    require("norm of keys", norms[1], (heads.head_dim,))
    if isinstance(positions, int):
        if lanes is not None or len(qkv) // new > len(keys) or not 0 <= positions <= length - new:
            raise ValueError(
                f"{len(qkv) // new} lanes abreast at {positions} do not fit {len(keys)} of {length} positions"
            )
    else:
        require("positions", positions, (len(qkv) // new,))
        if lanes is None:
            raise ValueError("lanes with positions of their own are listed")
        require("lanes", lanes, (len(qkv) // new,))
    if not (qkv.is_contiguous() and keys[0].is_contiguous() and keys.stride() == values.stride()):
        raise ValueError("products, keys and values must lie one after the other")


def _listed(positions: Tensor | int, lanes: Tensor | None, rows: int, device: torch.device) -> tuple[Tensor, Tensor]:
    if isinstance(positions, int) or lanes is None:
        return torch.full((rows,), positions, device=device), torch.arange(rows, device=device)  # type: ignore[arg-type]
    return positions, lanes


def attend_rows_plain(
    qkv: Tensor,
    norms: tuple[Tensor, Tensor],
    turn: tuple[Tensor, Tensor],
    positions: Tensor | int,
    lanes: Tensor | None,
    keys: Tensor,
    values: Tensor,
    heads: Heads,
    new: int = 1,
) -> Tensor:
    """The twin of `attend_rows`; it looks at all positions, and takes away those that were not written."""
    rows, length = len(qkv) // new, keys.shape[2]
    at, lanes = _listed(positions, lanes, rows, qkv.device)
    split = (heads.heads, heads.kv_heads, heads.kv_heads)
    query, key, value = qkv.view(rows, new, -1, heads.head_dim).transpose(1, 2).split(split, dim=1)
    places = at.long().unsqueeze(1) + torch.arange(new, device=qkv.device)
    cos, sin = (one[places].unsqueeze(1) for one in turn)
    query = rotate(normalise(query, norms[0], heads.eps), cos, sin)
    key = rotate(normalise(key, norms[1], heads.eps), cos, sin)
    keys[lanes.unsqueeze(1), :, places] = key.transpose(1, 2).to(keys.dtype)
    values[lanes.unsqueeze(1), :, places] = value.transpose(1, 2).to(values.dtype)
    seen = torch.arange(length, device=qkv.device) <= places.unsqueeze(-1)  # [rows, new, length]
    mask = torch.zeros(seen.shape, dtype=qkv.dtype, device=qkv.device).masked_fill(~seen, float("-inf"))
    written = seen[:, -1].view(rows, 1, length, 1)
    old_keys, old_values = (one[lanes].masked_fill(~written, 0) for one in (keys, values))
    return attend(query, old_keys, old_values, mask.unsqueeze(1)).reshape(rows * new, -1)
