"""EPUB files: what is found, in which order, under which titles, and what becomes of broken ones."""

from __future__ import annotations

import hashlib
import io
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from make_epub import JPEG, MISSING, epub_bytes, nav, ncx, page, texts, titles, write_epub

from rhapsode.book import read_book
from rhapsode.book.archive import Archive
from rhapsode.book.markup import parse
from rhapsode.book.package import resolve
from rhapsode.errors import BookError

TWO = {"a.xhtml": page("<h1>Dawn</h1><p>It rained.</p>"), "b.xhtml": page("<h1>Noon</h1><p>It shone.</p>")}


def test_a_plain_book(tmp_path: Path) -> None:
    path = write_epub(tmp_path, dict(TWO), navigation=nav(("a.xhtml", "Dawn"), ("b.xhtml", "Noon")))
    before = hashlib.sha256(path.read_bytes()).digest()
    book = read_book(str(path))
    assert (book.title, book.author, book.language, book.cover, book.notes) == ("A Book", "An Author", "en", None, ())
    assert [(c.number, c.title, c.text) for c in book.chapters] == [
        (1, "Dawn", "Dawn\nIt rained."), (2, "Noon", "Noon\nIt shone."),
    ]  # fmt: skip
    assert [block.kind for block in book.chapters[0].blocks] == ["heading", "paragraph"]
    assert hashlib.sha256(path.read_bytes()).digest() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_upper_case_suffix(tmp_path: Path) -> None:
    path = write_epub(tmp_path, dict(TWO), "BOOK.EPUB")
    assert titles(read_book(path)) == ["Dawn", "Noon"]
    assert path.exists()


def test_metadata(tmp_path: Path) -> None:
    metadata = (
        '<dc:title id="s">Sub</dc:title><dc:title id="m">Main &amp; Co</dc:title>'
        '<meta refines="#m" property="title-type">main</meta><meta refines="#s" property="title-type">subtitle</meta>'
        '<dc:creator id="x">Ann  Hale</dc:creator><meta refines="#x" property="role">aut</meta>'
        '<meta refines="#x" property="role">dto</meta><dc:creator>Ben Vane</dc:creator>'
        '<dc:creator opf:role="trl">A Translator</dc:creator><dc:creator opf:role="aut">Cyd Rey</dc:creator>'
        '<dc:creator id="i">Ill</dc:creator><meta refines="#i" property="role">ill</meta>'
        "<dc:language>fr-CA</dc:language>"
    )
    book = read_book(write_epub(tmp_path, dict(TWO), metadata=metadata))
    assert (book.title, book.author, book.language) == ("Main & Co", "Ann Hale, Ben Vane, Cyd Rey", "fr-CA")
    bare = read_book(write_epub(tmp_path, dict(TWO), "My story.epub", metadata=""))
    assert (bare.title, bare.author, bare.language) == ("My story", "", "")


@pytest.mark.parametrize(
    ("manifest", "metadata", "guide"),
    [
        ('<item id="c" href="c.jpg" media-type="image/jpeg" properties="cover-image"/>', "", ""),
        ('<item id="c" href="c.jpg" media-type="image/jpeg"/>', '<meta name="cover" content="c"/>', ""),
        ('<item id="c" href="c.jpg" media-type="image/jpeg"/>', '<meta name="cover" content="c.jpg"/>', ""),
        ('<item id="cover-img" href="c.jpg" media-type="image/jpeg"/>', "", ""),
        ('<item id="c" href="c.jpg" media-type="image/jpeg"/>', "",
         '<guide><reference type="cover" href="w.xhtml"/></guide>'),
    ],
)  # fmt: skip
def test_covers(tmp_path: Path, manifest: str, metadata: str, guide: str) -> None:
    extra = {"OEBPS/c.jpg": JPEG, "OEBPS/w.xhtml": page('<img src="c.jpg"/>')}
    book = read_book(write_epub(tmp_path, dict(TWO), manifest=manifest, metadata=metadata, guide=guide, extra=extra))
    assert book.cover == JPEG


def test_a_cover_that_no_container_takes_is_left_out_and_noted(tmp_path: Path) -> None:
    manifest = '<item id="c" href="c.svg" media-type="image/svg+xml" properties="cover-image"/>'
    book = read_book(write_epub(tmp_path, dict(TWO), manifest=manifest, extra={"OEBPS/c.svg": "<svg/>"}))
    assert book.cover is None
    assert book.notes == ("Left out the cover c.svg: it is neither JPEG nor PNG.",)


