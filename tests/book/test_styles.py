"""What a style sheet hides is not read; what it may show is."""

from __future__ import annotations

from pathlib import Path

import pytest
from make_epub import page, texts, write_epub

from rhapsode.book import read_book
from rhapsode.book.styles import MAX_SHEET
from rhapsode.types import Book

LONG = "It rained all day, and all night, and no one came down the road to the sea. " * 3


def shown(folder: Path, css: str, part: str = "<p class='x y' id='i'>gone</p>", head: str = "") -> Book:
    path = folder / "x.html"
    path.write_text(f"<title>T</title>{head}<style>{css}</style><p>{LONG}</p>{part}<p>End.</p>", encoding="utf-8")
    return read_book(path)


def is_read(book: Book) -> bool:
    return "gone" in texts(book)[0]


HIDES = [
    ".x {display:none}",
    "#i { color: red; Display : None }",
    "p.x{visibility:hidden}",
    "p.x.y, .z {visibility: collapse;}",
    "h1, .x\n,h2 {display:none !important}",
    "/* .x {display:block} */ .x{display:none}",
    ".z::after{content:'}'} .x{display:none}",
    "<!-- .x{display:none} -->",
    "@charset 'utf-8'; @import url(a.css); .x{display:none}",
    ".x{display:block} .x{display:none}",
    ".x{display:none} p{display:block}",
    "#i{display:none} .x.y{display:block}",
    ".y{display:block} .x{display:none}",
    ".x{display:block} .y{display:none}",
    ".x{display:none !important} #i{display:block}",
    ".x{display:none} @media print{.x{display:block}}",
    ".x{display:none} @keyframes k{from{display:block}}",
    ".x{display:none} .x::before{display:block}",
    ".x{display:none} .w .v{display:block} .z:hover{display:block}",
    ".x{display:none} @media (max-width: 9em){.w{display:block}}",
    ".w{background:url(data:x;y,{)} .x{display:none}",
]
READS = [
    "",
    ".z{display:none}",
    ".x{display:inline}",
    ".x{display:none",
    "h1.x{display:none}",
    ".x.z{display:none}",
    ".X{display:none}",
    "@media print{.x{display:none}}",
    "@media screen{.x{display:none}}",
    "@media amzn-kf8{.x{display:none}}",
    "@supports (color:red){.x{display:none}}",
    "@page{.x{display:none}}",
    ".x:hover{display:none}",
    ".x::first-letter{display:none}",
    "body .x{display:none}",
    "[id]{display:none}",
    "p:not(.z){display:none}",
    "*{display:none}",
    ".x{display:none} .x{display:block}",
    ".x{display:none} #i{display:block}",
    ".x{display:none} .y{display:block}",
    ".y{display:none} .x{display:block}",
    ".x{display:none} p.x{display:inherit}",
    ".x{display:none} p{display:block !important}",
    ".x{display:none} body .x{display:block}",
    ".x{display:none} .w > p:target{display:block}",
    ".x{display:none} [id]{display:block}",
    ".x{display:none} :is(.x, .w){display:block}",
    ".x{display:none} @media (min-width: 9em){.x{display:block}}",
    ".x{display:none} @media print, screen{.x{display:block}}",
    ".x{visibility:hidden} .v{visibility:visible}",
]


@pytest.mark.parametrize("css", HIDES)
def test_what_is_hidden_is_not_read(tmp_path: Path, css: str) -> None:
    book = shown(tmp_path, css)
    assert not is_read(book) and texts(book)[0].endswith("End.")
    assert book.notes == ("Left out 1 part(s) that the style sheet hides: 'gone'.",)


@pytest.mark.parametrize("css", READS)
def test_in_doubt_it_is_read(tmp_path: Path, css: str) -> None:
    book = shown(tmp_path, css)
    assert is_read(book) and book.notes == ()


def test_what_the_element_says_itself_wins(tmp_path: Path) -> None:
    assert is_read(shown(tmp_path, ".x{display:none}", "<p class='x' style='display: block'>gone</p>"))
    assert not is_read(shown(tmp_path, ".x{display:none}", "<p class='x' style='color: red'>gone</p>"))


