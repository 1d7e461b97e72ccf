"""The transformer block that talker, depth predictor and codec share, on MLX.

Knows attention, rotary positions, RMSNorm and SwiGLU. Does not know what the rows mean, nor where keys and values
are kept: whoever calls passes a `Remember`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import mlx.core as mx

from rhapsode.qwen3.config import TransformerShape
from rhapsode.qwen3.mlx import library

# (layer, keys and values of new rows [rows, 2, kv_heads, new, head_dim]) -> keys and values to attend to, each
# [rows, kv_heads, length, head_dim]
Remember = Callable[[int, mx.array], tuple[mx.array, mx.array]]
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

    def onto(self, rows: mx.array, x: mx.array, scale: mx.array | None) -> mx.array:
        """What is made of x, `scale` times that if there is one, added to rows [.., out]."""
        if self.bits or self.bias is not None or scale is not None:
            return rows + (self(x) if scale is None else self(x) * scale)
        return library.add_product(x, self.weight, rows)

    def _few_bits(self, x: mx.array, bits: int) -> mx.array:
        return library.quantised(x, self.packed, self.scales, self.offsets, bits)


class Block:
    """One pre-norm decoder block. q, k and v are one product, gate and up another."""

    def __init__(self, shape: TransformerShape, weights: Weights, name: str, bits: int | None) -> None:
        self.shape = shape
        self.norm_in, self.norm_mid = weights[f"{name}.norm_in.weight"], weights[f"{name}.norm_mid.weight"]
        self.qkv, self.out = Linear(weights, f"{name}.qkv", bits), Linear(weights, f"{name}.out", bits)
        self.gate_up, self.down = Linear(weights, f"{name}.gate_up", bits), Linear(weights, f"{name}.down", bits)
        gain: mx.array | None = None
        if shape.qk_norm:
            query, key = weights[f"{name}.norm_q.weight"], weights[f"{name}.norm_k.weight"]
            gain = mx.stack([query] * shape.heads + [key] * shape.kv_heads)
        self.heads = library.Heads(shape.heads + shape.kv_heads, shape.kv_heads, gain, shape.eps)
        self.scale_attention = weights.get(f"{name}.scale_attention")
        self.scale_mlp = weights.get(f"{name}.scale_mlp")

    def __call__(
        self, x: mx.array, layer: int, turn: library.Turn, mask: mx.array | None, remember: Remember
    ) -> mx.array:
        """x [rows, new, hidden] -> the same shape."""
        shape, (rows, new, _) = self.shape, x.shape
        heads = self.qkv(library.normalise(x, self.norm_in, shape.eps)).reshape(rows, new, -1, shape.head_dim)
        heads = library.rotate(heads.swapaxes(1, 2), self.heads, turn)
        keys, values = remember(layer, mx.unflatten(heads[:, shape.heads :], 1, (2, -1)))
        mixed = library.attend(heads[:, : shape.heads], keys, values, mask)
        x = self.out.onto(x, mixed.swapaxes(1, 2).reshape(rows, new, -1), self.scale_attention)
        gate, up = mx.split(self.gate_up(library.normalise(x, self.norm_mid, shape.eps)), 2, axis=-1)
        return self.down.onto(x, silu(gate) * up, self.scale_mlp)


def frequencies(shape: TransformerShape) -> mx.array:
    """Of each pair of a head, float32 [head_dim / 2]."""
    exponents = mx.arange(0, shape.head_dim, 2).astype(mx.float32) / shape.head_dim
    return 1.0 / mx.power(mx.array(shape.rope_theta, mx.float32), exponents)


def turning(positions: mx.array, rates: mx.array, dtype: mx.Dtype) -> library.Turn:
    """Of positions [rows or 1, new], with the frequencies of a shape."""
    angle = (positions[..., None].astype(mx.float32) * rates)[:, None, :, None]
    both = angle * mx.array([[-1.0], [1.0]])  # sin is odd: the sign goes in with what is turned
    return library.Turn(mx.cos(angle).astype(dtype), mx.sin(both).astype(dtype))


class Trunk:
    """A stack of blocks and the norm after them."""

    def __init__(self, shape: TransformerShape, weights: Weights, name: str = "trunk", bits: int | None = None) -> None:
        self.shape = shape
        self.blocks = [Block(shape, weights, f"{name}.blocks.{i}", bits) for i in range(shape.layers)]
        self.norm = weights[f"{name}.norm.weight"]
        self.frequencies = frequencies(shape)

    def turning(self, positions: mx.array) -> library.Turn:
        """Of positions [rows or 1, new]."""
        return turning(positions, self.frequencies, self.norm.dtype)

    def __call__(self, x: mx.array, turn: library.Turn, mask: mx.array | None, remember: Remember) -> mx.array:
        """x [rows, new, hidden] -> normed hidden states of the same shape."""
        for layer, block in enumerate(self.blocks):
            x = block(x, layer, turn, mask, remember)
        return library.normalise(x, self.norm, self.shape.eps)


class KV:
    """Keys and values of every layer for a fixed number of slots, written together: [2 slots, kv_heads, length, d], the
    keys of all slots before the values of all, so that both are whole arrays to whoever reads them.
    """

    def __init__(self, layers: list[mx.array]) -> None:
        self.layers, self.slots = list(layers), len(layers[0]) // 2
        # Unsigned, as places of a slice are: of two types each would become a third.
        self._halves = mx.array([0, self.slots], mx.uint32)

    @classmethod
    def of(cls, shape: TransformerShape, slots: int, length: int, dtype: mx.Dtype) -> KV:
        size = (2 * slots, shape.kv_heads, length, shape.head_dim)
        return cls([mx.zeros(size, dtype) for _ in range(shape.layers)])

    @property
    def length(self) -> int:
        return self.layers[0].shape[2]

    @property
    def nbytes(self) -> int:
        return sum(layer.nbytes for layer in self.layers)

    def _rows(self, slots: mx.array) -> mx.array:
        """Where keys and values of slots [n] lie: [n, 2]."""
        return slots.astype(mx.uint32)[:, None] + self._halves

    def forget(self, slots: mx.array) -> None:
        """Masked positions weigh nothing only while they are finite: no line may leave a NaN to the next."""
        rows = self._rows(slots)
        for layer in self.layers:
            layer[rows] = 0

    def first(self, count: int) -> KV:
        """A copy of the first positions."""
        return KV([mx.contiguous(layer[:, :, :count]) for layer in self.layers])

    def share(self, slots: mx.array, other: KV) -> None:
        """Begin some slots with what one row of another holds."""
        rows = self._rows(slots)
        for layer, begun in zip(self.layers, other.layers, strict=True):
            layer[rows, :, : other.length] = begun

    def fill(self, slots: mx.array, start: int, stop: int, reach: int) -> Remember:
        """Write rows of some slots at positions start..stop; attend to the first `reach` positions."""
        rows = self._rows(slots)

        def remember(layer: int, new: mx.array) -> tuple[mx.array, mx.array]:
            self.layers[layer][rows, :, start:stop] = new
            keys, values = (self.layers[layer][rows[:, half]][:, :, :reach] for half in range(2))
            return keys, values

        return remember

    def append(self, positions: mx.array, reach: int) -> Remember:
        """Write one row of every slot at that slot's position [slots]; attend to the first `reach` positions."""
        rows = self._rows(mx.arange(self.slots))

        def remember(layer: int, new: mx.array) -> tuple[mx.array, mx.array]:
            kept = self.layers[layer] = library.write(self.layers[layer], rows, positions[:, None], new[:, :, :, 0])
            return kept[: self.slots, :, :reach], kept[self.slots :, :, :reach]

        return remember


def causal_mask(positions: mx.array, length: int, dtype: mx.Dtype, window: int | None = None) -> mx.array:
    """[rows, new] positions -> [rows, 1, new, length]: 0 where a key may be seen, -inf elsewhere."""
    behind = positions[..., None] - mx.arange(length)
    hidden = behind < 0
    if window is not None:
        hidden = hidden | (behind >= window)
    return mx.where(hidden, mx.array(-mx.inf, dtype), mx.array(0, dtype))[:, None]
