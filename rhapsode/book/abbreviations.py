"""Abbreviations and Roman numerals in the words that they stand for, as far as their neighbours tell.

Knows titles, streets, kings and chapters. Where the neighbours do not tell, what is written stays: 'No.' may be an
answer, 'I' is nearly always the speaker and 'CD' no number. Left neighbours are taken as spoken, right ones as written.
"""

from __future__ import annotations

import re

from rhapsode.book.figures import Place, Rule, ends_here
from rhapsode.book.numerals import cardinal, ordinal, roman

# With or without the dot, where a name follows.
_TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Dr": "Doctor", "Messrs": "Messieurs", "Mme": "Madame",
    "Mlle": "Mademoiselle", "MR": "MISTER", "MRS": "MISSUS", "DR": "DOCTOR",
}  # fmt: skip
# Only with the dot, where a capital follows.
_RANKS = {
    "Prof": "Professor", "Capt": "Captain", "Col": "Colonel", "Gen": "General", "Lt": "Lieutenant", "Sgt": "Sergeant",
    "Maj": "Major", "Cpl": "Corporal", "Cmdr": "Commander", "Adm": "Admiral", "Rev": "Reverend", "Hon": "Honorable",
    "Sen": "Senator", "Gov": "Governor", "Pres": "President", "Mt": "Mount", "Ft": "Fort",
}  # fmt: skip
# Only with the dot; it may end a sentence too.
_WORDS = {
    "etc": "et cetera", "vs": "versus", "viz": "namely", "cf": "compare", "approx": "approximately",
    "dept": "department", "Dept": "Department", "Jr": "Junior", "Sr": "Senior", "Esq": "Esquire", "Ltd": "Limited",
    "Inc": "Incorporated", "Corp": "Corporation", "Bros": "Brothers", "Ave": "Avenue", "Blvd": "Boulevard",
}  # fmt: skip
_NEVER_LAST = ("vs", "viz", "cf", "approx")
_PHRASES = {
    "e.g.": "for example", "i.e.": "that is", "et al.": "and others", "&c.": "et cetera", "E.g.": "For example",
    "I.e.": "That is",
}  # fmt: skip
# Only before a number.
_COUNTED = {
    "no": "number", "nos": "numbers", "vol": "volume", "vols": "volumes", "ch": "chapter", "chap": "chapter",
    "p": "page", "pp": "pages", "fig": "figure", "figs": "figures", "sec": "section", "bk": "book", "pt": "part",
    "c": "circa", "ca": "circa",
}  # fmt: skip

_PARTS = (
    "chapter|part|book|volume|act|scene|canto|stave|section|letter|lecture|sonnet|psalm|page|number|figure|table|plate"
)
_COUNTED_NAMES = "War Mark Type Class Apollo Phase Grade Form Title Note Rocky Gemini Saturn Division Corps Article"
_KINGS = (
    "Henry Louis Edward Charles George William James Richard Philip Ferdinand Frederick Napoleon Nicholas Alexander "
    "Ivan Peter Paul John Pius Leo Benedict Clement Gregory Innocent Urban Boniface Julius Sixtus Alfonso Christian "
    "Gustav Gustavus Oscar Otto Leopold Joseph Francis Maximilian Rudolf Rudolph Wilhelm Friedrich Ludwig Albert "
    "Elizabeth Mary Catherine Anne Victoria Ptolemy Ramses Rameses Cleopatra Darius Xerxes Mehmed Murad Suleiman Selim "
    "Robert David Malcolm Kenneth Baldwin Theodore Constantine Justinian Michael Manuel Emmanuel Carol Boris Stephen "
    "Casimir Sigismund Augustus Pedro Carlos Felipe Juan Harald Eric Magnus Valdemar Sancho Amenhotep Franz"
)
_COUNTED_SET, _KING_SET = frozenset(_COUNTED_NAMES.split()), frozenset(_KINGS.split())
_CROWNS = r"(?:King|Queen|Pope|Emperor|Empress|Tsar|Czar|Kaiser|Sultan)"
_HIGHEST = 399  # of what a heading counts: CD, DC, MD and MIX are words
_LAST_WORD = re.compile(r"([A-Za-z’']+)[.,]? $")
_CAPITAL_NEXT = re.compile(r" +[\"'“‘(]?[A-Z]")


def _title(place: Place) -> str:
    word, dotted = place["word"], place.match[0].endswith(".")
    return _TITLES[word] if dotted or (_CAPITAL_NEXT.match(place.after) and not word.isupper()) else ""


def _rank(place: Place) -> str:
    return _RANKS[place["word"]] if _CAPITAL_NEXT.match(place.after) else ""


def _word(place: Place) -> str:
    word = place["word"]
    return _WORDS[word] + ("" if word in _NEVER_LAST else _dot(place))


def _phrase(place: Place) -> str:
    said = _PHRASES[" ".join(place.match[0].replace(". ", ".").split())]
    if said.endswith(("others", "cetera")):
        return said + _dot(place)
    return said if place.after.startswith(",") else said + ","


def _dot(place: Place) -> str:
    """The full stop that an abbreviation at the end of a sentence stands for as well."""
    return "." if ends_here(place.after) else ""


def _saint(place: Place) -> str:
    """St. John, but Baker St."""
    if _CAPITAL_NEXT.match(place.after):
        return "Saint" if place.match[0].startswith("St") else "SAINT"
    before = _LAST_WORD.search(place.said)
    street = before is not None and (before[1][0].isupper() or before[1].endswith(("th", "st", "nd", "rd")))
    return "Street" + _dot(place) if street and place.match[0].endswith(".") else ""