def test_the_spine_gives_the_order_and_each_document_is_read_once(tmp_path: Path) -> None:
    pages = {f"c{n}.xhtml": page(f"<p>This is {n}.</p>") for n in (3, 1, 2)}
    spine = '<itemref idref="p1"/><itemref idref="p2"/><itemref idref="p0"/><itemref idref="p1"/><itemref idref="no"/>'
    assert texts(read_book(write_epub(tmp_path, pages, spine=spine))) == ["This is 1.", "This is 2.", "This is 3."]


def test_no_document_is_chosen_or_dropped_by_its_name(tmp_path: Path) -> None:
    pages = {
        f"{name}.xhtml": page(f"<p>Text of {name}.</p>") for name in ("c0", "ch_1", "cH7", "copyright", "toc", "x")
    }
    assert len(read_book(write_epub(tmp_path, pages)).chapters) == 6


@pytest.mark.parametrize("title", ["Illegal Entry", "Animal Rights", "Copyright", "Contents of a Drawer"])
def test_no_chapter_is_dropped_by_its_title(tmp_path: Path, title: str) -> None:
    pages = {"a.xhtml": page(f"<h1>{title}</h1><p>Text.</p>"), "b.xhtml": page("<h1>Two</h1><p>Text.</p>")}
    assert titles(read_book(write_epub(tmp_path, pages, navigation=nav(("a.xhtml", title), ("b.xhtml", "Two"))))) == [
        title, "Two",
    ]  # fmt: skip


def test_parts_outside_the_reading_order_are_noted(tmp_path: Path) -> None:
    book = read_book(write_epub(tmp_path, dict(TWO), spine='<itemref idref="p0"/><itemref idref="p1" linear="no"/>'))
    assert titles(book) == ["Dawn"]
    assert len(book.notes) == 1 and "b.xhtml" in book.notes[0]
    every = read_book(write_epub(tmp_path, dict(TWO), spine='<itemref idref="p0" linear="no"/>'))
    assert texts(every) == ["Dawn\nIt rained."]


def test_missing_members(tmp_path: Path) -> None:
    manifest = (
        '<item id="c" href="gone.css" media-type="text/css"/><item id="j" href="kobo.js" media-type="text/javascript"/>'
        '<item id="v" href="http://example.com/v.mp4" media-type="video/mp4"/>'
    )
    pages: dict[str, str | bytes] = {**TWO, "c.xhtml": MISSING}
    book = read_book(write_epub(tmp_path, pages, manifest=manifest))
    assert titles(book) == ["Dawn", "Noon"]
    assert len(book.notes) == 1 and "c.xhtml" in book.notes[0]


def test_a_broken_member_is_noted_and_the_rest_is_read(tmp_path: Path) -> None:
    raw = bytearray(epub_bytes(dict(TWO), compression=zipfile.ZIP_STORED))
    at = raw.find(b"It rained.")
    raw[at : at + 2] = b"XX"  # the checksum no longer fits
    (tmp_path / "b.epub").write_bytes(raw)
    book = read_book(tmp_path / "b.epub")
    assert titles(book) == ["Noon"]
    assert "a.xhtml" in book.notes[0]


@pytest.mark.parametrize(
    ("stored", "href"),
    [
        ("Ch1.xhtml", "ch1.xhtml"),
        ("a b.xhtml", "a%20b.xhtml"),
        ("a%20b.xhtml", "a b.xhtml"),
        ("mère.xhtml", "m%C3%A8re.xhtml"),
        ("me\u0300re.xhtml", "m\u00e8re.xhtml"),
    ],
)
def test_misnamed_members_are_found(tmp_path: Path, stored: str, href: str) -> None:
    pages: dict[str, str | bytes] = {href: MISSING}
    path = write_epub(tmp_path, pages, extra={f"OEBPS/{stored}": TWO["a.xhtml"]}, navigation=nav((href, "Named")))
    assert titles(read_book(path)) == ["Named"]


def test_a_name_in_utf8_without_the_flag_is_found(tmp_path: Path) -> None:
    raw = epub_bytes({"mère_1.html": MISSING}, extra={"OEBPS/m??re_1.html": TWO["a.xhtml"]})
    (tmp_path / "b.epub").write_bytes(raw.replace(b"m??re_1", "mère_1".encode()))
    assert texts(read_book(tmp_path / "b.epub")) == ["Dawn\nIt rained."]


def test_documents_in_other_encodings(tmp_path: Path) -> None:
    latin = '<?xml version="1.0" encoding="iso-8859-1"?><html><body><p>caf\xe9</p></body></html>'.encode("latin-1")
    wide = '<?xml version="1.0" encoding="utf-16"?><html><body><p>thé</p></body></html>'.encode("utf-16")
    bare = b"<html><body><p>\x93no\x94</p></body></html>"
    book = read_book(write_epub(tmp_path, {"a.xhtml": latin, "b.xhtml": wide, "c.xhtml": bare}))
    assert " ".join(texts(book)) == "café thé “no”"


