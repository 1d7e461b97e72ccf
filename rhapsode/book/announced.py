"""Whether a few words announce a part or a chapter: 'CHAPTER II.--THE SEA', 'Erstes Kapitel', 'Глава I', '第三章 雨'.

Knows how words and numbers are put together and what shows that they begin a sentence instead; the words are in
`heading_words.py`. Knows nothing of paragraphs and of what stands around.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from functools import cache
from typing import NamedTuple

from rhapsode.book import heading_words as words
from rhapsode.book.heading_words import LANGUAGES, HeadingWords

MAX_HEADING = 120  # characters
ROMAN = r"(?=[IVXLCDM])M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
_NEAR = 40  # characters within which the word stands that says what is announced
_ACCENTS = re.compile("[\u0300-\u036f]")
_WORD = re.compile(r"\w+")

_COLON = r"(?:[.:—–-]+(?:\s.*)?)?"
# A title follows after a space, or right after a dash, or a letter after a point or colon: 'CHAPTER II.--THE SEA'.
_REST = r"(?:[ ]*[.:—–-][—–-]*(?:\s.*)?|[ ]*[.:]?(?:—|–|--)[—–-]*\S.*|[.:][\"'“‘]?[^\W\d_].*|\s.*)?"
_EASTERN = rf"(?:[0-9]{{1,4}}|[{words.EASTERN_NUMERALS}]{{1,9}})"
# A title without a space before it is one where no mark of a sentence is in it.
_EASTERN_REST = r"(?:[\s.:·・「『《(—–-].*|[^\s,;:!?，。、；：！？“”「」]{1,20})?"


class Announced(NamedTuple):
    """What is announced: level 1 for a part, 2 for a chapter."""

    level: int
    counted: bool = True  # by a number, as a prologue is not
    certain: bool = False  # no sentence begins so: a number between signs, and space or nothing after it


def announced(text: str) -> Announced | None:
    """What `text` announces, None where it is no heading."""
    if len(text) > MAX_HEADING:
        return None
    plain = plain_letters(text)
    for level, language in _languages(plain):
        match = _pattern(language, level).fullmatch(plain)
        if match and not _reads_on(plain, match["rest"]):
            return Announced(level)
    if (match := _ALONE.fullmatch(plain)) and not _reads_on(plain, match["rest"]):
        return Announced(2, counted=False)
    if plain.isascii():
        return None
    for found, pattern in _EASTERN_FORMS:
        match = pattern.fullmatch(plain)
        if match and not (plain.endswith((".", "。")) and _WORD.search(match["rest"])):
            return found._replace(certain=found.certain and not match["rest"][:1].isalnum())
    return None


def plain_letters(text: str) -> str:
    """`text` without accents, wide digits and the like as plain ones."""
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", apart))


def _reads_on(plain: str, rest: str) -> bool:
    """Whether a candidate is a sentence: 'Part one of the plan was simple.' goes on in lower case."""
    found = plain.split()
    if plain.endswith((".", "!", "?")) and len(found) > 3 and found[2][:1].islower():
        return True
    return rest[:1] == " " and rest[1:2].islower() and plain[0].isupper() and plain[1:2].islower()


def _one_of(listed: str, but: tuple[str, ...] = ()) -> str:
    """A pattern of the words in a list: those between commas, or between spaces. Nothing matches an empty list."""
    parted = listed.split(", " if "," in listed else None)
    return f"(?:{'|'.join(re.escape(plain_letters(word)) for word in parted if word not in but) or '(?!)'})"


def _by_word() -> dict[str, list[tuple[int, HeadingWords]]]:
    """Which languages call a part or a chapter so."""
    found: dict[str, list[tuple[int, HeadingWords]]] = defaultdict(list)
    for language in LANGUAGES:
        for level, listed in ((1, language.parts), (2, language.chapters)):
            for word in listed.split():
                found[plain_letters(word).rstrip(".")].append((level, language))
    return found


_BY_WORD = _by_word()


def _languages(plain: str) -> list[tuple[int, HeadingWords]]:
    near = _WORD.findall(plain[:_NEAR].lower())
    return [found for word in near if word in _BY_WORD for found in _BY_WORD[word]]


@cache
def _pattern(language: HeadingWords, level: int) -> re.Pattern[str]:
    """What is announced in one language: the word with a number after it, or an ordinal before it."""
    word = _one_of(language.parts if level == 1 else language.chapters)
    article = f"(?:{_one_of(language.articles)} )?" if language.articles else ""
    suffix = _one_of(language.suffixes)
    of_roman = _one_of(language.suffixes, but=("o", "a"))  # 'Va parte' is a sentence
    ordinal = _one_of(language.ordinals) + (_one_of(language.endings) if language.endings else "")
    piece = f"(?:{_one_of(language.cardinals)}|{ordinal})"
    between = "[ -]?" + (f"(?:{_one_of(language.links)}[ -]?)?" if language.links else "")
    after = f"(?:(?:[0-9]{{1,4}}|{ROMAN}){suffix}?|{piece}(?:{between}{piece}){{0,5}})"
    figures = f"[0-9]{{1,4}}{suffix}|(?-i:[IVX]{{1,7}}){of_roman}|(?-i:[IVXLC]{{2,9}})"
    before = f"(?:{figures}|(?:{piece}{between}){{0,5}}{ordinal})"
    return re.compile(f"{article}(?:{word} {article}{after}|{before} {word})(?P<rest>{_REST})", re.I | re.S)


_ALONE = re.compile(
    _one_of(", ".join(language.alone for language in LANGUAGES))
    + rf"(?: (?-i:[A-Z]|[IVX]+|[0-9]+))?(?P<rest>{_COLON})",
    re.I | re.S,
)


def _eastern_forms() -> list[tuple[Announced, re.Pattern[str]]]:
    forms: list[tuple[Announced, str, str]] = []
    for level, signs, korean in (
        (1, words.EASTERN_PARTS, words.KOREAN_PARTS),
        (2, words.EASTERN_CHAPTERS, words.KOREAN_CHAPTERS),
    ):
        forms.append((Announced(level, certain=True), rf"(?:正文 ?)?第 ?{_EASTERN} ?[{signs}]", _EASTERN_REST))
        forms.append((Announced(level), rf"제 ?{_EASTERN} ?[{korean}]", r"(?:\s.*)?|" + _COLON))
        forms.append((Announced(level), rf"[0-9]{{1,4}} ?[{korean}]", _COLON))
    forms.append((Announced(1, certain=True), rf"卷 ?[之第]? ?{_EASTERN}|[上中下][卷巻篇编編]", r"(?:[\s.:·・—–-].*)?"))
    forms.append((Announced(2, counted=False), rf"{_one_of(words.EASTERN_ALONE)}{_EASTERN}?", r"(?:[\s:·・—–-].*)?"))
    forms.append((Announced(2, counted=False), rf"{_one_of(words.KOREAN_ALONE)}(?: ?[0-9]+)?", _COLON))
    return [(found, re.compile(rf"(?:{said})(?P<rest>{rest})", re.S)) for found, said, rest in forms]


_EASTERN_FORMS = _eastern_forms()