def _road(place: Place) -> str:
    before = _LAST_WORD.search(place.said)
    named = before is not None and before[1][0].isupper()
    return {"Rd": "Road", "Co": "Company"}[place["word"]] + _dot(place) if named or place.said.endswith("and ") else ""


def _counted(place: Place) -> str:
    word = place["word"]
    if word == "C":  # a letter, or a note
        return ""
    said = _COUNTED[word.lower()]
    return (said.capitalize() if word[0].isupper() else said) + place["gap"]


def _era(place: Place) -> str:
    dot = _dot(place) if place.match[0].endswith(".") else ""
    return " ".join(re.findall("[A-Z]", place.match[0])) + dot


# ---------------------------------------------------------------------- Roman numerals


def _roman(place: Place) -> str:
    letters, value = place["letters"], roman(place["letters"].upper())
    if not value or value > _HIGHEST:
        return ""
    if not place.said.strip(" \"'“‘("):
        return _roman_alone(place, letters, value)
    part = re.search(rf"(?i)\b(?P<part>{_PARTS})s?(?: $|s [a-z-]+(?: [a-z-]+)?,? (?:and|or|to) $)", place.said)
    if part:
        return _roman_part(place, letters, value, part["part"])
    name = re.search(r"\b([A-Z][A-Za-zÀ-ÿ]{2,}) $", place.said)
    return _roman_name(place, letters, value, name[1]) if name and letters.isupper() else ""


def _roman_alone(place: Place, letters: str, value: int) -> str:
    """A heading that is a numeral: 'XII', 'IV.', 'IV. The Return'; of I only what is no word: 'I.', 'I. THE RETURN'."""
    if letters == "I":
        return "one" if not place.said and re.match(r"\.?\s*$|\.[ —–-]{1,3}[\"“]?[A-Z]+ [A-Z]{2}", place.after) else ""
    if letters in ("L", "C") or not letters.isupper():
        return ""
    heading = re.match(r"\.?\s*$", place.after) or (len(letters) > 1 and re.match(r"[.:—–-] ?[\"“A-Z]", place.after))
    return cardinal(str(value)) if heading else ""


def _roman_part(place: Place, letters: str, value: int, part: str) -> str:
    """Chapter XII, Act v; 'the best part I remember' is none."""
    announced = part[0].isupper()
    if not letters.isupper():  # of letters in lower case only what is no word
        return cardinal(str(value)) if set(letters) <= set("ivx") and (len(letters) > 1 or letters == "v") else ""
    if letters == "I":
        heading = announced and re.match(r"\s*$|[.:;,)\]—–]|\s+(?:of\b|[-—–]|[A-Z]{2})", place.after)
        return "one" if heading else ""
    if letters in ("C", "L"):
        return ""
    return cardinal(str(value)) if announced or len(letters) > 1 else ""


def _roman_name(place: Place, letters: str, value: int, name: str) -> str:
    """Henry VIII and Henry V are the Eighth and the Fifth, World War II is two; one letter alone needs a king."""
    king = name.capitalize() in _KING_SET
    if letters == "I":
        crowned = re.search(rf"{_CROWNS} \w+ $", place.said, re.I)
        king = king and bool(crowned or re.match(r"[.,;:!?)]|['’]s\b| of\b", place.after))
    elif len(letters) == 1 and letters not in "VX":
        return ""
    if king:
        return f"the {ordinal(str(value)).capitalize()}"
    counted = name.capitalize() in _COUNTED_SET
    if len(letters) == 1:
        return cardinal(str(value)) if counted and (letters != "I" or "World War " in place.said[-10:]) else ""
    if not set(letters) <= set("IVX"):
        return ""
    full_name = re.search(r"\b[A-Z][a-zà-ÿ]+ [A-Z][a-zà-ÿ]+ $", place.said)
    if full_name and not counted and value < 5:
        return f"the {ordinal(str(value)).capitalize()}"
    return cardinal(str(value))


def _any(words: dict[str, str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


_NUMBER_NEXT = r"(?=#?[0-9]|(?:[VX]|[IVXLC]{2,8}|[ivxl]{2,8})\b)"
_NUMERAL = r"(?:[IVXLC]{1,9}|[ivxlc]{1,9})\b"

RULES: tuple[Rule, ...] = (
    (re.compile(r"e\. ?g\.|i\. ?e\.|E\. ?g\.|I\. ?e\.|et al\.|&c\."), _phrase),
    (re.compile(rf"(?P<word>{_any(_COUNTED)})\.(?P<gap> ?){_NUMBER_NEXT}", re.I), _counted),
    (re.compile(rf"(?P<word>{_any(_TITLES)})\b(?!['’])\.?"), _title),
    (re.compile(rf"(?P<word>{_any(_RANKS)})\."), _rank),
    (re.compile(rf"(?P<word>{_any(_WORDS)})\."), _word),
    (re.compile(r"vs\b"), lambda place: "versus"),
    (re.compile(r"(?:St|ST)\b(?!['’])\.?"), _saint),
    (re.compile(r"(?P<word>Rd|Co)\."), _road),
    (re.compile(r"A\. ?D\.|B\. ?C\.(?: ?E\.)?|C\. ?E\."), _era),
    (re.compile(rf"(?P<letters>{_NUMERAL})"), _roman),
)
# How a place that is worth a look begins.
BEGINNING = (
    rf"(?<!\w)(?:(?:{_any(_TITLES)}|{_any(_RANKS)}|{_any(_WORDS)}|vs|St|ST|Rd|Co)\b"
    rf"|(?:(?i:{_any(_COUNTED)})|et al|[eEiI]\. ?[ge]|[ABC]\. ?[DCE])\.|{_NUMERAL})|&c\."
)
