"""One question for each task that a step relies on: what it is given, and what numpy makes of it in double precision.

Knows how a task is used: at which strides, beside which rows. Which sizes are asked for is said by whoever asks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np

from rhapsode.qwen3.config import TransformerShape
from rhapsode.qwen3.mlx import kernels, library
from rhapsode.qwen3.mlx.library import GROUP
from rhapsode.qwen3.mlx.sampling import uniforms
from rhapsode.qwen3.mlx.transformer import frequencies, turning
from rhapsode.qwen3.trials import Way, random_numbers

Size = library.Size
DRAWN = 65_537  # a prime: no row of a matrix repeats another
REACH = 512  # keys
TIME = 64  # steps of a convolution
SNAKE_TIME = 1919  # of SnakeBeta
NARROW = 96  # channels that a convolution of so many steps has; fewer steps with more
FURTHEST = 2000  # position that is turned
SNAKE_TOLERANCE = 1e-4  # half precision would be far beyond, and is what the codec does not bear
# Largest difference over the peak. A GPU may round float32 products to fewer bits; what is looked for is far beyond.
TOLERANCES = {mx.float32: 5e-3, mx.float16: 1e-2, mx.bfloat16: 4e-2}


@dataclass(frozen=True, slots=True)
class Question:
    """A task at a size, what it is given and what it should come to."""

    task: str
    size: Size
    label: str  # the size in words
    inputs: tuple[Any, ...]
    truth: np.ndarray
    tolerance: float
    ways: tuple[Way, ...] = ()  # empty: those of the library
    timed: bool = False
    read: Callable[[Any], np.ndarray] = field(default=lambda found: _numpy(found))


def _numpy(found: Any) -> np.ndarray:
    """A result on the host; of types that numpy has not, in float32."""
    return np.array(found.astype(mx.float32) if mx.issubdtype(found.dtype, mx.floating) else found)


def _given(numbers: np.random.Generator, *size: int, dtype: mx.Dtype = mx.float32) -> tuple[mx.array, np.ndarray]:
    """Numbers for a task, and the same for numpy, as the type rounded them."""
    # Drawn once and repeated: as many anew as a wide matrix has would take longer than what is tried with them.
    drawn = numbers.standard_normal(min(math.prod(size), DRAWN)).astype(np.float32)
    given = mx.array(np.resize(drawn, size)).astype(dtype)
    return given, _numpy(given).astype(np.float64)


def uniform_numbers(numbers: np.random.Generator, slots: int) -> Question:
    """Counter-based numbers need 32-bit products that wrap."""
    words = numbers.integers(0, 2**32, (slots, 2), dtype=np.uint32)
    counters = numbers.integers(0, 2**20, (slots, 16), dtype=np.uint32)
    truth = random_numbers(words, counters)
    inputs = mx.array(words), mx.array(counters)
    return Question(
        "random numbers", (), f"{slots} x 16", inputs, truth, 0.0, (Way("32-bit arithmetic", uniforms),)
    )  # fmt: skip


def _shuffled(numbers: np.random.Generator, slots: int, vocab: int) -> np.ndarray:
    """Rows without two numbers that are equal."""
    rows = np.stack([numbers.permutation(vocab) for _ in range(slots)])
    return (rows.astype(np.float32) - vocab / 2) / 16


def sort(numbers: np.random.Generator, slots: int, vocab: int) -> Question:
    rows = _shuffled(numbers, slots, vocab)
    truth = np.argsort(-rows, axis=-1)
    return Question("sort", (vocab,), f"{slots} x {vocab}", (mx.array(rows),), truth, 0.0)


def largest(numbers: np.random.Generator, slots: int, vocab: int) -> Question:
    rows = _shuffled(numbers, slots, vocab)
    return Question("largest", (vocab,), f"{slots} x {vocab}", (mx.array(rows),), rows.argmax(-1), 0.0)


def running_sum(numbers: np.random.Generator, slots: int, width: int) -> Question:
    rows = numbers.random((slots, width)).astype(np.float32) / width
    truth = np.cumsum(rows.astype(np.float64), -1)
    return Question("running sum", (), f"{slots} x {width}", (mx.array(rows),), truth, 1e-4)


def rotation(
    numbers: np.random.Generator, rows: int, new: int, trunk: TransformerShape, dtype: mx.Dtype
) -> Question:  # fmt: skip
    """Queries, keys and values as a product leaves them: one position in each of several rows, or several in all."""
    width, half, count = trunk.head_dim, trunk.head_dim // 2, trunk.heads + trunk.kv_heads
    x, given = _given(numbers, rows, new, count + trunk.kv_heads, width, dtype=dtype)
    x, given = x.swapaxes(1, 2), given.swapaxes(1, 2)
    gain, wide = _given(numbers, count, width, dtype=dtype) if trunk.qk_norm else (None, np.ones(()))
    start = numbers.integers(0, FURTHEST, rows) if new == 1 else np.full(1, 3)
    positions = start[:, None] + np.arange(new)
    angle = (positions[..., None] * trunk.rope_theta ** (-np.arange(half) / half))[:, None]
    both = given[:, :count]
    if trunk.qk_norm:
        both = both / np.sqrt(np.square(both).mean(-1, keepdims=True) + trunk.eps) * wide[:, None]
    first, second, cos, sin = both[..., :half], both[..., half:], np.cos(angle), np.sin(angle)
    turned = np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)
    truth = np.concatenate([turned, given[:, count:]], axis=1)
    turn = turning(mx.array(positions.astype(np.int32)), frequencies(trunk), dtype)
    tolerance = 1e-3 if dtype == mx.float32 else TOLERANCES[dtype]
    inputs, size = (x, library.Heads(count, trunk.kv_heads, gain, trunk.eps), turn), (width, str(dtype))
    return Question(
        "rotation", size, f"{label(x)} in {name(dtype)}", inputs, truth, tolerance, timed=has_gpu()
    )  # fmt: skip


def norm(
    numbers: np.random.Generator, rows: int, width: int, heads: int, eps: float, dtype: mx.Dtype
) -> Question:  # fmt: skip
    """With a weight (heads: 0), or of each head without one."""
    x, given = _given(numbers, rows, *([heads] if heads else []), width, dtype=dtype)
    weight, wide = (None, np.ones(())) if heads else _given(numbers, width, dtype=dtype)
    truth = given / np.sqrt(np.square(given).mean(-1, keepdims=True) + eps) * wide
    inputs, size = (x, weight, eps), (width, str(dtype))
    return Question(
        "norm", size, f"{label(x)} in {name(dtype)}", inputs, truth, TOLERANCES[dtype], timed=has_gpu()
    )  # fmt: skip


def attention(
    numbers: np.random.Generator, rows: int, new: int, length: int, trunk: TransformerShape, dtype: mx.Dtype,
    window: int | None = None, *, masked: bool = True,
) -> Question:  # fmt: skip
    """Rows that see all keys, some and one, beside one that sees none; keys are part of a longer buffer, as in use."""
    heads, kv_heads, width = trunk.heads, trunk.kv_heads, trunk.head_dim
    rows += masked and new == 1
    query, given = _given(numbers, rows, heads, new, width, dtype=dtype)
    keys, wide = _given(numbers, rows, kv_heads, length + 16, width, dtype=dtype)
    values, high = _given(numbers, rows, kv_heads, length + 16, width, dtype=dtype)
    last = np.linspace(length - 1, 0, rows).astype(int) if new == 1 else np.full(rows, length - 1)
    behind = (last[:, None] - np.arange(new)[::-1])[..., None] - np.arange(length)
    hidden = ((behind < 0) | (behind >= (window or length)))[:, None] & masked
    blind = masked and new == 1
    hidden[1:2] |= blind  # what comes of that one is nobody's concern
    kept = [row for row in range(rows) if row != 1 or not blind]
    wide, high = (np.repeat(one[:, :, :length], heads // kv_heads, axis=1) for one in (wide, high))
    scores = np.where(hidden, -np.inf, given @ wide.swapaxes(-1, -2) * width**-0.5)[kept]
    weight = np.exp(scores - scores.max(-1, keepdims=True))
    truth = weight / weight.sum(-1, keepdims=True) @ high[kept]
    mask = mx.array(np.where(hidden, -np.inf, 0.0).astype(np.float32)).astype(dtype) if masked else None
    size, said = library.attention_size(query, keys, mask), f"{label(query)} over {length} in {name(dtype)}"
    inputs = query, keys[:, :, :length], values[:, :, :length], mask
    return Question(
        "attention", size, said, inputs, truth, TOLERANCES[dtype], timed=has_gpu(),
        read=lambda found: _numpy(found)[kept],
    )  # fmt: skip


def product(numbers: np.random.Generator, slots: int, trunk: TransformerShape, dtype: mx.Dtype) -> Question:
    x, given = _given(numbers, slots, trunk.hidden, dtype=dtype)
    weight, wide = _given(numbers, 2 * trunk.intermediate, trunk.hidden, dtype=dtype)
    way = (Way("matmul", lambda x, weight: x @ weight.T),)
    return Question("product", (), f"{label(x)} x {len(wide)}", (x, weight), given @ wide.T, TOLERANCES[dtype], way)


def added(numbers: np.random.Generator, rows: int, trunk: TransformerShape, dtype: mx.Dtype) -> Question:
    """One row of each lane, as a block adds it up."""
    x, given = _given(numbers, rows, 1, trunk.intermediate, dtype=dtype)
    weight, wide = _given(numbers, trunk.hidden, trunk.intermediate, dtype=dtype)
    onto, before = _given(numbers, rows, 1, trunk.hidden, dtype=dtype)
    said, inputs = f"{label(x)} x {trunk.hidden} in {name(dtype)}", (x, weight, onto)
    return Question(
        "added product", (str(dtype),), said, inputs, before + given @ wide.T, TOLERANCES[dtype], timed=has_gpu()
    )  # fmt: skip


def write(numbers: np.random.Generator, slots: int, trunk: TransformerShape, dtype: mx.Dtype) -> Question:
    """Keys and values of every slot, part of what a block made, to a position of its own."""
    kept, truth = _given(numbers, 2 * slots, trunk.kv_heads, REACH, trunk.head_dim, dtype=dtype)
    made, given = _given(numbers, slots, trunk.heads + 2 * trunk.kv_heads, trunk.head_dim, dtype=dtype)
    new, halves = mx.unflatten(made[:, trunk.heads :], 1, (2, -1)), np.split(given[:, trunk.heads :], 2, axis=1)
    positions = numbers.integers(0, REACH, slots)
    rows = np.arange(slots)[:, None] + [0, slots]
    for half in range(2):
        truth[rows[:, half], :, positions] = halves[half]

    def fresh(way: Way) -> Way:  # each gets a copy, since it may write into what it is given
        return Way(way.name, lambda *inputs: way.run(mx.array(kept), *inputs))

    inputs, ways = (mx.array(rows), mx.array(positions)[:, None], new), tuple(map(fresh, library.WAYS["write keys"]))
    return Question("write keys", (), label(kept), inputs, truth, 0.0, ways)


def softmax(numbers: np.random.Generator, slots: int, trunk: TransformerShape, dtype: mx.Dtype) -> Question:
    """Rows that see one key, some and all, beside one that sees none: what comes of that one is nobody's concern."""
    x, given = _given(numbers, slots + 2, trunk.heads, 1, REACH, dtype=dtype)
    seen = np.maximum(1, np.linspace(0, REACH, slots + 2).astype(int))
    hidden = np.arange(REACH) >= seen[:, None]
    hidden[1] = True
    mask = np.where(hidden, -np.inf, 0.0)[:, None, None]
    given = given + mask
    kept = [row for row in range(slots + 2) if row != 1]
    wide = np.exp(given[kept] - given[kept].max(-1, keepdims=True))
    truth = wide / wide.sum(-1, keepdims=True)
    masked = x + mx.array(mask.astype(np.float32)).astype(dtype)
    return Question(
        "softmax", (str(dtype),), f"{label(x)} in {name(dtype)}", (masked,), truth, TOLERANCES[dtype],
        read=lambda found: _numpy(found)[kept],
    )  # fmt: skip


