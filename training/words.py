"""A written line as words to be said and the marks between them, each with its place in the text.

Knows capitals, abbreviations, quotes, dashes and ellipses of English. Knows no phonemes and no numbers: a line with
a digit is refused, since the product spells numbers out before the model sees them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LETTER = "A-Za-zÀ-ÖØ-öø-ÿĀ-ž"
_WORD = re.compile(rf"[{_LETTER}]+(?:['’-][{_LETTER}]+)*")
_ALLOWED_BETWEEN = re.compile(r"[ ,.;:!?…—–\-“”‘’\"'()]*")
_ROMAN = re.compile(r"(?=[IVXLC]{2})(?:XC|XL|L?X{0,4})(?:IX|IV|V?I{0,4})")
_ELIDED = {"twas", "tis", "twill", "twere", "twould", "em", "til", "bout", "cause", "neath", "gainst"}
_CUT = {"o": "of", "th": "the"}  # written with an apostrophe after them

# Said as words, written with a dot.
ABBREVIATIONS = {
    "mr": "mister",
    "mrs": "missus",
    "messrs": "messieurs",
    "dr": "doctor",
    "st": "saint",
    "capt": "captain",
    "col": "colonel",
    "gen": "general",
    "lieut": "lieutenant",
    "lt": "lieutenant",
    "sgt": "sergeant",
    "prof": "professor",
    "rev": "reverend",
    "jr": "junior",
    "sr": "senior",
    "esq": "esquire",
    "etc": "et cetera",
    "vs": "versus",
    "ms": "miz",
}
# Espeak's American says these otherwise than a reader would.
_RESPELLED = {"hast": "hasst", "dost": "dust"}
# Said letter by letter, or as espeak knows them, when in capitals.
CAPITALS = {"FBI", "BBC", "USA", "TV", "UK", "CEO", "DNA", "GPS", "HTML", "USB", "NATO", "NASA", "EU", "UN", "CD"}
_VOWEL = re.compile(r"[aeiouyà-öø-ÿāēīōūœæ]", re.I)

# Strongest first; the sign that is looked for and the mark that it is.
_MARKS = (
    (re.compile(r"\?"), "?"),
    (re.compile(r"!"), "!"),
    (re.compile(r"…|\.\.\.|\. \. \."), "…"),
    (re.compile(r"\."), "."),
    (re.compile(r"—|--| [–-] |–"), "—"),
    (re.compile(r";"), ";"),
    (re.compile(r":"), ":"),
    (re.compile(r","), ","),
    (re.compile(r"[()]"), ","),
)


class Unsaid(Exception):
    """A line that is not for reading aloud as it stands; `str(error)` is the reason in a word or two."""


@dataclass(frozen=True, slots=True)
class Word:
    """`text[begin:end]` is said as `spoken`; after it comes `mark` ("" for none), written at `mark_at`."""

    spoken: str
    begin: int
    end: int
    mark: str = ""
    mark_at: int = 0


def words_of(text: str) -> list[Word]:
    """The words of a line in order. Raises `Unsaid` for what espeak would not say as it is meant."""
    spans = _spans(text)
    if re.search(r"\d", text):
        raise Unsaid("digit")
    if not spans:
        raise Unsaid("no word")
    if not _ALLOWED_BETWEEN.fullmatch(text[: spans[0][0]]):
        raise Unsaid("odd sign")
    words = []
    for number, (begin, end) in enumerate(spans):
        after = spans[number + 1][0] if number + 1 < len(spans) else len(text)
        spoken = _spoken(text[begin:end])
        gap = text[end:after]
        if not _ALLOWED_BETWEEN.fullmatch(gap):
            raise Unsaid("odd sign")
        if gap.startswith(".") and after < len(text) and _swallows_dot(text, begin, end, after):
            end += 1
        mark, at = mark_in(text[end:after])
        words.append(Word(spoken, begin, end, mark, end + at))
    return words


def mark_in(gap: str) -> tuple[str, int]:
    """The strongest mark between two words and its place in the gap; ("", 0) where there is none."""
    for pattern, mark in _MARKS:
        if match := pattern.search(gap):
            return mark, match.start() + (match.group()[0] == " ")
    return "", 0


def _spans(text: str) -> list[tuple[int, int]]:
    """Begin and end of each word; an apostrophe that stands for letters left out belongs to it."""
    spans = []
    for match in _WORD.finditer(text):
        begin, end = match.span()
        word = match.group().lower()
        if begin and text[begin - 1] in "'’‘" and word in _ELIDED and (begin == 1 or not text[begin - 2].isalpha()):
            begin -= 1
        if word in _CUT and text[end : end + 1] in ("'", "’"):
            end += 1
        spans.append((begin, end))
    return spans


def _spoken(written: str) -> str:
    """A word as espeak is to see it. Raises `Unsaid` where it would be spelled out or read as a number."""
    plain = written.replace("’", "'").replace("‘", "'")
    low = plain.lower()
    if low in ABBREVIATIONS:
        return ABBREVIATIONS[low]
    if low.endswith("'") and low[:-1] in _CUT:
        return _CUT[low[:-1]]
    if low in _RESPELLED:
        return _RESPELLED[low]
    if plain in CAPITALS:
        return plain
    if _ROMAN.fullmatch(plain):
        raise Unsaid("Roman number")
    for part in re.split(r"[-']", low):
        if len(part) > 1 and not _VOWEL.search(part) and part not in ("ll", "th", "hmm"):
            raise Unsaid("no vowel")
    if max(map(len, plain.split("-"))) > 22:
        raise Unsaid("long word")
    return low if plain.isupper() and plain != "I" else plain


def _swallows_dot(text: str, begin: int, end: int, after: int) -> bool:
    """Whether the dot after a word belongs to an abbreviation or an initial. Raises `Unsaid` for the letter A."""
    written = text[begin:end]
    if written.lower() in ABBREVIATIONS:
        return True
    initial = len(written) == 1 and written.isupper() and text[end:after] in (".", ". ") and text[after].isupper()
    if initial and written in "AIO":
        raise Unsaid("initial")  # espeak would say the article
    return initial
