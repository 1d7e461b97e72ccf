"""What the networks ask of MLX beyond plain arithmetic: each task with its ways, and which way is taken.

A kernel may be wrong at some size on some machine and say nothing. The first way of a task is the library's, the last
is written out with simpler functions. Which one is taken for a size is noted here, for the whole process, as it is a
fact about the device; `check.py` finds it out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from rhapsode.qwen3.mlx import kernels
from rhapsode.qwen3.trials import Way

OURS = "our kernel"  # is not asked where there is no GPU
GROUP = 64  # weights that share a scale and an offset
_CHUNK = 128  # columns that the counting sort compares at once
Size = tuple[int | str, ...]


@dataclass(frozen=True)
class Turn:
    """Rotary positions of some rows, in the type of the rows."""

    cos: mx.array  # [rows or 1, 1, new, 1, head_dim / 2]
    sin: mx.array  # [rows or 1, 1, new, 2, head_dim / 2]: what the second half adds to the first, and the first to it


class Heads:
    """What is done to the heads of a block before they meet: the first are normed, where there is a gain, and turned;
    those behind them stay as they are.
    """

    def __init__(self, turned: int, behind: int, gain: mx.array | None, eps: float) -> None:
        """`gain`: [turned, head_dim]."""
        self.count, self.gain, self.eps = turned, gain, eps
        self.turned = (mx.arange(turned + behind) < turned)[:, None, None, None]
        self.halves: tuple[mx.array, mx.array] | None = None  # [heads, 1, 2, head_dim / 2], and the other way round
        if gain is not None:
            gain = mx.concatenate([gain, mx.ones((behind, gain.shape[-1]), gain.dtype)])
            halves = mx.unflatten(gain[:, None], -1, (2, -1))
            self.halves = halves, mx.contiguous(halves[..., ::-1, :])


# ---------------------------------------------------------------------- ways


def _counted(x: mx.array) -> mx.array:
    """A number's place is how many go before it."""
    rows, width = x.shape
    index, place = mx.arange(width), mx.zeros((rows, width), mx.int32)
    for first in range(0, width, _CHUNK):
        other, number = x[:, None, first : first + _CHUNK], index[first : first + _CHUNK]
        before = (other > x[..., None]) | ((other == x[..., None]) & (number < index[:, None]))
        place = place + before.astype(mx.int32).sum(-1)
    return mx.put_along_axis(mx.zeros_like(place), place, mx.broadcast_to(index.astype(mx.int32), place.shape), axis=-1)


def _compared(x: mx.array) -> mx.array:
    """The first column whose number is the row's largest."""
    index = mx.arange(x.shape[-1])
    return mx.where(x == x.max(-1, keepdims=True), index, x.shape[-1]).min(-1)


def _softmax(x: mx.array) -> mx.array:
    wide = x.astype(mx.float32)
    wide = mx.exp(wide - wide.max(-1, keepdims=True))
    return (wide / wide.sum(-1, keepdims=True)).astype(x.dtype)


def _summed(x: mx.array) -> mx.array:
    width = mx.arange(x.shape[-1])
    return x @ (width[:, None] <= width).astype(x.dtype)


