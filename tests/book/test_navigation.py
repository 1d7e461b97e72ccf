"""Chapters are those of the navigation: titles, positions, nesting, and what to do without one."""

from __future__ import annotations

from pathlib import Path

import pytest
from make_epub import MISSING, nav, ncx, page, texts, titles, write_epub

from rhapsode.book import read_book
from rhapsode.types import Book

TWO = {"a.xhtml": page("<h1>Dawn</h1><p>It rained.</p>"), "b.xhtml": page("<h1>Noon</h1><p>It shone.</p>")}


def read(folder: Path, pages: dict[str, str], *entries: tuple[str, str], raw: str | None = None) -> Book:
    return read_book(write_epub(folder, dict(pages), navigation=nav(*entries, raw=raw)))


def test_anchors_within_one_document(tmp_path: Path) -> None:
    body = '<h2 id="c1">Dawn</h2><p>One.</p><p>Two.</p><h2><a id="c2"/>Noon</h2><p>Three.</p>'
    book = read(tmp_path, {"book.xhtml": page(body)}, ("book.xhtml#c1", "At dawn"), ("book.xhtml#c2", "At noon"))
    assert list(zip(titles(book), texts(book), strict=True)) == [
        ("At dawn", "Dawn\nOne.\nTwo."), ("At noon", "Noon\nThree."),
    ]  # fmt: skip


def test_twenty_anchors_never_voice_a_text_twice(tmp_path: Path) -> None:
    body = "".join(f'<p id="c{n}">Text {n}.</p>' for n in range(20))
    entries = [(f"a.xhtml#c{n}", f"Title {n}") for n in range(20)] + [("a.xhtml#c3", "Again"), ("a.xhtml", "All")]
    book = read(tmp_path, {"a.xhtml": page(body)}, *entries)
    assert texts(book) == [f"Text {n}." for n in range(20)]
    assert titles(book)[3] == "Title 3: Again" and titles(book)[19] == "Title 19"


def test_text_before_the_first_entry_is_a_chapter_of_its_own(tmp_path: Path) -> None:
    body = '<h1>The Poem</h1><p>For E.</p><h2 id="c1">I</h2><p>April.</p>'
    book = read(tmp_path, {"a.xhtml": page(body)}, ("a.xhtml#c1", "I"))
    assert list(zip(titles(book), texts(book), strict=True)) == [("The Poem", "The Poem\nFor E."), ("I", "I\nApril.")]
    bare = read(tmp_path, {"a.xhtml": page("<p>Front.</p>"), **TWO}, ("a.xhtml#x", "Gone"), ("b.xhtml", "Noon"))
    assert titles(bare)[0] == "Gone" and "not there" in bare.notes[0]
    front = read(tmp_path, {"z.xhtml": page("<p>Front.</p>"), **TWO}, ("a.xhtml", "Dawn"), ("b.xhtml", "Noon"))
    assert titles(front) == ["A Book", "Dawn", "Noon"]


def test_text_that_no_entry_covers_stays_with_the_chapter_before(tmp_path: Path) -> None:
    pages = {"a.xhtml": TWO["a.xhtml"], "a2.xhtml": page("<p>More.</p>"), "b.xhtml": TWO["b.xhtml"]}
    book = read(tmp_path, pages, ("a.xhtml", "Dawn"), ("b.xhtml", "Noon"))
    assert texts(book) == ["Dawn\nIt rained.\nMore.", "Noon\nIt shone."]


def test_text_above_the_first_anchor_of_a_later_document(tmp_path: Path) -> None:
    pages = {"a.xhtml": TWO["a.xhtml"], "b.xhtml": page('<p>Still dawn.</p><h1 id="n">Noon</h1><p>It shone.</p>')}
    book = read(tmp_path, pages, ("a.xhtml", "Dawn"), ("b.xhtml#n", "Noon"))
    assert texts(book) == ["Dawn\nIt rained.\nStill dawn.", "Noon\nIt shone."]