def test_all_within_is_hidden_and_what_follows_is_not(tmp_path: Path) -> None:
    part = "<div class='x'><p>gone</p><img alt='no'></div>tail <span class='x'></span>"
    book = shown(tmp_path, ".x{display:none} p{display:block}", part)
    assert texts(book)[0].split()[-2:] == ["tail", "End."] and not is_read(book)
    assert book.notes == ("Left out 1 part(s) that the style sheet hides: 'gone'.",), "nothing is told of what is empty"


def test_much_of_a_document_is_its_text(tmp_path: Path) -> None:
    assert is_read(shown(tmp_path, ".x{display:none}", f"<div class='x'>gone {LONG}</div>"))
    assert is_read(shown(tmp_path, "body{visibility:hidden}"))


@pytest.mark.parametrize("media", ["print", "(min-width: 9em)"])
def test_sheets_for_something_else(tmp_path: Path, media: str) -> None:
    assert is_read(shown(tmp_path, "", head=f"<style media='{media}'>.x{{display:none}}</style>"))
    assert not is_read(shown(tmp_path, "", head="<style media='Screen'>.x{display:none}</style>"))


def test_the_sheets_of_an_epub(tmp_path: Path) -> None:
    body = f"<p>{LONG}</p><p class='x'>gone</p><p class='v'>lost</p><p>End.</p>"
    link = "<link rel='stylesheet' type='text/css' href='../css/my%20style.css'/>"
    pages = {
        "text/a.xhtml": page(body).replace("</head>", f"{link}<style>.v{{display:none}}</style></head>"),
        "text/b.xhtml": page(body).replace("</head>", link.replace("stylesheet", "alternate stylesheet") + "</head>"),
        "text/c.xhtml": page(body).replace("</head>", link.replace("my", "no") + "</head>"),
    }
    path = write_epub(tmp_path, pages, extra={"OEBPS/css/my style.css": "/* é */ .x {display: none}"})
    first, second, third = texts(read_book(path))
    assert "gone" not in first and "lost" not in first and first.endswith("End.")
    assert "gone" in second and "lost" in third
    assert read_book(path).notes == ("Left out 2 part(s) that the style sheet hides: 'gone', 'lost'.",)


def test_a_sheet_that_is_too_large_hides_nothing(tmp_path: Path) -> None:
    link = "<link rel='stylesheet' href='a.css'/></head>"
    pages = {"a.xhtml": page(f"<p>{LONG}</p><p class='x'>gone</p>").replace("</head>", link)}
    for size, reads in ((0, False), (MAX_SHEET, True)):
        path = write_epub(tmp_path, pages, extra={"OEBPS/a.css": ".x{display:none}" + " " * size})
        assert is_read(read_book(path)) is reads
    assert is_read(shown(tmp_path, ".x{display:none}" + " " * MAX_SHEET))


@pytest.mark.parametrize(
    "unit",
    ["{", "}", "a{", ".x{display:none}", ".x", ":a(", "[", "/*", "url(", "'", '"', ";", "@media a{", "a ", ",",
     "display:none;", ".x.y{display:block}",
     "<!--"],
)  # fmt: skip
def test_repetition_does_not_hang(tmp_path: Path, unit: str) -> None:
    """What is quadratic takes minutes at this size."""
    css = unit * (200_000 // len(unit))
    shown(tmp_path, css)
    shown(tmp_path, css + "{display:none}" * 3)


@pytest.mark.parametrize(("name", "count", "reads"), [("x.y", 40, 0), ("x.y", 60, 1), ("y", 1900, 0), ("y", 2100, 1)])
def test_sheets_of_too_many_rules_hide_nothing(tmp_path: Path, name: str, count: int, reads: bool) -> None:
    css = "".join(f".{name}{number}{{display:block}}" for number in range(count)) + ".x{display:none}"
    assert is_read(shown(tmp_path, css)) is bool(reads)
