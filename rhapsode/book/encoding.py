"""In which encoding a text is that does not say so: UTF-8 where its bytes are, else the likeliest by its letters.

Knows which letters are frequent in the languages that are read, and what older systems wrote them in. Knows no file
format. A text is decoded in each of these encodings, and that one is taken whose letters are the usual ones; where
letters beyond ASCII stand alone between others, as in western languages, or where none fits, it is Windows-1252.
"""

from __future__ import annotations

import io
import re
from typing import NamedTuple

_SAMPLE = 1 << 15  # bytes that are looked at, of lines that hold more than ASCII
_DAMAGE = 0.05  # of the characters beyond ASCII: so many may be broken in what is still UTF-8
_LEAST = 0.6  # of the usual share, which a page in the language has nearly or more, and other bytes less than half of
_IN_A_ROW = 3  # letters: a western word has no more than two with accents side by side
_FEW = 1 / 3  # of the bytes beyond ASCII; of western texts hardly any are in such a row, of others nearly all
_HIGH = re.compile(rb"[\x80-\xff]+")
_QUOTES = b"\x85\x91\x92\x93\x94\x95\x96\x97\xa0\xab\xbb"  # quotation marks, dashes and the like in Windows-1252

_RUSSIAN = "оеаинтсрвл"
_JAPANESE = "のにはをたがでとしれさあいうかきくけこすせそちつてなまもやよらりるん、。「」"
_KOREAN = "이다는을의에가고하지은로를도기한리아나그서사자어들해있인시대일라과만게스수정으면여전보부니주제상었"
_SIMPLIFIED = (
    "的一是不了人我在有他这中大来上个国到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可她里后小么心多天而能好都"
    "然没日于起还发成事只作当想看文无开手用主行方又如前所本见经头面公同三已老从动两长其者曰何与此矣乃则，。：“”"
)
_TRADITIONAL = (
    "的一是不了人我在有他這中大來上個國到說們為子和你地出道也時年得就那要下以生會自著去之過家學對可她裡後小麼心多天而能好都"
    "然沒日於起還發成事只作當想看文無開手用主行方又如前所本見經頭面公同三已老從動兩長其者曰何與此矣乃則，。：「」"
)


class _Candidate(NamedTuple):
    codec: str
    name: str  # as people call it
    usual: frozenset[str]
    share: float  # of a text's characters beyond ASCII that are usual ones


_CANDIDATES = [
    _Candidate("cp1251", "Windows-1251", frozenset(_RUSSIAN), 0.6),
    _Candidate("koi8_r", "KOI8-R", frozenset(_RUSSIAN), 0.6),
    _Candidate("cp866", "DOS Cyrillic", frozenset(_RUSSIAN), 0.6),
    _Candidate("gb18030", "GBK", frozenset(_SIMPLIFIED), 0.4),
    _Candidate("big5hkscs", "Big5", frozenset(_TRADITIONAL), 0.4),
    _Candidate("cp932", "Shift-JIS", frozenset(_JAPANESE), 0.55),
    _Candidate("euc_jis_2004", "EUC-JP", frozenset(_JAPANESE), 0.55),
    _Candidate("cp949", "EUC-KR", frozenset(_KOREAN), 0.5),
]


def decode_plain(raw: bytes) -> tuple[str, str]:
    """The text of bytes without a mark or a declaration, and the name of its encoding where that was a guess, else ''.

    Bytes that the encoding does not know become U+FFFD.
    """
    try:
        return raw.decode("utf-8"), ""
    except UnicodeDecodeError:
        codec, name = _guess(_sample(raw))
        return raw.decode(codec, "replace"), name


def encoding_note(name: str) -> tuple[str, ...]:
    """What is told of a text that was decoded by a guess."""
    if not name:
        return ()
    if name == "UTF-8":
        return ("Some bytes of the file are damaged and could not be read; the rest is UTF-8.",)
    return (f"The file is not UTF-8 and was read as {name}; if letters look wrong, save it as UTF-8.",)


def _sample(raw: bytes) -> bytes:
    """The first lines that are more than ASCII: a newline is no part of a character in any of the encodings."""
    lines: list[bytes] = []
    left = _SAMPLE
    for line in io.BytesIO(raw):
        if not line.isascii():
            lines.append(line[:left])
            left -= len(line)
        if left <= 0:
            break
    return b"".join(lines)


def _guess(sample: bytes) -> tuple[str, str]:
    """Codec and name of the likeliest encoding."""
    text = _beyond_ascii(sample, "utf-8")
    if text.count("\ufffd") <= _DAMAGE * len(text):
        return "utf-8", "UTF-8"
    best, most = ("cp1252", "Windows-1252"), _LEAST
    if not _letters_stand_alone(sample):
        for codec, name, usual, share in _CANDIDATES:
            likeness = _likeness(_beyond_ascii(sample, codec), usual) / share
            if likeness > most:
                best, most = (codec, name), likeness
    return best


def _letters_stand_alone(sample: bytes) -> bool:
    """Whether bytes beyond ASCII are what they are in western words: one or two between plain letters."""
    runs = _HIGH.findall(sample)
    in_a_row = sum(len(run) for run in runs if len(run.translate(None, _QUOTES)) >= _IN_A_ROW)
    return in_a_row <= _FEW * sum(map(len, runs))


def _beyond_ascii(sample: bytes, codec: str) -> str:
    return "".join(char for char in sample.decode(codec, "replace") if char > "\x7f")


def _likeness(text: str, usual: frozenset[str]) -> float:
    """The share of usual characters in a text."""
    return sum(char in usual for char in text) / (len(text) or 1)
