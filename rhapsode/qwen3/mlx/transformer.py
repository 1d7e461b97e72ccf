"""The transformer block that talker, depth predictor and codec share, on MLX.

Knows attention, rotary positions, RMSNorm and SwiGLU. Does not know what the rows mean, nor where keys and values
are kept: whoever calls passes a `Remember`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import mlx.core as mx

from rhapsode.qwen3.config import TransformerShape
from rhapsode.qwen3.mlx import library

# (layer, keys, values) of new rows, each [rows, kv_heads, new, head_dim] -> those to attend to, [.., length, head_dim]
Remember = Callable[[int, mx.array, mx.array], tuple[mx.array, mx.array]]
Weights = Mapping[str, mx.array]  # our names, as in the PyTorch room
KEY_STEP = 16
ROW_STEP = 8


def round_up(count: int, step: int) -> int:
    return -(-count // step) * step


def arrays(network: object) -> list[mx.array]:
    """Every array that a network holds, itself or in its parts: what is to be there before it is called."""
    if isinstance(network, mx.array):
        return [network]
    if isinstance(network, (list, tuple)):
        return [array for part in network for array in arrays(part)]
    return [array for part in vars(network).values() for array in arrays(part)] if hasattr(network, "__dict__") else []


def silu(x: mx.array) -> mx.array:
    return x * mx.sigmoid(x)


class Linear:
    """[..., into] -> [..., out]; with `bits`, weights in groups of 64 that share a scale and an offset."""

    def __init__(self, weights: Weights, name: str, bits: int | None = None) -> None:
        weight = weights[f"{name}.weight"]
        self.bias = weights.get(f"{name}.bias")
        self.bits = bits if bits and weight.shape[-1] % library.GROUP == 0 else None
        if self.bits:
            self.packed, self.scales, self.offsets = mx.quantize(weight, group_size=library.GROUP, bits=self.bits)
        else:
            self.weight = weight

    def __call__(self, x: mx.array) -> mx.array:
        y = self._few_bits(x, self.bits) if self.bits else x @ self.weight.T
        return y if self.bias is None else y + self.bias

    def _few_bits(self, x: mx.array, bits: int) -> mx.array:
        return library.quantised(x, self.packed, self.scales, self.offsets, bits)


class Block:
    """One pre-norm decoder block. q, k and v are one product, gate and up another."""

    def __init__(self, shape: TransformerShape, weights: Weights, name: str, bits: int | None) -> None:
        self.shape = shape
        self.norm_in, self.norm_mid = weights[f"{name}.norm_in.weight"], weights[f"{name}.norm_mid.weight"]
        self.qkv, self.out = Linear(weights, f"{name}.qkv", bits), Linear(weights, f"{name}.out", bits)
        self.gate_up, self.down = Linear(weights, f"{name}.gate_up", bits), Linear(weights, f"{name}.down", bits)
        self.norm_heads: mx.array | None = None
        if shape.qk_norm:
            query, key = weights[f"{name}.norm_q.weight"], weights[f"{name}.norm_k.weight"]
            self.norm_heads = mx.stack([query] * shape.heads + [key] * shape.kv_heads)
        self.scale_attention = weights.get(f"{name}.scale_attention")
        self.scale_mlp = weights.get(f"{name}.scale_mlp")

    def __call__(
        self, x: mx.array, layer: int, turn: library.Turn, mask: mx.array | None, remember: Remember
    ) -> mx.array:
        """x [rows, new, hidden] -> the same shape."""
        shape, (rows, new, _) = self.shape, x.shape
        heads = self.qkv(library.normalise(x, self.norm_in, shape.eps)).reshape(rows, new, -1, shape.head_dim)
        both, value = heads[:, :, : shape.heads + shape.kv_heads], heads[:, :, shape.heads + shape.kv_heads :]
        if self.norm_heads is not None:
            both = library.normalise(both, self.norm_heads, shape.eps)
        both = library.rotate(both.swapaxes(1, 2), turn)
        keys, values = remember(layer, both[:, shape.heads :], value.swapaxes(1, 2))
        mixed = library.attend(both[:, : shape.heads], keys, values, mask)
        mixed = self.out(mixed.swapaxes(1, 2).reshape(rows, new, -1))
        x = x + (mixed if self.scale_attention is None else mixed * self.scale_attention)
        gate, up = mx.split(self.gate_up(library.normalise(x, self.norm_mid, shape.eps)), 2, axis=-1)
        mixed = self.down(silu(gate) * up)
        return x + (mixed if self.scale_mlp is None else mixed * self.scale_mlp)


def frequencies(shape: TransformerShape) -> mx.array:
    """Of each pair of a head, float32 [head_dim / 2]."""
    exponents = mx.arange(0, shape.head_dim, 2).astype(mx.float32) / shape.head_dim
    return 1.0 / mx.power(mx.array(shape.rope_theta, mx.float32), exponents)


def turning(
    positions: mx.array, shape: TransformerShape, dtype: mx.Dtype, rates: mx.array | None = None
) -> library.Turn:  # fmt: skip
    """Of positions [rows or 1, new] that follow one another in each row."""
    angle = (positions[..., None].astype(mx.float32) * (frequencies(shape) if rates is None else rates))[:, None]
    start = positions[:, 0] if len(positions) > 1 else positions[0, 0]
    return library.Turn(start, shape.rope_theta, mx.cos(angle).astype(dtype), mx.sin(angle).astype(dtype))


class Trunk:
    """A stack of blocks and the norm after them."""

    def __init__(self, shape: TransformerShape, weights: Weights, name: str = "trunk", bits: int | None = None) -> None:
        self.shape = shape
        self.blocks = [Block(shape, weights, f"{name}.blocks.{i}", bits) for i in range(shape.layers)]
        self.norm = weights[f"{name}.norm.weight"]
        self.frequencies = frequencies(shape)

    def __call__(self, x: mx.array, positions: mx.array, mask: mx.array | None, remember: Remember) -> mx.array:
        """x [rows, new, hidden] at positions [rows or 1, new] -> normed hidden states of the same shape."""
        turn = turning(positions, self.shape, x.dtype, self.frequencies)
        for layer, block in enumerate(self.blocks):
            x = block(x, layer, turn, mask, remember)
        return library.normalise(x, self.norm, self.shape.eps)


class KV:
    """Keys and values of every layer for a fixed number of slots: [slots, kv_heads, length, d] each."""

    def __init__(self, keys: list[mx.array], values: list[mx.array]) -> None:
        self.keys, self.values = list(keys), list(values)

    @classmethod
    def of(cls, shape: TransformerShape, slots: int, length: int, dtype: mx.Dtype) -> KV:
        size = (slots, shape.kv_heads, length, shape.head_dim)
        return cls(*([mx.zeros(size, dtype) for _ in range(shape.layers)] for _ in range(2)))

    @property
    def length(self) -> int:
        return self.keys[0].shape[2]

    def forget(self, slots: mx.array) -> None:
        """Masked positions weigh nothing only while they are finite: no line may leave a NaN to the next."""
        for layer in range(len(self.keys)):
            self.keys[layer][slots] = 0
            self.values[layer][slots] = 0

    def first(self, count: int) -> KV:
        """A copy of the first positions."""
        return KV(*([mx.contiguous(kept[:, :, :count]) for kept in both] for both in (self.keys, self.values)))

    def share(self, slots: mx.array, other: KV) -> None:
        """Begin some slots with what one row of another holds."""
        slots = slots.astype(mx.uint32)  # as places of a slice are
        for layer in range(len(self.keys)):
            self.keys[layer][slots, :, : other.length] = other.keys[layer]
            self.values[layer][slots, :, : other.length] = other.values[layer]

    def fill(self, slots: mx.array, start: int, stop: int, reach: int) -> Remember:
        """Write rows of some slots at positions start..stop; attend to the first `reach` positions."""

        unsigned = slots.astype(mx.uint32)  # as places of a slice are

        def remember(layer: int, key: mx.array, value: mx.array) -> tuple[mx.array, mx.array]:
            self.keys[layer][unsigned, :, start:stop] = key
            self.values[layer][unsigned, :, start:stop] = value
            return self.keys[layer][slots][:, :, :reach], self.values[layer][slots][:, :, :reach]

        return remember

    def append(self, rows: mx.array, positions: mx.array, reach: int) -> Remember:
        """Write one row of every slot at that slot's position; attend to the first `reach` positions."""

        def remember(layer: int, key: mx.array, value: mx.array) -> tuple[mx.array, mx.array]:
            self.keys[layer] = library.write(self.keys[layer], rows, positions, key[:, :, 0])
            self.values[layer] = library.write(self.values[layer], rows, positions, value[:, :, 0])
            return self.keys[layer][:, :, :reach], self.values[layer][:, :, :reach]

        return remember


def causal_mask(positions: mx.array, length: int, dtype: mx.Dtype, window: int | None = None) -> mx.array:
    """[rows, new] positions -> [rows, 1, new, length]: 0 where a key may be seen, -inf elsewhere."""
    behind = positions[..., None] - mx.arange(length)
    hidden = behind < 0
    if window is not None:
        hidden = hidden | (behind >= window)
    return mx.where(hidden, mx.array(-mx.inf, dtype), mx.array(0, dtype))[:, None]