def test_an_anchor_below_its_heading_means_the_heading_too(tmp_path: Path) -> None:
    one = page('<h1>Chapter 1</h1><p id="x">One.</p><h1>Chapter 2</h1><p id="y">Two.</p>')
    book = read(tmp_path, {"a.xhtml": one}, ("a.xhtml#x", "The start"), ("a.xhtml#y", "Chapter 2"))
    assert texts(book) == ["Chapter 1\nOne.", "Chapter 2\nTwo."]


def test_nested_entries(tmp_path: Path) -> None:
    raw = (
        '<ol><li><a href="p.xhtml">Part One</a><ol><li><a href="a.xhtml">Dawn</a></li>'
        '<li><a href="b.xhtml">Noon</a><ol hidden="hidden"><li><a href="b.xhtml#s">Later</a></li></ol></li></ol></li>'
        "</ol>"
    )
    pages = {
        "p.xhtml": page("<h1>Part One</h1>"),
        "a.xhtml": TWO["a.xhtml"],
        "b.xhtml": page('<h1>Noon</h1><p>It shone.</p><h2 id="s">Later</h2><p>It set.</p>'),
    }
    book = read(tmp_path, pages, raw=raw)
    assert list(zip(titles(book), texts(book), strict=True)) == [
        ("Part One", "Part One"), ("Dawn", "Dawn\nIt rained."), ("Noon", "Noon\nIt shone."),
        ("Later", "Later\nIt set."),
    ]  # fmt: skip


def test_the_picture_of_a_part_gives_its_title(tmp_path: Path) -> None:
    raw = '<ol><li><a href="p.xhtml">Part One</a><ol><li><a href="a.xhtml">Dawn</a></li></ol></li></ol>'
    assert titles(read(tmp_path, {"p.xhtml": page("<img src='p.png'/>"), **TWO}, raw=raw)) == ["Part One: Dawn"]


def test_unlisted_text_after_a_picture_belongs_to_its_entry(tmp_path: Path) -> None:
    pages = {"t.xhtml": page("<img src='t.png'/>"), "u.xhtml": page("<p>Unlisted.</p>"), **TWO}
    book = read(tmp_path, pages, ("t.xhtml", "Title"), ("a.xhtml", "Dawn"), ("b.xhtml", "Noon"))
    assert titles(book) == ["Title", "Dawn", "Noon"] and texts(book)[0] == "Unlisted."


def test_a_part_with_text_is_a_chapter(tmp_path: Path) -> None:
    raw = '<ol><li><a href="p.xhtml">Part One</a><ol><li><a href="a.xhtml">Dawn</a></li></ol></li></ol>'
    pages = {"p.xhtml": page("<h1>Part One</h1><p>A motto.</p>"), "a.xhtml": TWO["a.xhtml"]}
    assert titles(read(tmp_path, pages, raw=raw)) == ["Part One", "Dawn"]


def test_a_heading_above_its_parts_is_a_chapter_with_the_title_of_its_entry(tmp_path: Path) -> None:
    raw = (
        '<ol><li><a href="a.xhtml">A Scandal</a><ol><li><a href="a.xhtml#i">I</a></li>'
        '<li><a href="a.xhtml#j">II</a></li></ol></li></ol>'
    )
    sections = ('<section id="i"><h3>I</h3><p>One.</p></section>', '<section id="j"><h3>II</h3><p>Two.</p></section>')
    body = "<h2>A Scandal</h2>" + "".join(sections)
    book = read(tmp_path, {"a.xhtml": page(body)}, raw=raw)
    assert list(zip(titles(book), texts(book), strict=True)) == [
        ("A Scandal", "A Scandal"), ("I", "I\nOne."), ("II", "II\nTwo."),
    ]  # fmt: skip


def test_a_heading_without_text_beside_others_is_a_chapter(tmp_path: Path) -> None:
    pages = {"t.xhtml": page("<h1>Interlude</h1>"), **TWO}
    book = read(tmp_path, pages, ("t.xhtml", "Interlude"), ("a.xhtml", "Dawn"), ("b.xhtml", "Noon"))
    assert titles(book) == ["Interlude", "Dawn", "Noon"]