@pytest.mark.parametrize(
    ("name", "kind", "content"),
    [
        ("x.jpg", "image/jpeg", JPEG + b"<p>not a word</p>"), ("x.css", "text/css", "p { color: red }"),
        ("x.pdf", "application/pdf", b"%PDF-1.7 words"), ("x.xhtml", "application/xhtml+xml", JPEG + bytes(32)),
    ],
)  # fmt: skip
def test_what_is_no_text_in_the_reading_order_is_noted(tmp_path: Path, name: str, kind: str, content: str) -> None:
    path = write_epub(
        tmp_path, dict(TWO), manifest=f'<item id="x" href="{name}" media-type="{kind}"/>',
        spine='<itemref idref="p0"/><itemref idref="x"/><itemref idref="p1"/>', extra={f"OEBPS/{name}": content},
    )  # fmt: skip
    book = read_book(path)
    assert texts(book) == ["Dawn\nIt rained.", "Noon\nIt shone."]
    assert book.notes == (f"1 document(s) of the book hold no text: {name}.",)


@pytest.mark.parametrize("raw", [page("<p>It rained.</p>").encode("utf-16"), b"<p>It\0 rained.</p>" + b" " * 99])
def test_zero_bytes_do_not_make_a_document_binary(tmp_path: Path, raw: bytes) -> None:
    assert texts(read_book(write_epub(tmp_path, {"a.xhtml": raw}))) == ["It rained."]


def test_empty_documents_make_no_chapter(tmp_path: Path) -> None:
    pages = {"cover.xhtml": page('<img src="c.jpg"/>'), **TWO, "blank.xhtml": page("<p>&nbsp;</p><p>\u200b</p><hr/>")}
    entries = [("cover.xhtml", "Cover"), ("a.xhtml", "Dawn"), ("blank.xhtml", "Blank"), ("b.xhtml", "Noon")]
    book = read_book(write_epub(tmp_path, dict(pages), navigation=nav(*entries)))
    assert [(c.number, c.title) for c in book.chapters] == [(1, "Dawn"), (2, "Noon")]
    assert book.notes == ()


def test_the_text_of_a_cover_page_is_left_out_and_noted(tmp_path: Path) -> None:
    pages = {"w.xhtml": page("<p>A Book</p>", attributes='epub:type="cover"'), **TWO}
    book = read_book(write_epub(tmp_path, dict(pages)))
    assert titles(book) == ["Dawn", "Noon"]
    assert "w.xhtml" in book.notes[0]


def test_footnotes_are_counted(tmp_path: Path) -> None:
    body = '<p>He left.<a epub:type="noteref" href="#n">1</a></p><aside epub:type="footnote" id="n">No.</aside>'
    book = read_book(write_epub(tmp_path, {"a.xhtml": page(body)}))
    assert texts(book) == ["He left."]
    assert "1 footnote" in book.notes[0]


ENCRYPTION = (
    '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" xmlns:enc="http://www.w3.org/2001/04/xmlenc#">'
    '<enc:EncryptedData><enc:EncryptionMethod Algorithm="{algorithm}"/><enc:CipherData>'
    '<enc:CipherReference URI="{uri}"/></enc:CipherData></enc:EncryptedData></encryption>'
)
AES = "http://www.w3.org/2001/04/xmlenc#aes128-cbc"


LICENCE = (
    '<section class="pg-boilerplate pgheader" id="pg-header"><h2 id="pg-head">The Project Gutenberg eBook of X</h2>'
    "<p>For the use of anyone anywhere.</p></section>"
    "{}"
    '<section class="pg-boilerplate pgheader" id="pg-footer"><h2 id="pg-foot">THE FULL LICENSE</h2>'
    "<p>Section 1. General terms of use.</p></section>"
)


@pytest.mark.parametrize("with_navigation", [True, False])
def test_gutenbergs_licence_is_left_out_and_noted(tmp_path: Path, with_navigation: bool) -> None:
    story = '<h2 id="one">One</h2><p>It rained.</p><h2 id="two">Two</h2><p>It shone.</p>'
    places = (("pg-head", "The Project Gutenberg eBook of X"), ("one", "One"), ("two", "Two"), ("pg-foot", "LICENSE"))
    toc = nav(*((f"a.xhtml#{anchor}", label) for anchor, label in places)) if with_navigation else None
    book = read_book(write_epub(tmp_path, {"a.xhtml": page(LICENCE.format(story))}, navigation=toc))
    assert titles(book) == ["One", "Two"]
    assert texts(book) == ["One\nIt rained.", "Two\nIt shone."]
    assert book.notes == ("Left out Gutenberg's header and licence.",)


