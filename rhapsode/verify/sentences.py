"""The sentences that are read for a test: sections of numbered lines in a text file.

Knows the file: `# name` opens a section, lines of two hash marks are comments, any other line is a sentence. Knows no
voice and no sound.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from rhapsode.book.clean import one_line
from rhapsode.errors import UserError

MAX_CHARS = 1000  # of a sentence; a line of a book is far shorter
_MOST = 10_000  # sentences
_MOST_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Sentence:
    """`number` counts from 1 over the whole file, whatever is left out later: recordings are named by it."""

    number: int
    section: str
    text: str


def read_sentences(path: str | os.PathLike[str] | None = None, limit: int | None = None) -> list[Sentence]:
    """The sentences of a file, or the built-in ones; with `limit` the first so many of every section.

    Raises UserError for a file that cannot be read or holds no sentence.
    """
    if limit is not None and limit < 1:
        raise UserError(f"--limit must be 1 or more, not {limit}.")
    sentences = _parse(_text(path), str(path) if path is not None else "the built-in list")
    taken: dict[str, int] = {}
    chosen = []
    for sentence in sentences:
        taken[sentence.section] = taken.get(sentence.section, 0) + 1
        if limit is None or taken[sentence.section] <= limit:
            chosen.append(sentence)
    return chosen


def _text(path: str | os.PathLike[str] | None) -> str:
    if path is None:
        return (files("rhapsode.verify") / "sentences.txt").read_text(encoding="utf-8")
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if len(content) > _MOST_BYTES:
        raise UserError(f"{path} has more than {_MOST_BYTES} bytes; a list of sentences is far shorter.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text; a list of sentences is one sentence a line in UTF-8.") from None


def _parse(text: str, where: str) -> list[Sentence]:
    sentences: list[Sentence] = []
    section = "sentences"  # of what stands before the first heading
    for row, raw in enumerate(text.split("\n"), 1):
        line = one_line(raw)
        if not line or line.startswith("##"):
            continue
        if line.startswith("#"):
            section = line[1:].strip() or section
            continue
        if not any(character.isalpha() for character in line):
            raise UserError(f"Line {row} of {where} has no letter: {line!r:.40}; every sentence needs a word.")
        if len(line) > MAX_CHARS:
            raise UserError(f"Line {row} of {where} has {len(line)} characters; {MAX_CHARS} are the most.")
        sentences.append(Sentence(len(sentences) + 1, section, line))
    if not sentences:
        raise UserError(f"There is no sentence in {where}; write one a line.")
    if len(sentences) > _MOST:
        raise UserError(f"There are {len(sentences)} sentences in {where}; {_MOST} are the most.")
    return sentences
