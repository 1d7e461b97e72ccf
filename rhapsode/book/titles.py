"""Which paragraphs of a plain text are headings.

Knows where a heading stands: alone or above its text, short, not in a table of contents, or a bare numeral that counts
on. What words announce a chapter is in `announced.py`. Knows no markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from rhapsode.book.announced import MAX_HEADING, ROMAN, announced, plain_letters
from rhapsode.book.blocks import Piece
from rhapsode.book.heading_words import EASTERN_NUMERALS
from rhapsode.book.numerals import roman

_RUN = 3  # so many headings of one kind without text between them are a table of contents
_BARE = re.compile(rf"({ROMAN}|[0-9]{{1,3}}|[{EASTERN_NUMERALS}]{{1,5}})[.、]?")
_TITLED = re.compile(rf"({ROMAN}|[0-9]{{1,3}})\.[ \n—–-]+(?=.*[^\W\d_]{{2}})([^\n]+(?:\n[^\n]+)?)")
_PROSE_END = (",", ";", "，", "；", "、")
_EASTERN_DIGITS = "〇一二三四五六七八九"
_EASTERN_UNITS = {"十": 10, "百": 100, "千": 1000}


def find_headings(pieces: Sequence[Piece]) -> list[Piece]:
    """The same text with the headings in it marked: level 1 for parts, 2 for chapters."""
    pieces = [part for piece in pieces for part in _set_off(piece)]
    found = [announced(piece.text) if _is_alone(piece) else None for piece in pieces]
    levels = [each.level if each else 0 for each in found]
    if not any(each and each.level == 2 and each.counted for each in found):
        _number_headings(pieces, levels)
    _forget_contents(levels)
    return [Piece("heading", p.text, level) if level else p for p, level in zip(pieces, levels, strict=True)]


def _set_off(piece: Piece) -> list[Piece]:
    """A heading on the first row of a paragraph that goes on as prose, set off from it; one that is certain, on any."""
    rows = piece.text.split("\n")
    if len(rows) == 1:
        return [piece]
    found = [announced(row) for row in rows]
    certain = [at for at, each in enumerate(found) if each and each.certain]
    if certain:
        places = sorted({0, *certain, *(at + 1 for at in certain)} - {len(rows)})
        return [
            Piece("paragraph", "\n".join(rows[begin:end]))
            for begin, end in zip(places, [*places[1:], len(rows)], strict=True)
        ]
    if not found[0] or any(found[1:3]):
        return [piece]
    if len(piece.text) <= MAX_HEADING and not rows[-1].rstrip("\"'”’»)").endswith((".", "!", "?", "…")):
        return [piece]
    return [Piece("paragraph", rows[0]), Piece("paragraph", "\n".join(rows[1:]))]


def _is_alone(piece: Piece) -> bool:
    """Whether a paragraph may be a heading: short, whole, and no lines of a table of contents."""
    rows = piece.text.split("\n")
    if piece.kind != "paragraph" or len(piece.text) > MAX_HEADING or len(rows) > 3:
        return False
    return not piece.text.endswith(_PROSE_END) and not any(announced(row) for row in rows[1:])


def _number_headings(pieces: Sequence[Piece], levels: list[int]) -> None:
    """Where nothing else counts chapters: numerals with a title in capitals, else bare ones, that count on from 1."""
    parts = list(accumulate(level == 1 for level in levels))
    for numeral in (_titled, _bare):
        found = [
            (at, said) for at, piece in enumerate(pieces) if piece.kind == "paragraph" and (said := numeral(piece))
        ]
        if _counts_on([_value(said) for _, said in found], [parts[at] for at, _ in found], numeral is _titled):
            for at, _ in found:
                levels[at] = 2
            return


def _bare(piece: Piece) -> str:
    """'IV' of 'IV.', '' of what is more than a numeral."""
    match = _BARE.fullmatch(plain_letters(piece.text)) if len(piece.text) <= MAX_HEADING else None
    return match[1] if match else ""


def _titled(piece: Piece) -> str:
    """'IV' of 'IV. THE LAMP'; '' where the title is not in capitals, or the next row has a numeral of its own."""
    match = _TITLED.fullmatch(piece.text) if len(piece.text) <= MAX_HEADING else None
    if not match or not match[2].isupper() or any(_TITLED.fullmatch(row) for row in match[2].split("\n")[1:]):
        return ""
    return match[1]


def _counts_on(values: list[int], parts: list[int], again: bool) -> bool:
    """Whether numbers are 1, 2, 3 and so on, in each of the book's parts or through all of them.

    `again`: they may begin again, as after a table of contents.
    """
    expected, part = 1, 0
    for value, within in zip(values, parts, strict=True):
        if value != expected and not (value == 1 and (again or within != part)):
            return False
        expected, part = value + 1, within
    return len(values) > 1


def _value(said: str) -> int:
    """The number that a numeral says: '12', 'XII' or '十二'."""
    if said.isascii():
        return int(said) if said.isdigit() else roman(said)
    value = digit = 0
    for sign in said:
        if unit := _EASTERN_UNITS.get(sign):
            value, digit = value + (digit or 1) * unit, 0
        else:
            digit = digit * 10 + max(0, _EASTERN_DIGITS.find(sign))
    return value + digit


def _forget_contents(levels: list[int]) -> None:
    """A run of chapter headings with nothing between them is a table of contents: it stays, as paragraphs."""
    at = 0
    while at < len(levels):
        end = at
        while end < len(levels) and levels[end]:
            end += 1
        run = levels[at:end]
        keep = 1 if end < len(levels) else 0  # the last of the run heads the text that follows
        if max(run.count(1), run.count(2)) >= _RUN:
            levels[at : end - keep] = [0] * (end - at - keep)
        at = end + 1
