"""A causal convolution as products of narrow numbers, with all that comes after it: scale, bias, stream and sine.

Knows tiles, and how the taps of a convolution become one long product over [rows, time, channels]. Knows no layer and
no configuration. Needs Triton; the twin of what is here is `codec_products.plainly`.

Inputs of 16 bits are multiplied as they are. Those of 32 bits are split into a high and a low half, as the weights are:
three products of 16 bits then give what one of 32 would, within its rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from rhapsode.qwen3.torch.kernels import has_triton

LEAST_SHARED = 99 * 1024  # bytes a block may have on the cards that have least, among those with fast products
MOST_STAGES = 4
STEPS = 128
SOUND_STEPS = 64


if has_triton():
    import triton
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor

    @triton.jit
    def sine_square(turns):
        """sin(pi * turns)^2 to 2e-7."""
        off = turns - tl.floor(turns + 0.5)
        s = off * off
        p = s * -3.2729586 + 12.990739
        p = p * s - 30.085955
        p = p * s + 42.725385
        p = p * s - 32.46958
        p = p * s + 9.869603
        return p * s

    @triton.jit
    def _finish(
        total, columns, rows, there, scale, bias, turn, height, stream, wide, narrow,
        OUT, SINE: tl.constexpr, STREAM: tl.constexpr, WIDE: tl.constexpr, NARROW: tl.constexpr,
    ):  # fmt: skip
        """Sums [steps, columns] to what is stored. `rows`: where each step begins; `there`: which steps there are."""
        known = columns < OUT
        y = total * tl.load(scale + columns, known, 0.0)[None, :] + tl.load(bias + columns, known, 0.0)[None, :]
        at = rows[:, None] + columns[None, :]
        mask = there[:, None] & known[None, :]
        if STREAM:
            y += tl.load(stream + at, mask, 0.0)
        if WIDE:
            tl.store(wide + at, y, mask)
        if NARROW:
            if SINE:
                turns = y * tl.load(turn + columns, known, 0.0)[None, :]
                y += sine_square(turns) * tl.load(height + columns, known, 0.0)[None, :]
            tl.store(narrow + at, y.to(narrow.dtype.element_ty), mask)

    @triton.jit
    def _steps(x, row, first, chunk, time, INTO: tl.constexpr, STEPS: tl.constexpr, DEPTH: tl.constexpr,
               FETCH: tl.constexpr):  # fmt: skip
        """Inputs [STEPS, DEPTH] from step `first` on, with zeros before the beginning and after the end."""
        if FETCH:
            return x.load([row, first, chunk * DEPTH]).reshape(STEPS, DEPTH)
        else:
            steps, channels = first + tl.arange(0, STEPS), chunk * DEPTH + tl.arange(0, DEPTH)
            mask = ((steps >= 0) & (steps < time))[:, None]
            return tl.load(x + (row.to(tl.int64) * time + steps)[:, None] * INTO + channels[None, :], mask, 0.0)

    @triton.jit
    def _weights(w, column, tap, chunk, OUT, INTO: tl.constexpr, TAPS: tl.constexpr, COLUMNS: tl.constexpr,
                 DEPTH: tl.constexpr, FETCH: tl.constexpr):  # fmt: skip
        """Weights [DEPTH, COLUMNS] of a tap; zeros for channels that there are not."""
        if FETCH:
            return w.load([column, tap * INTO + chunk * DEPTH]).T
        else:
            columns, channels = column + tl.arange(0, COLUMNS), chunk * DEPTH + tl.arange(0, DEPTH)
            at = columns[None, :] * (TAPS * INTO) + tap * INTO + channels[:, None]
            return tl.load(w + at, (columns < OUT)[None, :], 0.0)

    @triton.jit(do_not_specialize=["time", "tiles", "dilation"])
    def _convolve(
        x, high, high_rest, low, low_rest, scale, bias, turn, height, stream, wide, narrow, time, tiles, dilation, OUT,
        INTO: tl.constexpr, TAPS: tl.constexpr, SPLIT: tl.constexpr, LOW: tl.constexpr, SINE: tl.constexpr,
        STREAM: tl.constexpr, WIDE: tl.constexpr, NARROW: tl.constexpr, STEPS: tl.constexpr, COLUMNS: tl.constexpr,
        REST: tl.constexpr, DEPTH: tl.constexpr, FETCH: tl.constexpr,
    ):  # fmt: skip
        """One tile: `STEPS` steps of a row by `COLUMNS` + `REST` channels, so that 96 and 192 fill it."""
        CHUNKS: tl.constexpr = INTO // DEPTH
        parts = tl.cdiv(OUT, COLUMNS + REST)
        part = tl.program_id(0) % parts  # channels first: those of one stretch of time find it in the cache
        tile = tl.program_id(0) // parts % tiles
        row = tl.program_id(0) // parts // tiles
        column, first = part * (COLUMNS + REST), tile * STEPS
        total = tl.zeros((STEPS, COLUMNS), tl.float32)
        if REST > 0:
            total_rest = tl.zeros((STEPS, REST), tl.float32)
        for k in range(TAPS * CHUNKS):
            tap, chunk = k // CHUNKS, k % CHUNKS
            seen = _steps(x, row, first + (tap - TAPS + 1) * dilation, chunk, time, INTO, STEPS, DEPTH, FETCH)
            w = _weights(high, column, tap, chunk, OUT, INTO, TAPS, COLUMNS, DEPTH, FETCH)
            if SPLIT:
                half = seen.to(tl.float16)
                less = (seen - half.to(tl.float32)).to(tl.float16)
                total = tl.dot(less, w, total)
                if LOW:
                    w_low = _weights(low, column, tap, chunk, OUT, INTO, TAPS, COLUMNS, DEPTH, FETCH)
                    total = tl.dot(half, w_low, total)
                total = tl.dot(half, w, total)
            else:
                total = tl.dot(seen, w, total)
            if REST > 0:
                w = _weights(high_rest, column + COLUMNS, tap, chunk, OUT, INTO, TAPS, REST, DEPTH, FETCH)
                if SPLIT:
                    total_rest = tl.dot(less, w, total_rest)
                    if LOW:
                        w_low = _weights(low_rest, column + COLUMNS, tap, chunk, OUT, INTO, TAPS, REST, DEPTH, FETCH)
                        total_rest = tl.dot(half, w_low, total_rest)
                    total_rest = tl.dot(half, w, total_rest)
                else:
                    total_rest = tl.dot(seen, w, total_rest)
        steps = first + tl.arange(0, STEPS)
        rows = (row.to(tl.int64) * time + steps) * OUT
        columns = column + tl.arange(0, COLUMNS)
        _finish(
            total, columns, rows, steps < time, scale, bias, turn, height, stream, wide, narrow,
            OUT, SINE, STREAM, WIDE, NARROW,
        )  # fmt: skip
        if REST > 0:
            columns = column + COLUMNS + tl.arange(0, REST)
            _finish(
                total_rest, columns, rows, steps < time, scale, bias, turn, height, stream, wide, narrow,
                OUT, SINE, STREAM, WIDE, NARROW,
            )  # fmt: skip

    @triton.jit
    def _half(total, columns, scale, bias, turn, height):
        """Sums [steps, columns] of which there are all, through a sine, as the next product takes them."""
        y = total * tl.load(scale + columns)[None, :] + tl.load(bias + columns)[None, :]
        y += sine_square(y * tl.load(turn + columns)[None, :]) * tl.load(height + columns)[None, :]
        return y.to(tl.float16)

    @triton.jit(do_not_specialize=["time", "tiles", "dilation"])
    def _unit(
        x, high, high_rest, scale, bias, turn, height, second, second_scale, second_bias, second_turn, second_height,
        stream, narrow, time, tiles, dilation, TAPS: tl.constexpr, WIDE: tl.constexpr, STEPS: tl.constexpr,
        COLUMNS: tl.constexpr, REST: tl.constexpr, DEPTH: tl.constexpr, FETCH: tl.constexpr,
    ):  # fmt: skip
        """A convolution, a sine, a convolution of one tap and what follows it, over all channels of `STEPS` steps."""
        WIDTH: tl.constexpr = COLUMNS + REST
        CHUNKS: tl.constexpr = WIDTH // DEPTH
        row, first = tl.program_id(0) // tiles, tl.program_id(0) % tiles * STEPS
        total = tl.zeros((STEPS, COLUMNS), tl.float32)
        if REST > 0:
            total_rest = tl.zeros((STEPS, REST), tl.float32)
        for k in range(TAPS * CHUNKS):
            tap, chunk = k // CHUNKS, k % CHUNKS
            seen = _steps(x, row, first + (tap - TAPS + 1) * dilation, chunk, time, WIDTH, STEPS, DEPTH, FETCH)
            total = tl.dot(seen, _weights(high, 0, tap, chunk, WIDTH, WIDTH, TAPS, COLUMNS, DEPTH, FETCH), total)
            if REST > 0:
                w = _weights(high_rest, COLUMNS, tap, chunk, WIDTH, WIDTH, TAPS, REST, DEPTH, FETCH)
                total_rest = tl.dot(seen, w, total_rest)
        columns, more = tl.arange(0, COLUMNS), COLUMNS + tl.arange(0, REST if REST > 0 else COLUMNS)
        half = _half(total, columns, scale, bias, turn, height)
        total = tl.dot(half, tl.load(second + columns[None, :] * WIDTH + columns[:, None]))
        if REST > 0:
            half_rest = _half(total_rest, more, scale, bias, turn, height)
            total = tl.dot(half_rest, tl.load(second + columns[None, :] * WIDTH + more[:, None]), total)
            total_rest = tl.dot(half, tl.load(second + more[None, :] * WIDTH + columns[:, None]))
            total_rest = tl.dot(half_rest, tl.load(second + more[None, :] * WIDTH + more[:, None]), total_rest)
        steps = first + tl.arange(0, STEPS)
        rows = (row.to(tl.int64) * time + steps) * WIDTH
        _finish(
            total, columns, rows, steps < time, second_scale, second_bias, second_turn, second_height, stream, stream,
            narrow, WIDTH, True, True, WIDE, True,
        )  # fmt: skip
        if REST > 0:
            _finish(
                total_rest, more, rows, steps < time, second_scale, second_bias, second_turn, second_height, stream,
                stream, narrow, WIDTH, True, True, WIDE, True,
            )  # fmt: skip

    @triton.jit(do_not_specialize=["time"])
    def _to_one(x, weight, bias, sound, time, INTO: tl.constexpr, TAPS: tl.constexpr, STEPS: tl.constexpr,
                WIDTH: tl.constexpr):  # fmt: skip
        """A convolution to one channel: sums over channels and taps, without products of tiles."""
        steps = tl.program_id(0) * STEPS + tl.arange(0, STEPS)
        row = tl.program_id(1).to(tl.int64) * time
        channels = tl.arange(0, WIDTH)
        known = channels < INTO
        total = tl.zeros((STEPS, WIDTH), tl.float32)
        for tap in tl.static_range(TAPS):
            seen = steps + (tap - TAPS + 1)
            mask = ((seen >= 0) & (seen < time))[:, None] & known[None, :]
            values = tl.load(x + (row + seen)[:, None] * INTO + channels[None, :], mask, 0.0).to(tl.float32)
            total += values * tl.load(weight + tap * INTO + channels, known, 0.0)[None, :]
        tl.store(sound + row + steps, tl.sum(total, 1) + tl.load(bias), steps < time)


@dataclass(frozen=True, slots=True)
class Tile:
    """How much of a convolution one block of threads makes, and how."""

    steps: int
    columns: int
    rest: int
    depth: int
    warps: int
    stages: int
    registers: int | None = None  # of a thread at most

    @property
    def width(self) -> int:
        return self.columns + self.rest


def tile_for(into: int, out: int, adds: bool, split: bool, shared: int = LEAST_SHARED) -> Tile:
    """By sizes alone, so that no length of a sound needs a kernel of its own.

    `adds`: whether a stream is added, which takes registers; `shared`: bytes that a block may have.
    """
    depth = next((depth for depth in ((32,) if split else (64, 32)) if into % depth == 0), 16)
    columns, rest = next(
        (sizes for sizes in ((256, 0), (128, 0), (128, 64), (64, 32)) if out % sum(sizes) == 0),
        (min(128, max(16, triton.next_power_of_2(out))), 0),
    )
    if columns == 256 and (split or adds):
        columns = 128
    if adds and rest == 64:
        columns, rest = 64, 0
    stage = depth * (4 if split else 2) * (STEPS + columns + rest)
    stages = max(1, min(MOST_STAGES, shared // stage))
    if columns == 128 and not split:  # two blocks at once: one multiplies while the other stores
        stages = min(stages, 3)
    return Tile(STEPS, columns, rest, depth, 4 if columns + rest < 64 else 8, stages)


@lru_cache
def _card(device: torch.device) -> tuple[int, bool]:
    """Bytes of shared memory for a block, and whether tiles are fetched by the copy engine."""
    if device.type != "cuda":
        return LEAST_SHARED, True
    properties = torch.cuda.get_device_properties(device)
    shared = int(getattr(properties, "shared_memory_per_block_optin", LEAST_SHARED))
    return shared - 2048, properties.major >= 9


def convolve(
    x: Tensor, high: Tensor, low: Tensor | None, scale: Tensor, bias: Tensor, taps: int, dilation: int,
    sine: tuple[Tensor, Tensor] | None, stream: Tensor | None, wide: Tensor | None, narrow: Tensor | None,
    tile: Tile | None = None, fetch: bool | None = None,
) -> None:  # fmt: skip
    """Launch; all is as `codec_products.convolve` has checked it. `wide` may be `stream` itself.

    `tile` and `fetch` (tiles come by the copy engine, not by pointers) in place of what is chosen.
    """
    (rows, time, into), out, split = x.shape, len(high), x.dtype is torch.float32
    shared, engine = _card(x.device)
    fetch = engine if fetch is None else fetch
    tile = tile or tile_for(into, out, stream is not None, split, shared)
    tiles = triton.cdiv(time, tile.steps)
    low = high if low is None else low  # something is passed where nothing is read
    weights: list[Any] = [high, high, low, low]
    seen: Any = x
    if fetch:
        seen = _described(x, [1, tile.steps, tile.depth])
        sizes = (tile.columns, tile.rest or tile.columns)
        weights = [_described(weight, [columns, tile.depth]) for weight in (high, low) for columns in sizes]
    _convolve[(rows * tiles * triton.cdiv(out, tile.width),)](
        seen, *weights, scale, bias, *(sine or (scale, scale)), _or(stream, bias), _or(wide, bias), _or(narrow, bias),
        time, tiles, dilation, out, INTO=into, TAPS=taps, SPLIT=split, LOW=low is not high,
        SINE=sine is not None, STREAM=stream is not None, WIDE=wide is not None, NARROW=narrow is not None,
        STEPS=tile.steps, COLUMNS=tile.columns, REST=tile.rest, DEPTH=tile.depth, FETCH=fetch,
        num_warps=tile.warps, num_stages=tile.stages, maxnreg=tile.registers,
    )  # fmt: skip


# Channels -> how they fill a tile, where a unit is one kernel.
UNITS = {16: (16, 0), 32: (32, 0), 64: (64, 0), 96: (64, 32), 128: (128, 0), 192: (128, 64)}


def unit_tile(channels: int, shared: int = LEAST_SHARED) -> Tile:
    columns, rest = UNITS[channels]
    depth = next(depth for depth in (64, 32, 16) if channels % depth == 0)
    stages = max(1, min(MOST_STAGES if channels < 128 else 3, shared // (depth * 2 * (STEPS + channels))))
    # Measured on an H200 in units of 96 channels: 4 warps 4.7 ms, 8 of 128 registers 5.2.
    return Tile(STEPS, columns, rest, depth, 4 if channels < 128 else 8, stages)


def unit(
    x: Tensor, first: tuple[Tensor, Tensor, Tensor], taps: int, dilation: int, between: tuple[Tensor, Tensor],
    second: tuple[Tensor, Tensor, Tensor], after: tuple[Tensor, Tensor], stream: Tensor, keep: bool, narrow: Tensor,
    tile: Tile | None = None, fetch: bool | None = None,
) -> None:  # fmt: skip
    """Launch; all is as `codec_products.unit` has checked it.

    A product is (weight, scale, bias), a sine (turn, height). With `keep` the sum takes the place of `stream`.
    `tile` and `fetch` as `convolve` has them.
    """
    rows, time, channels = x.shape
    shared, engine = _card(x.device)
    fetch = engine if fetch is None else fetch
    tile = tile or unit_tile(channels, shared)
    tiles = triton.cdiv(time, tile.steps)
    seen: Any = x
    weights: list[Any] = [first[0], first[0]]
    if fetch:
        seen = _described(x, [1, tile.steps, tile.depth])
        weights = [_described(first[0], [columns, tile.depth]) for columns in (tile.columns, tile.rest or tile.columns)]
    _unit[(rows * tiles,)](
        seen, *weights, *first[1:], *between, *second, *after, stream, narrow, time, tiles, dilation,
        TAPS=taps, WIDE=keep, STEPS=tile.steps, COLUMNS=tile.columns, REST=tile.rest, DEPTH=tile.depth, FETCH=fetch,
        num_warps=tile.warps, num_stages=tile.stages, maxnreg=tile.registers,
    )  # fmt: skip


def _described(tensor: Tensor, block: list[int]) -> Any:
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block)


def _or(tensor: Tensor | None, other: Tensor) -> Tensor:
    return other if tensor is None else tensor


def to_one(x: Tensor, weight: Tensor, bias: Tensor, sound: Tensor) -> None:
    """Launch; all is as `codec_products.to_one` has checked it."""
    rows, time, into = x.shape
    _to_one[(triton.cdiv(time, SOUND_STEPS), rows)](
        x, weight, bias, sound, time, INTO=into, TAPS=len(weight), STEPS=SOUND_STEPS,
        WIDTH=triton.next_power_of_2(into), num_warps=4,
    )  # fmt: skip
