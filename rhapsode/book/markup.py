"""From the bytes of a document to an element tree, whatever state they are in.

Knows encodings, XML and HTML; does not know what the elements mean. Documents are untrusted: no network,
no entity of the document's own is expanded, and a document that is not well-formed is read as HTML.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import html.entities
import itertools
import re
from typing import TypeAlias

from lxml import etree

from rhapsode.book.encoding import decode_plain
from rhapsode.errors import BookError

Element: TypeAlias = etree._Element

_BLOCKS = """address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption
figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main menu nav ol p pre section summary table tbody
td tfoot th thead tr ul"""
BLOCK_TAGS = frozenset(re.findall(r"\w+", _BLOCKS))
MAX_TAGS = 3_000_000  # in one document: a tree takes some 200 bytes for each
OPS = "{http://www.idpf.org/2007/ops}"
_BOMS = [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")]
_DECLARED = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([\w.:-]+)|<meta[^>]*?charset\s*=\s*["']?([\w.:-]+)""", re.I)
_PROLOG = re.compile(r"\s*<\?xml[^>]*\?>")
_DOCTYPE = re.compile(r"<!DOCTYPE", re.I)
_DOCTYPE_WHOLE = re.compile(r"<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>", re.I | re.S)
_FEW_ELEMENTS = 40  # in a mark or an ornament
_HEAD = 4096  # characters in which the declarations of a document stand
_ENTITY = re.compile(r"&(?:#(?:[0-9]{1,7}|[xX][0-9a-fA-F]{1,6});|([A-Za-z][A-Za-z0-9]{0,31});|)")
_XML_OWN = {"amp", "lt", "gt", "quot", "apos"}
_ODD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # no XML or HTML document may hold these
_UNSPOKEN = re.compile(r"<(?:(script|style|head|template)\b|!--)", re.I)
_ANY_TAG = re.compile(r"</?([A-Za-z][\w:.-]*+)[^<>]*+>")


def decode(raw: bytes) -> tuple[str, str]:
    """The text of a file by byte order mark, declaration, strict UTF-8, else by its letters; that guess, or ''."""
    for bom, name in _BOMS:
        if raw.startswith(bom):
            return raw[len(bom) :].decode(name, "replace"), ""
    declared = _DECLARED.search(raw[:2048])
    if declared:
        name = (declared[1] or declared[2]).decode("ascii", "replace")
        with contextlib.suppress(LookupError, ValueError):
            if codecs.lookup(name).name not in {"utf-16", "utf-32"}:  # it was read as single bytes just now
                return raw.decode(name), ""
    return decode_plain(raw)


def parse(raw: bytes) -> Element | None:
    """The root of an XML or XHTML document, read as HTML where it is not well-formed; None where there is nothing."""
    text = _without_entities(_bounded(decode(raw)[0]))
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_pis=True, encoding="utf-8"
    )
    try:
        return etree.fromstring(text.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError:
        return parse_html(text)


def parse_html(text: str) -> Element | None:
    """The root of an HTML document, however broken; None where there is no element in it."""
    text = _ODD.sub(" ", _without_prolog(_bounded(text)))
    # Without huge_tree the parser drops what lies deeper than 256 elements. HTML has no entities to blow up,
    # and the size of the text is bounded before it comes here.
    parser = etree.HTMLParser(no_network=True, remove_pis=True, huge_tree=True, encoding="utf-8")
    try:
        root = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    if any(entry.level_name == "FATAL" for entry in parser.error_log):  # too deep: the rest was dropped
        return etree.fromstring(f"<body>{_flat(text)}</body>".encode("utf-8", "replace"), parser)
    return root


def _flat(text: str) -> str:
    """The text of a document that nests too deep for any parser, with paragraphs as its only structure."""
    parts: list[str] = []
    at = 0
    while (match := _UNSPOKEN.search(text, at)) is not None:
        closing = re.compile(rf"</{match[1]}\s*+>", re.I) if match[1] else re.compile("-->")
        end = closing.search(text, match.end())
        parts.append(text[at : match.start()])
        at = end.end() if end else match.end()
        if not end:
            break
    parts.append(text[at:])
    return _ANY_TAG.sub(lambda tag: "<p>" if tag[1].lower() in BLOCK_TAGS else "", "".join(parts))


def _bounded(text: str) -> str:
    if text.count("<") > MAX_TAGS:
        raise BookError(f"A document of the book holds more than {MAX_TAGS:,} tags, which no real one does.")
    return text


def _without_prolog(text: str) -> str:
    prolog = _PROLOG.match(text)
    return text[prolog.end() :] if prolog else text


def _without_entities(text: str) -> str:
    """Declarations off, named entities as characters, a bare & repaired: what is left needs no DTD."""
    text = _without_prolog(text)
    start = _DOCTYPE.search(text, 0, _HEAD)
    whole = _DOCTYPE_WHOLE.match(text, start.start()) if start else None
    if whole:
        text = text[: whole.start()] + text[whole.end() :]
    return _ENTITY.sub(_plain_entity, text).strip()


def _plain_entity(match: re.Match[str]) -> str:
    name = match[1]
    if name is None:
        return "&amp;" if match[0] == "&" else match[0]
    if name in _XML_OWN:
        return match[0]
    character = html.entities.html5.get(name + ";")
    return character if character else f"&amp;{name};"


def tag_of(element: Element | None) -> str:
    """The element's name in lower case without name space or prefix; '' for None, a comment and the like."""
    tag = None if element is None else element.tag
    return _local_name(tag) if isinstance(tag, str) else ""


@functools.lru_cache(maxsize=4096)
def _local_name(tag: str) -> str:
    return tag.rpartition("}")[2].rpartition(":")[2].lower()


def types_of(element: Element) -> set[str]:
    """What the element says it is: the words of `epub:type` and of `role`, in lower case, without prefixes."""
    words = f"{element.get(OPS + 'type') or element.get('epub:type') or ''} {element.get('role') or ''}"
    if words == " ":
        return set()
    return {word.rpartition(":")[2] for word in words.lower().split()}


def descendants(element: Element, *tags: str) -> list[Element]:
    """All elements below and including this one with one of these names, in document order."""
    return [e for e in element.iter() if tag_of(e) in tags]


def short_text(element: Element, limit: int) -> str | None:
    """The text below an element if it is at most `limit` characters in a few elements, else None; in bounded time."""
    if sum(1 for _ in itertools.islice(element.iter(), _FEW_ELEMENTS + 1)) > _FEW_ELEMENTS:
        return None
    text = " ".join(text_of(element).split())
    return text if len(text) <= limit else None


def text_of(element: Element) -> str:
    """All text below an element, comments left out, as it stands."""
    return "".join(element.xpath(".//text()"))  # type: ignore[arg-type]
