"""English as it is written -> as it is said, for voices that have learned letters and no figures.

Knows in which order the rules are tried, how what they say is put between the words, the signs (&, @, +, ²), and which
signs have no sound (→, emoji); the other rules are in `money`, `figures` and `abbreviations`. Knows nothing of lines or
narrators. What no rule takes stays as it is, to the letter; other languages stay as they are altogether.
"""

from __future__ import annotations

import re

from rhapsode.book import abbreviations, figures, money
from rhapsode.book.figures import Place, Rule
from rhapsode.book.numerals import ordinal

_NEAR = 60  # characters of context that a rule may look at, on either side
_PASSES = 4  # a rule may see its neighbour only when that has been said; texts need one pass, rarely two


def spoken(text: str, language: str = "en") -> str:
    """`text` with figures, signs and abbreviations in words where `language` (a tag or a name) is English.

    Leaves no ASCII digit in English; doing it twice changes nothing more. Time is linear in the length.
    """
    if re.split("[-_]", language.strip().lower(), maxsplit=1)[0] not in ("en", "eng", "english"):
        return text
    text = text.translate(_LETTERS)
    for _ in range(_PASSES):
        before, text = text, _once(_without_mute_signs(text))  # a sign may be mute only between words: $5/6
        if text == before:
            break
    return text


# What a voice of English letters has not learned: two letters in one, and signs that nobody reads out.
_LETTERS = str.maketrans({
    "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ß": "ss", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D",
    "ð": "th", "Ð": "Th", "þ": "th", "Þ": "Th", "[": "(", "]": ")", "{": "(", "}": ")",
})  # fmt: skip
_MUTE = (
    r"[|\\_¦®¶™†‡•‣←-⇿⌀-⏿─-➿⤀-⥿⬀-⯿\ufe00-\ufe0f\u200d\u20e3\U0001f000-\U0001faff]|~(?![0-9.])"
    "|(?<=[A-Za-z]{2})/(?=[A-Za-z]{2})"  # and/or, not km/h
)
_MUTE_SIGNS = re.compile(rf" {{0,2}}(?:{_MUTE})(?: {{0,2}}(?:{_MUTE}))* {{0,2}}")


def _without_mute_signs(text: str) -> str:
    """A space where they stood between words, nothing at an end or before a mark that ends something."""

    def parted(match: re.Match[str]) -> str:
        at_an_end = match.start() == 0 or match.end() == len(text) or text[match.end()] in ".,;:!?)”’"
        return "" if at_an_end else " "

    return _MUTE_SIGNS.sub(parted, text)


def _once(text: str) -> str:
    """One walk from left to right."""
    parts: list[str] = []
    said = ""  # the end of what the parts are
    at = 0
    for found in _CANDIDATE.finditer(text):
        begin = found.start()
        if begin < at:  # within what has been said already
            continue
        between = text[at:begin]
        parts.append(between)
        said = (said + between[-_NEAR:])[-_NEAR:]
        at = begin
        taken = _apply(text, begin, said, _RULES[found.lastgroup or ""])
        if taken is None:
            continue
        words, at = taken
        parts.append(words)
        said = (said + words[-_NEAR:])[-_NEAR:]
    parts.append(text[at:])
    return "".join(parts)


def _apply(text: str, begin: int, said: str, rules: tuple[Rule, ...]) -> tuple[str, int] | None:
    """What the first rule that takes this place says, parted from its neighbours, and where the text goes on."""
    for pattern, say in rules:
        match = pattern.match(text, begin)
        words = say(Place(match, said, text[match.end() : match.end() + _NEAR])) if match else ""
        if match and words:
            ahead = " " if said[-1:].isalnum() and words[0].isalnum() else ""
            behind = " " if words[-1].isalnum() and text[match.end() : match.end() + 1].isalnum() else ""
            return ahead + words + behind, match.end()
    return None


# ---------------------------------------------------------------------- signs

_EXPONENTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_BETWEEN = {"=": "equals", "×": "times", "÷": "divided by"}
_BEFORE = {"+": "plus", "±": "plus or minus", "≈": "about", "~": "about", "-": "minus"}
_NAMING = {"#": "number", "№": "number", "§": "section"}


def _power(place: Place) -> str:
    """x², 10⁶; after a longer word such a figure is the mark of a note, and stays."""
    before = place.match.string[max(0, place.match.start() - 2) : place.match.start()]
    if not before or not (before[-1] in "0123456789" or (before[-1].isalpha() and not before[:-1].isalnum())):
        return ""
    exponent = place.match[0].translate(_EXPONENTS)
    name = {"2": "squared", "3": "cubed"}.get(exponent)
    return name or f"to the {ordinal(exponent)}"


def _between(place: Place) -> str:
    """Of operators only what stands between two terms: rows of them are ornament."""
    left, right = place.said.rstrip(" ")[-1:], place.after.lstrip(" ")[:1]
    terms = (left.isalnum() or left in tuple(")]")) and (right.isalnum() or right in tuple("([-−$£€"))
    return _BETWEEN[place.match[0]] if terms else ""


def _before(place: Place) -> str:
    sign, left = place.match[0], place.said[-1:]
    if sign == "-" and left and (left.isalnum() or left in "-–—.,:;)"):
        return ""
    return f"{_BEFORE[sign]} "


def _web(place: Place) -> str:
    """The points of an address: www.example.com. What it begins with has no sound."""
    if place.match[0] != ".":
        return place["first"]
    return "dot" if place.match.string[place.match.start() - 1 : place.match.start()].isalnum() else ""


def _plus(place: Place) -> str:
    left = place.said.rstrip(" ")[-1:]
    return "plus" if left.isalnum() and place.after[:1] == " " and place.after[1:2].isalnum() else ""


_DOMAIN = r"(?:[a-z0-9-]{1,63}\.){0,3}(?:com|org|net|edu|gov|info|co\.uk)(?![a-z0-9])"
_SIGNS: tuple[Rule, ...] = (
    (re.compile(r"https?://(?P<first>\w{1,63})"), _web),
    (re.compile(rf"\.(?={_DOMAIN})"), _web),
    (re.compile("&"), lambda place: "and"),
    (re.compile("©"), lambda place: "copyright"),
    (re.compile("@"), lambda place: "at"),
    (re.compile("%"), lambda place: "percent"),
    (re.compile(r"[#№§] ?(?=[0-9])"), lambda place: f"{_NAMING[place.match[0][0]]} "),
    (re.compile(r"[+±≈~-](?=[.$£€]?[0-9])"), _before),
    (re.compile("−"), lambda place: "minus"),
    (re.compile(r"[=×÷]"), _between),
    (re.compile(r"\+"), _plus),
    (re.compile("[⁰¹²³⁴-⁹]{1,4}"), _power),
)
_RULES = {
    "figure": money.RULES + figures.RULES,
    "month": ((figures.MONTH_DAY, figures.month_day),),
    "word": abbreviations.RULES,
    "sign": _SIGNS,
}
_CANDIDATE = re.compile(
    rf"(?P<figure>{figures.BEGINNING})|(?P<month>(?<!\w){figures.MONTH}(?= [0-9]))|(?P<word>{abbreviations.BEGINNING})"
    rf"|(?P<sign>[&©@%#№§+±≈~−=×÷⁰¹²³⁴-⁹-]|\.(?={_DOMAIN})|(?<!\w)https?://(?=\w))"
)