def quantised(
    numbers: np.random.Generator, rows: int, into: int, out: int, bits: int, dtype: mx.Dtype
) -> Question:  # fmt: skip
    x, given = _given(numbers, rows, 1, into, dtype=dtype)
    packed = mx.quantize(_given(numbers, out, into, dtype=dtype)[0], group_size=GROUP, bits=bits)
    truth = given @ unpacked(*packed, bits).T
    size, said = library.quantised_size(bits, into, out, rows), f"{rows} x {into} x {out}, {bits} bits"
    ways = _without_ours("quantised product") if rows > kernels.MOST_LANES else _here("quantised product")
    inputs = x, *packed, bits
    return Question("quantised product", size, said, inputs, truth, TOLERANCES[dtype], ways, timed=has_gpu())


def unpacked(packed: mx.array, scales: mx.array, offsets: mx.array, bits: int) -> np.ndarray:
    """The weights that the words stand for, by numpy: the lowest bits of a word are the first weight."""
    words = np.array(packed)
    levels = words[..., None] >> np.arange(0, 32, bits, dtype=np.uint32) & np.uint32((1 << bits) - 1)
    levels = levels.reshape(len(words), -1, GROUP).astype(np.float64)
    return (levels * _numpy(scales)[..., None] + _numpy(offsets)[..., None]).reshape(len(words), -1)


