"""What a few inline elements mean to a listener: note marks, page and line numbers, ruby, list numbers, quotations.

Knows single elements; keeps no state and writes no block. Each rule errs on the side of reading aloud:
what is not plainly a mark is text ('20th', 'H2O', 'E = mc2', a link whose words are words).
"""

from __future__ import annotations

import re

from rhapsode.book.markup import Element, short_text, tag_of, text_of, types_of

QUOTES = ("“”", "‘’")  # of a `q`, and of one within it: who looks at the page sees them, and they are not in the text
NOTE_MARK = "\x01"  # stands in running text for a mark that was left out; cleaned text holds no controls

_NOTE_TYPES = {"noteref", "doc-noteref"}
_PAGE_TYPES = {"pagebreak", "doc-pagebreak"}
_NUMBER_CLASSES = {"pagenum", "pageno", "page-number", "pagenumber", "lnum", "linenum", "lineno", "line-number"}
_PAGE_TEXT = re.compile(r"[\[({]?(?:pg?|page)?\.?\s*(?:[0-9]{1,5}[a-z]?|[ivxlcdm]{1,8})?[\])}]?", re.I)
_SIGNS = re.compile(r"[*†‡§¶‖]{1,4}")
_BRACKETED = re.compile(r"\[[*†‡]?\s*(?:note\s*)?(?:[0-9]{1,4}|[a-z]|[ivxlc]{1,6})?\]|\((?:[0-9]{1,4}|[*†‡])\)", re.I)
_NUMBER = re.compile(r"[0-9⁰¹²³⁴-⁹]{1,4}")
_LONG_WORD = re.compile(r"[^\W\d_]{3,}")
_NOTE_HINT = re.compile(r"note|(?:^|[\W_\d])(?:fn|ftn|en)(?=[\W_\d]|ref|$)", re.I)
_NO_NUMBERS = re.compile(r"list-style(?:-type)?\s*:[^;]*\bnone\b", re.I)
_KANA = re.compile(r"[\u3041-\u309f\u30a0-\u30ff・\s]+")
_MAX_MARK = 24  # characters; longer text is never taken for a mark


def is_note_mark(element: Element, follows_text: bool) -> bool:
    """Whether a link or `sup` is the mark of a note: said so by type, or by its looks and a link to a note."""
    tag = tag_of(element)
    typed = bool(types_of(element) & _NOTE_TYPES)
    if not typed and (tag not in {"a", "sup"} or not follows_text):
        return False
    text = short_text(element, _MAX_MARK)
    if text is None:
        return False
    if typed:
        return not _LONG_WORD.search(re.sub(r"(?i)\bnotes?\b", "", text))
    if not text:
        return False
    link = element if tag == "a" else next((e for e in element.iter() if tag_of(e) == "a"), None)
    if link is None or not _points_inside(link.get("href") or ""):
        return False
    if _SIGNS.fullmatch(text) or _BRACKETED.fullmatch(text):
        return True
    raised = tag == "sup" or any(tag_of(e) == "sup" for e in element.iter())
    hints = " ".join(filter(None, (link.get(name) for name in ("href", "id", "class", "title"))))
    return _NUMBER.fullmatch(text) is not None and (raised or _NOTE_HINT.search(hints) is not None)


def _points_inside(href: str) -> bool:
    return "#" in href and ":" not in href.partition("#")[0]


def is_page_mark(element: Element) -> bool:
    """Whether the element only shows the number of a printed page or of a line of verse."""
    by_type = bool(types_of(element) & _PAGE_TYPES)
    if not by_type and not _NUMBER_CLASSES & set((element.get("class") or "").lower().split()):
        return False
    text = short_text(element, _MAX_MARK)
    return text is not None and (by_type or _PAGE_TEXT.fullmatch(text) is not None)


def has_quotation_mark(quote: Element) -> bool:
    """Whether a `q` brings its own marks, as those do whose style draws none."""
    text = text_of(quote).strip()
    return not text or text[0] in '“"„«‘‚‹'


def ruby_text(ruby: Element) -> str:
    """What is read of a `ruby`: the reading where it is in kana or has no base text, else the base; never both."""
    out: list[str] = []
    base: list[str] = []
    reading: list[str] = []

    def close() -> None:
        sound = "".join(reading)
        out.append(sound if sound.strip() and (_KANA.fullmatch(sound) or not "".join(base).strip()) else "".join(base))
        base.clear()
        reading.clear()

    base.append(ruby.text or "")
    for child in ruby:
        tag = tag_of(child)
        if tag in {"rt", "rtc"}:
            reading.append(text_of(child))
        elif tag and tag != "rp":
            if reading:
                close()
            base.append(text_of(child))
        tail = child.tail or ""
        if tail.strip() and reading:
            close()
        base.append(tail)
    close()
    return "".join(out)


def first_number(ordered: Element) -> tuple[int, int]:
    """The number of the first item of an `ol` and the step to the next."""
    step = -1 if ordered.get("reversed") is not None else 1
    first = sum(tag_of(child) == "li" for child in ordered) if step < 0 else 1
    return _number(ordered.get("start"), first), step


def item_number(item: Element, counted: int) -> int:
    return _number(item.get("value"), counted)


def shows_numbers(ordered: Element) -> bool:
    return not _NO_NUMBERS.search(ordered.get("style") or "")


def spoken_number(ordered: Element, number: int) -> str:
    """'3. ', or 'c. ' where the list counts in letters."""
    kind = ordered.get("type") or ""
    if kind in {"a", "A"} and 1 <= number <= 26:
        return chr(ord(kind) + number - 1) + ". "
    return f"{number}. "


def _number(written: str | None, otherwise: int) -> int:
    match = re.fullmatch(r"\s*([+-]?[0-9]{1,9})\s*", written or "")
    return int(match[1]) if match else otherwise