def test_entries_out_of_order_follow_the_text(tmp_path: Path) -> None:
    book = read(tmp_path, TWO, ("b.xhtml", "Noon"), ("a.xhtml", "Dawn"))
    assert titles(book) == ["Dawn", "Noon"]


def test_the_navigation_itself_is_not_read(tmp_path: Path) -> None:
    navigation = nav(("nav.xhtml", "Contents"), ("a.xhtml", "Dawn"), ("b.xhtml", "Noon"))
    spine = '<itemref idref="nav"/><itemref idref="p0"/><itemref idref="p1"/>'
    book = read_book(write_epub(tmp_path, dict(TWO), navigation=navigation, spine=spine))
    assert (titles(book), book.notes) == (["Dawn", "Noon"], ())


@pytest.mark.parametrize(
    "navigation",
    [
        page("<p>x</p>"),
        nav(raw="<p>none</p>"),
        nav(raw="<ol></ol>"),
        nav(("gone.xhtml", "Gone")),
        "",
        "not xml at all <<<",
        MISSING,
    ],
)
def test_a_useless_navigation_falls_back(tmp_path: Path, navigation: str) -> None:
    by_ncx = write_epub(tmp_path, dict(TWO), navigation=navigation, toc_ncx=ncx(("a.xhtml", "One"), ("b.xhtml", "Two")))
    assert titles(read_book(by_ncx)) == ["One", "Two"]
    by_headings = write_epub(tmp_path, dict(TWO), navigation=navigation)
    assert titles(read_book(by_headings)) == ["Dawn", "Noon"]


def test_a_declared_ncx_that_is_missing(tmp_path: Path) -> None:
    assert titles(read_book(write_epub(tmp_path, dict(TWO), toc_ncx=MISSING))) == ["Dawn", "Noon"]  # type: ignore[arg-type]


def test_without_headings_each_document_is_a_chapter(tmp_path: Path) -> None:
    pages = {"a.xhtml": page("<p>One.</p>", "Dawn"), "b.xhtml": page("<p>Two.</p>", "Noon")}
    assert titles(read_book(write_epub(tmp_path, dict(pages)))) == ["Dawn", "Noon"]
    same = {"a.xhtml": page("<p>One.</p>", "A Book"), "b.xhtml": page("<p>Two.</p>", "A Book")}
    assert titles(read_book(write_epub(tmp_path, dict(same)))) == ["Part 1", "Part 2"]


def test_several_headings_in_one_document_without_navigation(tmp_path: Path) -> None:
    body = "<h1>A Book</h1><h2>Dawn</h2><p>One.</p><h3>x</h3><p>y</p><h2>Noon</h2><p>Two.</p>"
    book = read_book(write_epub(tmp_path, {"a.xhtml": page(body)}))
    assert list(zip(titles(book), texts(book), strict=True)) == [
        ("Dawn", "A Book\nDawn\nOne.\nx\ny"), ("Noon", "Noon\nTwo."),
    ]  # fmt: skip


def test_ncx_labels_are_titles_and_nest(tmp_path: Path) -> None:
    toc = (
        '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint><navLabel><text> Intro\n duction</text>'
        '</navLabel><content src="part005.html"/><navPoint><navLabel><text>2</text></navLabel>'
        '<content src="part005.html#b"/></navPoint></navPoint></navMap></ncx>'
    )
    pages = {"part005.html": page('<p>One.</p><p id="b">Two.</p>')}
    assert titles(read_book(write_epub(tmp_path, dict(pages), toc_ncx=toc))) == ["Intro duction", "2"]


def test_an_empty_label_takes_the_heading(tmp_path: Path) -> None:
    assert titles(read(tmp_path, TWO, ("a.xhtml", ""), ("b.xhtml", " "))) == ["Dawn", "Noon"]


def test_three_hundred_chapters(tmp_path: Path) -> None:
    pages = {f"{n}.xhtml": page(f"<p>Text {n}.</p>") for n in range(300)}
    book = read(tmp_path, pages, *[(f"{n}.xhtml", f"Chapter {n}") for n in range(300)])
    assert [(c.number, c.title) for c in book.chapters] == [(n + 1, f"Chapter {n}") for n in range(300)]
