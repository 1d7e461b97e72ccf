"""The codec's layers as products of half-precision numbers: convolutions, upsamplings, and what follows them.

Knows how weights are packed for a product, what one step of the decoder computes, and its plain twin; the kernels that
do the same on a GPU are in `kernels/conv.py`. All is [rows, time, channels]. Knows no order of layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.qwen3.torch.codec import CausalConv, CausalUpsample, SnakeBeta
from rhapsode.qwen3.torch.kernels import require, runs_on

FUSED = (16, 32, 64, 96, 128, 192)  # channels whose unit is one kernel: with more, its sums take too many registers
HALF = torch.float16  # as many bits of mantissa as TF32, at twice its rate


@dataclass(frozen=True, slots=True)
class Product:
    """A causal convolution of `taps` steps, `dilation` apart. A weight is `scale` x (`high` + `low`)."""

    taps: int
    dilation: int
    high: Tensor  # [out, taps * into], float16
    low: Tensor | None  # what rounding took from `high`: for inputs of 32 bits, and None where it took nothing
    scale: Tensor  # [out], float32, powers of two: half precision has few numbers near zero
    bias: Tensor  # [out], float32
    split: bool  # takes float32, and computes as such; else float16

    @property
    def into(self) -> int:
        return self.high.shape[1] // self.taps

    @property
    def out(self) -> int:
        return len(self.high)

    @property
    def is_tiled(self) -> bool:
        """Whether what goes in is made of whole tiles, as the kernel wants it."""
        return self.into % 16 == 0

    @property
    def dtype(self) -> torch.dtype:
        """Of what goes in."""
        return torch.float32 if self.split else HALF


def pack(weight: Tensor, bias: Tensor | None, dilation: int, *, split: bool) -> Product:
    """A convolution's weight [out, into, taps] in float32, the last tap for the present, as a product."""
    out, _, taps = weight.shape
    rows = weight.transpose(1, 2).reshape(out, -1).float()
    largest = rows.abs().amax(1)
    scale = torch.exp2(torch.where(largest > 0, largest, 1.0).log2().ceil())
    rows = rows / scale.unsqueeze(1)
    high = rows.to(HALF)
    low = (rows - high).to(HALF) if split else None
    if low is not None and not low.any():
        low = None
    bias = torch.zeros_like(scale) if bias is None else bias.float().clone()
    return Product(taps, dilation, high.contiguous(), low, scale, bias, split)


def pack_conv(conv: CausalConv, *, split: bool) -> Product:
    assert conv.groups == 1
    return pack(conv.weight.detach(), conv.bias, conv.dilation[0], split=split)


def pack_upsample(upsample: CausalUpsample, *, split: bool) -> Product:
    """As a convolution whose channels are those of all the steps that it makes of one."""
    stride, out, into = upsample.stride, upsample.out, upsample.weight.shape[1]
    taps = upsample.weight.detach().view(-1, stride * out, into)  # the present one first
    return pack(taps.flip(0).permute(1, 2, 0), upsample.bias.detach().repeat(stride), 1, split=split)


def pack_linear(linear: nn.Linear, *, split: bool) -> Product:
    return pack(linear.weight.detach().unsqueeze(-1), linear.bias, 1, split=split)


@dataclass(frozen=True, slots=True)
class Sine:
    """SnakeBeta over channels: x + sin(pi * turn * x)^2 * height, both [channels] in float32."""

    turn: Tensor
    height: Tensor

    @staticmethod
    def of(snake: SnakeBeta, times: int = 1) -> Sine:
        """`times`: for channels that are those of so many steps."""
        height = 1.0 / (snake.beta.detach().float().exp() + 1e-9)
        return Sine((snake.alpha.detach().float().exp() / math.pi).repeat(times), height.repeat(times))


def convolve(
    x: Tensor, product: Product, *, stream: Tensor | None = None, keep: bool = False, sine: Sine | None = None,
    narrow: torch.dtype | None = None,
) -> tuple[Tensor | None, Tensor | None]:  # fmt: skip
    """x [rows, time, into] in the product's type -> (sum, what the next product takes), each [rows, time, out].

    The sum is what is convolved plus `stream`, in float32; with `keep` it is given back, in the place of `stream` if
    there is one. What the next product takes is the sum through `sine`, in the type `narrow`. What is not asked for is
    None. Raises `ValueError` for tensors that do not fit the product.
    """
    _check(x, product, sine, stream)
    if not keep and narrow is None:
        raise ValueError("nothing is asked for")
    if not (runs_on(x.device) and product.is_tiled) or x.numel() == 0:
        return _plainly(x, product, stream, keep, sine, narrow)
    from rhapsode.qwen3.torch.kernels import conv

    wide = _new(x, product.out, torch.float32) if keep and stream is None else stream if keep else None
    after = None if narrow is None else _new(x, product.out, narrow)
    conv.convolve(
        x, product.high, product.low, product.scale, product.bias, product.taps, product.dilation,
        None if sine is None else (sine.turn, sine.height), stream, wide, after,
    )  # fmt: skip
    return wide, after


