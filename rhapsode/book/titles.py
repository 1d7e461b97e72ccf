"""Which paragraphs of a plain text are headings.

Knows how chapters are announced ('Chapter 1', 'PART TWO', 'Kapitel 3: Abend', 'Prologue', 'IV.'); knows no markup.
A heading stands alone, is short, and is more than a word that happens to begin a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rhapsode.book.blocks import Piece

_MAX_HEADING = 120  # characters
_RUN = 3  # so many headings of one kind without text between them are a table of contents

_ROMAN = r"(?=[IVXLCDM])M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
_UNITS = "one|two|three|four|five|six|seven|eight|nine|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth"
_TEENS = "ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|tenth|eleventh|twelfth|last|final"
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_WORDS = rf"(?:(?:{_TENS})(?:[- ](?:{_UNITS}))?|{_UNITS}|{_TEENS})"
_PART = "part|book|volume|teil|buch|partie|livre|tome|parte|libro|livro|deel|часть|том|книга"
_CHAPTER = (
    r"chapter|chap\.|section|act|scene|canto|stave|letter|lecture|kapitel|chapitre|cap[ií]tulo|capitolo|hoofdstuk|rozdział"
    "|глава"
)
_NAMES = (
    "prologue|epilogue|preface|foreword|introduction|afterword|interlude|postscript|conclusion|acknowledge?ments|dedication"
    "|prolog|epilog|vorwort|nachwort|einleitung|prólogo|epílogo|prologo|epilogo|préface|avant-propos|épilogue|пролог|эпилог"
)
_NUMBER = rf"(?:the )?(?:[0-9]{{1,4}}|{_ROMAN}|{_WORDS})"
_COLON = r"(?:[.:—–-]+(?:\s.*)?)?"
# A title follows after a space, or right after a dash, or a letter after a point or colon: 'CHAPTER II.--THE SEA'.
_REST = r"(?:[ ]*[.:—–-][—–-]*(?:\s.*)?|[ ]*[.:]?(?:—|–|--)[—–-]*\S.*|[.:][\"'“‘]?[^\W\d_].*|\s.*)?"
_COUNTED = re.compile(rf"(?:(?:{_CHAPTER}) {_NUMBER}|第[0-9一二三四五六七八九十百千]+[章回話话节]){_REST}", re.I | re.S)
_PATTERNS = [
    (1, re.compile(rf"(?:(?:the )?(?:{_PART}) {_NUMBER}|第[0-9一二三四五六七八九十百]+[部卷]){_REST}", re.I | re.S)),
    (2, _COUNTED),
    (2, re.compile(rf"(?:{_NAMES}|appendix(?: [A-Z0-9]{{1,4}})?){_COLON}", re.I | re.S)),
]
_BARE = re.compile(rf"({_ROMAN}|[0-9]{{1,3}})\.?")
_TITLED = re.compile(rf"({_ROMAN}|[0-9]{{1,3}})\.[ \n—–-]+(?=.*[^\W\d_]{{2}})([^\n]+(?:\n[^\n]+)?)")
_PROSE_END = re.compile(r"[,;]$")


def find_headings(pieces: Sequence[Piece]) -> list[Piece]:
    """The same text with the headings in it marked: level 1 for parts, 2 for chapters."""
    pieces = [part for piece in pieces for part in _off_first_row(piece)]
    levels = [_level(piece) for piece in pieces]
    if not any(level == 2 and _COUNTED.fullmatch(piece.text) for piece, level in zip(pieces, levels, strict=True)):
        _number_headings(pieces, levels)
    _forget_contents(levels)
    return [Piece("heading", p.text, level) if level else p for p, level in zip(pieces, levels, strict=True)]


def _off_first_row(piece: Piece) -> list[Piece]:
    """A heading on the first row of a paragraph that goes on as prose, set off from it."""
    first, newline, rest = piece.text.partition("\n")
    if not newline or not _announced(first) or any(_announced(row) for row in rest.split("\n")[:2]):
        return [piece]
    if len(piece.text) <= _MAX_HEADING and not rest.rstrip("\"'”’»)").endswith((".", "!", "?", "…")):
        return [piece]
    return [Piece("paragraph", first), Piece("paragraph", rest)]


def _level(piece: Piece) -> int:
    text = piece.text
    if piece.kind != "paragraph" or len(text) > _MAX_HEADING or text.count("\n") > 2 or _PROSE_END.search(text):
        return 0
    if any(_announced(row) for row in text.split("\n")[1:]):
        return 0  # lines of a table of contents
    return _announced(text)


def _announced(text: str) -> int:
    if len(text) <= _MAX_HEADING and not _reads_on(text):
        for level, pattern in _PATTERNS:
            if pattern.fullmatch(text):
                return level
    return 0


def _reads_on(text: str) -> bool:
    """Whether a candidate is a sentence: 'Part one of the plan was simple.' goes on in lower case to a full stop."""
    words = text.split()
    return text.endswith((".", "!", "?")) and len(words) > 3 and words[2][:1].islower()


def _number_headings(pieces: Sequence[Piece], levels: list[int]) -> None:
    """Where nothing else counts chapters: numerals with a title in capitals, else bare ones, that count on from 1."""
    for numeral in (_titled, _bare):
        found = [
            (at, said) for at, piece in enumerate(pieces) if piece.kind == "paragraph" and (said := numeral(piece))
        ]
        values = [int(text) if text.isdigit() else _roman(text) for _, text in found]
        if _counts_on(values, numeral is _titled):
            for at, _ in found:
                levels[at] = 2
            return


def _bare(piece: Piece) -> str:
    """'IV' of 'IV.', '' of what is more than a numeral."""
    match = _BARE.fullmatch(piece.text)
    return match[1] if match else ""


def _titled(piece: Piece) -> str:
    """'IV' of 'IV. THE LAMP'; '' where the title is not in capitals, or the next row has a numeral of its own."""
    match = _TITLED.fullmatch(piece.text) if len(piece.text) <= _MAX_HEADING else None
    if not match or not match[2].isupper() or any(_TITLED.fullmatch(row) for row in match[2].split("\n")[1:]):
        return ""
    return match[1]


def _counts_on(values: list[int], again: bool) -> bool:
    """Whether numbers are 1, 2, 3 and so on; `again`: they may begin again, as after a table of contents."""
    expected = 1
    for value in values:
        if value != expected and not (again and value == 1):
            return False
        expected = value + 1
    return len(values) > 1


def _roman(text: str) -> int:
    value = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
    numbers = [value[letter] for letter in text]
    return sum(-n if n < max(numbers[at:]) else n for at, n in enumerate(numbers))


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
