"""Every library function that a step relies on, against numpy in double precision, at the sizes that are used.

Knows which sizes a configuration uses. What is right is noted in `library.py` once for the process; a task that no
way does right ends with a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np

from rhapsode.qwen3.config import CodecConfig, DecoderConfig, ModelConfig, TransformerShape
from rhapsode.qwen3.mlx import library
from rhapsode.qwen3.mlx.codec import DILATIONS, KERNEL
from rhapsode.qwen3.mlx.library import GROUP
from rhapsode.qwen3.mlx.sampling import uniforms
from rhapsode.qwen3.mlx.transformer import normalise, rotate
from rhapsode.qwen3.trials import Clock, Trial, Way, choose, random_numbers

Size = library.Size
DRAWN = 65_537  # a prime: no row of a matrix repeats another
CANDIDATES = 50  # that a code is usually drawn from
REACH = 512  # keys
FIRST_KERNEL = 3
TIME = 64  # steps of a convolution
SNAKE_TIME = 1919  # of SnakeBeta
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


def check(
    model: ModelConfig, codec: CodecConfig, dtype: mx.Dtype, bits: int | None, slots: int, clock: Clock | None = None
) -> list[Trial]:
    """Ask everything, and take from now on what is right. With a clock, what may be chosen by speed is.

    A process asks once for each size, device and format.
    """
    sizes = model.talker.trunk, model.predictor.trunk, model.talker.vocab, model.predictor.vocab, codec.decoder
    asked = str(mx.default_device()), sizes, str(dtype), bits, slots, clock is None
    if asked not in _found:
        _found[asked] = _ask(model, codec, dtype, bits, slots, clock)
    return _found[asked]


_found: dict[tuple[Any, ...], list[Trial]] = {}


def _ask(
    model: ModelConfig, codec: CodecConfig, dtype: mx.Dtype, bits: int | None, slots: int, clock: Clock | None
) -> list[Trial]:
    trials = []
    for one in questions(model, codec, dtype, bits, slots):
        ways = one.ways or library.WAYS[one.task]
        trial = choose(
            one.task, one.label, ways, one.inputs, one.truth, one.tolerance, one.read, clock if one.timed else None
        )
        if trial.taken and one.task in library.WAYS:
            library.take(one.task, one.size, trial.taken)
        trials.append(trial)
    return trials


def questions(
    model: ModelConfig, codec: CodecConfig, dtype: mx.Dtype, bits: int | None, slots: int
) -> Iterator[Question]:
    numbers = np.random.Generator(np.random.PCG64(0))
    yield _random_numbers(numbers, slots)
    for vocab in dict.fromkeys((model.talker.vocab, model.predictor.vocab)):
        yield _sort(numbers, slots, vocab)
        yield _largest(numbers, slots, vocab)
        for width in dict.fromkeys((min(CANDIDATES, vocab), vocab)):  # the user may choose among more or fewer
            yield _running_sum(numbers, slots, width)
    for trunk in dict.fromkeys((model.talker.trunk, model.predictor.trunk)):
        yield _rotation(numbers, slots, trunk, dtype)
        yield _norm(numbers, slots, trunk, dtype)
        yield _product(numbers, slots, trunk, dtype)
    yield _write(numbers, slots, model.talker.trunk, dtype)
    for kind in dict.fromkeys((dtype, mx.float32)):
        yield _softmax(numbers, slots, model.talker.trunk, kind)
    if bits:
        for into, out in quantised_sizes(model):
            yield _quantised(numbers, slots, into, out, bits, dtype)
    yield _layer_norm(numbers, codec.decoder.latent)
    for size in convolution_sizes(codec.decoder):
        yield _convolution(numbers, size)
    for channels in snake_sizes(codec.decoder):
        yield _snake(numbers, channels)
    yield _compiling(numbers, slots)


# ---------------------------------------------------------------------- sizes


def quantised_sizes(model: ModelConfig) -> list[tuple[int, int]]:
    """(into, out) of every matrix whose weights may have fewer bits."""
    found = []
    for trunk in (model.talker.trunk, model.predictor.trunk):
        query, key = trunk.heads * trunk.head_dim, trunk.kv_heads * trunk.head_dim
        found += [(trunk.hidden, query + 2 * key), (query, trunk.hidden)]
        found += [(trunk.hidden, 2 * trunk.intermediate), (trunk.intermediate, trunk.hidden)]
    found.append((model.predictor.trunk.hidden, model.predictor.vocab))
    return [size for size in dict.fromkeys(found) if size[0] % GROUP == 0]


def convolution_sizes(config: DecoderConfig) -> list[tuple[int, int, int, int, int]]:
    """(out, kernel, into of a group, dilation, groups) of every convolution of the codec."""
    latent, channels = config.latent, config.channels
    found = [(latent, FIRST_KERNEL, config.codebook_dim, 1, 1), (latent, KERNEL, 1, 1, latent)]
    found.append((channels, KERNEL, latent, 1, 1))
    for _ in config.upsample_rates:
        channels //= 2
        found += [(channels, KERNEL, channels, dilation, 1) for dilation in DILATIONS]
        found.append((channels, 1, channels, 1, 1))
    found.append((1, KERNEL, channels, 1, 1))
    return list(dict.fromkeys(found))


def snake_sizes(config: DecoderConfig) -> list[int]:
    """Channels of every SnakeBeta of the codec."""
    return [config.channels >> stage for stage in range(len(config.upsample_rates) + 1)]


# ---------------------------------------------------------------------- questions


def _numpy(found: Any) -> np.ndarray:
    """A result on the host; of types that numpy has not, in float32."""
    return np.array(found.astype(mx.float32) if mx.issubdtype(found.dtype, mx.floating) else found)


def _given(numbers: np.random.Generator, *size: int, dtype: mx.Dtype = mx.float32) -> tuple[mx.array, np.ndarray]:
    """Numbers for a task, and the same for numpy, as the type rounded them."""
    # Drawn once and repeated: as many anew as a wide matrix has would take longer than what is tried with them.
    drawn = numbers.standard_normal(min(math.prod(size), DRAWN)).astype(np.float32)
    given = mx.array(np.resize(drawn, size)).astype(dtype)
    return given, _numpy(given).astype(np.float64)


def _random_numbers(numbers: np.random.Generator, slots: int) -> Question:
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


def _sort(numbers: np.random.Generator, slots: int, vocab: int) -> Question:
    rows = _shuffled(numbers, slots, vocab)
    truth = np.argsort(-rows, axis=-1)
    return Question("sort", (vocab,), f"{slots} x {vocab}", (mx.array(rows),), truth, 0.0)


def _largest(numbers: np.random.Generator, slots: int, vocab: int) -> Question:
    rows = _shuffled(numbers, slots, vocab)
    return Question("largest", (vocab,), f"{slots} x {vocab}", (mx.array(rows),), rows.argmax(-1), 0.0)


def _running_sum(numbers: np.random.Generator, slots: int, width: int) -> Question:
    rows = numbers.random((slots, width)).astype(np.float32) / width
    truth = np.cumsum(rows.astype(np.float64), -1)
    return Question("running sum", (), f"{slots} x {width}", (mx.array(rows),), truth, 1e-4)


def _rotation(numbers: np.random.Generator, slots: int, trunk: TransformerShape, dtype: mx.Dtype) -> Question:
    """One position in each of several rows: where a library's own function was seen to go wrong."""
    half = trunk.head_dim // 2
    x, given = _given(numbers, slots, trunk.heads, 1, trunk.head_dim, dtype=dtype)
    (cos, wide_cos), (sin, wide_sin) = (_given(numbers, slots, 1, 1, half, dtype=dtype) for _ in range(2))
    first, second = given[..., :half], given[..., half:]
    truth = np.concatenate([first * wide_cos - second * wide_sin, second * wide_cos + first * wide_sin], -1)
    way = (Way("written out", rotate),)
    return Question("rotation", (), _label(x), (x, cos, sin), truth, TOLERANCES[dtype], way)


