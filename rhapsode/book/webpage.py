"""An HTML page as a `Book`: a book in one file, or an article that was saved from the web.

Knows where a page keeps its text, its title and its author; what the elements mean is left to the block walker.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from rhapsode.book import markup
from rhapsode.book.blocks import LICENCE_LEFT_OUT, read_blocks
from rhapsode.book.chapters import cut_chapters, heading_marks
from rhapsode.book.clean import one_line
from rhapsode.book.markup import Element, descendants, tag_of, text_of, types_of
from rhapsode.book.plain import encoding_note, title_from_name
from rhapsode.errors import BookError
from rhapsode.types import Book

_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_FURNITURE = {"nav", "aside", "form", "footer", "menu", "dialog"}
_FURNITURE_ROLES = {"navigation", "search", "banner", "contentinfo", "complementary", "dialog"}
_LOWEST_CHAPTER = 2  # h3 and below part a chapter, they do not start one
_CANDIDATES = 20  # elements that are weighed; a page with more articles is a list of them
_FEW = 200  # elements, among which the page's own header has its title
_MOST = 0.5  # of the page's letters: an element that holds as many is its text


def read_page(raw: bytes, path: Path) -> Book:
    """The book in the bytes of an HTML page; `path` only names it. Raises BookError where there is no text."""
    text, guessed = markup.decode(raw)
    is_xml = text.lstrip()[:5] == "<?xml"
    root = markup.parse(raw) if is_xml else markup.parse_html(text)
    if root is None:
        raise BookError(f"{path.name} holds no text to read aloud.")
    file_title, file_author = title_from_name(path)
    metas = {
        (meta.get("property") or meta.get("name") or "").lower(): one_line(meta.get("content") or "")
        for meta in reversed(descendants(root, "meta"))
    }
    titles = [one_line(text_of(e)) for e in descendants(root, "title")[:1]]
    headings = [one_line(text_of(e)) for e in descendants(root, "h1")[:1]]
    title = next(filter(None, [metas.get("og:title", ""), metas.get("dc.title", ""), *titles, *headings, file_title]))
    author = metas.get("author") or metas.get("dc.creator") or metas.get("article:author") or file_author
    language = one_line(root.get("lang") or root.get(_XML_LANG) or root.get("xml:lang") or "")
    main = _main_part(root)
    _drop_furniture(main)
    blocks = read_blocks(main)
    high = [piece if piece.level <= _LOWEST_CHAPTER else piece._replace(level=0) for piece in blocks.pieces]
    chapters = cut_chapters(blocks.pieces, heading_marks(high), title)
    if not chapters:
        raise BookError(f"{path.name} holds no text to read aloud.")
    notes = encoding_note(guessed)
    if blocks.licence:
        notes += (LICENCE_LEFT_OUT,)
    if blocks.notes:
        notes += (f"Left out {blocks.notes} footnote(s) and the marks that point to them.",)
    return Book(title, "" if author.startswith("http") else author, language, chapters, notes=notes)


def _main_part(root: Element) -> Element:
    """The one `article` or `main` that holds most of the page's letters, else the page."""
    body = next(iter(descendants(root, "body")), root)
    whole = _weight(body)
    for candidate in descendants(body, "article", "main")[:_CANDIDATES]:
        if candidate is not body and _weight(candidate) >= _MOST * whole:
            return candidate
    return body


def _weight(element: Element) -> int:
    """Letters below an element, without scripts and furniture."""
    weight = 0
    stack = [element]
    while stack:
        top = stack.pop()
        weight += len((top.text or "").strip())
        for child in top:
            weight += len((child.tail or "").strip())
            if tag_of(child) and not _is_furniture(child) and tag_of(child) not in {"script", "style", "noscript"}:
                stack.append(child)
    return weight


def _drop_furniture(top: Element) -> None:
    """Take out menus, forms, footers and the page's own header, and keep the text that follows them."""
    for element in [e for e in top.iterdescendants() if _is_furniture(e)]:
        parent = element.getparent()
        if parent is None:
            continue
        before = element.getprevious()
        tail = element.tail or ""
        if before is not None:
            before.tail = (before.tail or "") + tail
        else:
            parent.text = (parent.text or "") + tail
        parent.remove(element)


def _is_furniture(element: Element) -> bool:
    tag = tag_of(element)
    if not tag:
        return False
    types = types_of(element)
    if types & {"footnote", "footnotes", "endnote", "endnotes", "doc-footnote", "doc-endnotes"}:
        return False  # the block walker counts them
    if tag == "header":
        return not any(tag_of(e) in {"h1", "h2"} for e in itertools.islice(element.iter(), _FEW))
    return tag in _FURNITURE or bool(types & _FURNITURE_ROLES)
