"""The transformer block that talker, depth predictor and codec share, on PyTorch.

Knows attention, rotary positions, RMSNorm and SwiGLU. Does not know what the rows mean, nor where keys and values
are kept: whoever calls passes a `Remember`, which stores them and hands back all that may be attended to.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.qwen3.config import TransformerShape

# (layer, keys, values) of new rows, each [rows, kv_heads, new, head_dim]
# -> keys and values to attend to, each [rows, kv_heads, length, head_dim]
Remember = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]

# Keys are attended to in steps of this many positions and products are made of this many rows at least, in
# multiples: then a row of a float32 product has the same bits whatever stands beside it (measured with MKL;
# `tests/engine/test_lanes_alone.py` holds it).
KEY_STEP = 16
ROW_STEP = 8


def round_up(count: int, step: int) -> int:
    return -(-count // step) * step


class RMSNorm(nn.Module):
    """x / rms(x) * weight over the last dimension, the quotient in float32."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return normalise(x, self.weight, self.eps)


def normalise(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """What `RMSNorm` does, with a weight that may differ from row to row."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return weight * wide.to(x.dtype)


class Rotary(nn.Module):
    """Cosines and sines of positions, for the two halves of a head (NeoX order)."""

    frequencies: Tensor

    def __init__(self, head_dim: int, theta: float) -> None:
        super().__init__()
        self.head_dim, self.theta = head_dim, theta
        self.place(torch.get_default_device())

    def place(self, device: torch.device) -> None:
        """Make the frequencies on a device: they are no weight, so no checkpoint brings them."""
        exponents = torch.arange(0, self.head_dim, 2, dtype=torch.float32, device=device) / self.head_dim
        self.register_buffer("frequencies", 1.0 / self.theta**exponents, persistent=False)

    def forward(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """[..., n] positions -> cosine and sine, [..., 1, n, head_dim / 2], to broadcast over heads."""
        angle = positions.unsqueeze(-1).float() * self.frequencies
        return angle.cos().to(dtype).unsqueeze(-3), angle.sin().to(dtype).unsqueeze(-3)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the halves of each head [..., heads, n, head_dim] by their position's angle."""
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Grouped-query attention.

    query [rows, heads, new, d], keys and values [rows, kv_heads, length, d], mask [rows or 1, 1, new, length] added
    to the scores -> [rows, new, heads * d] in the type of the query, whatever that of the keys.
    """
    rows, heads, new, width = query.shape
    groups = heads // keys.shape[1]
    if keys.dtype != torch.float32 or query.device.type != "cpu":
        if new == 1:  # the queries of a group as rows of one head: each key is then read once
            query = query.view(rows, heads // groups, groups, width)
            out = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
            return out.reshape(rows, new, heads * width)
        out = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, enable_gqa=groups > 1)
        return out.transpose(1, 2).reshape(rows, new, heads * width)
    # Written out, since the library's kernel splits work over threads in a way that depends on the batch.
    dtype, query = query.dtype, query.reshape(rows, heads // groups, groups * new, width).float()
    scores = torch.matmul(query, keys.transpose(-1, -2)).mul_(width**-0.5)
    if mask is not None:
        scores = scores.view(rows, heads, new, -1).add_(mask)
    out = torch.matmul(scores.softmax(-1).view(rows, heads // groups, groups * new, -1), values)
    return out.to(dtype).view(rows, heads, new, width).transpose(1, 2).reshape(rows, new, heads * width)


class Block(nn.Module):
    """One pre-norm decoder block. q, k and v are one product, gate and up another."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.shape = shape
        query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.norm_in = RMSNorm(shape.hidden, shape.eps)
        self.qkv = nn.Linear(shape.hidden, query + 2 * key, bias=False)
        self.norm_q = RMSNorm(shape.head_dim, shape.eps) if shape.qk_norm else nn.Identity()
        self.norm_k = RMSNorm(shape.head_dim, shape.eps) if shape.qk_norm else nn.Identity()
        self.out = nn.Linear(query, shape.hidden, bias=False)
        self.norm_mid = RMSNorm(shape.hidden, shape.eps)
        self.gate_up = nn.Linear(shape.hidden, 2 * shape.intermediate, bias=False)
        self.down = nn.Linear(shape.intermediate, shape.hidden, bias=False)
        self.scale_attention = nn.Parameter(torch.ones(shape.hidden)) if shape.layer_scale else None
        self.scale_mlp = nn.Parameter(torch.ones(shape.hidden)) if shape.layer_scale else None

    def _norm_heads(self, heads: Tensor) -> Tensor:
        """Queries and keys [..., heads + kv_heads, head_dim] through their norms, in one pass over both."""
        shape, queries, keys = self.shape, self.norm_q, self.norm_k
        if not (isinstance(queries, RMSNorm) and isinstance(keys, RMSNorm)):
            return heads
        weight = torch.cat((queries.weight.expand(shape.heads, -1), keys.weight.expand(shape.kv_heads, -1)))
        return normalise(heads, weight, queries.eps)

    def forward(
        self, x: Tensor, layer: int, turn: tuple[Tensor, Tensor], mask: Tensor | None, remember: Remember
    ) -> Tensor:
        """x [rows, new, hidden] -> the same shape."""
        shape, (rows, new, _) = self.shape, x.shape
        heads = self.qkv(self.norm_in(x)).view(rows, new, shape.heads + 2 * shape.kv_heads, shape.head_dim)
        both, value = heads.split((shape.heads + shape.kv_heads, shape.kv_heads), dim=2)
        query, key = rotate(self._norm_heads(both).transpose(1, 2), *turn).split((shape.heads, shape.kv_heads), dim=1)
        keys, values = remember(layer, key, value.transpose(1, 2))
        mixed = self.out(attend(query, keys, values, mask))
        x = x + (mixed if self.scale_attention is None else mixed * self.scale_attention)
        gate, up = self.gate_up(self.norm_mid(x)).chunk(2, -1)
        mixed = self.down(F.silu(gate) * up)
        return x + (mixed if self.scale_mlp is None else mixed * self.scale_mlp)


class Trunk(nn.Module):
    """A stack of blocks and the norm after them."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.shape = shape
        self.rotary = Rotary(shape.head_dim, shape.rope_theta)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, shape.eps)

    def forward(self, x: Tensor, positions: Tensor, mask: Tensor | None, remember: Remember) -> Tensor:
        """x [rows, new, hidden] at positions [rows or 1, new] -> normed hidden states of the same shape."""
        turn = self.rotary(positions, x.dtype)
        for layer, block in enumerate(self.blocks):
            x = block(x, layer, turn, mask, remember)
        return self.norm(x)


class KV:
    """Keys and values of every layer for a fixed number of slots, allocated once: [slots, kv_heads, length, d]."""

    def __init__(self, shape: TransformerShape, slots: int, length: int, like: Tensor) -> None:
        size = (shape.layers, slots, shape.kv_heads, length, shape.head_dim)
        self.keys = torch.zeros(size, dtype=like.dtype, device=like.device)
        self.values = torch.zeros_like(self.keys)

    @property
    def length(self) -> int:
        return self.keys.shape[3]

    @property
    def bytes(self) -> int:
        return 2 * self.keys.numel() * self.keys.element_size()

    def forget(self, slots: Tensor) -> None:
        """Masked positions weigh nothing only while they are finite: no line may leave a NaN to the next."""
        self.keys[:, slots] = 0
        self.values[:, slots] = 0

    def fill(self, slots: Tensor, start: int, stop: int, reach: int) -> Remember:
        """Write rows of some slots at positions start..stop; attend to the first `reach` positions."""

        def remember(layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            keys, values = self.keys[layer], self.values[layer]
            keys[slots, :, start:stop] = key
            values[slots, :, start:stop] = value
            return keys[slots, :, :reach], values[slots, :, :reach]

        return remember

    def append(self, rows: Tensor, positions: Tensor, reach: int) -> Remember:
        """Write one row of every slot at that slot's position; attend to the first `reach` positions."""

        def remember(layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            keys, values = self.keys[layer], self.values[layer]
            keys[rows, :, positions] = key[:, :, 0]
            values[rows, :, positions] = value[:, :, 0]
            return keys[:, :, :reach], values[:, :, :reach]

        return remember

    def extend(self, start: int, stop: int) -> Remember:
        """Write rows of every slot at positions start..stop, the same for all; attend to all up to there."""

        def remember(layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            keys, values = self.keys[layer], self.values[layer]
            keys[:, :, start:stop] = key
            values[:, :, start:stop] = value
            return keys[:, :, :stop], values[:, :, :stop]

        return remember


def causal_mask(positions: Tensor, length: int, dtype: torch.dtype, window: int | None = None) -> Tensor:
    """[rows, new] positions -> [rows, 1, new, length]: 0 where a key may be seen, -inf elsewhere.

    A key may be seen at or before the query's position and, with a window, less than that far behind.
    """
    behind = positions.unsqueeze(-1) - torch.arange(length, device=positions.device)
    hidden = behind < 0
    if window is not None:
        hidden |= behind >= window
    mask = torch.zeros(hidden.shape, dtype=dtype, device=positions.device)
    return mask.masked_fill_(hidden, float("-inf")).unsqueeze(1)
