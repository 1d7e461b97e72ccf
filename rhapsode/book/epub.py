"""An EPUB file as a `Book`: the spine's text, cut into chapters where the navigation says.

Knows how package, navigation and documents belong together; the parts are read elsewhere. Documents are taken one by
one: parsed, turned into pieces, dropped. What a book lacks is noted and the rest is read; it is refused only where
there is nothing to read, where the text is encrypted, or where it unpacks to more than a book.
"""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from pathlib import Path

from rhapsode.book import markup
from rhapsode.book.archive import Archive
from rhapsode.book.blocks import LICENCE_LEFT_OUT, Piece, read_blocks
from rhapsode.book.chapters import Mark, cut_chapters, heading_marks
from rhapsode.book.clean import fold, has_sound, one_line
from rhapsode.book.markup import Element, descendants, tag_of, text_of, types_of
from rhapsode.book.navigation import Entry, read_navigation
from rhapsode.book.package import Item, Package, read_cover, read_package, resolve
from rhapsode.book.styles import MAX_SHEET, hidden_note, mark_hidden, sheets_of
from rhapsode.errors import BookError
from rhapsode.types import Book

# Kinds of files that are in some books' reading order beside documents: read as one, they are noise.
_NO_TEXT = (
    "image/jp",
    "image/png",
    "image/gif",
    "image/webp",
    "audio/",
    "video/",
    "font/",
    "text/css",
    "application/pdf",
)
_COVER_PAGE = 400  # letters: a document marked as the cover that holds more is text


def read_epub(path: str | os.PathLike[str]) -> Book:
    """The book in an EPUB 2 or 3 file. Raises BookError with what is wrong with it."""
    path = Path(path)
    with Archive(path, path.name) as archive:
        package = read_package(archive, one_line(path.stem))
        _refuse_encrypted(archive, package)
        entries = read_navigation(archive, package)
        text = _Text(archive, package)
        text.read(_wanted(entries))
        marks = text.marks(entries)
        chapters = cut_chapters(text.pieces, marks or text.own_marks(), package.title)
        if not chapters:
            raise BookError(f"{path.name} holds no text to read aloud: its pages are empty or pictures.")
        notes = package.notes + text.notes()
        cover = read_cover(archive, package)
        if package.covers and cover is None:
            notes.append(f"Left out the cover {package.covers[0].href}: it is neither JPEG nor PNG.")
        return Book(package.title, package.author, package.language, chapters, cover, tuple(notes))