def test_a_document_of_the_licence_alone(tmp_path: Path) -> None:
    pages = dict(TWO) | {"c.xhtml": page(LICENCE.format(""))}
    entries = [("a.xhtml", "Dawn"), ("b.xhtml", "Noon"), ("c.xhtml", "THE FULL LICENSE")]
    book = read_book(write_epub(tmp_path, pages, navigation=nav(*entries)))
    assert titles(book) == ["Dawn", "Noon"] and texts(book)[1] == "Noon\nIt shone."


def test_drm_is_refused(tmp_path: Path) -> None:
    pages: dict[str, str | bytes] = {"a.xhtml": bytes(range(256)) * 20, "b.xhtml": TWO["b.xhtml"]}
    extra: dict[str, str | bytes] = {"META-INF/encryption.xml": ENCRYPTION.format(algorithm=AES, uri="OEBPS/a.xhtml")}
    with pytest.raises(BookError, match="DRM"):
        read_book(write_epub(tmp_path, pages, extra=extra))
    with pytest.raises(BookError, match="DRM"):
        read_book(write_epub(tmp_path, pages, extra={"META-INF/rights.xml": "<rights/>"}))


@pytest.mark.parametrize(
    ("algorithm", "uri"),
    [("http://www.idpf.org/2008/embedding", "OEBPS/f.otf"), ("http://ns.adobe.com/pdf/enc#RC", "OEBPS/f.otf"),
     (AES, "OEBPS/f.otf")],
)  # fmt: skip
def test_hidden_fonts_are_no_drm(tmp_path: Path, algorithm: str, uri: str) -> None:
    extra = {"META-INF/encryption.xml": ENCRYPTION.format(algorithm=algorithm, uri=uri), "OEBPS/f.otf": b"x"}
    extra["META-INF/rights.xml"] = "<rights/>"
    assert len(read_book(write_epub(tmp_path, dict(TWO), extra=dict(extra))).chapters) == 2


def test_a_zip_password_is_named(tmp_path: Path) -> None:
    raw = bytearray(epub_bytes(dict(TWO)))
    at = 0
    while (at := raw.find(b"PK\x01\x02", at)) >= 0:
        raw[at + 8] |= 1
        at += 4
    (tmp_path / "b.epub").write_bytes(raw)
    with pytest.raises(BookError):
        read_book(tmp_path / "b.epub")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_a_truncated_file_is_refused(tmp_path: Path, share: float) -> None:
    raw = epub_bytes(dict(TWO))
    (tmp_path / "b.epub").write_bytes(raw[: int(len(raw) * share)])
    with pytest.raises(BookError, match="not a whole EPUB"):
        read_book(tmp_path / "b.epub")


@pytest.mark.parametrize(
    "pages", [{}, {"a.xhtml": page("")}, {"a.xhtml": page("<p>— … ”</p>")}, {"a.xhtml": MISSING}, {"a.xhtml": ""}]
)
def test_a_book_without_text_is_refused(tmp_path: Path, pages: dict[str, str | bytes]) -> None:
    with pytest.raises(BookError, match="no text"):
        read_book(write_epub(tmp_path, pages))


def test_a_zip_that_is_no_book_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "b.epub", "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(BookError, match="no package file"):
        read_book(tmp_path / "b.epub")


def test_a_missing_container_is_made_up_for(tmp_path: Path) -> None:
    path = write_epub(tmp_path, dict(TWO), extra={"META-INF/container.xml": MISSING})
    assert len(read_book(path).chapters) == 2


