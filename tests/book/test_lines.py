"""Lines: nothing lost, nothing empty, nothing too long, and pauses where a reader makes them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhapsode.book import lines as module
from rhapsode.book import read_book, split_lines
from rhapsode.book.lines import cut_long, line_key
from rhapsode.book.sentences import primary_language, split_sentences
from rhapsode.errors import UserError
from rhapsode.types import Block, Book, Chapter, Line


def book_of(*chapters: tuple[Block, ...], language: str = "en") -> Book:
    return Book("T", "A", language, tuple(Chapter(n, f"C{n}", blocks) for n, blocks in enumerate(chapters, 1)))


def p(text: str) -> Block:
    return Block("paragraph", text)


def h(text: str) -> Block:
    return Block("heading", text)


BREAK = Block("break", "")


def lines_of(*blocks: Block, language: str = "en", max_chars: int = 300) -> list[Line]:
    return split_lines(book_of(blocks, language=language), max_chars=max_chars)


def said(*blocks: Block, language: str = "en", max_chars: int = 300) -> list[str]:
    return [line.text for line in lines_of(*blocks, language=language, max_chars=max_chars)]


def bare(text: str) -> str:
    return "".join(text.split())


WORDS = st.text(alphabet="ab é.,;:!?—–-“”‘’\"'()[]…1 2\n\tあ漢。、「」😀\u0301\u200d", max_size=120)
TEXTS = st.one_of(WORDS, st.text(max_size=200), st.lists(WORDS, max_size=30).map(" ".join), WORDS.map(lambda t: t * 40))
BLOCKS = st.lists(
    st.one_of(TEXTS.map(p), TEXTS.map(h), st.just(BREAK), st.sampled_from(["“Why?”", "No.", "—", "”", "I"]).map(p)),
    max_size=8,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(BLOCKS, max_size=3), st.integers(40, 320), st.sampled_from(["en", "ja", "fr", "", "xx-YY", "zh-Hant"]))
def test_every_character_lands_in_one_line(chapters: list[list[Block]], limit: int, language: str) -> None:
    book = book_of(*map(tuple, chapters), language=language)
    lines = split_lines(book, max_chars=limit)
    assert [line.index for line in lines] == list(range(len(lines)))
    assert [line.chapter for line in lines] == sorted(line.chapter for line in lines)
    assert len({line.key for line in lines}) == len(lines)
    for line in lines:
        assert line.text.strip() == line.text != ""
        assert len(line.text) <= limit
        assert "\n" not in line.text
        assert line.pause_s > 0 and 0 <= line.key < 2**63
    for chapter in book.chapters:
        own = [line.text for line in lines if line.chapter == chapter.number]
        assert bare("".join(own)) == bare(chapter.text)


PLAIN_WORDS = st.from_regex(r"[abcé]{1,30}[,.;!?]?", fullmatch=True)


@settings(max_examples=200, deadline=None)
@given(st.lists(PLAIN_WORDS, min_size=1, max_size=120), st.integers(40, 300))
def test_words_are_never_cut_where_there_are_spaces(words: list[str], limit: int) -> None:
    assert " ".join(said(p(" ".join(words)), max_chars=limit)).split() == words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Hale came at 9:30 a.m., late. Mr. Vane left.", ["Dr. Hale came at 9:30 a.m., late.", "Mr. Vane left."]),
        ("He stopped here.Then he ran.", ["He stopped here.", "Then he ran."]),
        ("“Why?” she asked him. He left the room.", ["“Why?” she asked him.", "He left the room."]),
        ("No. Never. Not while I live.", ["No. Never. Not while I live."]),
        ("It rained all day. Hard.", ["It rained all day. Hard."]),
        ("It rained all day. ”", ["It rained all day. ”"]),
        ("  It\n rained \t here.  \n \n", ["It rained here."]),
        ("Yes.", ["Yes."]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert said(p(text)) == expected


def test_characters_count_where_there_are_no_words() -> None:
    assert said(p("はい。私は学生です。本を読む。"), language="ja") == ["はい。私は学生です。", "本を読む。"]


@pytest.mark.parametrize("suffix", ["txt", "md", "html"])
def test_rows_are_parted_by_a_space_only_where_words_are(tmp_path: Path, suffix: str) -> None:
    rows = ["退潮的\n时候，她都要爬上台阶，\n一边走 一边数。", "毎晩、\n彼女は登りました。"]
    rows += ["매일 저녁\n그녀는 올라갔다.", "At low\nwater."]
    between = "</p><p>" if suffix == "html" else "\n\n"
    book = tmp_path / f"book.{suffix}"
    book.write_text(f"<p>{between.join(rows)}</p>" if suffix == "html" else between.join(rows), encoding="utf-8")
    wanted = ["退潮的时候，她都要爬上台阶，一边走 一边数。", "毎晩、彼女は登りました。"]
    wanted += ["매일 저녁 그녀는 올라갔다.", "At low water."]
    assert [line.text for line in split_lines(read_book(book))] == wanted


def test_short_paragraphs_join_their_neighbours() -> None:
    assert said(p("“Why?”"), p("“No!”"), p("“Because I say so.”")) == ["“Why?” “No!” “Because I say so.”"]
    assert said(p("He looked at her."), p("“No!”")) == ["He looked at her. “No!”"]
    assert said(p("“Why?”"), BREAK, p("It was late again.")) == ["“Why?”", "It was late again."]
    assert said(p("It was late again."), BREAK, p("“Why?”")) == ["It was late again.", "“Why?”"]
    long = "It " + "rained and " * 26 + "stopped."
    assert said(p("Why?"), p(long), p("No!"), max_chars=len(long) + 2) == ["Why?", long, "No!"]


def test_headings_are_lines_of_their_own() -> None:
    assert said(h("I"), h("Dawn"), p("Yes."), h("II"), p("It rained. A lot.")) == [
        "I", "Dawn", "Yes.", "II", "It rained. A lot.",
    ]  # fmt: skip
    assert said(h("Chapter 1. Loomings. Or not.")) == ["Chapter 1. Loomings. Or not."]
    assert all(len(text) <= 50 for text in said(h("word " * 40), max_chars=50))


def test_signs_alone() -> None:
    assert said(p("—"), p("It rained here.")) == ["—", "It rained here."]
    assert said(p("It rained here."), p("”"), p("No.")) == ["It rained here.", "”", "No."]
    assert said(p("It rained here. ! ! It was over now.")) == ["It rained here. ! !", "It was over now."]
    assert said(p("It rained here. — … ”")) == ["It rained here. — … ”"]


def test_a_long_quotation_is_cut_at_its_sentences() -> None:
    sentences = [f"It was late on day {n}, said Dr. Hale." for n in range(40)]
    lines = said(p("“" + " ".join(sentences) + "”"))
    assert len(lines) > 4 and all(line.endswith(("Hale.", "Hale.”")) and len(line) <= 300 for line in lines)
    assert min(map(len, lines)) > 100


def test_long_sentences_are_cut_at_clauses_in_pieces_of_similar_length() -> None:
    lines = said(p("and the rain fell on the town, " * 30 + "at last."))
    assert all(line.endswith((",", ".")) for line in lines)
    assert max(map(len, lines)) - min(map(len, lines)) < 70
    spaces = said(p("word " * 1000))
    assert set(" ".join(spaces).split()) == {"word"} and max(map(len, spaces)) <= 300
    assert min(map(len, spaces[:-1])) > 140
    assert list(map(len, said(p("x" * 1000)))) == [250] * 4
    assert [len(text) for text in said(p("語" * 310), language="ja")] == [155, 155]


def test_numbers_and_ranges_are_no_clauses() -> None:
    text = "about 1,000 and 9:30 or 1914–18 " * 9
    for limit in range(40, 60):
        assert " ".join(cut_long(text, limit)).split() == text.split()


def test_no_accent_or_joiner_is_cut_off() -> None:
    for text in ("e\u0301" * 199, "👩\u200d👧" * 101):
        for limit in range(40, 60):
            for piece in cut_long(text, limit):
                assert piece[0] not in "\u0301\u200d" and piece[-1] != "\u200d"
    assert len(cut_long("a" + "\u0301" * 1000, 40)) < 50


def test_pauses() -> None:
    blocks = (
        BREAK, h("Dawn"), p("It rained all day. It was a Monday."), p("He sang a line,"),
        p("and went home alone."), BREAK,
        p("and the rain fell on the town, " * 12 + "at last."), p("Then all was over."),
    )  # fmt: skip
    pauses = [line.pause_s for line in split_lines(book_of(blocks, (p("Next one is here."),)))]
    cut = len(pauses) - 8
    assert cut >= 1
    assert pauses == [
        module.HEADING_PAUSE, module.SENTENCE_PAUSE, module.PARAGRAPH_PAUSE, module.SENTENCE_PAUSE, module.BREAK_PAUSE,
        *[module.CLAUSE_PAUSE] * cut, module.PARAGRAPH_PAUSE, module.CHAPTER_PAUSE, module.CHAPTER_PAUSE,
    ]  # fmt: skip
    order = [module.CLAUSE_PAUSE, module.SENTENCE_PAUSE, module.PARAGRAPH_PAUSE, module.HEADING_PAUSE,
             module.BREAK_PAUSE, module.CHAPTER_PAUSE]  # fmt: skip
    assert all(a < b for a, b in pairwise(order))


def test_keys_stay_when_another_line_changes() -> None:
    before = lines_of(p("It rained all day."), p("He said it again."), p("He said it again."), p("It was over now."))
    after = lines_of(
        p("It snowed all day. And night too."), p("He said it again."), p("He said it again."), p("It was over now.")
    )
    assert [line.key for line in before[1:]] == [line.key for line in after[2:]]
    assert len({line.key for line in before}) == 4
    assert line_key("It rained.", 0) == 2634152909211135472
    assert all(0 <= line_key(str(n), 0) < 2**63 for n in range(200))


def test_empty_chapters_give_no_lines() -> None:
    assert lines_of(BREAK, p(" \n \u3000 "), h("")) == []
    assert split_lines(Book("", "", "", ())) == []


def test_a_limit_that_is_too_small_is_refused() -> None:
    with pytest.raises(UserError, match="at least 40"):
        lines_of(p("x"), max_chars=39)


@pytest.mark.parametrize(
    ("tag", "expected"),
    [("en-GB", "en"), ("DE", "de"), ("zh_Hans", "zh"), ("", "en"), ("und", "en"), ("x-y", "en"), ("ügü", "en")],
)
def test_primary_language(tag: str, expected: str) -> None:
    assert primary_language(tag) == expected


@pytest.mark.parametrize(
    "unit", ["word ", "“It was late. ", "私は行く。", '"', ".", "a.m. ", "“", "x", "— ", "? ", "[1] ", "é "]
)
def test_a_million_characters(unit: str) -> None:
    """Quadratic time would take minutes here; sentencex alone is quadratic on some of these."""
    text = (unit * (1_000_000 // len(unit) + 1))[:1_000_000]
    lines = lines_of(p(text), language="en")
    assert sum(len(bare(line.text)) for line in lines) == len(bare(text))
    assert max(len(line.text) for line in lines) <= 300


def test_sentences_across_windows_are_whole() -> None:
    sentences = [f"This is sentence number {n} of them." for n in range(400)]
    assert split_sentences(" ".join(sentences), "en") == sentences
