"""A paragraph as sentences.

Knows sentencex and what it must be spared: its time grows with the square of the paragraph where there are quotes or
letters beyond ASCII, so a long paragraph goes to it in windows. Nothing is lost: the sentences together are the text.
"""

from __future__ import annotations

from sentencex import segment  # type: ignore[import-untyped]

_WINDOW = 3000  # characters; a sentence that is longer is cut by the rules for lines anyway
_OPENERS = "“‘„«‹「『（(["
_QUOTES = str.maketrans(dict.fromkeys('"“”„«»「」『』', " "))
_UNKNOWN = "en"


def primary_language(tag: str) -> str:
    """'en' of 'en-GB'; 'en' where the book does not say."""
    first = tag.strip().replace("_", "-").partition("-")[0].lower()
    return first if first.isascii() and first.isalpha() and 2 <= len(first) <= 3 and first != "und" else _UNKNOWN


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of one paragraph, in order, none empty. `text` has single spaces only; time is linear in it."""
    sentences: list[str] = []
    begin = 0
    while begin < len(text):
        end = begin + _WINDOW
        if end < len(text):
            space = text.rfind(" ", begin, end)
            end = space + 1 if space > begin else end
        found = _segment(text[begin:end], language)
        # The last one may go on in the next window, unless it is so long that the rules for lines will cut it anyway.
        if end < len(text) and len(found) > 1 and len(found[-1]) <= _WINDOW // 2:
            end -= len(found.pop())
        sentences += found
        begin = end
    return [sentence for sentence in map(str.strip, sentences) if sentence]


def _segment(text: str, language: str) -> list[str]:
    found: list[str] = list(segment(language, text))
    return found if "".join(found) == text else [text]


def ends_within(text: str, language: str) -> list[int]:
    """Where sentences end inside one sentence, which sentencex keeps whole as long as a quotation is open."""
    ends: list[int] = []
    at = 0
    for part in _segment(text.translate(_QUOTES), language):
        at += len(part)
        end = at
        while end and (text[end - 1] in _OPENERS or (text[end - 1] == '"' and text[end - 2 : end - 1] == " ")):
            end -= 1
        if 0 < end < len(text) and (not ends or end > ends[-1]):
            ends.append(end)
    return ends
