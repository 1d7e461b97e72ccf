"""`read_book`: which reader a file is for.

Knows suffixes and first bytes; reads no format itself. The bytes decide where they are plain, the suffix where not.
The file is only ever opened for reading.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from rhapsode.book.archive import BROKEN
from rhapsode.book.epub import read_epub
from rhapsode.book.markdown import read_markdown
from rhapsode.book.plain import read_text
from rhapsode.book.webpage import read_page
from rhapsode.errors import BookError
from rhapsode.types import Book

MAX_TEXT_FILE = 64 << 20  # bytes; the longest novels are about 15 MB
MAX_EPUB_FILE = 2 << 30  # bytes; pictures take most of it

_CONVERT = "; convert it to EPUB, with Calibre for example."
_NAMED = {
    **dict.fromkeys((".mobi", ".azw", ".azw3", ".azw4", ".kf8", ".kfx", ".prc"), "a Kindle book"),
    ".pdf": "a PDF file, whose text has no reading order",
    ".docx": "a Word document",
    ".doc": "a Word document",
    ".odt": "an OpenDocument text",
    ".rtf": "an RTF document",
    ".fb2": "a FictionBook",
    ".djvu": "a DjVu scan",
}
_KNOWN = "EPUB (.epub), plain text (.txt), Markdown (.md) and HTML (.html) can be read"
_MARKDOWN = {".md", ".markdown", ".mdown"}
_PAGES = {".html", ".htm", ".xhtml"}


def read_book(path: str | os.PathLike[str]) -> Book:
    """The book in a file: EPUB, plain text, Markdown or HTML.

    Raises BookError, one sentence, where the file is missing, no book, encrypted, empty, too large or broken.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    head, size = _look(path)
    kind = _kind_by_bytes(path, head)
    if kind == "epub" or (suffix == ".epub" and not kind):
        if size > MAX_EPUB_FILE:
            raise BookError(f"{path.name} is larger than {MAX_EPUB_FILE >> 30} GB; a book of text is far smaller.")
        return read_epub(path)
    if kind or suffix in _NAMED:
        raise BookError(f"{path.name} is {_NAMED.get(suffix) or kind}, which cannot be read{_CONVERT}")
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BookError(f"{path.name} is not a book: {_KNOWN}.")
    if size > MAX_TEXT_FILE:
        raise BookError(f"{path.name} is larger than {MAX_TEXT_FILE >> 20} MB; split it into several books.")
    raw = _read(path, size)
    if suffix in _MARKDOWN:
        return read_markdown(raw, path)
    if suffix in _PAGES or (suffix != ".txt" and _looks_like_page(head)):
        return read_page(raw, path)
    return read_text(raw, path)


def _look(path: Path) -> tuple[bytes, int]:
    """The first bytes of the file and its size."""
    try:
        if path.is_dir():
            raise BookError(f"{path} is a folder, not a book; name a file: {_KNOWN}.")
        if not path.exists():
            raise BookError(f"There is no file {path}; check the name.")
        if not path.is_file():
            raise BookError(f"{path} is not an ordinary file; {_KNOWN}.")
        with path.open("rb") as file:
            head = file.read(4096)
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        raise BookError(f"{path} cannot be opened: {getattr(error, 'strerror', None) or error}.") from error
    if not size:
        raise BookError(f"{path.name} is empty; there is nothing to read aloud.")
    return head, size


def _read(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise BookError(f"{path} cannot be read: {error.strerror or error}.") from error


def _kind_by_bytes(path: Path, head: bytes) -> str:
    """'epub', the name of a kind that cannot be read, or '' where the bytes do not say."""
    if head.startswith(b"%PDF-"):
        return _NAMED[".pdf"]
    if head[60:68] in (b"BOOKMOBI", b"TEXtREAd"):
        return _NAMED[".mobi"]
    if head.startswith(b"{\\rtf"):
        return _NAMED[".rtf"]
    if head.startswith(b"PK\x03\x04"):
        return "epub" if path.suffix.lower() == ".epub" or _holds_a_book(path) else "a ZIP file without a book in it"
    return ""


def _holds_a_book(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(n.lower().endswith(".opf") or n == "META-INF/container.xml" for n in archive.namelist())
    except BROKEN:
        return False


def _looks_like_page(head: bytes) -> bool:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:400].lower()
    return start.startswith((b"<!doctype html", b"<html")) or (start.startswith(b"<?xml") and b"<html" in start)