def _norm(numbers: np.random.Generator, slots: int, trunk: TransformerShape, dtype: mx.Dtype) -> Question:
    x, given = _given(numbers, slots, trunk.hidden, dtype=dtype)
    weight, wide = _given(numbers, trunk.hidden, dtype=dtype)
    truth = given / np.sqrt(np.square(given).mean(-1, keepdims=True) + trunk.eps) * wide
    way = (Way("written out", lambda x, weight: normalise(x, weight, trunk.eps)),)
    return Question("norm", (), _label(x), (x, weight), truth, TOLERANCES[dtype], way)


def _product(numbers: np.random.Generator, slots: int, trunk: TransformerShape, dtype: mx.Dtype) -> Question:
    x, given = _given(numbers, slots, trunk.hidden, dtype=dtype)
    weight, wide = _given(numbers, 2 * trunk.intermediate, trunk.hidden, dtype=dtype)
    way = (Way("matmul", lambda x, weight: x @ weight.T),)
    return Question("product", (), f"{_label(x)} x {len(wide)}", (x, weight), given @ wide.T, TOLERANCES[dtype], way)


def _write(numbers: np.random.Generator, slots: int, trunk: TransformerShape, dtype: mx.Dtype) -> Question:
    """A row of every slot to a position of its own."""
    kept, truth = _given(numbers, slots, trunk.kv_heads, REACH, trunk.head_dim, dtype=dtype)
    new, given = _given(numbers, slots, trunk.kv_heads, trunk.head_dim, dtype=dtype)
    positions = numbers.integers(0, REACH, slots)
    truth[np.arange(slots), :, positions] = given

    def fresh(way: Way) -> Way:  # each gets a copy, since it may write into what it is given
        return Way(way.name, lambda *inputs: way.run(mx.array(kept), *inputs))

    inputs, ways = (mx.arange(slots), mx.array(positions), new), tuple(map(fresh, library.WAYS["write keys"]))
    return Question("write keys", (), _label(kept), inputs, truth, 0.0, ways)


