"""One row of every lane through talker and depth predictor in as few launches as there is to do between products.

Knows the modules' weights and the kernels. What it computes is what `transformer.Trunk` and `predictor.Predictor`
compute for such rows; lanes may stand at any positions, and only what they have written is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.qwen3.torch.kernels.attention import LEAST, Heads, attend_rows
from rhapsode.qwen3.torch.kernels.choose import can_choose, choose
from rhapsode.qwen3.torch.kernels.embed import embed
from rhapsode.qwen3.torch.kernels.gate import swiglu
from rhapsode.qwen3.torch.kernels.norm import add_norm
from rhapsode.qwen3.torch.kernels.prompt import keep_rows
from rhapsode.qwen3.torch.predictor import Predictor
from rhapsode.qwen3.torch.sampling import Choice, Draw
from rhapsode.qwen3.torch.transformer import KV, Block, RMSNorm, Trunk, causal_mask


def can_fuse(trunk: Trunk) -> bool:
    """Whether a trunk is made of what the kernels know: queries and keys that are normed, no scales of layers."""
    shape = trunk.shape
    width = shape.head_dim
    return shape.qk_norm and not shape.layer_scale and width >= LEAST and width & (width - 1) == 0


class FusedTrunk:
    """The blocks of a trunk, for one new row or two of every lane."""

    def __init__(self, trunk: Trunk, length: int) -> None:
        """`length`: positions that keys and values have room for."""
        shape = trunk.shape
        self.heads = Heads(shape.heads, shape.kv_heads, shape.head_dim, shape.eps)
        self.blocks = [cast(Block, block) for block in trunk.blocks]
        self.norm = trunk.norm
        dtype = trunk.norm.weight.dtype
        places = torch.arange(length, device=trunk.norm.weight.device)
        cos, sin = trunk.rotary(places, dtype)
        self.turn = cos[0].contiguous(), sin[0].contiguous()

    def __call__(self, x: Tensor, kv: KV, lanes: Tensor | None, positions: Tensor | int, new: int = 1) -> Tensor:
        """x [n * new, hidden], which is used up, of lanes [n] whose first new row is at positions [n], or of the first
        n lanes at one position -> normed hidden states of the same shape."""

        def attend(layer: int, qkv: Tensor, norms: tuple[Tensor, Tensor]) -> Tensor:
            keys, values = kv.keys[layer], kv.values[layer]
            return attend_rows(qkv, norms, self.turn, positions, lanes, keys, values, self.heads, new)

        return self._through(x, attend)

    def prompts(self, x: Tensor, kv: KV, slots: Tensor, start: int) -> Tensor:
        """x [lines * width, hidden], which is used up, of slots [lines] from position `start` on -> normed hidden
        states [lines, width, hidden]. All that lies before was written."""
        lines, width = len(slots), len(x) // len(slots)
        positions = torch.arange(start, start + width, device=x.device).unsqueeze(0)
        group = self.heads.heads // self.heads.kv_heads
        mask = causal_mask(positions, start + width, x.dtype).repeat(1, 1, group, 1)

        def attend(layer: int, qkv: Tensor, norms: tuple[Tensor, Tensor]) -> Tensor:
            keys, values = kv.keys[layer], kv.values[layer]
            query = keep_rows(qkv, norms, self.turn, slots, start, keys, values, self.heads)
            # The queries of a group as rows of one head: the library then needs no copies of keys for each of them.
            query = query.view(lines, self.heads.kv_heads, group * width, self.heads.head_dim)
            seen_keys, seen_values = (one[slots, :, : start + width] for one in (keys, values))
            mixed = F.scaled_dot_product_attention(query, seen_keys, seen_values, attn_mask=mask)
            return mixed.reshape(lines, self.heads.heads, width, -1).transpose(1, 2).reshape(lines * width, -1)

        return self._through(x, attend).view(lines, width, -1)

    def _through(self, x: Tensor, attend: Callable[[int, Tensor, tuple[Tensor, Tensor]], Tensor]) -> Tensor:
        """Rows through all blocks; `attend` turns a layer's product of queries, keys and values into what they mix."""
        more: Tensor | None = None
        for layer, block in enumerate(self.blocks):
            normed = add_norm(x, more, block.norm_in.weight, block.norm_in.eps)
            norms = cast(RMSNorm, block.norm_q).weight, cast(RMSNorm, block.norm_k).weight
            mixed = attend(layer, block.qkv(normed), norms)
            normed = add_norm(x, block.out(mixed), block.norm_mid.weight, block.norm_mid.eps)
            more = block.down(swiglu(block.gate_up(normed)))
        return add_norm(x, more, self.norm.weight, self.norm.eps)


class FusedPredictor:
    """As `Predictor`, over tables of embeddings that went through its projection beforehand."""

    def __init__(self, predictor: Predictor, first: Tensor) -> None:
        """`first`: the talker's embeddings of codebook 0 [codes, hidden]."""
        self.predictor, self.books = predictor, predictor.books
        self.trunk = FusedTrunk(predictor.trunk, predictor.books + 1)
        self.tables = [cast(torch.nn.Embedding, one).weight for one in predictor.embeddings]
        self.projected = [self._project(table) for table in self.tables]
        self.first, self.projected_first = first, self._project(first)

    def _project(self, table: Tensor) -> Tensor:
        """Rows of a table as the trunk takes them: projected in float32, so that they are rounded once."""
        project = self.predictor.project
        if not isinstance(project, torch.nn.Linear):
            return table
        bias = None if project.bias is None else project.bias.float()
        return F.linear(table.float(), project.weight.float(), bias).to(table.dtype)

    def __call__(
        self, hidden: Tensor, code: Tensor, uniform: Tensor, draw: Choice, kv: KV
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One frame of n lanes: hidden [n, hidden], code 0 [n], uniform [n, books], room for n in kv
        -> codes int64 [n, books]; the sum of the embeddings of all codes of the frame, float32 [n, hidden]; and
        whether all logits were finite, bool [n]."""
        rows = len(code)
        total = self.first[code].float()
        x = torch.stack((self.predictor.project(hidden), self.projected_first[code]), 1).flatten(0, 1)
        codes = code.new_empty(rows, self.books)
        trouble = torch.zeros(rows, dtype=torch.int32, device=code.device)
        for book in range(self.books):
            position, new = (0, 2) if book == 0 else (book + 1, 1)
            state = self.trunk(x, kv, None, position, new)[new - 1 :: new]
            logits = self.predictor.heads[book](state)
            draw_codes(draw, logits, uniform[:, book], codes[:, book], trouble)
            x = embed(codes[:, book], self.tables[book], self.projected[book], total)
        return codes, total, trouble == 0


def draw_codes(draw: Choice, logits: Tensor, uniform: Tensor, codes: Tensor, trouble: Tensor) -> None:
    """As `kernels.choose.choose`, for any way of choosing."""
    if isinstance(draw, Draw) and can_choose(draw, logits.shape[-1]):
        choose(logits, uniform, draw, codes, trouble)
        return
    wide = logits.float()
    trouble += (wide.isnan() | wide.isposinf()).sum(-1)
    codes.copy_(draw(wide, uniform))