def _check(x: Tensor, product: Product, sine: Sine | None, stream: Tensor | None) -> None:
    out = product.out
    require("x", x, (None, None, product.into), product.dtype)
    require("high", product.high, (out, product.into * product.taps), HALF)
    for name, vector in (("scale", product.scale), ("bias", product.bias)):
        require(name, vector, (out,), torch.float32)
    if sine is not None:
        require("turn", sine.turn, (out,), torch.float32)
        require("height", sine.height, (out,), torch.float32)
    if stream is not None:
        require("stream", stream, (x.shape[0], x.shape[1], out), torch.float32)
    if not x.is_contiguous() or not (stream is None or stream.is_contiguous()):
        raise ValueError("x and stream should be contiguous")


def _new(x: Tensor, channels: int, dtype: torch.dtype) -> Tensor:
    return torch.empty((*x.shape[:2], channels), dtype=dtype, device=x.device)


def _plainly(
    x: Tensor, product: Product, stream: Tensor | None, keep: bool, sine: Sine | None, narrow: torch.dtype | None
) -> tuple[Tensor | None, Tensor | None]:
    """The twin of the kernel: the same sums in float32."""
    weight = product.high.float() if product.low is None else product.high.float() + product.low.float()
    total = _taps(x.float(), weight.view(product.out, product.taps, -1).unbind(1), product.dilation)
    total = total * product.scale + product.bias
    if stream is not None:
        total = stream.add_(total) if keep else stream + total
    after = None
    if narrow is not None:
        wave = torch.zeros_like(total) if sine is None else (total * sine.turn * math.pi).sin().square() * sine.height
        after = (total + wave).to(narrow)
    return (total if keep else None), after


def _taps(x: Tensor, weights: Sequence[Tensor], dilation: int) -> Tensor:
    """The sum over taps, the last for the present, of x [rows, time, into] shifted by its weight [out, into]."""
    time, past = x.shape[1], (len(weights) - 1) * dilation
    padded = F.pad(x, (0, 0, past, 0))
    total = F.linear(padded[:, :time], weights[0])
    for tap, weight in enumerate(weights[1:], 1):
        total += F.linear(padded[:, tap * dilation : tap * dilation + time], weight)
    return total


def unit(
    x: Tensor, first: Product, between: Sine, second: Product, after: Sine, stream: Tensor, *, keep: bool,
    narrow: torch.dtype,
) -> tuple[Tensor | None, Tensor]:  # fmt: skip
    """Two products, the second of one tap, with a sine between and after them: `convolve` twice, or one kernel.

    x [rows, time, channels] -> (sum, what the next product takes) as `convolve` has them, with what goes in between in
    the type of the second product. Raises `ValueError` for tensors that do not fit.
    """
    channels = first.into
    halves = not (first.split or second.split) and narrow is HALF
    square = (first.out, second.into, second.out, second.taps) == (channels, channels, channels, 1)
    if not (halves and square and channels in FUSED and runs_on(x.device)) or x.numel() == 0:
        _, inner = convolve(x, first, sine=between, narrow=second.dtype)
        assert inner is not None
        total, last = convolve(inner, second, stream=stream, keep=keep, sine=after, narrow=narrow)
        assert last is not None
        return total, last
    from rhapsode.qwen3.torch.kernels import conv

    _check(x, first, between, None)
    _check(x, second, after, stream)
    last = _new(x, channels, narrow)
    conv.unit(
        x, (first.high, first.scale, first.bias), first.taps, first.dilation, (between.turn, between.height),
        (second.high, second.scale, second.bias), (after.turn, after.height), stream, keep, last,
    )  # fmt: skip
    return (stream if keep else None), last


def to_one(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A causal convolution to one channel: x [rows, time, into] in float16 or float32, weight [taps, into] and bias
    [1] in float32 -> [rows, time] in float32. Raises `ValueError` for tensors that do not fit."""
    rows, time, into = x.shape
    require("weight", weight, (None, into), torch.float32)
    require("bias", bias, (1,), torch.float32)
    if not (x.is_contiguous() and weight.is_contiguous()) or x.dtype not in (HALF, torch.float32):
        raise ValueError(f"x should be contiguous and of 16 or 32 bits; it is {x.dtype}")
    if not runs_on(x.device) or x.numel() == 0:
        return _taps(x.float(), weight.unsqueeze(1).unbind(0), 1).squeeze(-1) + bias
    from rhapsode.qwen3.torch.kernels import conv

    sound = _new(x, 1, torch.float32).squeeze(-1)
    conv.to_one(x, weight, bias, sound)
    return sound
