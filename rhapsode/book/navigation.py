"""The table of contents of an EPUB: titles and where they point, in the order in which they stand.

Knows the navigation document of EPUB 3 and the NCX of EPUB 2; does not look at the text that they point to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rhapsode.book import markup
from rhapsode.book.archive import Archive
from rhapsode.book.clean import one_line
from rhapsode.book.markup import Element, descendants, tag_of, text_of, types_of
from rhapsode.book.package import Package, resolve


class Entry(NamedTuple):
    """One line of the table of contents; `name` is that of the member in the archive."""

    title: str
    name: str
    fragment: str
    depth: int


def read_navigation(archive: Archive, package: Package) -> list[Entry]:
    """The entries that point to a document of the book; [] where there is no navigation that can be read."""
    for item, read in ((package.nav, _nav_entries), (package.ncx, _ncx_entries)):
        raw = archive.read(item.name) if item is not None else None
        root = markup.parse(raw) if raw else None
        if item is None or item.name is None or root is None:
            continue
        entries: list[Entry] = []
        for title, href, depth in read(root):
            name, fragment = resolve(item.name, href)
            found = archive.find(name) if name else None
            if found is not None:
                entries.append(Entry(title, found, fragment, depth))
        if entries:
            return entries
    return []


def _nav_entries(root: Element) -> list[tuple[str, str, int]]:
    navs = descendants(root, "nav")
    chosen = next((nav for nav in navs if "toc" in types_of(nav) or "doc-toc" in types_of(nav)), None)
    if chosen is None:
        chosen = next((nav for nav in navs if not types_of(nav) - {"navigation"}), None)
    if chosen is None:
        return []
    return _walk(chosen, "ol", "a", lambda link: (text_of(link) or link.get("title") or "", link.get("href") or ""))


def _ncx_entries(root: Element) -> list[tuple[str, str, int]]:
    top = next(iter(descendants(root, "navmap")), root)

    def read(point: Element) -> tuple[str, str]:
        label = next((child for child in point if tag_of(child) == "navlabel"), None)
        content = next((child for child in point if tag_of(child) == "content"), None)
        href = content.get("src") or "" if content is not None else ""
        return (text_of(label) if label is not None else ""), href

    return _walk(top, "navpoint", "navpoint", read)


def _walk(
    top: Element, nest: str, wanted: str, read: Callable[[Element], tuple[str, str]]
) -> list[tuple[str, str, int]]:
    """(title, reference, depth) of all `wanted` elements in document order; `nest` elements count the depth."""
    found: list[tuple[str, str, int]] = []
    depth = 0
    stack: list[tuple[Element, bool]] = [(top, False)]
    while stack:
        element, left = stack.pop()
        tag = tag_of(element)
        if left:
            depth -= 1
            continue
        if tag == nest:
            depth += 1
            stack.append((element, True))
        if tag == wanted:
            title, href = read(element)
            found.append((one_line(title), href, depth))
            if wanted != nest:
                continue
        stack.extend((child, False) for child in reversed(element))
    return found
