"""What lanes of a stepper may hold, and codes on their way to the codec, whatever back end computes.

Knows requests for Qwen3-TTS, and how long the longest line of a book can become. Imports no array library but numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rhapsode.engine import judge
from rhapsode.engine.stepper import Request
from rhapsode.qwen3.config import TransformerShape

MIN_FRAMES = 2  # the official package never ends a line before
PROMPT = 128  # rows of a long line's prompt
LINE = "word " * 60  # as long as a line may be
FRAME_RATE = 12.5  # frames a second of every published codec


def longest_line(frame_rate: float = FRAME_RATE) -> int:
    """Positions of a line that could not be longer: its prompt, and frames up to where it is ended."""
    return PROMPT + math.ceil(judge.cap_seconds(LINE) * frame_rate)


def code_batch(lines: Sequence[np.ndarray], codebooks: int, size: int) -> np.ndarray:
    """Codes [frames, codebooks] of lines -> int64 [lines, longest, codebooks], shorter ones filled up with zeros.

    Raises `ValueError` for a code that a table of `size` rows does not hold.
    """
    batch = np.zeros((len(lines), max((len(line) for line in lines), default=0), codebooks), np.int64)
    for row, line in zip(batch, lines, strict=True):
        row[: len(line)] = line
    if batch.size and (batch.min() < 0 or batch.max() >= size):
        raise ValueError(f"codes from {batch.min()} to {batch.max()}; the codec's tables hold 0 to {size - 1}")
    return batch


def kv_bytes(trunk: TransformerShape, positions: int, width: int) -> int:
    """Keys and values of one slot with room for so many positions. width: bytes of a number."""
    return 2 * trunk.layers * trunk.kv_heads * trunk.head_dim * positions * width


@dataclass(frozen=True, slots=True)
class Limits:
    """What is allocated once: the longest prompt, frames of a line, and trailing text that any line may have."""

    prompt: int
    frames: int
    trailing: int = 0

    def check(self, request: Request) -> None:
        """Raises `ValueError` for a request that there is no room for."""
        prompt = request.prompt
        for what, size, most in (
            ("prompt rows", len(prompt), self.prompt),
            ("frames", request.cap, self.frames),
            ("trailing text", len(prompt.trailing), self.trailing),
        ):
            if size > most:
                raise ValueError(f"a line asks for {size} {what}, and {most} were allocated")
        if request.cap < 1:
            raise ValueError(f"a line needs a cap of one frame or more, not {request.cap}")
