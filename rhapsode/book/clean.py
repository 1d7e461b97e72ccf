"""The small change of text: what a string looks like before anything else looks at it.

Knows characters, not markup and not language. Nothing here takes a letter away: only marks that have
no sound go, and spaces of every kind become plain ones. Digits such as ½ or ² stay as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_SPACES = "\t\f\v\r\x85\u00a0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_GONE = "\u00ad\u180e\u200b\u200e\u200f\u2060\ufeff"
_GONE += "".join(map(chr, [*range(0x202A, 0x202F), *range(0x2061, 0x206A)]))
_LIGATURES = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"}
_CONTROLS = [*range(0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF]
_TABLE: dict[int, str | None] = (
    {code: None for code in _CONTROLS}
    | {ord(c): None for c in _GONE}
    | {ord(c): " " for c in _SPACES}
    | {ord(c): text for c, text in _LIGATURES.items()}
    | {ord("\n"): "\n"}
)
# Joiners shape Arabic and Indic letters and emoji; beside Latin ones they are only dirt.
_STRAY_JOINER = re.compile("(?<=[\u0000-\u024f])[\u200c\u200d]+|[\u200c\u200d]+(?=[\u0000-\u024f])")
_WORD = re.compile(r"[^\W_]+")
_EASTERN = "[\u3001-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
_WRAPPED = re.compile(rf"(?<={_EASTERN})[ \t\r]*\n[ \t]*(?={_EASTERN})")


def clean(text: str) -> str:
    """`text` in NFC without controls, soft hyphens and zero-width marks; newlines stay, other spaces become ' '."""
    if text.isascii() and text.isprintable():
        return text
    return unicodedata.normalize("NFC", _STRAY_JOINER.sub("", text.translate(_TABLE)))


def unwrap(text: str) -> str:
    """`text` without the row ends within Chinese and Japanese, which part nothing there; others stay."""
    return text if text.isascii() else _WRAPPED.sub("", text)


def one_line(text: str) -> str:
    """`text` cleaned, every run of white space one space, none at the ends: for titles and names."""
    return " ".join(clean(text.replace("\n", " ")).split())


def has_sound(text: str) -> bool:
    """Whether there is a letter or a digit, that is, something to say."""
    return any(char.isalnum() for char in text)


def fold(text: str) -> str:
    """The words of `text` in lower case with one space between: what two titles are compared by."""
    return " ".join(_WORD.findall(text.casefold()))


def some_of(said: Sequence[str]) -> str:
    """ "'a', 'b', 'c' and more": what a note shows of a list."""
    return ", ".join(map(repr, said[:3])) + (" and more" if len(said) > 3 else "")
