"""Numbers as English words: 1842 -> eighteen hundred and forty-two, eighteen forty-two, one eight four two.

Knows arithmetic and the English names of numbers; knows nothing of the text in which a number stands.
Functions that take digits want a string of ASCII digits, so that leading zeros and any length are safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_NAMES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_SMALL = _NAMES.split()
_TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_GROUPS = ("", "thousand", "million", "billion", "trillion", "quadrillion")
MOST_DIGITS = 3 * len(_GROUPS)  # a longer number is read digit by digit

_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth",
}  # fmt: skip
_ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


def cardinal(digits: str) -> str:
    """ "1205" -> "one thousand two hundred and five"; beyond the quadrillions digit by digit."""
    digits = digits.lstrip("0") or "0"
    if len(digits) > MOST_DIGITS:
        return one_by_one(digits)
    value, parts = int(digits), []
    for power in reversed(range(len(_GROUPS))):
        group = value // 1000**power % 1000
        if group:
            last = power == 0 and value > 999
            words = ("and " if last and group < 100 else "") + _under_thousand(group)
            parts.append(f"{words} {_GROUPS[power]}".rstrip())
    return " ".join(parts) or "zero"


def _under_thousand(value: int) -> str:
    hundreds, rest = divmod(value, 100)
    head = f"{_SMALL[hundreds]} hundred" if hundreds else ""
    if not rest:
        return head
    return f"{head} and {_under_hundred(rest)}" if head else _under_hundred(rest)


def _under_hundred(value: int) -> str:
    if value < 20:
        return _SMALL[value]
    tens, ones = divmod(value, 10)
    return _TENS[tens] + (f"-{_SMALL[ones]}" if ones else "")


def one_by_one(digits: str) -> str:
    """ "007" -> "zero zero seven"."""
    return " ".join(_SMALL[int(digit)] for digit in digits)


def ordinal(digits: str) -> str:
    """ "22" -> "twenty-second"."""
    return _change_last(cardinal(digits), _ordinal_word)


def _ordinal_word(word: str) -> str:
    if word in _ORDINALS:
        return _ORDINALS[word]
    return word[:-1] + "ieth" if word.endswith("y") else word + "th"


def plural(words: str) -> str:
    """ "eighteen forty" -> "eighteen forties"."""
    return _change_last(words, _plural_word)


def _plural_word(word: str) -> str:
    if word.endswith("y"):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("x", "o")) else "s")


def _change_last(words: str, change: Callable[[str], str]) -> str:
    """`words` with the last of them, which a hyphen may part too, changed by `change`."""
    at = max(words.rfind(" "), words.rfind("-")) + 1
    return words[:at] + change(words[at:])


def year(digits: str) -> str:
    """ "1842" -> "eighteen forty-two", "1905" -> "nineteen oh five", "2003" -> "two thousand and three".

    `digits` are four, not beginning with 0.
    """
    century, rest = digits[:2], int(digits[2:])
    if digits[1] == "0" and rest < 10:  # 1000 to 1009, 2000 to 2009
        return cardinal(digits)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} " + (f"oh {_SMALL[rest]}" if rest < 10 else _under_hundred(rest))


def minutes(digits: str) -> str:
    """Two digits as they follow an hour: "05" -> "oh five", "30" -> "thirty"."""
    value = int(digits)
    return f"oh {_SMALL[value]}" if value < 10 else _under_hundred(value)


def fraction(above: str, below: str) -> str:
    """ "3", "4" -> "three quarters"; `below` is at least 2."""
    over, under = int(above), int(below)
    name = {2: "half", 4: "quarter"}.get(under) or ordinal(below)
    if over != 1:
        name = "halves" if under == 2 else name + "s"
    return f"{cardinal(above)} {name}"


def roman(letters: str) -> int:
    """The value of a well-formed Roman numeral in capitals; 0 for anything else."""
    if not letters or not _ROMAN.fullmatch(letters):
        return 0
    values = [_ROMAN_VALUES[letter] for letter in letters]
    after = [*values[1:], 0]
    return sum(-value if value < following else value for value, following in zip(values, after, strict=True))
