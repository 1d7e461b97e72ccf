"""The depth predictor: the talker's hidden state and code 0 of a frame in, the other codes and their sum out.

Knows its own small transformer, which starts anew in every frame. Knows nothing of lines or prompts.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rhapsode.qwen3.config import PredictorConfig, TalkerConfig
from rhapsode.qwen3.torch.sampling import Choice
from rhapsode.qwen3.torch.transformer import KV, Trunk, causal_mask


class Predictor(nn.Module):
    def __init__(self, config: PredictorConfig, talker: TalkerConfig) -> None:
        super().__init__()
        self.config, self.talker_config = config, talker
        self.books = talker.codebooks - 1
        self.embeddings = nn.ModuleList(nn.Embedding(config.vocab, talker.trunk.hidden) for _ in range(self.books))
        narrower = config.trunk.hidden != talker.trunk.hidden
        self.project = nn.Linear(talker.trunk.hidden, config.trunk.hidden) if narrower else nn.Identity()
        self.trunk = Trunk(config.trunk)
        self.heads = nn.ModuleList(nn.Linear(config.trunk.hidden, config.vocab, bias=False) for _ in range(self.books))

    def room(self, slots: int, like: Tensor) -> KV:
        """Keys and values for one frame of every slot. On the CPU in float32, which is faster over so few."""
        dtype = torch.float32 if like.device.type == "cpu" else like.dtype
        return KV(self.trunk.shape, slots, self.books + 1, like.new_empty(0, dtype=dtype))

    def forward(
        self, hidden: Tensor, first: Tensor, uniform: Tensor, draw: Choice, kv: KV
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One frame of every slot.

        hidden [slots, hidden], first: the embedding of code 0 [slots, hidden], uniform [slots, books] in [0, 1)
        -> codes [slots, books]; the sum of the embeddings of all codes of the frame [slots, hidden]; and the sum of
        the largest logits [slots], which is not finite if any of them is NaN or +inf.
        """
        total, codes = first, []
        peak = torch.zeros(hidden.shape[0], device=hidden.device)
        x = torch.stack((hidden, first), dim=1)
        for book in range(self.books):
            start, stop = (0, 2) if book == 0 else (book + 1, book + 2)
            positions = torch.arange(start, stop, device=x.device).unsqueeze(0)
            mask = causal_mask(positions, stop, x.dtype) if book == 0 else None
            state = self.trunk(self.project(x), positions, mask, kv.extend(start, stop))[:, -1]
            logits = self.heads[book](state).float()
            peak = peak + logits.amax(-1)
            code = draw(logits, uniform[:, book])
            row = self.embeddings[book](code)
            total = total + row
            codes.append(code)
            x = row.unsqueeze(1)
        return torch.stack(codes, dim=1), total, peak
