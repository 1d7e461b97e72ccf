"""The talker: prompt rows and code sums in, the hidden state and the logits of codebook 0 out.

Knows embeddings, the text projection and the head. Chooses no code and keeps no keys: see `sampling` and `stepper`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.qwen3.config import TalkerConfig
from rhapsode.qwen3.torch.transformer import ROW_STEP, Trunk, round_up


class Talker(nn.Module):
    """28 blocks in the released sizes; one row per frame after the prefill."""

    def __init__(self, config: TalkerConfig) -> None:
        super().__init__()
        self.config = config
        self.text_embedding = nn.Embedding(config.text_vocab, config.text_hidden)
        self.text_in = nn.Linear(config.text_hidden, config.text_hidden)
        self.text_out = nn.Linear(config.text_hidden, config.trunk.hidden)
        self.code_embedding = nn.Embedding(config.vocab, config.trunk.hidden)
        self.trunk = Trunk(config.trunk)
        self.head = nn.Linear(config.trunk.hidden, config.vocab, bias=False)

    def text_rows(self, ids: Tensor) -> Tensor:
        """Text ids [n] -> [n, hidden]. Rows are filled up to a whole step, so that each has the same bits in any n."""
        count = ids.shape[0]
        ids = F.pad(ids, (0, round_up(count, ROW_STEP) - count))
        return self.text_out(F.silu(self.text_in(self.text_embedding(ids))))[:count]

    def prompt_rows(self, text: Tensor, codec: Tensor) -> Tensor:
        """Text ids and codec ids (negative: none), each [n] -> the prefill rows [n, hidden]."""
        codes = self.code_embedding(codec.clamp(min=0))
        return self.text_rows(text) + codes.masked_fill((codec < 0).unsqueeze(-1), 0)

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states [n, hidden] -> float32 logits [n, vocab]."""
        return self.head(hidden).float()


def suppressed(config: TalkerConfig, device: torch.device) -> Tensor:
    """bool [vocab]: the control ids that are never drawn; the end of speech is the one that may be."""
    mask = torch.zeros(config.vocab, dtype=torch.bool, device=device)
    mask[config.codes :] = True
    mask[config.eos] = False
    return mask