def layer_norm(numbers: np.random.Generator, width: int) -> Question:
    (x, given), (weight, wide), (bias, low) = (_given(numbers, *size) for size in ((TIME, width), (width,), (width,)))
    apart = given - given.mean(-1, keepdims=True)
    truth = apart / np.sqrt(np.square(apart).mean(-1, keepdims=True) + 1e-6) * wide + low
    return Question("layer norm", (width,), label(x), (x, weight, bias), truth, 1e-4)


def convolution(numbers: np.random.Generator, size: tuple[int, int, int, int, int]) -> Question:
    out, kernel, into, dilation, groups = size
    x, given = _given(numbers, 1, TIME + (kernel - 1) * dilation, into * groups)
    weight, wide = _given(numbers, out, kernel, into)
    truth = np.zeros((1, TIME, out))
    for k in range(kernel):
        rows, tap = given[:, k * dilation : k * dilation + TIME], wide[:, k]
        truth += rows * tap[:, 0] if groups > 1 else rows @ tap.T
    label = f"{into * groups} to {out}, kernel {kernel}" + (f", dilation {dilation}" if dilation > 1 else "")
    inputs = x, weight, dilation, groups
    return Question("convolution", size, label, inputs, truth, TOLERANCES[mx.float32], timed=True)


def snake(numbers: np.random.Generator, channels: int) -> Question:
    """Sines of large multiples too, and a number of steps that fills no block of threads."""
    x, given = _given(numbers, 1, SNAKE_TIME, channels)
    alpha, wide = _given(numbers, channels)
    height, high = _given(numbers, channels)
    alpha, wide = alpha * 16, wide * 16  # a power of two: exact on both sides
    truth = given + np.square(np.sin(given * wide)) * high
    inputs = x, alpha, height
    return Question(
        "SnakeBeta", (channels,), label(x), inputs, truth, SNAKE_TOLERANCE, _here("SnakeBeta"), timed=True
    )  # fmt: skip


