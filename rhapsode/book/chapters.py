"""From one run of pieces and the marks that name places in it to chapters.

Knows headings and titles; knows no file format. Every piece lands in exactly one chapter, whatever the marks say:
what comes before the first mark gets a chapter of its own, an entry with anything to say is a chapter as the navigation
has it (a heading is enough), an empty one disappears.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rhapsode.book.blocks import Piece
from rhapsode.book.clean import fold, has_sound
from rhapsode.types import Block, Chapter

_MAX_TITLE = 300  # characters: more is a paragraph that was taken for a title


class Mark(NamedTuple):
    """A chapter's title, the piece it starts with, and how deep it stands (a part 0, its chapters 1)."""

    title: str
    at: int
    depth: int = 0
    listed: bool = False  # an entry of the navigation, not a heading that was found


def cut_chapters(pieces: Sequence[Piece], marks: Sequence[Mark], book_title: str) -> tuple[Chapter, ...]:
    """The chapters, numbered from 1; only those with something to say. Marks may come in any order."""
    starts = _one_mark_a_place(sorted(marks, key=lambda mark: mark.at), book_title)
    if not starts or starts[0].at > 0:
        starts.insert(0, Mark("", 0))
    chapters: list[Chapter] = []
    begin, title = 0, ""
    for index, mark in enumerate(starts):
        following = starts[index + 1] if index + 1 < len(starts) else None
        end = following.at if following else len(pieces)
        title = join_titles(title, mark.title, book_title)
        if following and following.depth > mark.depth and _has_nothing(mark, pieces[mark.at : end]):
            continue  # its first chapter follows and takes the title along
        blocks = _blocks(pieces[begin:end])
        if any(has_sound(block.text) for block in blocks):
            chapters.append(Chapter(len(chapters) + 1, title or _heading(blocks) or book_title, blocks))
        elif chapters:  # nothing but signs: they stay with what came before
            before = chapters[-1]
            chapters[-1] = Chapter(before.number, before.title, before.blocks + blocks)
        begin, title = (end if chapters else begin), ""
    return tuple(chapters)


def heading_marks(pieces: Sequence[Piece]) -> list[Mark]:
    """Marks at the headings that make chapters: those of the highest level that occurs more than once, and above."""
    counts = Counter(piece.level for piece in pieces if piece.level)
    repeated = [level for level, count in counts.items() if count > 1]
    level = min(repeated or counts, default=0)
    return [
        Mark(" ".join(piece.text.split()), at, piece.level)
        for at, piece in enumerate(pieces)
        if 0 < piece.level <= level
    ]


def join_titles(outer: str, inner: str, book_title: str = "") -> str:
    """'Part One: Dawn'; one of the two where it says it all or the outer is only the book's title."""
    outer_words, inner_words = f" {fold(outer)} ", f" {fold(inner)} "
    if outer_words in inner_words or not fold(outer) or fold(outer) == fold(book_title):
        return (inner or outer)[:_MAX_TITLE]
    if inner_words in outer_words or not fold(inner):
        return outer[:_MAX_TITLE]
    return f"{outer}: {inner}"[:_MAX_TITLE]


def _has_nothing(mark: Mark, pieces: Sequence[Piece]) -> bool:
    """Whether a part has nothing of its own: no word under an entry, no paragraph under a heading."""
    if mark.listed:
        return not any(has_sound(piece.text) for piece in pieces)
    return not any(piece.kind == "paragraph" for piece in pieces)


def _one_mark_a_place(marks: list[Mark], book_title: str) -> list[Mark]:
    places: list[Mark] = []
    for mark in marks:
        if places and places[-1].at == mark.at:
            before = places.pop()
            mark = mark._replace(title=join_titles(before.title, mark.title, book_title))
        places.append(mark)
    return places


def _blocks(pieces: Sequence[Piece]) -> tuple[Block, ...]:
    """Blocks without breaks at either end or twice in a row."""
    blocks: list[Block] = []
    for piece in pieces:
        if piece.kind != "break" or (blocks and blocks[-1].kind != "break"):
            blocks.append(Block(piece.kind, piece.text))
    if blocks and blocks[-1].kind == "break":
        blocks.pop()
    return tuple(blocks)


def _heading(blocks: Sequence[Block]) -> str:
    first = next((block for block in blocks if block.kind != "break"), None)
    return " ".join(first.text.split())[:_MAX_TITLE] if first and first.kind == "heading" else ""
