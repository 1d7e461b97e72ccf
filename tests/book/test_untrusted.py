"""Whatever the bytes are: a Book or a BookError, soon, and never another exception."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path

import pytest
from make_epub import epub_bytes, nav, ncx, page

from rhapsode.book import read_book, split_lines
from rhapsode.errors import BookError
from rhapsode.types import Book

EPUB = epub_bytes(
    {
        "a.xhtml": page('<h1 id="x">Dawn</h1><p>It rained.<a epub:type="noteref" href="#n"><sup>1</sup></a> So.</p>'),
        "b.xhtml": page(
            "<h1>Noon</h1><ol start='3'><li>x</li></ol><ruby>a<rt>b</rt></ruby><table><tr><td>1</td></tr></table>"
        ),
    },
    navigation=nav(("a.xhtml#x", "Dawn"), ("b.xhtml", "Noon")),
    toc_ncx=ncx(("a.xhtml", "Dawn")),
    compression=zipfile.ZIP_STORED,
)
HTML = page(
    "<article><h1>A &amp; B</h1><p>x<br/>y</p><math><mi>x</mi></math><pre>a\n\nb</pre></article><nav>n</nav>"
).encode()
MARKDOWN = (
    b"---\ntitle: x\n---\n# A\n\nSome *text* [l](u) ![i](s)\n\n- a\n  1. b\n\n> q\n\n"
    b"```\ncode\n```\n| a | b |\n|---|---|\n| c | d |\n"
)
TEXT = (
    b"Title: X\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\n\nChapter 1\n\nIt rained nega-\ntive.\n\n* * *\n\n"
    + b"Part Two\n\n"
    + b"It shone. " * 30
)


def outcome(path: Path) -> Book | None:
    try:
        book = read_book(path)
    except BookError as error:
        assert str(error) and "\n" not in str(error)
        return None
    assert book.chapters and book.title
    assert all(chapter.text.strip() for chapter in book.chapters)
    assert split_lines(book)
    return book


def mutated(raw: bytes, chance: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(chance.choice((1, 1, 2, 4, 16, 64))):
        at = chance.randrange(len(data) or 1)
        match chance.randrange(6):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del data[at : at + chance.randrange(1, 40)]
            case 2:
                data[at:at] = data[at : at + chance.randrange(1, 200)]
            case 3:
                data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
            case 4:
                data[at:at] = chance.choice(
                    (b"<", b">", b"&", b"&#", b"<!--", b"<![CDATA[", b"\0", b"</", b"\xff\xfe", b"]]>")
                )
            case 5:
                data[at : at + 4] = chance.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff"))
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "raw", "rounds"),
    [("x.epub", EPUB, 500), ("x.html", HTML, 250), ("x.md", MARKDOWN, 250), ("x.txt", TEXT, 250), ("x", HTML, 60)],
)
def test_mutated_files(tmp_path: Path, name: str, raw: bytes, rounds: int) -> None:
    chance = random.Random(name)
    path = tmp_path / name
    read = 0
    for _ in range(rounds):
        path.write_bytes(mutated(raw, chance))
        read += outcome(path) is not None
    assert read > rounds // 10  # else only the refusal was tried


def test_mutated_members(tmp_path: Path) -> None:
    """Each member broken by itself, so that the ZIP around it is whole."""
    chance = random.Random(7)
    pages = {"a.xhtml": page("<h1>Dawn</h1><p>It rained.</p>").encode()}
    navigation = nav(("a.xhtml", "Dawn")).encode()
    read = 0
    for _ in range(300):
        broken = {name: mutated(raw, chance) for name, raw in pages.items()}
        raw = epub_bytes(
            {**broken, "b.xhtml": page("<p>Whole.</p>")},
            navigation=mutated(navigation, chance).decode("latin-1"),
            metadata=mutated(b"<dc:title>T</dc:title><dc:creator>X</dc:creator>", chance).decode("latin-1"),
        )
        (tmp_path / "x.epub").write_bytes(raw)
        read += outcome(tmp_path / "x.epub") is not None
    assert read > 200


@pytest.mark.parametrize("name", ["x.html", "x.md", "x.txt", "x.xhtml"])
@pytest.mark.parametrize(
    "unit",
    ["<b>", "<p>", "<ul><li>", "</b>", "<a href='#n'>", "&", "&amp;", "<!--", "<!DOCTYPE", "<script>", "[",
     "![", "](", "*a ", "_", "`", "~~~\n", "> ", "- ", "1. ", "|a", "<", "a-\n", "\n \n", " ", "# ", "*", "**",
     "<ruby><rt>", "<sup>", "<header>", "a\u0301", "<table><tr><td>", "<ol reversed>", "<h1>", "\\", "---\n",
     "CHAPTER I\n\n", "第一章\n", "einundzwanzig ", "Kapitel ", "<article>", "\x01", "(", "\"", "[a]: b\n"],
)  # fmt: skip
def test_repetition_does_not_hang(tmp_path: Path, name: str, unit: str) -> None:
    """What is quadratic takes minutes at this size."""
    path = tmp_path / name
    path.write_text("Text. " + unit * (40_000 // len(unit)) + " End.", encoding="utf-8", newline="")
    outcome(path)
