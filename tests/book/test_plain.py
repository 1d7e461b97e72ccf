"""Plain text, Markdown and HTML files, and which file is read as what."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from make_epub import texts, titles

from rhapsode.book import read_book, split_lines
from rhapsode.book.plain import read_text
from rhapsode.errors import BookError
from rhapsode.types import Book


def read(folder: Path, content: str | bytes, name: str = "My book.txt") -> Book:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_book(path)


class TestEncodings:
    @pytest.mark.parametrize(
        "raw",
        ["He said “no”.".encode(), "\ufeffHe said “no”.".encode(), "\ufeffHe said “no”.".encode("utf-16-le"),
         "\ufeffHe said “no”.".encode("utf-16-be"), "He said “no”.".encode("utf-16")],
    )  # fmt: skip
    def test_unicode(self, tmp_path: Path, raw: bytes) -> None:
        book = read(tmp_path, raw)
        assert (texts(book), book.notes) == (["He said “no”."], ())

    def test_cp1252_is_said(self, tmp_path: Path) -> None:
        book = read(tmp_path, b"He said \x93no\x94 \x96 it\x92s late.")
        assert texts(book) == ["He said “no” – it’s late."]
        assert "Windows-1252" in book.notes[0]


class TestWrapping:
    def test_lines_are_joined_and_blank_lines_part(self, tmp_path: Path) -> None:
        book = read(tmp_path, "It was\na dark\r\nnight.\n\n\n  \nIt rained.\n\n* * *\n\nEnd.")
        assert [(b.kind, b.text) for b in book.chapters[0].blocks] == [
            ("paragraph", "It was\na dark\nnight."), ("paragraph", "It rained."), ("break", ""), ("paragraph", "End."),
        ]  # fmt: skip

    def test_hyphens_at_line_ends(self, tmp_path: Path) -> None:
        text = "A one-\nsided nega-\ntive view. Not negative, self-\nmade and selfmade and self-made."
        assert texts(read(tmp_path, text)) == [
            "A one-sided negative view. Not negative, self-made and selfmade and self-made."
        ]

    def test_long_lines_are_paragraphs(self, tmp_path: Path) -> None:
        long = "word " * 60
        assert [b.text for b in read(tmp_path, f"{long}\n{long}\nLast one.").chapters[0].blocks] == [
            long.strip(), long.strip(), "Last one.",
        ]  # fmt: skip

    def test_an_indent_starts_a_paragraph(self, tmp_path: Path) -> None:
        text = "It was\nlate.\n   Then it\nrained."
        assert [b.text for b in read(tmp_path, text).chapters[0].blocks] == ["It was\nlate.", "Then it\nrained."]

    def test_ornaments_within_a_paragraph(self, tmp_path: Path) -> None:
        book = read(
            tmp_path, "Chapter 1\n=========\n\nIt rained.\n* * *\nIt shone.\n---\n\nChapter 2\n---------\nIt snowed."
        )
        assert titles(book) == ["Chapter 1", "Chapter 2"]
        assert [(b.kind, b.text) for c in book.chapters for b in c.blocks] == [
            ("heading", "Chapter 1"), ("paragraph", "It rained."), ("break", ""), ("paragraph", "It shone."),
            ("heading", "Chapter 2"), ("paragraph", "It snowed."),
        ]  # fmt: skip

    def test_marks_of_emphasis_are_not_read(self, tmp_path: Path) -> None:
        text = (
            '_He_ asked _Mr. Smith_\'s wife: "_Why\nnot?_" ... my_file_name, ____ and _ and 5_6 stay, __so__ does not.'
        )
        book = read(tmp_path, text)
        assert texts(book) == [
            'He asked Mr. Smith\'s wife: "Why\nnot?" ... my_file_name, ____ and _ and 5_6 stay, so does not.'
        ]
        assert len(split_lines(read(tmp_path, "_He_ met _Mr. Smith_ again."))) == 1

    def test_no_word_is_glued_and_none_is_lost(self, tmp_path: Path) -> None:
        text = "I do not\nremember when I\n\n   last saw\n   the sea, but\n\tit was grey.\n"
        assert " ".join(texts(read(tmp_path, text))).split() == text.split()


class TestChapters:
    def test_announced_chapters(self, tmp_path: Path) -> None:
        text = (
            "A Tale\n\nPART ONE\n\nCHAPTER I. Dawn\n\nIt rained.\n\nChapter 2\n\nChapter 2 of his life began.\n\n"
            "Part Two: Home\n\nChapter Three — Noon\n\nPart of it shone. Part one of it did not.\n\n"
            "Epilogue\n\nThe end."
        )
        book = read(tmp_path, text)
        assert titles(book) == ["My book", "PART ONE: CHAPTER I. Dawn", "Chapter 2",
                                "Part Two: Home: Chapter Three — Noon",
                                "Epilogue"]  # fmt: skip
        assert texts(book)[2] == "Chapter 2\nChapter 2 of his life began."

    @pytest.mark.parametrize(
        ("one", "two"),
        [("1", "2"), ("I.", "II."), ("Kapitel 1", "Kapitel 2: Abend"), ("Chapitre premier", "Chapitre 2"),
         ("第一章 雨", "第二章"), ("CHAPTER I.--THE RAIN", "CHAPTER II.—The Sun"), ("Chapter 1:Rain", "Chapter 2.Sun"),
         ("I. THE RAIN", "II. THE SUN AND\nTHE MOON"), ("1. RAIN", "2. SUN"),
         ("Chapter the First", "Chapter Twenty-One"), ("Prologue", "Chapter 1")],
    )  # fmt: skip
    def test_ways_to_announce(self, tmp_path: Path, one: str, two: str) -> None:
        book = read(tmp_path, f"{one}\n\nIt rained here.\n\n{two}\n\nIt shone there.")
        expected = [one, two]
        assert titles(book) == [title.replace("\n", " ") for title in expected]

    def test_titles_with_numerals_after_their_contents_and_above_bare_ones(self, tmp_path: Path) -> None:
        contents = "I. THE RAIN\n\nII. THE SUN\n\nIII. THE END\n\n"
        text = (
            "I. THE RAIN\n\nI.\n\nIt rained.\n\nII.\n\nAgain.\n\nII. THE SUN\n\nIt shone.\n\nIII. THE END\n\nNo more."
        )
        book = read(tmp_path, "Introduction\n\nOf what follows.\n\n" + contents + text)
        assert titles(book) == ["Introduction", "I. THE RAIN", "II. THE SUN", "III. THE END"]
        assert texts(book)[1] == "I. THE RAIN\nI.\nIt rained.\nII.\nAgain."

    @pytest.mark.parametrize("marks", ["II. THE SUN", "1. rain and more\n\n2. sun and more", "1. 雨です\n\n2. 日です"])
    def test_numerals_that_are_no_headings(self, tmp_path: Path, marks: str) -> None:
        assert titles(read(tmp_path, f"It rained.\n\n{marks}\n\nIt shone.")) == ["My book"]

    def test_bare_numerals_beside_a_prologue(self, tmp_path: Path) -> None:
        text = "Prologue\n\nIt rained.\n\nI\n\nIt shone.\n\nII\n\nIt snowed.\n\nEpilogue\n\nNo more."
        assert titles(read(tmp_path, text)) == ["Prologue", "I", "II", "Epilogue"]

    @pytest.mark.parametrize(
        "line",
        [
            "Part one of the plan was simple.",
            "Part one—the best of it all—was simple.",
            "Chapter 2,",
            "Book me a room.",
            "Part of me",
            "I",
            "Act now!",
            "Section",
        ],
    )
    def test_what_is_no_heading(self, tmp_path: Path, line: str) -> None:
        assert titles(read(tmp_path, f"It rained.\n\n{line}\n\nIt shone.")) == ["My book"]

    def test_a_heading_right_above_its_text(self, tmp_path: Path) -> None:
        book = read(tmp_path, "Chapter 1\nIt rained all day.\n\nChapter 2\nIt shone.")
        assert list(zip(titles(book), texts(book), strict=True)) == [
            ("Chapter 1", "Chapter 1\nIt rained all day."), ("Chapter 2", "Chapter 2\nIt shone."),
        ]  # fmt: skip

    def test_a_table_of_contents_makes_no_chapters(self, tmp_path: Path) -> None:
        toc = "Chapter 1\n\nChapter 2\n\nChapter 3\n\n"
        body = "".join(f"Chapter {n}\n\nText {n}.\n\n" for n in (1, 2, 3))
        assert titles(read(tmp_path, toc + body)) == ["My book", "Chapter 1", "Chapter 2", "Chapter 3"]
        joined = read(tmp_path, "Chapter 1\nChapter 2\n\n" + body)
        assert titles(joined) == ["My book", "Chapter 1", "Chapter 2", "Chapter 3"]

    def test_title_and_author_from_the_name(self, tmp_path: Path) -> None:
        book = read(tmp_path, "Text.", "Ann_Hale - The_Sea.TXT")
        assert (book.title, book.author, titles(book)) == ("The Sea", "Ann Hale", ["The Sea"])


class TestGutenberg:
    HEAD = "The Project Gutenberg eBook of X\n\nTitle: The Sea\nAuthor: Ann Hale\nLanguage: French\n\n"
    START = "*** START OF THE PROJECT GUTENBERG EBOOK THE SEA ***\n\n"
    END = "\n\n*** END OF THE PROJECT GUTENBERG EBOOK THE SEA ***\n\nLicence and more licence."

    def test_header_and_licence_are_left_out(self, tmp_path: Path) -> None:
        book = read(tmp_path, self.HEAD + self.START + "It rained. " * 50 + self.END)
        assert (book.title, book.author, book.language) == ("The Sea", "Ann Hale", "fr")
        assert texts(book) == [("It rained. " * 50).strip()]
        assert "Gutenberg" in book.notes[0]

    def test_marks_of_several_lines_and_the_line_before_the_last(self, tmp_path: Path) -> None:
        start = "*** START OF THE PROJECT GUTENBERG EBOOK THE SEA;\nOR, THE RAIN ***\n\n"
        text = "It rained. " * 50 + "\n\n\nEnd of the Project Gutenberg EBook of The Sea, by\nAnn Hale\n\n"
        book = read(tmp_path, self.HEAD + start + text + self.END)
        assert texts(book) == [("It rained. " * 50).strip()]
        kept = "End of the Project Gutenberg story was near.\n\n" + "It rained. " * 150
        assert texts(read(tmp_path, self.HEAD + self.START + kept + self.END))[0].startswith("End of the")

    def test_a_long_title_and_pictures_without_a_caption(self, tmp_path: Path) -> None:
        head = self.HEAD.replace("The Sea", "The Sea: or,\n       The Rain")
        text = "[Illustration]\n\n[Illustration: A boat.]\n\n" + "It rained. " * 50
        book = read(tmp_path, head + self.START + text + self.END)
        assert book.title == "The Sea: or, The Rain"
        assert texts(book)[0].startswith("[Illustration: A boat.]\nIt rained.")
        assert book.notes[1] == "Left out 1 mark(s) of illustrations without a caption."
        assert texts(read(tmp_path, "[Illustration]\n\nIt rained."))[0].startswith("[Ill"), "no word of Gutenberg"

    def test_nothing_is_left_out_where_little_would_be_left(self, tmp_path: Path) -> None:
        book = read(tmp_path, self.HEAD + self.START + "Short." + self.END + " More." * 99)
        assert "Licence" in texts(book)[0] and "kept" in book.notes[0]

    def test_an_old_text_without_a_start_mark_is_whole(self, tmp_path: Path) -> None:
        text = "It rained.\n\nEND OF THE PROJECT GUTENBERG EBOOK\n\nLicence."
        assert texts(read(tmp_path, text)) == ["It rained.\nEND OF THE PROJECT GUTENBERG EBOOK\nLicence."]


class TestMarkdown:
    def test_headings_make_chapters(self, tmp_path: Path) -> None:
        text = (
            '---\ntitle: "The Sea"\nauthor: Ann Hale\nlang: de\n---\n\nDawn\n====\n\nIt *rained* on [the sea](http://x)'
            " ![a](b.png)`now`.\nStill **rain**ing.\n\n---\n\n1. one\n2. two\n\n"
            "# Noon #\n\nIt shone. <b>x</b> &amp; y\n"
        )
        book = read(tmp_path, text, "x.md")
        assert (book.title, book.author, book.language) == ("The Sea", "Ann Hale", "de")
        assert [(c.title, [(b.kind, b.text) for b in c.blocks]) for c in book.chapters] == [
            ("Dawn", [("heading", "Dawn"), ("paragraph", "It rained on the sea now. Still raining."), ("break", ""),
                      ("paragraph", "1. one"), ("paragraph", "2. two")]),
            ("Noon", [("heading", "Noon"), ("paragraph", "It shone. x & y")]),
        ]  # fmt: skip

    def test_one_title_and_chapters_below_it(self, tmp_path: Path) -> None:
        book = read(
            tmp_path, "# The Sea\n\nA motto.\n\n## Dawn\n\nOne.\n\n### x\n\ny\n\n## Noon\n\nTwo.\n", "x.markdown"
        )
        assert (book.title, titles(book)) == ("The Sea", ["The Sea", "Dawn", "Noon"])

    def test_footnotes_are_left_out_and_said(self, tmp_path: Path) -> None:
        text = (
            "It rained[^1], and[^b] ~~shone~~.[^none] [^1]\n\n[^1]: A note that\ngoes on.\n\n    With a paragraph.\n\n"
            "Then it snowed.\n\n[^b]: Another.\n[^c]: Nobody points here.\n# End\n\nNo more."
        )
        book = read(tmp_path, text, "x.md")
        assert texts(book) == [
            "It rained, and shone.[^none]\nThen it snowed.\n[^c]: Nobody points here.",
            "End\nNo more.",
        ]
        assert book.notes == ("Left out 2 footnote(s) and the marks that point to them.",)

    def test_no_headings(self, tmp_path: Path) -> None:
        assert titles(read(tmp_path, "Only text.", "Some notes.MD")) == ["Some notes"]


class TestPages:
    def test_an_article_among_furniture(self, tmp_path: Path) -> None:
        html = (
            "<!doctype html><html lang='en-GB'><head><meta charset='utf-8'><title>Rain | The Paper</title>"
            "<meta property='og:title' content='Rain'><meta name='author' content='Ann Hale'></head><body>"
            "<header>The Paper</header><nav>Home</nav><div>Also read: Snow</div>"
            "<article><h1>Rain</h1><p>It rained all day, and all night.</p>"
            "<aside>Buy!</aside>tail<form>Mail</form><h2>A</h2><p>x</p><h2>B</h2><p>y</p><button>Like</button></article>"
            "<footer>Legal</footer></body></html>"
        )
        book = read(tmp_path, html, "x.html")
        assert (book.title, book.author, book.language) == ("Rain", "Ann Hale", "en-GB")
        assert list(zip(titles(book), texts(book), strict=True)) == [
            ("Rain", "Rain\nIt rained all day, and all night.\ntail"), ("A", "A\nx"), ("B", "B\ny"),
        ]  # fmt: skip

    PARTS = (
        "<div class='cookie-banner'>We use cookies.</div><a class='skip-link'>Skip</a><div id='main-menu'>Home</div>",
        "<div class='x sidebar'><h3>Most read</h3><ul><li>Snow</ul></div><section id='comments'>First!</section>",
    )

    def test_what_a_page_calls_furniture_is_left_out_and_said(self, tmp_path: Path) -> None:
        text = "It rained all day, and all night. " * 8
        heading = "<h2>Rain<span class='mw-editsection'>[edit]</span></h2>"
        book = read(tmp_path, f"<title>T</title>{self.PARTS[0]}{heading}<p>{text}</p>{self.PARTS[1]}tail", "x.html")
        assert texts(book) == [f"Rain\n{text.strip()}\ntail"]
        assert book.notes == (
            "Left out 6 part(s) of the page beside its text, such as menus: 'We use cookies.', 'Skip', "
            "'Home' and more.",
        )

    def test_no_text_is_lost_for_its_name(self, tmp_path: Path) -> None:
        """Names that only sound like it, elements that hold most of the text, and parts without a word."""
        parts = ("market-share", "informed-consent", "related-work", "social-history", "has-sidebar", "menus-of-paris")
        body = "".join(f"<section id='{name}'><p>Of {name}.</p></section>" for name in parts)
        book = read(
            tmp_path, f"<title>T</title><div class='sidebar'><div class='nav'>{body}</div></div><nav></nav>", "x.html"
        )
        assert texts(book) == ["\n".join(f"Of {name}." for name in parts)]
        assert book.notes == ()

    def test_gutenbergs_licence_is_left_out(self, tmp_path: Path) -> None:
        parts = [
            f"<section class='pg-boilerplate pg{n}er'><h2>Legal</h2><p>Legal.</p></section>" for n in ("head", "foot")
        ]
        book = read(tmp_path, f"<title>T</title>{parts[0]}<h2>One</h2><p>It rained.</p>{parts[1]}", "x.html")
        assert texts(book) == ["One\nIt rained."]
        assert book.notes == ("Left out Gutenberg's header and licence.",)

    def test_a_page_without_article_is_read_whole(self, tmp_path: Path) -> None:
        html = "<title>T</title><nav>no</nav><p>One.<article>small</article><p>" + "Long text. " * 20
        book = read(tmp_path, html, "x.htm")
        assert "One." in texts(book)[0] and "small" in texts(book)[0] and "no" not in texts(book)[0].split()

    @pytest.mark.parametrize(
        ("raw", "note"),
        [(b"<meta charset='windows-1252'><p>it\x92s</p>", 0), (b"<p>it\x92s</p>", 1), ("<p>it’s</p>".encode(), 0),
         (b'<?xml version="1.0" encoding="cp1252"?><html><body><p>it\x92s</p></body></html>', 0)],
    )  # fmt: skip
    def test_encodings(self, tmp_path: Path, raw: bytes, note: int) -> None:
        book = read(tmp_path, raw, "x.xhtml")
        assert texts(book) == ["it’s"]
        assert len(book.notes) == note


class TestWhichFile:
    def test_missing_folder_and_empty(self, tmp_path: Path) -> None:
        with pytest.raises(BookError, match="There is no file"):
            read_book(tmp_path / "no.epub")
        with pytest.raises(BookError, match="folder"):
            read_book(tmp_path)
        for name in ("a.txt", "a.epub", "a.md", "a.html"):
            with pytest.raises(BookError, match="is empty"):
                read(tmp_path, b"", name)
            with pytest.raises(BookError):
                read(tmp_path, b" \n\n* * *\n \xc2\xa0", name)

    @pytest.mark.parametrize(
        ("name", "raw", "said"),
        [
            ("a.pdf", b"%PDF-1.7 x", "PDF"),
            ("a.txt", b"%PDF-1.7 x", "PDF"),
            ("a.mobi", b"\0" * 60 + b"BOOKMOBI", "Kindle"),
            ("a.txt", b"x" * 60 + b"BOOKMOBI", "Kindle"),
            ("a.AZW3", b"text", "Kindle"),
            ("a.docx", b"PK\x03\x04", "Word"),
        ],
    )
    def test_other_books_are_named_with_a_way_out(self, tmp_path: Path, name: str, raw: bytes, said: str) -> None:
        with pytest.raises(BookError, match=f"{said}.*convert it to EPUB"):
            read(tmp_path, raw, name)

    @pytest.mark.parametrize("name", ["a.bin", "a.txt", "a", "a.md", "a.html"])
    def test_binary_is_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(BookError):
            read(tmp_path, bytes(range(256)) * 9, name)

    def test_noise_without_zero_bytes_is_no_text(self, tmp_path: Path) -> None:
        with pytest.raises(BookError, match="not a text file"):
            read(tmp_path, bytes(range(1, 256)) * 9)

    def test_text_under_an_unknown_suffix(self, tmp_path: Path) -> None:
        assert texts(read(tmp_path, "It rained.", "a.text")) == ["It rained."]
        assert texts(read(tmp_path, "<!DOCTYPE html><p>It rained.", "a")) == ["It rained."]
        assert texts(read(tmp_path, "<p> is how it starts.", "a.txt")) == ["<p> is how it starts."]

    def test_an_epub_that_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(BookError, match="not a whole EPUB"):
            read(tmp_path, b"hello", "a.epub")

    def test_too_large(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("rhapsode.book.reader.MAX_TEXT_FILE", 10)
        with pytest.raises(BookError, match="larger than"):
            read(tmp_path, "This is more.")

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
    def test_a_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "a.txt")
        with pytest.raises(BookError, match="not an ordinary file"):
            read_book(tmp_path / "a.txt")

    def test_errors_are_one_sentence(self, tmp_path: Path) -> None:
        with pytest.raises(BookError) as caught:
            read_text(b"\0", tmp_path / "a.txt")
        assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_markup_in_plain_text_is_text(tmp_path: Path) -> None:
    text = "He typed [pause:9] and [link](http://a.example/x) and <b>x</b> &amp; y"
    assert texts(read(tmp_path, text)) == [text]
