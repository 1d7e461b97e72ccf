"""A Markdown file as a `Book`: headings make the chapters.

Knows front matter, footnotes and which heading is the title; Markdown itself is left to markdown-it, its HTML to the
block walker.
"""

from __future__ import annotations

import re
from pathlib import Path

from markdown_it import MarkdownIt

from rhapsode.book.blocks import Piece, read_blocks
from rhapsode.book.chapters import cut_chapters, heading_marks
from rhapsode.book.clean import one_line
from rhapsode.book.encoding import encoding_note
from rhapsode.book.markup import parse_html
from rhapsode.book.plain import decode_text, title_from_name
from rhapsode.errors import BookError
from rhapsode.types import Book

_FRONT_MATTER = re.compile(r"\s*---[ \t]*\n(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|$)", re.S)
# '[^1]: A note' with the rows that go on, and its further paragraphs, which are indented.
_NOTE_ROW = r"\n(?![ \t]*\n)(?! {0,3}(?:\[\^|#|>|```))[^\n]+"
_NOTE = re.compile(
    rf"^ {{0,3}}\[\^([^\]\s]{{1,64}})\]:[^\n]*(?:{_NOTE_ROW})*+"
    rf"(?:\n(?:[ \t]*\n)++(?: {{4}}|\t)[^\n]*+(?:{_NOTE_ROW})*+)*+",
    re.M,
)
_NOTE_MARK = re.compile(r"\[\^([^\]\s]{1,64})\](?!:)")
_FIELD = re.compile(r"^(title|author|authors|lang|language)[ \t]*:[ \t]*(\S.*)$", re.I | re.M)


def read_markdown(raw: bytes, path: Path) -> Book:
    """The book in the bytes of a Markdown file; `path` only names it. Raises BookError where there is no text."""
    text, guessed = decode_text(raw, path)
    front = _FRONT_MATTER.match(text)
    fields: dict[str, str] = {}
    if front:
        fields = {key.lower(): one_line(value).strip("[]\"' ") for key, value in _FIELD.findall(front[1])}
        text = text[front.end() :]
    text, footnotes = _without_notes(text)
    markdown = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    root = parse_html(markdown.render(text))
    pieces = read_blocks(root).pieces if root is not None else []
    file_title, file_author = title_from_name(path)
    title = fields.get("title") or _only_top_heading(pieces) or file_title
    chapters = cut_chapters(pieces, heading_marks(pieces), title)
    if not chapters:
        raise BookError(f"{path.name} holds no text to read aloud.")
    author = fields.get("author") or fields.get("authors") or file_author
    language = fields.get("lang") or fields.get("language") or ""
    notes = encoding_note(guessed)
    if footnotes:
        notes += (f"Left out {footnotes} footnote(s) and the marks that point to them.",)
    return Book(title, author, language, chapters, notes=notes)


def _without_notes(text: str) -> tuple[str, int]:
    """Without the footnotes that a mark points to, and without their marks; how many notes those were."""
    notes = {match[1] for match in _NOTE.finditer(text)} & {match[1] for match in _NOTE_MARK.finditer(text)}
    if not notes:
        return text, 0
    text = _NOTE.sub(lambda match: "" if match[1] in notes else match[0], text)
    return _NOTE_MARK.sub(lambda match: "" if match[1] in notes else match[0], text), len(notes)


def _only_top_heading(pieces: list[Piece]) -> str:
    """The text of the one heading that stands above all others."""
    top = min((piece.level for piece in pieces if piece.level), default=0)
    tops = [piece.text for piece in pieces if piece.level == top and top]
    return one_line(tops[0]) if len(tops) == 1 else ""
