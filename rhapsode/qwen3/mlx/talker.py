"""The talker on MLX: prompt rows and code sums in, the hidden state and the logits of codebook 0 out.

Knows embeddings, the text projection and the head. Chooses no code and keeps no keys.
"""

from __future__ import annotations

import mlx.core as mx

from rhapsode.qwen3.config import TalkerConfig
from rhapsode.qwen3.mlx.transformer import Linear, Trunk, Weights, arrays, silu


class Talker:
    def __init__(self, config: TalkerConfig, weights: Weights, bits: int | None = None) -> None:
        self.config = config
        self.text_embedding = weights["text_embedding.weight"]
        self.code_embedding = weights["code_embedding.weight"]
        self.text_in, self.text_out = Linear(weights, "text_in"), Linear(weights, "text_out")
        self.trunk = Trunk(config.trunk, weights, bits=bits)
        self.head = Linear(weights, "head")

    def arrays(self) -> list[mx.array]:
        return arrays(self)

    @property
    def dtype(self) -> mx.Dtype:
        return self.code_embedding.dtype

    def text_rows(self, ids: mx.array) -> mx.array:
        """Text ids [...] -> [..., hidden]."""
        return self.text_out(silu(self.text_in(self.text_embedding[ids])))

    def prompt_rows(self, text: mx.array, codec: mx.array) -> mx.array:
        """Text ids and codec ids (negative: none), each [...] -> the prefill rows [..., hidden]."""
        codes = self.code_embedding[mx.maximum(codec, 0)]
        return self.text_rows(text) + mx.where((codec < 0)[..., None], mx.array(0, codes.dtype), codes)

    def logits(self, hidden: mx.array) -> mx.array:
        """Hidden states [n, hidden] -> float32 logits [n, vocab]."""
        return self.head(hidden).astype(mx.float32)


def suppressed(config: TalkerConfig) -> mx.array:
    """bool [vocab]: the control ids that are never drawn; the end of speech is the one that may be."""
    ids = mx.arange(config.vocab)
    return (ids >= config.codes) & (ids != config.eos)
