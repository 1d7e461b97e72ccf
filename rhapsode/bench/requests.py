"""The lines of the fixed book as a model is asked for them: prompts of the scripted lengths.

Knows the order of a prompt's rows through `PromptMaker`. There is no text: its ids are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from rhapsode.bench.workload import SEED, Workload
from rhapsode.engine.lanes import Reading
from rhapsode.engine.stepper import Request
from rhapsode.qwen3.config import ModelConfig
from rhapsode.qwen3.prompt import Prompt, PromptMaker
from rhapsode.qwen3.tokens import TextTokenizer
from rhapsode.qwen3.voices import choose, speakers


class Drawn:
    """In a tokeniser's place: the text of line n is its number, and stands for as many ids as the line has tokens."""

    def __init__(self, tokens: Sequence[int], limit: int) -> None:
        """`limit`: ids are below it."""
        self._tokens, self._limit = tokens, limit

    def __call__(self, text: str) -> list[int]:
        if not text.strip():
            return [self._limit - 1]  # the line end within a prompt's head
        line = int(text)
        numbers = np.random.Generator(np.random.PCG64([SEED, line]))
        return numbers.integers(0, self._limit, self._tokens[line]).tolist()


def prompts(tokens: Sequence[int], config: ModelConfig) -> list[Prompt]:
    """A prompt in the first voice for each number of text tokens."""
    voice = choose(config, speakers(config)[0] if speakers(config) else None, None)
    make = PromptMaker(config, cast(TextTokenizer, Drawn(tokens, config.first_control_token)), voice)
    return [make(str(line)) for line in range(len(tokens))]


def readings(workload: Workload, config: ModelConfig) -> list[Reading]:
    """What the engine is given: it orders lines by their text, and learns of their ends as they come."""
    made = prompts([line.tokens for line in workload.lines], config)
    return [
        Reading(number, Request(prompt, line.frames, seed=number * 0x9E3779B97F4A7C15 & (1 << 64) - 1), line.tokens)
        for number, (line, prompt) in enumerate(zip(workload.lines, made, strict=True))
    ]
