"""The fixed book: how long its lines are, in text tokens and in frames, drawn once.

Knows numbers. Knows no text, no model and no clock. Every engine that reads it computes the same: each line ends at
its scripted frame, whatever the model would have said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Fitted on Moby-Dick (Herman Melville): 8,734 lines as `rhapsode.book.lines.split_lines` cuts them at 300 characters.
# Tokens are characters / 4.3, at least one; frames are `rhapsode.engine.judge.expected_seconds` at the codec's rate.
# Means and standard deviations of the natural logarithms were 3.246, 0.744 (tokens) and 4.568, 0.684 (frames). The
# Adventures of Sherlock Holmes (4,769 lines) gave 3.054, 0.765 and 4.385, 0.707.
TOKENS_MEAN, TOKENS_SD = 3.246, 0.744
# ln(frames) = 1.593 + 0.9165 ln(tokens), on the same lines.
FRAMES_AT_ONE, FRAMES_POWER = 1.593, 0.9165
# How much the tempo differs from line to line, beyond what the length of a text foretells: an assumption, not measured.
TEMPO_SD = 0.15
# The shortest and longest lines there were; a reader stops at his limit, where a lognormal goes on.
TOKENS_LEAST, TOKENS_MOST = 2, 70
FRAMES_LEAST, FRAMES_MOST = 6, 300

BOOK_LINES = 2000
MOST_LINES = 20_000  # that may be asked for: the same draw, carried on; 6,200 are about sixteen hours
SEED = 1851


@dataclass(frozen=True, slots=True)
class Script:
    """One line: what is known of it before it is read, and when it ends."""

    tokens: int
    frames: int


@dataclass(frozen=True, slots=True)
class Workload:
    lines: tuple[Script, ...]

    @property
    def frames(self) -> int:
        return sum(line.frames for line in self.lines)

    @property
    def hash(self) -> str:
        """16 hex digits over all lengths: two runs with the same one did the same work."""
        numbers = np.array([(line.tokens, line.frames) for line in self.lines], dtype="<i4")
        return hashlib.blake2b(numbers.tobytes(), digest_size=8).hexdigest()

    def first(self, lines: int) -> Workload:
        return Workload(self.lines[:lines])


def draw(lines: int = BOOK_LINES, seed: int = SEED) -> Workload:
    """The first lines of the book. A longer draw begins with the same ones."""
    numbers = np.random.Generator(np.random.PCG64(seed)).standard_normal((lines, 2))
    log_tokens = TOKENS_MEAN + TOKENS_SD * numbers[:, 0]
    tokens = _bounded(log_tokens, TOKENS_LEAST, TOKENS_MOST)
    # Frames follow the tokens that are read, not those that a bound took away.
    log_frames = FRAMES_AT_ONE + FRAMES_POWER * np.log(tokens) + TEMPO_SD * numbers[:, 1]
    frames = _bounded(log_frames, FRAMES_LEAST, FRAMES_MOST)
    return Workload(tuple(Script(int(t), int(f)) for t, f in zip(tokens, frames, strict=True)))


def _bounded(logarithms: np.ndarray, least: int, most: int) -> np.ndarray:
    return np.exp(logarithms).round().clip(least, most).astype(np.int64)


def batches(lines: Sequence[int], size: int) -> list[list[int]]:
    """Consecutive groups of at most `size`."""
    return [list(lines[first : first + size]) for first in range(0, len(lines), size)]
