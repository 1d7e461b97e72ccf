"""The depth predictor on MLX: the talker's hidden state and code 0 of a frame in, the other codes and their sum out.

Knows its own small transformer, which starts anew in every frame. Knows nothing of lines or prompts.
"""

from __future__ import annotations

import mlx.core as mx

from rhapsode.qwen3.config import PredictorConfig, TalkerConfig
from rhapsode.qwen3.mlx.sampling import Choice
from rhapsode.qwen3.mlx.transformer import Linear, Trunk, Weights, arrays, causal_mask


class Predictor:
    def __init__(
        self, config: PredictorConfig, talker: TalkerConfig, weights: Weights, bits: int | None = None
    ) -> None:
        self.books = talker.codebooks - 1
        self.embeddings = [weights[f"embeddings.{book}.weight"] for book in range(self.books)]
        self.project = Linear(weights, "project") if "project.weight" in weights else None
        self.trunk = Trunk(config.trunk, weights, bits=bits)
        # The same in every frame: the first two rows together, then one at a time.
        spans = [(0, 2), *((row, row + 1) for row in range(2, talker.codebooks))]
        self.turns = [self.trunk.turning(mx.arange(*span)[None]) for span in spans]
        self.mask = causal_mask(mx.arange(2)[None], 2, self.trunk.norm.dtype)
        self.heads = [Linear(weights, f"heads.{book}", bits) for book in range(self.books)]

    def arrays(self) -> list[mx.array]:
        return arrays(self)

    def __call__(
        self, hidden: mx.array, first: mx.array, uniform: mx.array, draw: Choice
    ) -> tuple[mx.array, mx.array, mx.array]:
        """One frame of every slot: hidden and first [slots, hidden], uniform [slots, books]
        -> codes [slots, books], the sum of all embeddings of the frame [slots, hidden], and the sum of the largest
        logits [slots], which is not finite if any of them is NaN or +inf.
        """
        total, codes, peaks = first, [], []
        x = mx.stack([hidden, first], axis=1)
        kept: dict[int, mx.array] = {}

        def remember(layer: int, new: mx.array) -> tuple[mx.array, mx.array]:
            new = new.swapaxes(0, 1)  # [2, slots, kv_heads, new, head_dim]: keys are a whole array, and so are values
            kept[layer] = mx.concatenate([kept[layer], new], axis=3) if layer in kept else new
            keys, values = mx.split(kept[layer], 2)
            return keys.squeeze(0), values.squeeze(0)

        for book, turn in enumerate(self.turns):
            x = x if self.project is None else self.project(x)
            state = self.trunk(x, turn, self.mask if book == 0 else None, remember)[:, -1]
            logits = self.heads[book](state).astype(mx.float32)
            peaks.append(logits.max(-1))
            code = draw(logits, uniform[:, book])
            row = self.embeddings[book][code]
            total = total + row
            codes.append(code)
            x = row[:, None]
        return mx.stack(codes, axis=1), total, mx.stack(peaks).sum(0)
