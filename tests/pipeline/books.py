"""Small books for the tests, and what lies in a folder afterwards.

Knows Markdown and the least of EPUB. Knows nothing of how they are read aloud.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path

# (title, paragraphs). A chapter's title is its heading; "..." and "* * *" are paragraphs of punctuation alone.
Chapters = Sequence[tuple[str, Sequence[str]]]

TALE: Chapters = (
    ("The Old Mill", ('"Is it late?" she asked him. "It is not late," he said.', "?! ...", "The wheel turned slowly.")),
    ("A Letter", ("The letter came at noon. Nobody read it before the evening.",)),
    ("The End", ("They all went home again.",)),
)
TITLES = [title for title, _ in TALE]
CONTAINER = """<?xml version="1.0"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""


def long_tale(chapters: int, lines: int) -> Chapters:
    """`chapters` chapters of `lines` different sentences each."""
    return [
        (f"Chapter {c}", [f"Sentence number {c * lines + n} goes on for a while." for n in range(lines)])
        for c in range(chapters)
    ]


def write_markdown(path: Path, chapters: Chapters = TALE) -> Path:
    parts = [part for title, paragraphs in chapters for part in (f"# {title}", *paragraphs)]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def write_epub(path: Path, chapters: Chapters = TALE, *, language: str = "en-GB", encrypted: bool = False) -> Path:
    """An EPUB 3 by A. N. Author with the title "A Tale"; `encrypted`: its pages are said to be under DRM."""
    pages = {
        f"p{n}.xhtml": f"<h1>{title}</h1>" + "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
        for n, (title, paragraphs) in enumerate(chapters)
    }
    items = "".join(
        f'<item id="i{n}" href="{name}" media-type="application/xhtml+xml"/>' for n, name in enumerate(pages)
    )
    spine = "".join(f'<itemref idref="i{n}"/>' for n in range(len(pages)))
    entries = "".join(
        f'<li><a href="{name}">{title}</a></li>' for name, (title, _) in zip(pages, chapters, strict=True)
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", CONTAINER)
        archive.writestr(
            "book.opf",
            '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
            'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>A Tale</dc:title><dc:creator>A. N. Author'
            f"</dc:creator><dc:language>{language}</dc:language></metadata><manifest>{items}"
            '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/></manifest>'
            f"<spine>{spine}</spine></package>",
        )
        archive.writestr("nav.xhtml", _page(f'<nav epub:type="toc"><ol>{entries}</ol></nav>'))
        for name, body in pages.items():
            archive.writestr(name, _page(body))
        if encrypted:
            data = "".join(
                '<EncryptedData xmlns="http://www.w3.org/2001/04/xmlenc#"><EncryptionMethod '
                'Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/><CipherData>'
                f'<CipherReference URI="{name}"/></CipherData></EncryptedData>'
                for name in pages
            )
            archive.writestr(
                "META-INF/encryption.xml",
                f'<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container">{data}</encryption>',
            )
    return path


def _page(body: str) -> str:
    return (
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">'
        f"<head><title/></head><body>{body}</body></html>"
    )


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything under a folder: relative name to bytes, None for a folder."""
    found: dict[str, bytes | None] = {}
    for parent, folders, files in os.walk(folder):
        for name in folders:
            found[os.path.relpath(os.path.join(parent, name), folder)] = None
        for name in files:
            file = Path(parent, name)
            found[os.path.relpath(file, folder)] = file.read_bytes()
    return found
