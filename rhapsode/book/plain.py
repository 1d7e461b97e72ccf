"""A plain text file as a `Book`.

Knows byte order marks, hard-wrapped lines and how chapters are announced in plain text; knows no markup.
Nothing is thrown away but underscores around _words_, and what is Gutenberg's own: header and licence, only between
their exact marks, and '[Illustration]' where no caption is in it.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from rhapsode.book.blocks import BREAK, LICENCE_LEFT_OUT, Piece, is_ornament
from rhapsode.book.chapters import Mark, cut_chapters
from rhapsode.book.clean import clean, one_line
from rhapsode.book.encoding import decode_plain, encoding_note
from rhapsode.book.titles import find_headings
from rhapsode.errors import BookError
from rhapsode.types import Book

_BOMS = [
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
]
_NO_TEXT = " is not a text file; EPUB, text, Markdown and HTML files can be read."
_WRAP = 100  # columns: a file whose lines are rarely longer was wrapped by a machine
_WRAPPED_SHARE = 0.95
_PG_START = re.compile(  # a long title goes on in the next line
    r"^[ \t]*\*\*\* ?START OF (?:THE|THIS) PROJECT GUTENBERG EBOOK"
    r"(?:(?:[^\n*]*\n){0,2}?[^\n*]*\*\*\*[ \t]*\n|[^\n]*\n)",
    re.I | re.M,
)
_PG_END = re.compile(r"^[ \t]*\*\*\* ?END OF (?:THE|THIS) PROJECT GUTENBERG EBOOK", re.I | re.M)
_PG_LAST = re.compile(r"^[ \t]*End of (?:the )?Project Gutenberg[^\n]*(?:\n[^\n]*\S[^\n]*){0,3}\s*\Z", re.I | re.M)
_PG_FIELD = re.compile(r"^(Title|Author|Language): *(\S[^\n]*(?:\n[ \t]+\S[^\n]*){0,4})$", re.M)
_PG_PICTURE = re.compile(r"\[Illustration\]\.?")
_PG_LANGUAGES = {
    "english": "en", "french": "fr", "german": "de", "spanish": "es", "italian": "it", "portuguese": "pt",
    "dutch": "nl", "russian": "ru", "chinese": "zh", "japanese": "ja", "korean": "ko", "latin": "la",
    "finnish": "fi", "swedish": "sv",
}  # fmt: skip
_HYPHEN_END = re.compile(r"(?<=\w)-\n[ \t]*(?=\w)")
_HYPHENED = re.compile(r"(?<!\w)\w++-\w+")
_LAST_WORD = re.compile(r"\w+\Z")
_FIRST_WORD = re.compile(r"\w+")
_LONG_WORD = 64  # characters: no word is looked for beyond
# _Words_ in italics: the marks would part 'Mr.' from 'Smith', and have no sound. A name_with_some keeps its own.
_EMPHASIS = re.compile(r"(?<!\w)(_{1,3})(?=[^\s_])([^_]{1,4000})(?<=[^\s_])\1(?!\w)")
_UNDERLINE = re.compile(r"[=~_-]{3,}")
_WIDE = re.compile("[\u1100-\u11ff\u2e80-\ud7af\uf900-\ufaff\uff00-\uff60]")  # letters of two columns
_BLANK_LINES = re.compile(r"\n[ \t\f\v]*\n\s*")


def decode_text(raw: bytes, path: Path) -> tuple[str, str]:
    """Text with plain newlines by byte order mark, strict UTF-8, else by its letters; what that guess was, or ''.

    Raises BookError where the bytes are no text.
    """
    for bom, name in _BOMS:
        if raw.startswith(bom):
            text, guessed = raw[len(bom) :].decode(name, "replace"), ""
            break
    else:
        if b"\0" in raw:
            raise BookError(f"{path.name}{_NO_TEXT}")
        text, guessed = decode_plain(raw)
        if guessed and _looks_binary(text):
            raise BookError(f"{path.name}{_NO_TEXT}")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n\n"), guessed


def title_from_name(path: Path) -> tuple[str, str]:
    """Title and author from 'Author - Title.txt' or 'Title.txt'."""
    stem = one_line(path.stem.replace("_", " "))
    author, dash, title = stem.partition(" - ")
    return (title, author) if dash and author and title else (stem or path.name, "")


def read_text(raw: bytes, path: Path) -> Book:
    """The book in the bytes of a text file; `path` only names it. Raises BookError where there is no text."""
    text, guessed = decode_text(raw, path)
    notes = encoding_note(guessed)
    title, author = title_from_name(path)
    fields: dict[str, str] = {}
    start = _PG_START.search(text)
    if start:
        for key, value in reversed(_PG_FIELD.findall(text[: start.start()])):
            fields[key] = one_line(value)
        text, note = _without_licence(text, start)
        notes += note
    pieces = _paragraphs(text)
    if start and (pictures := sum(map(_is_picture, pieces))):
        pieces = [piece for piece in pieces if not _is_picture(piece)]
        notes += (f"Left out {pictures} mark(s) of illustrations without a caption.",)
    pieces = find_headings(pieces)
    title = fields.get("Title") or title
    marks = [Mark(" ".join(p.text.split()), at, p.level) for at, p in enumerate(pieces) if p.level]
    chapters = cut_chapters(pieces, marks, title)
    if not chapters:
        raise BookError(f"{path.name} holds no text to read aloud.")
    language = _PG_LANGUAGES.get(fields.get("Language", "").lower(), "")
    return Book(title, fields.get("Author") or author, language, chapters, notes=notes)


def _is_picture(piece: Piece) -> bool:
    return _PG_PICTURE.fullmatch(piece.text) is not None


def _looks_binary(text: str) -> bool:
    """Whether more than one character in fifty is a control or undefined: no text in any encoding."""
    sample = text[:20000]
    odd = sum(1 for char in sample if (char < " " and char not in "\t\n\r\f\v\x1a\x1b") or char == "\ufffd")
    return odd * 50 > len(sample)


def _without_licence(text: str, start: re.Match[str]) -> tuple[str, tuple[str, ...]]:
    """The text between Gutenberg's marks, or all of it where that is less than half."""
    end = _PG_END.search(text, start.end())
    inner = text[start.end() : end.start() if end else len(text)]
    if len(inner) * 2 < len(text):
        return text, ("Gutenberg's header and licence were kept: between their marks is less than half of the text.",)
    last = _PG_LAST.search(inner, max(0, len(inner) - 1000))
    return inner[: last.start()] if last else inner, (LICENCE_LEFT_OUT,)


