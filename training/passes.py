"""The blocks of talker and predictor over whole rows at once, with what only training wants.

Knows the engine's modules and computes what their `forward` does (a test holds the two together), written over plain
tensors so that one compiled piece serves every layer; adds dropped branches and hands out queries and keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.qwen3.config import TransformerShape
from rhapsode.qwen3.torch.predictor import Predictor
from rhapsode.qwen3.torch.talker import Talker
from rhapsode.qwen3.torch.transformer import Block, Trunk, rotate


class Weights(NamedTuple):
    norm_in: Tensor
    qkv: Tensor
    norm_q: Tensor
    norm_k: Tensor
    out: Tensor
    norm_mid: Tensor
    gate_up: Tensor
    down: Tensor


def weights_of(block: Block) -> Weights:
    """A block's weights as plain tensors: the compiled pass sees no module."""
    return Weights(
        block.norm_in.weight, block.qkv.weight, cast(Tensor, block.norm_q.weight), cast(Tensor, block.norm_k.weight),
        block.out.weight, block.norm_mid.weight, block.gate_up.weight, block.down.weight,
    )  # fmt: skip


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.float()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight


def _product(x: Tensor, weight: Tensor) -> Tensor:
    narrow = torch.bfloat16 if x.is_cuda else torch.float32
    return F.linear(x.to(narrow), weight.to(narrow))


def block_pass(
    x: Tensor, weights: Weights, shape: TransformerShape, cos: Tensor, sin: Tensor, keep: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """x [rows, length, hidden] float32, cos and sin [length, head_dim / 2], keep [2, rows, length, 1] or None.

    -> the same shape; query and key of the first heads [rows, length, head_dim].
    """
    rows, length, _ = x.shape
    heads = _product(_norm(x, weights.norm_in, shape.eps), weights.qkv)
    heads = heads.view(rows, length, shape.heads + 2 * shape.kv_heads, shape.head_dim)
    query, key, value = heads.split((shape.heads, shape.kv_heads, shape.kv_heads), dim=2)
    query = rotate(_norm(query, weights.norm_q, shape.eps).transpose(1, 2), cos, sin).to(value.dtype)
    key = rotate(_norm(key, weights.norm_k, shape.eps).transpose(1, 2), cos, sin).to(value.dtype)
    mixed = F.scaled_dot_product_attention(
        query, key, value.transpose(1, 2), is_causal=True, enable_gqa=shape.heads != shape.kv_heads
    )
    mixed = _product(mixed.transpose(1, 2).reshape(rows, length, -1), weights.out).float()
    x = x + (mixed if keep is None else mixed * keep[0])
    gate, up = _product(_norm(x, weights.norm_mid, shape.eps), weights.gate_up).chunk(2, -1)
    mixed = _product(F.silu(gate) * up, weights.down).float()
    return x + (mixed if keep is None else mixed * keep[1]), query[:, 0], key[:, 0]


BlockPass = Callable[..., tuple[Tensor, Tensor, Tensor]]


def compiled_pass() -> BlockPass:
    """`block_pass`, compiled anew for every shape that it meets."""
    import torch._dynamo

    torch._dynamo.config.recompile_limit = 64
    return torch.compile(block_pass, dynamic=False)


def trunk_pass(
    trunk: Trunk, x: Tensor, one: BlockPass, drop: float = 0.0, watched: tuple[int, ...] = ()
) -> tuple[Tensor, dict[int, Any]]:
    """x [rows, length, hidden] -> normed hidden states, and of each watched layer (its output, query, key)."""
    rows, length, _ = x.shape
    cos, sin = trunk.rotary(torch.arange(length, device=x.device), torch.float32)
    cos, sin = cos.squeeze(-3), sin.squeeze(-3)
    seen: dict[int, Any] = {}
    x = x.float()
    for layer, block in enumerate(trunk.blocks):
        assert isinstance(block, Block)
        keep = None
        if drop:
            keep = (torch.rand(2, rows, length, 1, device=x.device) >= drop).float() / (1 - drop)
        x, query, key = one(x, weights_of(block), trunk.shape, cos, sin, keep)
        if layer in watched:
            seen[layer] = x, query, key
    return _norm(x, trunk.norm.weight, trunk.shape.eps), seen


def _stacked(parts: nn.ModuleList) -> Tensor:
    """The weights of embeddings or heads, [parts, size, width]."""
    return torch.stack([cast(Tensor, part.weight) for part in parts])


def frame_rows(talker: Talker, predictor: Predictor, codes: Tensor) -> Tensor:
    """Codes of frames [n, books] -> the sums of their embeddings [n, hidden], as one product with rows of ones."""
    first = F.embedding(codes[:, 0], talker.code_embedding.weight)
    tables = _stacked(predictor.embeddings)
    books, size, width = tables.shape
    narrow = torch.bfloat16 if first.is_cuda else torch.float32
    places = codes[:, 1:] + torch.arange(books, device=codes.device) * size
    hot = torch.zeros(len(codes), books * size, dtype=narrow, device=codes.device).scatter_(1, places, 1.0)
    return first + (hot @ tables.view(-1, width).to(narrow)).float()


def predictor_logits(predictor: Predictor, hidden: Tensor, first: Tensor, codes: Tensor, one: BlockPass) -> Tensor:
    """Hidden and the embedding of code 0 [n, hidden], deeper codes [n, books] -> logits [n, books, size]."""
    books = predictor.books
    tables = _stacked(predictor.embeddings)[: books - 1]
    count, size, width = tables.shape
    rows = predictor.project(tables.view(-1, width))
    places = codes[:, : books - 1] + torch.arange(count, device=codes.device) * size
    begun = predictor.project(torch.stack((hidden, first), 1))
    x, _ = trunk_pass(predictor.trunk, torch.cat((begun, F.embedding(places, rows)), 1), one)
    heads = _stacked(predictor.heads)
    narrow = torch.bfloat16 if x.is_cuda else torch.float32
    return torch.einsum("nkd,kvd->nkv", x[:, 1:].to(narrow), heads.to(narrow)).float()
