"""What the package file of an EPUB says: title, authors, language, the documents in reading order, the cover.

Knows OPF 2 and 3 and how references are written; reads no text and no navigation.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from dataclasses import dataclass, field
from urllib.parse import unquote

from rhapsode.book import markup
from rhapsode.book.archive import Archive
from rhapsode.book.clean import one_line
from rhapsode.book.markup import Element, descendants, tag_of, text_of
from rhapsode.errors import BookError

_MAX_COVER = 24 << 20  # bytes
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")
_OPF = "{http://www.idpf.org/2007/opf}"
_IMAGE_STARTS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")


@dataclass(frozen=True)
class Item:
    """One file of the book: its name in the archive, None where it is not there."""

    id: str
    href: str
    name: str | None
    media_type: str
    properties: frozenset[str]


@dataclass
class Package:
    """The package file, read. `spine` is the reading order without the parts that are set aside."""

    title: str
    author: str
    language: str
    items: dict[str, Item]
    spine: list[Item]
    nav: Item | None
    ncx: Item | None
    covers: list[Item]
    cover_pages: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def resolve(base: str, href: str) -> tuple[str, str]:
    """A reference in the file `base` as (name in the archive, fragment); the name is '' for a remote one."""
    href = href.strip()
    if _SCHEME.match(href):
        return "", ""
    path, _, fragment = href.partition("#")
    path = path.partition("?")[0]
    full = posixpath.normpath(posixpath.join(posixpath.dirname(base), path)) if path else base
    return re.sub(r"^(?:\.\./|/)+", "", full), unquote(fragment)


def read_package(archive: Archive, fallback_title: str) -> Package:
    """The package of the book. Raises BookError where there is none or nothing to read in it."""
    name = _package_name(archive)
    raw = archive.read(name)
    root = markup.parse(raw) if raw else None
    if name is None or root is None:
        raise BookError(f"{archive.name} is not an EPUB: it has no package file (.opf); convert it to EPUB again.")
    items = _items(archive, root, name)
    metadata = next(iter(descendants(root, "metadata")), root)
    spine, aside = _spine(root, items)
    package = Package(
        title=_title(metadata) or fallback_title,
        author=_authors(metadata),
        language=next(filter(None, (one_line(text_of(e)) for e in descendants(metadata, "language"))), ""),
        items=items,
        spine=spine,
        nav=next((item for item in items.values() if "nav" in item.properties), None),
        ncx=_ncx(root, items),
        covers=_covers(archive, root, metadata, items, name),
    )
    package.cover_pages = {
        found
        for reference in descendants(root, "reference")
        if (reference.get("type") or "").lower() == "cover"
        and (found := archive.find(resolve(name, reference.get("href") or "")[0])) is not None
    }
    aside = [item for item in aside if item is not package.nav]
    if aside:
        names = ", ".join(posixpath.basename(item.href) for item in aside[:5]) + (" ..." if len(aside) > 5 else "")
        package.notes.append(f"Left out {len(aside)} part(s) that the book sets outside its reading order: {names}.")
    return package


def read_cover(archive: Archive, package: Package) -> bytes | None:
    """The first cover that is there and is a JPEG or PNG picture, as it lies in the book."""
    for item in package.covers:
        try:
            raw = archive.read(item.name, _MAX_COVER)
        except BookError:
            continue
        if raw and raw.startswith(_IMAGE_STARTS):
            return raw
    return None


def _package_name(archive: Archive) -> str | None:
    raw = archive.read(archive.find("META-INF/container.xml"))
    root = markup.parse(raw) if raw else None
    if root is not None:
        for rootfile in descendants(root, "rootfile"):
            found = archive.find((rootfile.get("full-path") or "").lstrip("/"))
            if found is not None:
                return found
    return next((name for name in archive.names() if name.lower().endswith(".opf")), None)


def _items(archive: Archive, root: Element, base: str) -> dict[str, Item]:
    items: dict[str, Item] = {}
    for element in descendants(root, "item"):
        href = element.get("href") or ""
        name = resolve(base, href)[0]
        identifier = element.get("id") or href
        items.setdefault(
            identifier,
            Item(
                identifier,
                unquote(href),
                archive.find(name) if name else None,
                (element.get("media-type") or "").lower(),
                frozenset((element.get("properties") or "").split()),
            ),
        )
    return items


def _spine(root: Element, items: dict[str, Item]) -> tuple[list[Item], list[Item]]:
    """The documents in reading order, each once, and those marked linear="no"; all of them where all are so marked."""
    read: dict[str, Item] = {}
    aside: dict[str, Item] = {}
    for reference in descendants(root, "itemref"):
        item = items.get(reference.get("idref") or "")
        if item is not None:
            (aside if (reference.get("linear") or "").lower() == "no" else read).setdefault(item.name or item.id, item)
    if not read and not aside:  # no spine at all: the manifest's order is the best there is
        read = {item.id: item for item in items.values() if "html" in item.media_type}
    return (list(read.values()), [i for n, i in aside.items() if n not in read]) if read else (list(aside.values()), [])


def _ncx(root: Element, items: dict[str, Item]) -> Item | None:
    spine = next(iter(descendants(root, "spine")), None)
    named = items.get(spine.get("toc") or "") if spine is not None else None
    if named is not None and named.name is not None:
        return named
    there = [item for item in items.values() if item.name]
    return next((i for i in there if i.media_type.endswith("ncx+xml") or i.href.lower().endswith(".ncx")), None)


def _refinements(metadata: Element, wanted: str) -> dict[str, set[str]]:
    """EPUB 3 says things about an element beside it: id of the element to the values of the property."""
    values: dict[str, set[str]] = defaultdict(set)
    for meta in descendants(metadata, "meta"):
        if (meta.get("property") or "") == wanted:
            values[(meta.get("refines") or "").lstrip("#")].add(one_line(text_of(meta)).lower())
    return values


def _title(metadata: Element) -> str:
    titles = [(element.get("id") or "", one_line(text_of(element))) for element in descendants(metadata, "title")]
    kinds = _refinements(metadata, "title-type")
    main = [text for identifier, text in titles if text and identifier and "main" in kinds[identifier]]
    return next(iter(main), "") or next((text for _, text in titles if text), "")


def _authors(metadata: Element) -> str:
    roles = _refinements(metadata, "role")
    names: dict[str, None] = {}
    for creator in descendants(metadata, "creator"):
        written = creator.get(_OPF + "role") or creator.get("opf:role")
        own = {written.lower()} if written else roles[creator.get("id") or "-"]
        name = one_line(text_of(creator))
        if name and (not own or "aut" in own):
            names[name] = None
    return ", ".join(names)


def _covers(archive: Archive, root: Element, metadata: Element, items: dict[str, Item], base: str) -> list[Item]:
    """Candidates for the cover, likeliest first: EPUB 3, EPUB 2, pictures named so, those on the cover page."""
    covers = [item for item in items.values() if "cover-image" in item.properties]
    for meta in descendants(metadata, "meta"):
        if (meta.get("name") or "").lower() == "cover":
            content = meta.get("content") or ""
            covers += [item for item in items.values() if content in (item.id, item.href)]
    pictures = [item for item in items.values() if item.media_type.startswith("image/")]
    covers += [i for i in pictures if "cover" in i.id.lower() or "cover" in posixpath.basename(i.href).lower()]
    for reference in descendants(root, "reference"):
        if (reference.get("type") or "").lower() == "cover":
            covers += _pictures_on(archive, archive.find(resolve(base, reference.get("href") or "")[0]), pictures)
    return [item for item in covers if not item.media_type.endswith("html+xml") and "html" not in item.media_type]


def _pictures_on(archive: Archive, page: str | None, pictures: list[Item]) -> list[Item]:
    raw = archive.read(page)
    root = markup.parse(raw) if raw else None
    if page is None or root is None:
        return []
    shown: list[Item] = []
    for element in root.iter():
        if tag_of(element) in {"img", "image"}:
            href = next((value for key, value in element.attrib.items() if str(key).endswith(("src", "href"))), "")
            name = archive.find(resolve(page, str(href))[0])
            shown += [item for item in pictures if item.name == name]
    return shown
