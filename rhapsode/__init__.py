"""rhapsode reads whole books aloud with Qwen3-TTS.

    import rhapsode
    rhapsode.narrate("book.epub", "book.m4b", checkpoint="Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice")

    narrator = rhapsode.load("Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice", voice="ryan")
    for take in narrator.read(rhapsode.lines("Good evening.")):
        print(take.seconds)

Importing this imports no array library; what a name needs is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rhapsode.errors import BookError, CheckpointError, OutputError, UserError
from rhapsode.narrator import Options
from rhapsode.types import Block, Book, Chapter, Line, Sampling, Take

if TYPE_CHECKING:
    from rhapsode.book import read_book, split_lines
    from rhapsode.pipeline import lines, load, narrate, say
    from rhapsode.report import Report

__version__ = "0.1.0"

_HOMES = {
    "narrate": "rhapsode.pipeline",
    "say": "rhapsode.pipeline",
    "load": "rhapsode.pipeline",
    "lines": "rhapsode.pipeline",
    "Report": "rhapsode.report",
    "read_book": "rhapsode.book",
    "split_lines": "rhapsode.book",
}

__all__ = [
    "Block",
    "Book",
    "BookError",
    "Chapter",
    "CheckpointError",
    "Line",
    "Options",
    "OutputError",
    "Report",
    "Sampling",
    "Take",
    "UserError",
    "lines",
    "load",
    "narrate",
    "read_book",
    "say",
    "split_lines",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rhapsode' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
