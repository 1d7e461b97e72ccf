"""What the talker learns from: texts as tokens, utterances as codes, and which of them are drawn how often.

Knows the files of the earlier stages. Knows no network and no loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from rhapsode.qwen3.config import ModelConfig
from rhapsode.qwen3.tokens import TextTokenizer
from training.audio import SLOTS, offsets
from training.layout import DEEP_CODES, SPEAKERS
from training.rows import Utterances, buckets

LENGTHS = (64, 96, 128, 192, 256, 352, 512)  # rows; an utterance is drawn in the first that it fits
SPEAKER_SHARES = (0.58, 0.42)  # the second has spoken less, but is to speak as well


@dataclass
class Texts:
    """All texts as tokens, end to end."""

    tokens: Tensor  # int64 [all tokens]
    start: Tensor  # int64 [texts]
    count: Tensor  # int64 [texts]

    @staticmethod
    def read(work: Path, tokenizer: TextTokenizer) -> Texts:
        """The texts that `prepare` wrote, as the checkpoint's own tokenizer counts them."""
        stored = np.load(work / "data" / "utterances.npz")
        raw, ends = stored["text"].tobytes(), stored["text_end"].tolist()
        lines = [tokenizer(raw[a:b].decode("utf-8")) for a, b in zip([0, *ends], ends, strict=False)]
        count = np.array([len(line) for line in lines])
        tokens = np.fromiter((token for line in lines for token in line), np.int64, count.sum())
        return Texts(torch.from_numpy(tokens), torch.from_numpy(np.cumsum(count) - count), torch.from_numpy(count))


def read_utterances(file: Path, texts: Texts, device: str, speaker: int | None = None) -> Utterances:
    """Codes and their texts. `speaker`: of all utterances, where the file does not say it of each."""
    stored = load_file(file)
    which = stored["utterance"].long()
    number = stored["speaker"].long() if speaker is None else torch.full((len(which),), speaker)
    return Utterances(
        texts.tokens.to(device), texts.start[which].to(device), texts.count[which].to(device),
        stored["codes"].to(device), offsets(stored["frames"]).to(device), stored["at"].to(device),
        stored["labels"].to(device), number.to(device),
    )  # fmt: skip


def random_utterances(config: ModelConfig, labels: int, device: str) -> Utterances:
    """Stand-ins of every length, to compile and capture with while the codec is still learning."""
    lengths = [max(2, (length - 20) // 2) for length in LENGTHS for _ in range(2)]
    start = torch.tensor([0, *lengths]).cumsum(0)
    total = int(start[-1])
    return Utterances(
        torch.randint(0, 256, (total,), device=device), start[:-1].to(device), start.diff().to(device),
        torch.randint(0, DEEP_CODES, (total, config.talker.codebooks), device=device).to(torch.int16),
        start.to(device), torch.zeros(total, dtype=torch.int16, device=device),
        torch.randint(0, labels, (total, SLOTS), device=device).to(torch.uint8),
        torch.randint(0, len(SPEAKERS), (len(lengths),), device=device),
    )  # fmt: skip


@dataclass
class Pools:
    """The utterances of one length, by speaker, and how often each speaker is to be drawn from them."""

    members: list[Tensor]  # of each speaker, int64 [utterances]
    chances: Tensor  # [speakers], adding up to the share of all draws that fall to this length

    def draw(self, count: int) -> Tensor:
        """Numbers of utterances, [count] int64. No host work: it is captured."""
        device = self.chances.device
        above = (self.chances / self.chances.sum()).cumsum(0)[:-1]
        speaker = (torch.rand(count, 1, device=device) > above).sum(1)
        chosen = torch.zeros(count, dtype=torch.long, device=device)
        for number, members in enumerate(self.members):
            if len(members):
                mine = members[torch.randint(len(members), (count,), device=device)]
                chosen = torch.where(speaker == number, mine, chosen)
        return chosen


def pools_by_length(data: Utterances) -> list[Pools]:
    """A speaker has the share in `SPEAKER_SHARES` of all draws; each utterance of one is drawn as often as another."""
    members: list[list[Tensor]] = [[] for _ in LENGTHS]
    chances = torch.zeros(len(LENGTHS), len(SPEAKERS))
    rows = data.rows()
    for number, share in enumerate(SPEAKER_SHARES):
        mine = data.speaker == number
        for i, group in enumerate(buckets(torch.where(mine, rows, 0), LENGTHS)):
            members[i].append(group)
            chances[i, number] = share * len(group) / max(1, int(mine.sum()))
    return [Pools(m, c.to(rows.device)) for m, c in zip(members, chances, strict=True)]
