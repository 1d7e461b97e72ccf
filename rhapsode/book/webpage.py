"""An HTML page as a `Book`: a book in one file, or an article that was saved from the web.

Knows where a page keeps its text, its title and its author; what the elements mean is left to the block walker.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from rhapsode.book import markup
from rhapsode.book.blocks import LICENCE_LEFT_OUT, read_blocks
from rhapsode.book.chapters import cut_chapters, heading_marks
from rhapsode.book.clean import has_sound, one_line, some_of
from rhapsode.book.encoding import encoding_note
from rhapsode.book.markup import Element, descendants, tag_of, text_of, types_of
from rhapsode.book.plain import title_from_name
from rhapsode.book.styles import hidden_note, mark_hidden, sheets_of
from rhapsode.errors import BookError
from rhapsode.types import Book

_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_FURNITURE = {"nav", "aside", "form", "footer", "menu", "dialog"}
_FURNITURE_ROLES = {"navigation", "search", "banner", "contentinfo", "complementary", "dialog"}
# What pages call such parts where no tag says it, as whole names of a class or an id: 'market-share' is none.
_FURNITURE_NAMES = re.compile(
    r"(?:cookie|gdpr|consent)s?[-_]?(?:banner|notice|consent|bar|popup|message|overlay|modal|wall|dialog)"
    r"|(?:site|main|top|primary)?[-_]?(?:nav|navbar|navigation|menu)|breadcrumbs?|skip[-_]?(?:link|nav|to[-_]content)"
    r"|sidebar|comments|comments?[-_](?:area|list|section)|(?:social|share)[-_]?(?:share|links|buttons|bar|icons|media)"
    r"|related[-_]?(?:posts|articles|stories|links)|newsletter(?:[-_]?(?:signup|form|box))?|mw-editsection|noprint|navbox"
)
_NAMED_TAGS = {"div", "section", "ul", "ol", "span", "a", "sup", "table"}  # only of these a name is believed
_MOST_NAMED = 0.25  # of the page's letters: more is its text, whatever it is called
_LOWEST_CHAPTER = 2  # h3 and below part a chapter, they do not start one
_CANDIDATES = 20  # elements that are weighed; a page with more articles is a list of them
_FEW = 200  # elements, among which the page's own header has its title
_SHOWN = 30  # characters of a part that was left out
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
    sheets = sheets_of(root, lambda href: None)
    main = _main_part(root)
    dropped = _drop_furniture(main)
    hidden = mark_hidden(main, sheets)
    blocks = read_blocks(main)
    high = [piece if piece.level <= _LOWEST_CHAPTER else piece._replace(level=0) for piece in blocks.pieces]
    chapters = cut_chapters(blocks.pieces, heading_marks(high), title)
    if not chapters:
        raise BookError(f"{path.name} holds no text to read aloud.")
    notes = encoding_note(guessed)
    if dropped:
        notes += (f"Left out {len(dropped)} part(s) of the page beside its text, such as menus: {some_of(dropped)}.",)
    notes += hidden_note(hidden)
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


def _drop_furniture(top: Element) -> list[str]:
    """Take out menus, forms, banners, footers and the page's own header, and keep the text that follows them.

    The first words of each part that had any.
    """
    said: list[str] = []
    for element in _furniture(top):
        words = one_line(text_of(element))
        said += [words[:_SHOWN]] if has_sound(words) else []
        parent, before, tail = element.getparent(), element.getprevious(), element.tail or ""
        if before is not None:
            before.tail = (before.tail or "") + tail
        elif parent is not None:
            parent.text = (parent.text or "") + tail
        if parent is not None:
            parent.remove(element)
    return said


def _furniture(top: Element) -> list[Element]:
    """The outermost elements below `top` that are furniture, in document order."""
    most = _MOST_NAMED * _weight(top)
    heavy = 0  # elements with such a name that hold much of the text; after a few of them no name is believed
    found: list[Element] = []
    stack = list(reversed(top))
    while stack:
        element = stack.pop()
        named = heavy < _CANDIDATES and _is_called_furniture(element)
        if named and _weight(element) > most:
            named, heavy = False, heavy + 1
        if named or _is_furniture(element):
            found.append(element)
        else:
            stack.extend(reversed(element))
    return found


def _is_called_furniture(element: Element) -> bool:
    if tag_of(element) not in _NAMED_TAGS:
        return False
    names = f"{element.get('class') or ''} {element.get('id') or ''}".lower().split()
    return any(_FURNITURE_NAMES.fullmatch(name) for name in names)


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