class TestBombs:
    """Files that are small on disk and would be huge in memory."""

    def test_a_document_that_unpacks_to_gigabytes(self, tmp_path: Path) -> None:
        path = write_epub(tmp_path, {"a.xhtml": b"<p>" + b" " * (40 << 20)})
        assert path.stat().st_size < 1 << 20
        with pytest.raises(BookError, match="unpacks to more"):
            read_book(path)

    def test_no_more_is_unpacked_than_the_limit(self, tmp_path: Path) -> None:
        path = write_epub(tmp_path, {"a.xhtml": b"<p>" + b" " * (30 << 20)})
        with Archive(path, "x") as archive:
            tracemalloc.start()
            with pytest.raises(BookError):
                archive.read("OEBPS/a.xhtml", 1000)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 4 << 20

    def test_the_size_in_the_header_is_not_believed(self, tmp_path: Path) -> None:
        raw = bytearray(epub_bytes({"a.xhtml": b"<p>" + b" " * (40 << 20)}))
        central = raw.find(b"OEBPS/a.xhtml", raw.rfind(b"PK\x01\x02", 0, raw.rfind(b"OEBPS/a.xhtml")))
        struct.pack_into("<L", raw, central - 46 + 24, 10)
        (tmp_path / "b.epub").write_bytes(raw)
        with pytest.raises(BookError):
            read_book(tmp_path / "b.epub")

    def test_many_documents_that_are_large_together(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rhapsode.book.archive.MAX_TOTAL", 10_000)
        pages = {f"{n}.xhtml": page("<p>" + "word " * 1000 + "</p>") for n in range(3)}
        with pytest.raises(BookError, match="unpacks to more"):
            read_book(write_epub(tmp_path, dict(pages)))

    def test_more_members_than_any_book(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rhapsode.book.archive._MAX_MEMBERS", 4)
        with pytest.raises(BookError, match="holds 5 files"):
            read_book(write_epub(tmp_path, dict(TWO)))

    def test_a_huge_directory_is_not_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rhapsode.book.archive._MAX_DIRECTORY", 100)
        with pytest.raises(BookError, match="lists more files"):
            read_book(write_epub(tmp_path, dict(TWO)))

    def test_entities_do_not_expand(self, tmp_path: Path) -> None:
        levels = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
        bomb = f'<!DOCTYPE html [<!ENTITY l0 "lol">{levels}]><html><body><p>A &l9; B</p></body></html>'
        outside = '<!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/hostname">]><html><body><p>C &x; D</p></body></html>'
        assert texts(read_book(write_epub(tmp_path, {"a.xhtml": bomb, "b.xhtml": outside}))) == ["A &l9; B", "C &x; D"]

    def test_what_a_document_declares_is_cut_off(self) -> None:
        root = parse(b'<!DOCTYPE p [<!ENTITY % a "b"><!ENTITY c "d">]><p>&c;</p>')
        assert root is not None and root.getroottree().docinfo.internalDTD is None and root.text == "&c;"

    def test_too_many_tags(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rhapsode.book.markup.MAX_TAGS", 100)
        with pytest.raises(BookError, match="more than 100 tags"):
            read_book(write_epub(tmp_path, {"a.xhtml": page("<b/>" * 101)}))


@pytest.mark.parametrize(
    ("href", "expected"),
    [
        ("a.xhtml#x%20y", ("OEBPS/text/a.xhtml", "x y")),
        ("../b.xhtml?q", ("OEBPS/b.xhtml", "")),
        ("/c.xhtml", ("c.xhtml", "")),
        ("../../../d.xhtml", ("d.xhtml", "")),
        ("#here", ("OEBPS/text/nav.xhtml", "here")),
        ("http://example.com/v.mp4", ("", "")),
        ("//example.com/v.mp4", ("", "")),
        ("data:text/html,x", ("", "")),
    ],
)
def test_references(href: str, expected: tuple[str, str]) -> None:
    assert resolve("OEBPS/text/nav.xhtml", href) == expected


def test_members_are_not_taken_from_outside_the_archive(tmp_path: Path) -> None:
    (tmp_path / "secret.xhtml").write_text(page("<p>Secret.</p>"))
    manifest = '<item id="x" href="../../secret.xhtml" media-type="application/xhtml+xml"/>'
    path = write_epub(tmp_path, dict(TWO), manifest=manifest, spine='<itemref idref="x"/><itemref idref="p0"/>')
    assert texts(read_book(path)) == ["Dawn\nIt rained."]


def test_an_epub_under_another_name_is_known_by_its_bytes(tmp_path: Path) -> None:
    for name in ("book.txt", "book", "book.zip"):
        (tmp_path / name).write_bytes(epub_bytes(dict(TWO)))
        assert titles(read_book(tmp_path / name)) == ["Dawn", "Noon"]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("word/document.xml", "<w/>")
    (tmp_path / "a.zip").write_bytes(stream.getvalue())
    with pytest.raises(BookError, match="ZIP file without a book"):
        read_book(tmp_path / "a.zip")


def test_navigation_by_ncx_with_a_bare_ampersand(tmp_path: Path) -> None:
    book = read_book(write_epub(tmp_path, dict(TWO), toc_ncx=ncx(("a.xhtml", "Salt & Fire"), ("b.xhtml", "Noon"))))
    assert titles(book) == ["Salt & Fire", "Noon"]
