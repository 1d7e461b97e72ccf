"""From an element tree to headings, paragraphs and breaks, in reading order.

Knows what HTML means to a listener: what ends a paragraph, what is not read aloud (note marks and notes, page numbers,
pictures), what is read although it is no text node (list numbers). Knows nothing of chapters or files.
Only block tags and `br` break text; an inline tag never adds a space. `br` is a newline within the paragraph,
two of them end it. Walks without recursion.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rhapsode.book import inline
from rhapsode.book.clean import clean, has_sound, unwrap
from rhapsode.book.inline import NOTE_MARK
from rhapsode.book.markup import BLOCK_TAGS, Element, short_text, tag_of, types_of
from rhapsode.book.mathml import formula
from rhapsode.types import BlockKind

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_SUBTITLE = 6  # the level of a paragraph that stands in an hgroup
_SILENT = {"script", "style", "template", "head", "svg", "img", "noscript", "iframe", "audio", "video", "canvas"}
_SILENT |= {"object", "select", "button", "textarea"}
_UNLISTED = {"landmarks", "page-list", "backlink", "doc-backlink"}
_NOTE_BODIES = {"footnote", "footnotes", "endnote", "rearnote", "doc-footnote", "doc-endnote"}
_NOTE_LISTS = {"endnotes", "rearnotes", "doc-endnotes"}
_SCENE_BREAKS = {"scene-break", "scenebreak"}
_LICENCE_CLASS = "pg-boilerplate"  # of Project Gutenberg's header and licence, in all that it makes since 2022
LICENCE_LEFT_OUT = "Left out Gutenberg's header and licence."
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)
_BLOCK_STYLE = re.compile(r"display\s*:\s*block", re.I)
_ORNAMENTS = "*⁂❦❧☙✻✽~#•·◆◇■□●○_"
_MAX_ORNAMENT = 80  # characters
_ORNAMENT = re.compile(
    rf"(?=[^{_ORNAMENTS}]*[{_ORNAMENTS}]|[-–—=](?: ?[-–—=]){{2}})[\s{_ORNAMENTS}=–—-]{{1,{_MAX_ORNAMENT}}}"
)
_SOURCE_SPACE = re.compile(r"[ \t\r\n\f]+")
_BLANK_LINE = re.compile(r"\n\s*\n")
_MARKS = rf"{NOTE_MARK}(?:\s*+[,;–-]?+\s*+{NOTE_MARK})*+"
_NOTE_MARKS = re.compile(rf" ?(?:\[{_MARKS}\]|\({_MARKS}\)|{_MARKS})(?=[\s.,;:!?…”’)]|$)|{_MARKS}")
_ANCHOR = "\x02"  # stands in the running text where a wanted anchor is; cleaned text holds no controls


class Piece(NamedTuple):
    """A block that still knows how high its heading stands: 1 to 6, 0 for what is no heading."""

    kind: BlockKind
    text: str
    level: int = 0


BREAK = Piece("break", "")


@dataclass
class Blocks:
    """What a document gives: pieces, the wanted anchors' places among them, what was left out."""

    pieces: list[Piece] = field(default_factory=list)
    anchors: dict[str, int] = field(default_factory=dict)
    notes: int = 0
    licence: bool = False  # Gutenberg's header or licence was left out
    dropped: set[str] = field(default_factory=set)  # the wanted anchors in it: they are places of no chapter


def read_blocks(root: Element, wanted: Collection[str] = ()) -> Blocks:
    """The blocks of a document; `wanted` are the ids whose places matter: a paragraph is cut where one stands."""
    walker = _Walker(frozenset(wanted))
    walker.walk(root)
    walker.flush()
    return walker.out


def is_ornament(text: str) -> bool:
    """Whether a paragraph only marks a break: '* * *', '⁂', '---', '#'."""
    return _ORNAMENT.fullmatch(text) is not None