def _paragraphs(text: str) -> list[Piece]:
    """Paragraphs, their lines joined where a machine wrapped them, and breaks where only an ornament stands."""
    lines = [line for line in text.split("\n") if line.strip()]
    wrapped = sum(_columns(line.rstrip()) <= _WRAP for line in lines) >= _WRAPPED_SHARE * len(lines)
    text = clean(text.replace("\n\u3000", "\n\n\u3000"))  # each paragraph of an eastern text begins so
    if wrapped:
        text = _join_hyphens(text)
    pieces: list[Piece] = []
    for part in _BLANK_LINES.split(text.strip("\n")):
        for paragraph in _indented(part) if wrapped else part.split("\n"):
            rows = [" ".join(row.split()) for row in paragraph.split("\n") if row.strip()]
            pieces += _pieces(rows)
    return pieces


def _columns(line: str) -> int:
    return len(line) if line.isascii() else len(line) + len(_WIDE.findall(line))


def _pieces(rows: list[str]) -> list[Piece]:
    """Rows as one paragraph; a row that is an ornament parts it, one that underlines the row above is left out."""
    pieces: list[Piece] = []
    begin = 0
    for at, row in enumerate([*rows, ""]):
        if row and not is_ornament(row):
            continue
        if at > begin:
            pieces.append(Piece("paragraph", _EMPHASIS.sub(r"\2", "\n".join(rows[begin:at]))))
        if row and not (at == 1 and begin == 0 and _UNDERLINE.fullmatch(row)):
            pieces.append(BREAK)
        begin = at + 1
    return pieces


def _indented(part: str) -> list[str]:
    """Paragraphs that start with an indent instead of a blank line; verse, indented in every line, stays whole."""
    rows = part.split("\n")
    paragraphs = [rows[0]]
    for before, row in zip(rows, rows[1:], strict=False):
        if row[:2].isspace() and not before[:1].isspace():
            paragraphs.append(row)
        else:
            paragraphs[-1] += "\n" + row
    return paragraphs


def _join_hyphens(text: str) -> str:
    """'nega-\\ntive' as the book writes it elsewhere: one word where it does, a hyphenated one where not."""
    words = set(re.findall(r"\w+", text.casefold()))
    hyphened = set(_HYPHENED.findall(text.casefold()))

    def join(match: re.Match[str]) -> str:
        before = _LAST_WORD.search(text[max(0, match.start() - _LONG_WORD) : match.start()])
        after = _FIRST_WORD.match(text[match.end() : match.end() + _LONG_WORD])
        first, second = (before[0] if before else "").casefold(), (after[0] if after else "").casefold()
        return "" if first + second in words and f"{first}-{second}" not in hyphened else "-"

    return _HYPHEN_END.sub(join, text)