class _Text:
    """The pieces of all documents in one run, and where each document and each wanted anchor starts in it."""

    def __init__(self, archive: Archive, package: Package) -> None:
        self.archive = archive
        self.package = package
        self.pieces: list[Piece] = []
        self.starts: dict[str, int] = {}
        self.anchors: dict[str, dict[str, int]] = {}  # document to anchor to place
        self.titles: dict[str, str] = {}  # what the head of each document calls it
        self.silent: set[str] = set()  # documents with nothing to say
        self.missing: list[str] = []
        self.no_text: list[str] = []
        self.covers: list[str] = []
        self.footnotes = 0
        self.licence = False  # Gutenberg's was left out
        self.sheets: dict[str | None, str | None] = {}
        self.hidden: list[str] = []  # the first words of parts that a style sheet hides
        self.dropped: dict[str, set[str]] = {}  # document to the anchors that went with it
        self.lost_anchors = 0

    def read(self, wanted: dict[str, set[str]]) -> None:
        for item in self.package.spine:
            if item is self.package.nav:
                continue
            raw = self.archive.read(item.name)
            if item.name is None or raw is None:
                self.missing.append(item.href or item.id)
                continue
            if item.media_type.startswith(_NO_TEXT) or _is_binary(raw):
                self.no_text.append(item.href or item.id)
                continue
            root = markup.parse(raw) if item.media_type != "image/svg+xml" else None
            if root is None:
                continue
            self.hidden += mark_hidden(root, sheets_of(root, partial(self.sheet, item.name)))
            blocks = read_blocks(root, wanted.get(item.name, ()))
            if self.is_cover(item, root, blocks.pieces):
                if any(has_sound(piece.text) for piece in blocks.pieces):
                    self.covers.append(item.href)
                continue
            begin = self.starts[item.name] = len(self.pieces)
            self.anchors[item.name] = {anchor: begin + at for anchor, at in blocks.anchors.items()}
            title = next((e for e in descendants(root, "title") if tag_of(e.getparent()) == "head"), None)
            self.titles[item.name] = one_line(text_of(title)) if title is not None else ""
            self.pieces += blocks.pieces
            if not any(has_sound(piece.text) for piece in blocks.pieces):
                self.silent.add(item.name)
            self.footnotes += blocks.notes
            self.licence |= blocks.licence
            self.dropped[item.name] = blocks.dropped

    def sheet(self, document: str, href: str) -> str | None:
        """The text of a style sheet that a document links to, None where it is not there or larger than any is."""
        name = self.archive.find(resolve(document, href)[0])
        if name not in self.sheets:
            raw = None
            with suppress(BookError):
                raw = self.archive.read(name, MAX_SHEET)
            self.sheets[name] = raw.decode("utf-8", "replace") if raw else None
        return self.sheets[name]

    def is_cover(self, item: Item, root: Element, pieces: list[Piece]) -> bool:
        """Whether the document only shows the cover: the book says so, and there is little text."""
        marked = item.name in self.package.cover_pages or any(
            "cover" in types_of(element) for element in root.iter() if tag_of(element) in {"body", "section", "div"}
        )
        return marked and sum(len(piece.text) for piece in pieces) <= _COVER_PAGE

    def marks(self, entries: list[Entry]) -> list[Mark]:
        """The navigation's entries as places in the text; those that point outside it are left out."""
        marks: list[Mark] = []
        whole = {entry.name for entry in entries if not entry.fragment}
        for entry, following in zip_longest(entries, entries[1:]):
            start = self.starts.get(entry.name)
            if start is None or entry.fragment in self.dropped[entry.name]:
                continue
            same_place = following is not None and self.starts.get(following.name) == start
            if entry.name in self.silent and same_place and following.depth <= entry.depth:
                continue  # a picture; that of a part gives its title to the first chapter
            at = self.anchors[entry.name].get(entry.fragment)
            if at is None:
                self.lost_anchors += bool(entry.fragment)
                at = start
            elif entry.name not in whole and at == min(self.anchors[entry.name].values()):
                at = self.with_first_headings(at, start)
            marks.append(Mark(entry.title, self.with_own_heading(at, start, entry.title), entry.depth, listed=True))
        return marks

    def with_first_headings(self, at: int, start: int) -> int:
        """The first anchor of a document takes along what stands above it, where that is headings only."""
        return start if all(piece.kind != "paragraph" for piece in self.pieces[start:at]) else at

    def with_own_heading(self, at: int, start: int, title: str) -> int:
        """An anchor behind the heading that it stands for means the heading too."""
        if at > start and self.pieces[at - 1].kind == "heading" and fold(self.pieces[at - 1].text) == fold(title):
            return at - 1
        return at

    def own_marks(self) -> list[Mark]:
        """Without navigation: the headings, and where there are no two of them, the documents."""
        marks = heading_marks(self.pieces)
        if len(marks) > 1:
            return marks
        if len(self.starts) < 2:
            return marks
        several = len(set(self.titles.values())) > 1
        named = enumerate(self.starts.items(), 1)
        return [Mark((several and self.titles[name]) or f"Part {number}", at) for number, (name, at) in named]

    def notes(self) -> list[str]:
        notes = []
        for what, which in (("are missing or broken and not read", self.missing), ("hold no text", self.no_text)):
            if which:
                names = ", ".join(which[:5]) + (" ..." if len(which) > 5 else "")
                notes.append(f"{len(which)} document(s) of the book {what}: {names}.")
        if self.covers:
            notes.append(f"Left out the text of the cover page {', '.join(self.covers[:3])}.")
        if self.licence:
            notes.append(LICENCE_LEFT_OUT)
        notes += hidden_note(self.hidden)
        if self.footnotes:
            notes.append(f"Left out {self.footnotes} footnote(s) and the marks that point to them.")
        if self.lost_anchors:
            notes.append(
                f"{self.lost_anchors} navigation entries point to a place that is not there; their page was taken."
            )
        return notes


def _is_binary(raw: bytes) -> bool:
    """Whether a document is none, whatever the book calls it; of UTF-16 every other byte may be zero."""
    head = raw[:1024]
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<")):
        return False
    return b"\0" in head and sum(byte < 9 or 13 < byte < 32 for byte in head) * 50 > len(head)


def _wanted(entries: list[Entry]) -> dict[str, set[str]]:
    wanted: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        if entry.fragment:
            wanted[entry.name].add(entry.fragment)
    return wanted


def _refuse_encrypted(archive: Archive, package: Package) -> None:
    """Raise BookError where documents of the spine are encrypted; hidden fonts are no reason."""
    spine = {item.name for item in package.spine if item.name}
    drm = f"{archive.name} is protected by DRM, its text is encrypted; only a copy without protection can be read."
    if any(archive.is_locked(name) for name in spine):
        raise BookError(f"{archive.name} is locked with a ZIP password; unpack it and pack it again without one.")
    raw = archive.read(archive.find("META-INF/encryption.xml"))
    root = markup.parse(raw) if raw else None
    for data in descendants(root, "encrypteddata") if root is not None else []:
        for reference in descendants(data, "cipherreference"):
            uri = reference.get("URI") or reference.get("uri") or ""
            if archive.find(resolve("", uri)[0]) in spine:
                raise BookError(drm)
    if archive.find("META-INF/rights.xml") or archive.find("META-INF/sinf.xml"):
        first = next((raw for item in package.spine if (raw := archive.read(item.name))), b"<html")
        if b"<html" not in first[:4096].replace(b"\0", b"").lower():
            raise BookError(drm)
