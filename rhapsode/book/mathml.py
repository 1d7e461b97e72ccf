"""A formula as text.

Knows MathML; does not know how a formula is spoken: it keeps the signs in reading order, one space between.
The author's own words (`alttext`) come first where they are words; TeX source and placeholders are not.
"""

from __future__ import annotations

import re

from rhapsode.book.clean import has_sound, one_line
from rhapsode.book.markup import Element, tag_of, text_of

_UNSEEN = {"annotation", "annotation-xml", "mphantom", "maligngroup", "malignmark", "mspace", "none", "mprescripts"}
_TOKENS = {"mi", "mn", "mo", "ms", "mtext"}
_PLACEHOLDER = re.compile(r"not available|^\W*(?:math(?:ml)?|equation|formula|image|alt(?:ernative)? text)\W*$", re.I)
_NO_SPACE_BEFORE = re.compile(r" (?=[,;.)\]}′])")
_NO_SPACE_AFTER = re.compile(r"(?<=[(\[{]) ")


def formula(math: Element) -> str:
    """The formula as one line of text, '' where nothing is to be seen."""
    words = one_line(math.get("alttext") or "")
    if has_sound(words) and "\\" not in words and not _PLACEHOLDER.search(words):
        return words
    signs: list[str] = []
    stack: list[Element | str] = [math]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            signs.append(top)
        elif tag_of(top) in _TOKENS:
            signs.append(text_of(top))
        elif tag_of(top) not in _UNSEEN:
            stack.extend(reversed(_parts(top)))
    return _NO_SPACE_AFTER.sub("", _NO_SPACE_BEFORE.sub("", one_line(" ".join(signs))))


def _parts(element: Element) -> list[Element | str]:
    """What stands inside an element, with the signs that `mfenced` keeps in its attributes."""
    children = [child for child in element if tag_of(child)]
    if not children:
        return [element.text or ""]
    if tag_of(element) != "mfenced":
        return list(children)
    separator = (element.get("separators", ",").strip() or " ")[0]
    parts: list[Element | str] = [element.get("open", "(")]
    for child in children:
        parts += [child, separator]
    return [*parts[:-1], element.get("close", ")")]