def _normed(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    apart = x - x.mean(-1, keepdims=True)
    return apart * mx.rsqrt(mx.square(apart).mean(-1, keepdims=True) + 1e-6) * weight + bias


def _rooted(x: mx.array, weight: mx.array | None, eps: float) -> mx.array:
    return mx.fast.rms_norm(x, weight, eps)


def _quotient(x: mx.array, weight: mx.array | None, eps: float) -> mx.array:
    wide = x.astype(mx.float32)
    wide = (wide * mx.rsqrt(mx.square(wide).mean(-1, keepdims=True) + eps)).astype(x.dtype)
    return wide if weight is None else weight * wide


def _at_once(x: mx.array, heads: Heads, turn: Turn) -> mx.array:
    """All heads in one pass: the halves are read in the other order, not moved, and every head passes the same way."""
    plain = mx.unflatten(x, -1, (2, -1))
    near = plain if heads.halves is None else mx.unflatten(normalise(x, None, heads.eps), -1, (2, -1))
    far = near[..., ::-1, :]
    if heads.halves is not None:
        near, far = near * heads.halves[0], far * heads.halves[1]
    return mx.flatten(mx.where(heads.turned, near * turn.cos + far * turn.sin, plain), -2)


def _half_by_half(x: mx.array, heads: Heads, turn: Turn) -> mx.array:
    both = x[:, : heads.count]
    if heads.gain is not None:
        both = normalise(both, None, heads.eps) * heads.gain[:, None]
    first, second = mx.split(both, 2, axis=-1)
    cos, sin = turn.cos[..., 0, :], turn.sin[..., 1, :]
    turned = [first * cos - second * sin, second * cos + first * sin]
    return mx.concatenate([mx.concatenate(turned, axis=-1), x[:, heads.count :]], axis=1)


def _attended(query: mx.array, keys: mx.array, values: mx.array, mask: mx.array | None) -> mx.array:
    return mx.fast.scaled_dot_product_attention(query, keys, values, scale=query.shape[-1] ** -0.5, mask=mask)


def _weighed(query: mx.array, keys: mx.array, values: mx.array, mask: mx.array | None) -> mx.array:
    rows, heads, new, width = query.shape
    kv_heads = keys.shape[1]
    query = query.reshape(rows, kv_heads, heads // kv_heads * new, width)
    scores = (query @ keys.swapaxes(-1, -2)).reshape(rows, heads, new, -1) * width**-0.5
    if mask is not None:
        scores = scores + mask
    weight = softmax(scores).reshape(rows, kv_heads, heads // kv_heads * new, -1)
    return (weight @ values).reshape(rows, heads, new, width)


def _written(kept: mx.array, rows: mx.array, positions: mx.array, new: mx.array) -> mx.array:
    # Places are unsigned: those of a slice are, and of two types each would become a third.
    kept[rows.astype(mx.uint32), :, positions.astype(mx.uint32)] = new
    return kept


def _overlaid(kept: mx.array, rows: mx.array, positions: mx.array, new: mx.array) -> mx.array:
    rows, positions = (places.reshape(-1) for places in mx.broadcast_arrays(rows, positions))
    order = mx.argsort(rows)  # every row is written
    new = new.reshape(len(order), *new.shape[-2:])[order]
    here = mx.arange(kept.shape[2]) == positions[order][:, None]
    return mx.where(here[:, None, :, None], new[:, :, None], kept)


def _added_within(x: mx.array, weight: mx.array, onto: mx.array) -> mx.array:
    # As one matrix: rows of several dimensions might be taken for as many products.
    flat = mx.addmm(onto.reshape(-1, onto.shape[-1]), x.reshape(-1, x.shape[-1]), weight.T)
    return flat.reshape(onto.shape)


def _added_after(x: mx.array, weight: mx.array, onto: mx.array) -> mx.array:
    return onto + x @ weight.T


def _quantised(x: mx.array, packed: mx.array, scales: mx.array, offsets: mx.array, bits: int) -> mx.array:
    return mx.quantized_matmul(x, packed, scales, offsets, transpose=True, group_size=GROUP, bits=bits)


def _widened(x: mx.array, packed: mx.array, scales: mx.array, offsets: mx.array, bits: int) -> mx.array:
    return x @ mx.dequantize(packed, scales, offsets, group_size=GROUP, bits=bits).T


def _read_once(x: mx.array, packed: mx.array, scales: mx.array, offsets: mx.array, bits: int) -> mx.array:
    return kernels.shared_read(x, packed, scales, offsets, bits, GROUP)


def _convolved(x: mx.array, weight: mx.array, dilation: int, groups: int) -> mx.array:
    return mx.conv1d(x, weight, dilation=dilation, groups=groups)


def _shifted(x: mx.array, weight: mx.array, dilation: int, groups: int) -> mx.array:
    """One product for each tap on rows as they lie, added up: nothing is unfolded."""
    (out, kernel, into), time = weight.shape, x.shape[1] - (weight.shape[1] - 1) * dilation
    if groups == 1 and out * kernel < into:  # few channels come out: all taps in one product, then the shifts
        spread = (x @ weight.reshape(-1, into).T).reshape(*x.shape[:2], out, kernel)
        return sum(
            (spread[:, k * dilation : k * dilation + time, :, k] for k in range(1, kernel)), spread[:, :time, :, 0]
        )
    taps = [(x[:, k * dilation : k * dilation + time], weight[:, k]) for k in range(kernel)]
    if groups > 1:  # depthwise
        return sum((rows * tap[:, 0] for rows, tap in taps[1:]), taps[0][0] * taps[0][1][:, 0])
    made = taps[0][0] @ taps[0][1].T
    for rows, tap in taps[1:]:
        made = mx.addmm(made, rows, tap.T)
    return made


def _snaked(x: mx.array, alpha: mx.array, height: mx.array) -> mx.array:
    return x + mx.square(mx.sin(x * alpha)) * height


_snaked_at_once = mx.compile(_snaked)  # one pass of the library's own making


def _in_turn(x: mx.array, alpha: mx.array, height: mx.array, weight: mx.array, dilation: int) -> mx.array:
    """Each of both in the way that is taken for it."""
    return convolve(_after(snake(x, alpha, height), weight, dilation), weight, dilation, 1)


def _in_turn_plain(x: mx.array, alpha: mx.array, height: mx.array, weight: mx.array, dilation: int) -> mx.array:
    return _shifted(_after(_snaked(x, alpha, height), weight, dilation), weight, dilation, 1)


def _after(x: mx.array, weight: mx.array, dilation: int) -> mx.array:
    """With silence before it, as long as a convolution looks back."""
    return mx.pad(x, [(0, 0), ((weight.shape[1] - 1) * dilation, 0), (0, 0)])


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


# Task -> its ways, the preferred first. Of what may be chosen by speed, those after the first
# must be clearly faster than those before them.
WAYS: dict[str, tuple[Way, ...]] = {
    "sort": (Way("argsort", lambda x: mx.argsort(-x, axis=-1)), Way("counting", _counted)),
    "largest": (Way("argmax", lambda x: mx.argmax(x, axis=-1)), Way("comparisons", _compared)),
    "softmax": (Way("softmax", lambda x: mx.softmax(x, axis=-1, precise=True)), Way("exponentials", _softmax)),
    "running sum": (Way("cumsum", lambda x: mx.cumsum(x, axis=-1)), Way("a triangular product", _summed)),
    "norm": (Way("rms_norm", _rooted), Way("written out", _quotient)),
    # The library's rope makes its angles itself, from fewer bits, and leaves norm and joining to do.
    "rotation": (Way("at once", _at_once), Way("half by half", _half_by_half)),
    "attention": (Way("scaled_dot_product_attention", _attended), Way("written out", _weighed)),
    "layer norm": (Way("layer_norm", lambda x, w, b: mx.fast.layer_norm(x, w, b, 1e-6)), Way("moments", _normed)),
    "write keys": (Way("scatter", _written), Way("a masked copy", _overlaid)),
    "added product": (Way("addmm", _added_within), Way("one after the other", _added_after)),
    "quantised product": (
        Way("quantized_matmul", _quantised),
        Way(OURS, _read_once),
        Way("widened weights", _widened),
    ),
    # The library's own may unfold what it is given, seven times its size: it must be clearly faster to be taken.
    "convolution": (Way("shifted products", _shifted), Way("conv1d", _convolved)),
    "SnakeBeta": (
        Way("compiled", lambda x, alpha, height: _snaked_at_once(x, alpha, height)),
        Way(OURS, kernels.snake),
        Way("one after the other", _snaked),
    ),
    "SnakeBeta and convolution": (
        Way("one after the other", _in_turn),
        Way(OURS, kernels.snaked_convolution),
        Way("both written out", _in_turn_plain),
    ),
    "compiling": (Way("compile", mx.compile), Way("step by step", _as_it_is)),
}

_taken: dict[tuple[str, Size], Way] = {}


def take(task: str, size: Size, name: str) -> None:
    """From now on a task is done this way at this size. Where two questions stand for it, the plainer answer holds."""
    names = [way.name for way in WAYS[task]]
    before = _taken.get((task, size), WAYS[task][0]).name
    _taken[task, size] = WAYS[task][max(names.index(name), names.index(before))]


def forget() -> None:
    """Nothing was found out."""
    _taken.clear()


def taken(task: str, size: Size = ()) -> Way:
    return _taken.get((task, size)) or WAYS[task][0]


# ---------------------------------------------------------------------- tasks


def order(x: mx.array) -> mx.array:
    """[n, width] -> the columns of each row, those of the largest numbers first."""
    return taken("sort", (x.shape[-1],)).run(x)


def largest(x: mx.array) -> mx.array:
    """[n, width] -> the column of each row's largest number, the first of equal ones."""
    return taken("largest", (x.shape[-1],)).run(x)


def softmax(x: mx.array) -> mx.array:
    """Over the last dimension, summed in float32. Every row has a number above -inf."""
    return taken("softmax", (str(x.dtype),)).run(x)


def running_sum(x: mx.array) -> mx.array:
    return taken("running sum").run(x)


def normalise(x: mx.array, weight: mx.array | None, eps: float) -> mx.array:
    """x / rms(x) over the last dimension, in float32, and with a weight times that."""
    return taken("norm", (x.shape[-1], str(x.dtype))).run(x, weight, eps)


def rotate(x: mx.array, heads: Heads, turn: Turn) -> mx.array:
    """Norm and turn the first heads of x [rows, heads, new, head_dim], and hand on the others."""
    return taken("rotation", (x.shape[-1], str(x.dtype))).run(x, heads, turn)


def attend(query: mx.array, keys: mx.array, values: mx.array, mask: mx.array | None) -> mx.array:
    """[rows, heads, new, d] over keys [rows, kv_heads, length, d], and a mask to be added -> as query."""
    return taken("attention", attention_size(query, keys, mask)).run(query, keys, values, mask)


def attention_size(query: mx.array, keys: mx.array, mask: mx.array | None) -> Size:
    """One position in each row and several, with a mask and without, are questions of their own."""
    new, seen = "one" if query.shape[2] == 1 else "several", "all" if mask is None else "masked"
    return query.shape[1], keys.shape[1], query.shape[-1], str(query.dtype), new, seen


def layer_norm(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    return taken("layer norm", (x.shape[-1],)).run(x, weight, bias)


def write(kept: mx.array, rows: mx.array, positions: mx.array, new: mx.array) -> mx.array:
    """`kept` [n, heads, length, d] with new [.., heads, d] at rows and positions [..], which are each of the n rows.
    The array given may be changed.
    """
    return taken("write keys").run(kept, rows, positions, new)


def add_product(x: mx.array, weight: mx.array, onto: mx.array) -> mx.array:
    """onto [.., out] + x [.., into] times the transpose of weight [out, into]."""
    return taken("added product", (str(x.dtype),)).run(x, weight, onto)


def quantised(x: mx.array, packed: mx.array, scales: mx.array, offsets: mx.array, bits: int) -> mx.array:
    """x [..., into] times the transpose of quantised weights [out, into]."""
    into = x.shape[-1]
    size = quantised_size(bits, into, packed.shape[0], x.size // into)
    return taken("quantised product", size).run(x, packed, scales, offsets, bits)


def quantised_size(bits: int, into: int, out: int, rows: int) -> Size:
    """Few rows and many are questions of their own."""
    return bits, into, out, "few" if rows <= kernels.MOST_LANES else "many"


def convolve(x: mx.array, weight: mx.array, dilation: int, groups: int) -> mx.array:
    """x [rows, time, into] -> [rows, time without the past, out]; weight [out, kernel, into], or depthwise."""
    return taken("convolution", (*weight.shape, dilation, groups)).run(x, weight, dilation, groups)


def snake(x: mx.array, alpha: mx.array, height: mx.array) -> mx.array:
    """x + sin(alpha x)^2 height for float32 x [.., channels] and numbers of each channel."""
    return taken("SnakeBeta", (x.shape[-1],)).run(x, alpha, height)


def snaked_convolution(
    x: mx.array, alpha: mx.array, height: mx.array, weight: mx.array, dilation: int
) -> mx.array:  # fmt: skip
    """A causal convolution of SnakeBeta: x [rows, time, into], weight [out, kernel, into] -> [rows, time, out]."""
    size = (*weight.shape, dilation)
    return taken("SnakeBeta and convolution", size).run(x, alpha, height, weight, dilation)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A pure function of arrays and plain numbers, as one graph where that is to be trusted."""
    return taken("compiling").run(function)