class _Walker:
    """Gathers the text of the open block and writes it out when a block tag comes."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self.wanted = wanted
        self.out = Blocks()
        self.buffer: list[str] = []
        self.full = False  # the buffer holds more than space
        self.marked: list[str] = []  # the anchors that stand in the buffer, in order
        self.number = ""  # a list number that waits for its text
        self.lists: list[tuple[Element, int, int] | None] = []  # open lists: the ol, its next number, the step
        self.heading = 0
        self.preformatted = 0
        self.note_lists = 0
        self.quotes: list[Element] = []  # open `q`s that got marks

    def walk(self, top: Element) -> None:
        stack: list[tuple[Element, Iterator[Element]]] = []
        if self.enter(top):
            stack.append((top, iter(top)))
        while stack:
            element, children = stack[-1]
            child = next(children, None)
            if child is None:
                stack.pop()
                self.leave(element)
                if stack:
                    self.text(element.tail)
            elif self.enter(child):
                stack.append((child, iter(child)))
            else:
                self.text(child.tail)

    def enter(self, element: Element) -> bool:
        """Do what the opening tag asks for; False where what is inside is not to be walked."""
        tag = tag_of(element)
        if not tag:
            return False
        block = self.is_block(element, tag)
        if block:
            self.flush()
        if self.wanted:
            self.mark(element)
        if tag == "br":
            self.add("\n")
        elif self.skips(element, tag):
            if self.wanted:
                for inner in element.iterdescendants():
                    self.mark(inner)
            return False
        elif tag in {"td", "th"}:
            self.next_cell()
        elif block:
            self.open_block(element, tag)
        elif tag == "q" and not inline.has_quotation_mark(element):
            self.add(inline.QUOTES[len(self.quotes) % 2][0])
            self.quotes.append(element)
        self.text(element.text)
        return True

    def is_block(self, element: Element, tag: str) -> bool:
        if tag in {"td", "th"}:
            return False
        return tag in BLOCK_TAGS or bool(_BLOCK_STYLE.search(element.get("style") or ""))

    def skips(self, element: Element, tag: str) -> bool:
        """Whether the element is done with: it has no sound, or its sound has been added here."""
        if tag in _SILENT or _is_hidden(element):
            return True
        if _LICENCE_CLASS in (element.get("class") or "").split():
            self.leave_out_licence(element)
            return True
        types = types_of(element)
        if types & _SCENE_BREAKS and not has_sound(
            "text" if (mark := short_text(element, _MAX_ORNAMENT)) is None else mark
        ):
            self.flush()
            self.out.pieces.append(BREAK)
            return True
        if types & _UNLISTED or inline.is_page_mark(element):
            return True
        if types & _NOTE_BODIES and not self.note_lists:
            self.out.notes += self.count_notes(element)
            return True
        if tag == "math":
            text = formula(element)
            self.add(f" {text} " if element.get("display") == "block" else text)
        elif tag == "ruby":
            self.text(inline.ruby_text(element))
        elif inline.is_note_mark(element, self.full):
            self.add(NOTE_MARK)
        else:
            return False
        return True

    def leave_out_licence(self, element: Element) -> None:
        self.out.licence = True
        for inner in element.iter():
            self.out.dropped.update(self.wanted & {inner.get("id") or "", inner.get("name") or ""})

    def count_notes(self, element: Element) -> int:
        bodies = _NOTE_BODIES - {"footnotes"}
        return max(1, sum(bool(types_of(e) & bodies) for e in element.iter() if tag_of(e)))

    def open_block(self, element: Element, tag: str) -> None:
        if level := _heading_level(element, tag):
            self.heading = level
        elif tag == "hr":
            self.out.pieces.append(BREAK)
        elif tag == "pre":
            self.preformatted += 1
        elif tag == "ol":
            self.lists.append((element, *inline.first_number(element)))
        elif tag in {"ul", "menu", "dir"}:
            self.lists.append(None)
        elif tag == "li":
            self.open_item(element)
        if types_of(element) & _NOTE_LISTS:
            self.note_lists += 1

    def open_item(self, item: Element) -> None:
        self.number = ""
        if self.lists and (top := self.lists[-1]) is not None:
            ordered, counted, step = top
            number = inline.item_number(item, counted)
            self.lists[-1] = (ordered, number + step, step)
            if inline.shows_numbers(ordered):
                self.number = inline.spoken_number(ordered, number)

    def leave(self, element: Element) -> None:
        tag = tag_of(element)
        if self.quotes and self.quotes[-1] is element:
            self.quotes.pop()
            self.add(inline.QUOTES[len(self.quotes) % 2][1])
        if not self.is_block(element, tag):
            return
        self.flush()
        if _heading_level(element, tag):
            self.heading = 0
        elif tag == "pre":
            self.preformatted -= 1
        elif tag in {"ol", "ul", "menu", "dir"}:
            self.lists.pop()
        elif tag == "li":
            self.number = ""
        if types_of(element) & _NOTE_LISTS:
            self.note_lists -= 1

    def mark(self, element: Element) -> None:
        for name in (element.get("id"), element.get("name") if tag_of(element) == "a" else None):
            if name is None or name not in self.wanted or name in self.out.anchors or name in self.marked:
                continue
            if self.full:
                self.buffer.append(_ANCHOR)
                self.marked.append(name)
            else:
                self.out.anchors[name] = len(self.out.pieces)

    def next_cell(self) -> None:
        """Part the cells of a row: they are one paragraph."""
        if self.full:
            last = next((part.rstrip()[-1] for part in reversed(self.buffer) if part.strip()), ",")
            self.buffer.append(", " if last.isalnum() else " ")

    def text(self, text: str | None) -> None:
        if not text:
            return
        if not self.preformatted:
            self.add(_SOURCE_SPACE.sub(" ", unwrap(text)))
        else:
            self.add(text.replace("\r\n", "\n"))

    def add(self, text: str) -> None:
        self.buffer.append(text)
        self.full = self.full or bool(text.strip())

    def flush(self) -> None:
        """Write the open block out as a heading, as paragraphs, or as a break where it is an ornament."""
        if not self.full:
            self.buffer.clear()
            return
        raw = _NOTE_MARKS.sub("", "".join(self.buffer))
        names, self.marked = self.marked, []
        self.buffer.clear()
        self.full = False
        if self.heading:
            raw = raw.replace(_ANCHOR, "")
            self.out.anchors.update(dict.fromkeys(names, len(self.out.pieces)))
        for index, part in enumerate(_cut(raw)):
            if index:
                self.out.anchors[names[index - 1]] = len(self.out.pieces)
            self.write(part)

    def write(self, raw: str) -> None:
        for part in _BLANK_LINE.split(clean(raw)):
            text = "\n".join(line for line in (" ".join(row.split()) for row in part.split("\n")) if line)
            if not text:
                continue
            if is_ornament(text):
                self.out.pieces.append(BREAK)
                continue
            self.out.pieces.append(Piece("heading" if self.heading else "paragraph", self.number + text, self.heading))
            self.number = ""


def _cut(raw: str) -> list[str]:
    """`raw` cut at its anchors, each moved back to the start of the word that it stands in."""
    parts = raw.split(_ANCHOR)
    for index in range(len(parts) - 1):
        head, tail = parts[index], parts[index + 1]
        if head[-1:].strip() and tail[:1].strip():
            start = max(head.rfind(" "), head.rfind("\n")) + 1
            parts[index], parts[index + 1] = head[:start], head[start:] + tail
    return parts


def _is_hidden(element: Element) -> bool:
    return (
        element.get("hidden") is not None
        or element.get("aria-hidden") == "true"
        or bool(_HIDDEN_STYLE.search(element.get("style") or ""))
    )


def _heading_level(element: Element, tag: str) -> int:
    if tag in _HEADINGS:
        return _HEADINGS[tag]
    if element.get("role") == "heading":
        level = element.get("aria-level") or ""
        return int(level) if re.fullmatch("[1-6]", level) else 2
    parent = element.getparent() if tag == "p" else None
    return _SUBTITLE if parent is not None and tag_of(parent) == "hgroup" else 0
