"""Prompts of a group through the talker: their keys and values into slots, and each one's last state.

Knows prompts as rows of ids, and how many rows go at once. What all lines of a voice begin with is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rhapsode.qwen3.prompt import Prompt
from rhapsode.qwen3.torch.fused import FusedTrunk
from rhapsode.qwen3.torch.talker import Talker
from rhapsode.qwen3.torch.transfer import send
from rhapsode.qwen3.torch.transformer import KEY_STEP, KV, ROW_STEP, causal_mask, round_up

# Rows of prompts that go through the talker at once: bounds what an admission needs besides the slots. A CPU is no
# faster with more, and fewer lines of neighbouring lengths are filled up less.
MOST_ROWS = 4096
MOST_ROWS_CPU = 512


class Prefill:
    def __init__(self, talker: Talker, kv: KV, fused: FusedTrunk | None) -> None:
        """`fused`: the talker's trunk where the kernels run it."""
        self.talker, self.kv, self.fused = talker, kv, fused
        self.device = talker.head.weight.device
        self._shared: dict[tuple[int, ...], tuple[Tensor, Tensor]] = {}

    def lines_at_once(self, longest: int) -> int:
        """Of prompts of at most so many rows."""
        most = MOST_ROWS_CPU if self.device.type == "cpu" else MOST_ROWS
        return max(1, most // round_up(longest, ROW_STEP))

    def __call__(self, slots: Tensor, prompts: Sequence[Prompt]) -> Tensor:
        """Prompts of one voice into slots int [n] -> the talker's state after the last row of each [n, hidden]."""
        shared = prompts[0].shared
        if self.fused is None:  # the kernels read nothing that was not written
            self.kv.forget(slots)
        if shared:
            self.kv.keys[:, slots, :, :shared], self.kv.values[:, slots, :, :shared] = self._shared_rows(prompts[0])
        hidden = self._run(self.kv, slots, prompts, shared, max(len(prompt) for prompt in prompts))
        last = np.array([len(prompt) - 1 - shared for prompt in prompts])
        return hidden[torch.arange(len(prompts), device=self.device), send(last, self.device)]

    def _shared_rows(self, prompt: Prompt) -> tuple[Tensor, Tensor]:
        """Keys and values of the rows that every line of a voice begins with, computed once."""
        head = prompt.head
        if head not in self._shared:
            count = prompt.shared
            kv = KV(self.talker.trunk.shape, 1, round_up(count + ROW_STEP, KEY_STEP), self.talker.head.weight)
            self._run(kv, torch.zeros(1, dtype=torch.int64, device=self.device), [prompt], 0, count)
            self._shared[head] = kv.keys[:, :, :, :count].clone(), kv.values[:, :, :, :count].clone()
        return self._shared[head]

    def _run(self, kv: KV, slots: Tensor, prompts: Sequence[Prompt], start: int, stop: int) -> Tensor:
        """The talker over rows start..stop of each prompt, shorter ones filled up at the end."""
        width = round_up(stop - start, ROW_STEP)
        ids = np.full((2, len(prompts), width), prompts[0].pad, np.int64)
        ids[1] = -1
        for row, prompt in enumerate(prompts):
            count = min(len(prompt), stop) - start
            ids[0, row, :count] = prompt.text[start : start + count]
            ids[1, row, :count] = prompt.codec[start : start + count]
        text, codec = send(ids, self.device).flatten(1)
        x = self.talker.prompt_rows(text, codec)
        if self.fused is not None:
            return self.fused.prompts(x, kv, slots, start)
        positions = torch.arange(start, start + width, device=self.device).unsqueeze(0)
        reach = round_up(start + width, KEY_STEP)
        mask = causal_mask(positions, reach, x.dtype)
        fill = kv.fill(slots, start, start + width, reach)
        return self.talker.trunk(x.view(len(prompts), width, -1), positions, mask, fill)