def snaked(numbers: np.random.Generator, size: tuple[int, int, int, int]) -> Question:
    """More steps and channels than a block of threads has, and no multiple of either."""
    out, kernel, into, dilation = size
    time = SNAKE_TIME * NARROW // max(into, NARROW) if has_gpu() else TIME + 1
    (x, given), (alpha, wide), (height, high) = (_given(numbers, *of) for of in ((1, time, into), (into,), (into,)))
    weight, taps = _given(numbers, out, kernel, into)
    bent = given + np.square(np.sin(given * wide)) * high
    past = (kernel - 1) * dilation
    bent = np.concatenate([np.zeros((1, past, into)), bent], axis=1)
    truth = sum(bent[:, k * dilation : k * dilation + time] @ taps[:, k].T for k in range(kernel))
    said = f"{into} to {out}, kernel {kernel}" + (f", dilation {dilation}" if dilation > 1 else "")
    task, inputs = "SnakeBeta and convolution", (x, alpha, height, weight, dilation)
    return Question(task, size, said, inputs, np.asarray(truth), TOLERANCES[mx.float32], _here(task), timed=has_gpu())


def has_gpu() -> bool:
    return mx.default_device() != mx.Device(mx.cpu)


def _here(task: str) -> tuple[Way, ...]:
    """Our kernels are not asked where there is no GPU."""
    return library.WAYS[task] if has_gpu() else _without_ours(task)


def _without_ours(task: str) -> tuple[Way, ...]:
    return tuple(way for way in library.WAYS[task] if way.name != library.OURS)


def compiling(numbers: np.random.Generator, slots: int) -> Question:
    """A small graph with what a step is made of: a product, a softmax, a sum, a sine, a choice."""
    (x, given), (weight, wide) = _given(numbers, slots, 64), _given(numbers, 64, 64)
    weight, wide = weight / 8, wide / 8  # a power of two: exact on both sides

    def graph(x: mx.array, weight: mx.array) -> mx.array:
        y = mx.softmax(x @ weight.T, axis=-1)
        return mx.where(y > 1 / 64, mx.sin(y) + x, mx.square(x) * mx.sigmoid(y))

    y = np.exp(given @ wide.T)
    y = y / y.sum(-1, keepdims=True)
    truth = np.where(y > 1 / 64, np.sin(y) + given, np.square(given) / (1 + np.exp(-y)))
    # Near the border of the choice either side may be taken: such numbers are not compared.
    clear = np.abs(y - 1 / 64) > 1e-3 / 64

    def read(found: Any) -> np.ndarray:
        return np.where(clear, _numpy(found), truth)

    def running(way: Way) -> Way:
        return Way(way.name, lambda *inputs: way.run(graph)(*inputs))

    ways = tuple(map(running, library.WAYS["compiling"]))
    return Question("compiling", (), f"{slots} x 64", (x, weight), truth, TOLERANCES[mx.float32], ways, read=read)


def label(x: mx.array) -> str:
    return " x ".join(map(str, x.shape))


def name(dtype: mx.Dtype) -> str:
    return str(dtype).rpartition(".")[2]