def _softmax(numbers: np.random.Generator, slots: int, trunk: TransformerShape, dtype: mx.Dtype) -> Question:
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
        "softmax", (str(dtype),), f"{_label(x)} in {_name(dtype)}", (masked,), truth, TOLERANCES[dtype],
        read=lambda found: _numpy(found)[kept],
    )  # fmt: skip


def _quantised(
    numbers: np.random.Generator, slots: int, into: int, out: int, bits: int, dtype: mx.Dtype
) -> Question:  # fmt: skip
    x, given = _given(numbers, slots, 1, into, dtype=dtype)
    packed = mx.quantize(_given(numbers, out, into, dtype=dtype)[0], group_size=GROUP, bits=bits)
    truth = given @ _unpacked(*packed, bits).T
    label = f"{slots} x {into} x {out}, {bits} bits"
    return Question("quantised product", (bits, into, out), label, (x, *packed, bits), truth, TOLERANCES[dtype])


def _unpacked(packed: mx.array, scales: mx.array, offsets: mx.array, bits: int) -> np.ndarray:
    """The weights that the words stand for, by numpy: the lowest bits of a word are the first weight."""
    words = np.array(packed)
    levels = words[..., None] >> np.arange(0, 32, bits, dtype=np.uint32) & np.uint32((1 << bits) - 1)
    levels = levels.reshape(len(words), -1, GROUP).astype(np.float64)
    return (levels * _numpy(scales)[..., None] + _numpy(offsets)[..., None]).reshape(len(words), -1)


def _layer_norm(numbers: np.random.Generator, width: int) -> Question:
    (x, given), (weight, wide), (bias, low) = (_given(numbers, *size) for size in ((TIME, width), (width,), (width,)))
    apart = given - given.mean(-1, keepdims=True)
    truth = apart / np.sqrt(np.square(apart).mean(-1, keepdims=True) + 1e-6) * wide + low
    return Question("layer norm", (width,), _label(x), (x, weight, bias), truth, 1e-4)


def _convolution(numbers: np.random.Generator, size: tuple[int, int, int, int, int]) -> Question:
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


def _snake(numbers: np.random.Generator, channels: int) -> Question:
    """Sines of large multiples too, and a number of steps that fills no block of threads."""
    x, given = _given(numbers, 1, SNAKE_TIME, channels)
    alpha, wide = _given(numbers, channels)
    height, high = _given(numbers, channels)
    alpha, wide = alpha * 16, wide * 16  # a power of two: exact on both sides
    truth = given + np.square(np.sin(given * wide)) * high
    ways = tuple(way for way in library.WAYS["SnakeBeta"] if way.name != library.OURS or _has_gpu())
    inputs = x, alpha, height
    return Question("SnakeBeta", (channels,), _label(x), inputs, truth, SNAKE_TOLERANCE, ways, timed=True)


def _has_gpu() -> bool:
    return mx.default_device() != mx.Device(mx.cpu)


def _compiling(numbers: np.random.Generator, slots: int) -> Question:
    """A small graph with what a step is made of: a product, a softmax, a sum, a sine, a choice."""
    (x, given), (weight, wide) = _given(numbers, slots, 64), _given(numbers, 64, 64)

    def graph(x: mx.array, weight: mx.array) -> mx.array:
        y = mx.softmax(x @ weight.T / 8, axis=-1)
        return mx.where(y > 1 / 64, mx.sin(y) + x, mx.square(x) * mx.sigmoid(y))

    y = np.exp(given @ wide.T / 8)
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


def _label(x: mx.array) -> str:
    return " x ".join(map(str, x.shape))


def _name(dtype: mx.Dtype) -> str:
    return str(dtype).rpartition(".")[2]
