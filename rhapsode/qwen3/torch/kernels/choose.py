"""A code from a row of logits: temperature, the k likeliest, top-p and a draw, one program for each row.

Knows one row at a time. What it chooses is what `sampling.Draw` chooses, but for how sums round.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rhapsode.qwen3.torch.kernels import has_triton, require, runs_on
from rhapsode.qwen3.torch.sampling import Draw

MOST = 256  # candidates; a draw among more is made by the twin
WARPS = 4

if has_triton():
    import triton
    import triton.language as tl

    @triton.jit
    def _choose(
        logits, uniform, codes, trouble, uniform_stride, codes_stride, vocab, temperature, top_p, count,
        GREEDY: tl.constexpr, CUT: tl.constexpr, VOCAB: tl.constexpr, MOST: tl.constexpr, SHORT: tl.constexpr,
    ):  # fmt: skip
        row = tl.program_id(0).to(tl.int64)
        place = tl.arange(0, VOCAB)
        x = tl.load(logits + row * vocab + place, mask=place < vocab, other=float("-inf")).to(tl.float32)
        wrong = tl.sum(((x != x) | (x == float("inf"))).to(tl.int32), 0)
        tl.store(trouble + row, tl.load(trouble + row) + wrong)
        if GREEDY:
            code = tl.argmax(x, 0).to(tl.int64)
        else:
            # Bits of a float that are ordered as whole numbers, above the place: the smaller place wins a tie.
            bits = x.to(tl.int32, bitcast=True)
            ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
            last_place = VOCAB - 1 - place
            if SHORT:  # what is below the upper half of a float that was bfloat16 has room for the place
                best = tl.topk((ordered & -65536) | last_place, MOST)
                found = VOCAB - 1 - (best & 0xFFFF)
                bits = best & -65536
            else:
                best = tl.topk((ordered.to(tl.int64) << 32) | last_place.to(tl.int64), MOST)
                found = VOCAB - 1 - (best & 0xFFFFFFFF)
                bits = (best >> 32).to(tl.int32)
            rank = tl.arange(0, MOST)
            bits = tl.where(bits < 0, bits ^ (0x7FFF0000 if SHORT else 0x7FFFFFFF), bits)
            value = bits.to(tl.float32, bitcast=True) / temperature
            likely = tl.exp(value - tl.max(value, 0))
            likely = tl.where(rank < count, likely, 0.0)
            if CUT:
                share = likely / tl.sum(likely, 0)
                likely = tl.where(tl.cumsum(share, 0) - share < top_p, likely, 0.0)
            reached = tl.cumsum(likely, 0)
            aim = tl.load(uniform + row * uniform_stride) * tl.sum(likely, 0)
            chosen = tl.minimum(tl.sum((reached <= aim).to(tl.int32), 0), count - 1)
            # A sum that rounds otherwise than the last running one may leave nothing beyond: the last with any weight.
            last = tl.max(tl.where(likely > 0, rank, 0), 0)
            code = tl.sum(tl.where(rank == tl.minimum(chosen, last), found, 0), 0)
        tl.store(codes + row * codes_stride, tl.minimum(code, vocab - 1))


def can_choose(draw: object, vocab: int) -> bool:
    """Whether the kernel knows this way of choosing."""
    return isinstance(draw, Draw) and (draw.greedy or 0 < min(draw.top_k, vocab) <= MOST)


def choose(logits: Tensor, uniform: Tensor, draw: Draw, codes: Tensor, trouble: Tensor) -> None:
    """Logits [n, vocab] of any float type and uniform float32 [n] -> codes int64 [n].

    `trouble` int32 [n] grows by how many logits of a row are NaN or +inf. Raises `ValueError` for other sizes, and for
    a draw that `can_choose` refuses.
    """
    rows, vocab = logits.shape
    require("logits", logits, (rows, vocab))
    require("trouble", trouble, (rows,), torch.int32)
    for name, one, dtype in (("uniform", uniform, torch.float32), ("codes", codes, torch.int64)):
        if one.shape != (rows,) or one.dtype is not dtype:
            raise ValueError(f"{name} is {one.dtype} {list(one.shape)}, and a kernel wants {dtype} [{rows}]")
    if not logits.is_contiguous():
        raise ValueError("logits must lie one row after the other")
    if not can_choose(draw, vocab):
        raise ValueError(f"a kernel chooses among {MOST} codes at most")
    if not runs_on(logits.device):
        choose_plain(logits, uniform, draw, codes, trouble)
        return
    count = 1 if draw.greedy else min(draw.top_k, vocab)
    most = max(2, triton.next_power_of_2(count))
    up = max(triton.next_power_of_2(vocab), most)
    if rows:
        _choose[(rows,)](
            logits, uniform, codes, trouble, uniform.stride(0), codes.stride(0), vocab, draw.temperature, draw.top_p,
            count, GREEDY=draw.greedy, CUT=draw.top_p < 1.0, VOCAB=up, MOST=most,
            SHORT=logits.dtype is torch.bfloat16 and up <= 1 << 16, num_warps=WARPS,
        )  # fmt: skip


def choose_plain(logits: Tensor, uniform: Tensor, draw: Draw, codes: Tensor, trouble: Tensor) -> None:
    """The twin of `choose`."""
    wide = logits.float()
    trouble += (wide.isnan() | wide.isposinf()).sum(-1)
    codes.copy_(draw(wide, uniform))
