"""What a book costs beside the model: reading its text into lines, and writing its sound into a container.

Knows the rooms `book` and `audio` as a book's way through them, on made-up text and noise of the size of a sample.
Knows no network. The sound of single lines that is kept until a book is done is not in it.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rhapsode.bench.stopwatch import Clock, Stopwatch
from rhapsode.bench.workload import Workload

_CHARACTERS = 4.3  # of a text token, as the fixed book was fitted
_WORDS = ["the", "old", "captain", "turned", "and", "watched", "a", "grey", "sail", "until", "evening"]
_LOUD = 3000.0  # of 32767


@dataclass(frozen=True, slots=True)
class Beside:
    text_s: float
    container_s: float
    lines: int  # that the text was cut into
    audio_s: float

    @property
    def seconds(self) -> float:
        return self.text_s + self.container_s


def beside(workload: Workload, sample_rate: int, frame_rate: float, clock: Clock) -> Beside | None:
    """Text and M4B of a sample of the book; None where the libraries that they need are not installed."""
    try:
        from rhapsode.audio.container import write_audiobook
        from rhapsode.audio.marks import Tags
        from rhapsode.book import read_book, split_lines
    except ImportError:  # a bare checkout
        return None
    samples = round(workload.frames / frame_rate * sample_rate)
    noise = (np.random.Generator(np.random.PCG64(1)).standard_normal(sample_rate) * _LOUD).astype(np.int16)
    blocks = [noise[: min(sample_rate, samples - first)] for first in range(0, samples, sample_rate)]
    watch = Stopwatch(lambda: None, clock)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "book.txt", Path(folder) / "book.m4b"
        source.write_text(text(workload), encoding="utf-8")
        text_s, lines = watch.time(lambda: split_lines(read_book(source)))
        container_s, _ = watch.time(
            lambda: write_audiobook(
                target, sample_rate=sample_rate, tracks=[("1", samples)], blocks=blocks, tags=Tags(title="book")
            )
        )
    return Beside(text_s, container_s, len(lines), samples / sample_rate)


def text(workload: Workload) -> str:
    """A paragraph of words for each line, about as long as its tokens are."""
    paragraphs = []
    for number, line in enumerate(workload.lines):
        words: list[str] = []
        wanted = line.tokens * _CHARACTERS
        while sum(map(len, words)) + len(words) < wanted:
            words.append(_WORDS[(number + len(words)) % len(_WORDS)])
        paragraphs.append(" ".join(words).capitalize() + ".")
    return "\n\n".join(paragraphs) + "\n"
