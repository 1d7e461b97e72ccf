"""Training rows of the talker, put together on the device: prompt, text, frames and what each row is to foretell.

Knows the order of a prompt as `rhapsode.qwen3.prompt` has it (a test holds the two together), utterances of natural
length and both ways of giving text. A row is one utterance: rows filled up with several teach a model to end only
where rows end. Knows no network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rhapsode.qwen3.config import ModelConfig
from training.layout import LANGUAGES, SPEAKERS

NONE = -1  # no codec id in this row; no frame; nothing to foretell
END = -2  # the end of speech is to be foretold
ROLE_ROWS = 3
STREAMING_SHARE, LANGUAGE_SHARE = 0.15, 0.85


@dataclass
class Utterances:
    """Texts and codes end to end on one device."""

    tokens: Tensor  # int64 [all tokens]
    token_start: Tensor  # int64 [utterances]
    token_count: Tensor  # int64 [utterances]
    codes: Tensor  # int16 [all frames, books]
    frame_start: Tensor  # int64 [utterances + 1]
    at: Tensor  # int16 [all frames]: token that is said
    labels: Tensor  # uint8 [all frames, slots]
    speaker: Tensor  # int64 [utterances]: number in SPEAKERS

    def rows(self) -> Tensor:
        """Rows that each utterance takes at most, [utterances]."""
        return self.token_count + self.frame_start.diff() + ROLE_ROWS + 6 + 2


@dataclass
class Batch:
    """All [rows, length] of one batch, but where it is said otherwise."""

    text: Tensor  # text ids
    codec: Tensor  # codec ids, or NONE
    frame: Tensor  # which frame of all comes in, or NONE
    target: Tensor  # which frame of all is to be foretold, END, or NONE
    at: Tensor  # row in which the token stands that the foretold frame says; meaningless without one
    streaming: Tensor  # bool [rows]


class RowMaker:
    def __init__(self, config: ModelConfig, newline: int, data: Utterances, device: str) -> None:
        self.config, self.data, self.device = config, data, device
        talker = config.talker

        def ids(*values: int) -> Tensor:
            return torch.tensor(values, device=device)

        self._role = ids(config.im_start, config.assistant, newline)
        # With a language and without; a speaker's id and the rows after it are added in `__call__`.
        self._spoken = ids(talker.think, talker.think_bos, LANGUAGES["english"], talker.think_eos)
        self._auto = ids(talker.nothink, talker.think_bos, talker.think_eos, talker.pad)
        self._speakers = ids(*SPEAKERS.values())

    def __call__(self, chosen: Tensor, length: int, streaming: Tensor, language: Tensor) -> Batch:
        """Utterances [rows] as rows of one length; `streaming` and `language`: bool [rows]."""
        config, talker, data = self.config, self.config.talker, self.data
        place = torch.arange(length, device=self.device).unsqueeze(0)
        first_token, tokens = data.token_start[chosen].unsqueeze(1), data.token_count[chosen].unsqueeze(1)
        first_frame, frames = data.frame_start[chosen].unsqueeze(1), data.frame_start.diff()[chosen].unsqueeze(1)
        streaming, language = streaming.unsqueeze(1), language.unsqueeze(1)

        control = 3 + language.long()  # ids before the speaker
        head = ROLE_ROWS + control + 2  # role, control ids, speaker, tts_bos over pad
        prefill = torch.where(streaming, head + 1, head + tokens + 2)
        # Row `head + k` brings token k in both ways: at once, or one with every frame.
        token = place - head
        frame = place - prefill
        inside = (frame >= 0) & (frame < frames)

        text = torch.full_like(place, config.tts_pad).expand(len(chosen), -1)
        text = torch.where(place < ROLE_ROWS, self._role[place.clamp(max=ROLE_ROWS - 1)], text)
        text = text.masked_fill(place == head - 1, config.tts_bos)
        said = data.tokens[(first_token + token.clamp(min=0)).clamp(max=len(data.tokens) - 1)]
        text = torch.where((token >= 0) & (token < tokens), said, text)
        text = text.masked_fill(token == tokens, config.tts_eos)

        codec = torch.full_like(text, NONE)
        order = (place - ROLE_ROWS).clamp(min=0, max=3)
        ruling = torch.where(language, self._spoken[order], self._auto[order])
        codec = torch.where((place >= ROLE_ROWS) & (place < ROLE_ROWS + control), ruling, codec)
        speaker = self._speakers[data.speaker[chosen]].unsqueeze(1)
        codec = torch.where(place == ROLE_ROWS + control, speaker, codec)
        codec = codec.masked_fill((place >= head - 1) & (place < prefill - 1), talker.pad)
        codec = codec.masked_fill(place == prefill - 1, talker.bos)

        foretold = frame + 1
        target = (first_frame + foretold).masked_fill((foretold < 0) | (foretold >= frames), NONE)
        target = target.masked_fill(foretold == frames, END)
        number = (first_frame + frame).masked_fill(~inside, NONE)
        spoken = data.at[target.clamp(min=0)].long()
        return Batch(text, codec, number, target, head + spoken, streaming.squeeze(1))


def buckets(rows: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    """Numbers of the utterances that fit each length and not the one before it."""
    below, out = 0, []
    for length in lengths:
        out.append(((rows > below) & (rows <= length)).nonzero().squeeze(1))
        below = length
    return out
