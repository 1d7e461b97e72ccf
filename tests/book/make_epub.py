"""Small EPUB files for the tests, made in memory and broken in just the way a test asks for."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

CONTAINER = """<?xml version="1.0"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
  <rootfiles><rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles>
</container>"""

JPEG = b"\xff\xd8\xff\xe0 not much of a picture"


def page(body: str, title: str = "", attributes: str = "") -> str:
    """A whole XHTML document around `body`."""
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE html>\n'
        '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">'
        f"<head><title>{title}</title></head><body {attributes}>{body}</body></html>"
    )


def nav(*entries: tuple[str, str], raw: str | None = None) -> str:
    """A navigation document with a flat list of (href, label), or with `raw` inside its `nav`."""
    items = "".join(f'<li><a href="{href}">{label}</a></li>' for href, label in entries)
    return page(f'<nav epub:type="toc">{raw or f"<ol>{items}</ol>"}</nav>')


def ncx(*entries: tuple[str, str]) -> str:
    points = "".join(
        f'<navPoint id="n{i}"><navLabel><text>{label}</text></navLabel><content src="{href}"/></navPoint>'
        for i, (href, label) in enumerate(entries)
    )
    return f'<?xml version="1.0"?><ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap>{points}</navMap></ncx>'


def epub_bytes(
    pages: dict[str, str | bytes],
    *,
    navigation: str | None = None,
    toc_ncx: str | None = None,
    spine: str | None = None,
    manifest: str = "",
    metadata: str = "<dc:title>A Book</dc:title><dc:creator>An Author</dc:creator><dc:language>en</dc:language>",
    guide: str = "",
    extra: dict[str, str | bytes] | None = None,
    compression: int = zipfile.ZIP_DEFLATED,
) -> bytes:
    """An EPUB with `pages` (name to XHTML) in the spine in this order, unless `spine` holds other itemrefs."""
    files: dict[str, str | bytes] = {"META-INF/container.xml": CONTAINER}
    items = [f'<item id="p{i}" href="{name}" media-type="application/xhtml+xml"/>' for i, name in enumerate(pages)]
    files.update({f"OEBPS/{name}": content for name, content in pages.items()})
    toc = ""
    if navigation is not None:
        items.append('<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>')
        files["OEBPS/nav.xhtml"] = navigation
    if toc_ncx is not None:
        items.append('<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>')
        files["OEBPS/toc.ncx"] = toc_ncx
        toc = ' toc="ncx"'
    if spine is None:
        spine = "".join(f'<itemref idref="p{i}"/>' for i in range(len(pages)))
    files["OEBPS/book.opf"] = (
        '<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0">'
        '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:opf="http://www.idpf.org/2007/opf">'
        f"{metadata}</metadata><manifest>{''.join(items)}{manifest}</manifest>"
        f"<spine{toc}>{spine}</spine>{guide}</package>"
    )
    files.update(extra or {})
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        for name, content in files.items():
            if content != MISSING:
                archive.writestr(name, content)
    return stream.getvalue()


MISSING = b"this file is declared but not there"


def write_epub(folder: Path, pages: dict[str, str | bytes], name: str = "book.epub", **options: object) -> Path:
    path = folder / name
    path.write_bytes(epub_bytes(pages, **options))  # type: ignore[arg-type]
    return path


def titles(book: object) -> list[str]:
    return [chapter.title for chapter in book.chapters]  # type: ignore[attr-defined]


def texts(book: object) -> list[str]:
    return [chapter.text for chapter in book.chapters]  # type: ignore[attr-defined]
