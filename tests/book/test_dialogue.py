"""Who speaks: what is inside quotation marks, and what only looks like it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhapsode.book import lines as module
from rhapsode.book import split_lines
from rhapsode.book.dialogue import goes_on, split_dialogue
from rhapsode.book.lines import line_key
from rhapsode.types import Block, Book, Chapter, Line


def marked(text: str) -> str:
    """The stretches with a bar between them, speech in braces."""
    return "|".join(f"{{{part}}}" if who == "dialogue" else part for who, part in split_dialogue(text))


def lines_of(*blocks: Block | str, dialogue: bool = True, max_chars: int = 300) -> list[Line]:
    found = tuple(Block("paragraph", block) if isinstance(block, str) else block for block in blocks)
    return split_lines(Book("T", "A", "en", (Chapter(1, "C", found),)), max_chars=max_chars, dialogue=dialogue)


def bare(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize(
    "expected",
    [
        "{“Why?”}|she asked.|{“It is late.”}",
        "{“Well,”}|said he,|{“it is so.”}|He left.",
        "{“Stop!”}",
        "He turned.|{“Stop!” “Why?”}|They ran.",
        '{"I won\'t,"}|she said,|{"go."}',
        "{‘tis late,’}|he said.",
        "{‘Yes,’}|said James’s friend,|{‘the boys’ books are ’ere.’}|’Tis true.",
        "{„Ja“,}|sagte er.|{„Ich komme gleich.“}|Dann ging er.",
        "{»Ja«,}|sagte er,|{»ich komme.«}|Der »Experte« lachte.",
        "{« Bonjour ! »}|Il sourit.",
        "{‚Ja‘,}|sagte er.",
        "{”Hej,”}|sa han.",
        "{(“Yes,”}|he said.)",
        "He cried|{“Fire!”}|and ran.",
        "He said|{“No,”}|and ran.",
        "She said:|{“It is late”}|and he left.",
        "{“I think so”}|she said.",
        '{“Face!”}|said I,|{“call that his face?"}|and so on.',
        "And he thought:|{‘What now?’}",
        'She read the sign.|{"Is it true?”}|she asked.',
    ],
)
def test_speech(expected: str) -> None:
    assert marked(expected.replace("|", " ").translate({ord(brace): None for brace in "{}"})) == expected


@pytest.mark.parametrize(
    "text",
    [
        "The so-called “expert” was late.",
        "He read “The Raven,” and wept.",
        "He read “The Raven.” Then he slept.",
        "Poems such as “The Raven,” “The Bells,” and “Lenore” are sad.",
        "“The Raven” is a poem.",
        "They called her “Mother.”",
        "It is a book entitled “How to Live Well and Die Late.”",
        "It is a book entitled “A voyage in quest of the whale and of much else.”",
        "The other word, “expert,” is better.",
        "At last, ‘em that stayed had the boys’ hats.",
        "‘Twas the night before.",
        "He addressed it to “Captain James Calhoun, Barque Lone Star, Savannah.”",
        'He is 5\' 10" tall and 6" wide.',
        "’Tis the boys’ own. James’ hat. ‘Twas so. He saw ‘em all in the ‘90s.",
        "'Tis James' hat, and the boys' own.",
        "— Bonjour, dit-il.",
        "Die »Experten« und die „Fachleute“ lachten.",
        "芥川の「鼻」という本を読んだ。",
        "It rained. ”",
        "…",
        "“…”",
    ],
)
def test_what_is_no_speech(text: str) -> None:
    assert split_dialogue(text) == [("narration", text)]


def test_speech_without_spaces_around_it() -> None:
    expected = "{「はい」}|と彼は言った。|{「行きます。」}|そして『鼻』という本を読んだ。"
    assert marked("「はい」と彼は言った。「行きます。」そして『鼻』という本を読んだ。") == expected
    assert marked("“你好。”他说。") == "{“你好。”}|他说。"
    assert marked("“I was going”—he paused—“to say so.”") == "{“I was going”—}|he paused—|{“to say so.”}"


def test_an_open_quotation_ends_with_its_paragraph() -> None:
    assert marked("“I was born in York. My father") == "{“I was born in York. My father}"
    assert marked("‘I saw the boys’ books and I was goin’ home") == "{‘I saw the boys’ books and I was goin’ home}"
    assert marked("He began: “I was born.") == "He began:|{“I was born.}"
    lines = lines_of("“I was born in York.", "“I never left it.” So he said.", "It was late by then.")
    assert [line.speaker for line in lines] == ["dialogue", "dialogue", "narration", "narration"]


def test_inner_quotations_belong_to_the_outer() -> None:
    text = "“He said ‘No!’ and ‘I won’t,’ and left.”"
    assert marked(text + " She wept.") == "{" + text + "}|She wept."
    assert marked("“ ‘Well,’ said he, ‘go.’ And so I went") == "{“ ‘Well,’ said he, ‘go.’ And so I went}"
    assert marked("‘He cried “Stop!” and ran,’ she said.") == "{‘He cried “Stop!” and ran,’}|she said."


TEXTS = st.one_of(
    st.text(alphabet="ab A.,;:!?—-“”‘’„‚«»‹›「」『』\"'()…1 ", max_size=120),
    st.lists(
        st.sampled_from(["“", "”", " ‘", "’ ", '"', "Yes,", "said he.", " ", "—", "「", "„", "«"]), max_size=40
    ).map("".join),
    st.text(max_size=100),
)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_every_character_lands_in_one_stretch(text: str) -> None:
    text = " ".join(text.split())
    found = split_dialogue(text)
    assert bare("".join(part for _, part in found)) == bare(text)
    assert all(part and part == part.strip() for _, part in found)
    assert all(one[0] != two[0] for one, two in zip(found, found[1:], strict=False))
    if len(found) > 1:
        assert all(any(char.isalnum() for char in part) for _, part in found)


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXTS, max_size=6), st.integers(40, 320))
def test_every_character_lands_in_one_line(texts: list[str], limit: int) -> None:
    blocks = [Block("paragraph", text) for text in texts]
    lines = lines_of(*blocks, max_chars=limit)
    assert bare("".join(line.text for line in lines)) == bare("".join(texts))
    assert all(0 < len(line.text) <= limit and line.pause_s > 0 for line in lines)
    assert len({line.key for line in lines}) == len(lines)
    plain = lines_of(*blocks, max_chars=limit, dialogue=False)
    assert {line.speaker for line in plain} <= {"narration"}


@pytest.mark.parametrize("unit", ["“", "‘", '"', "“a” ", "‘a ", "‘em ", "’ ", "„a ", "“A,” said ", "a’ ‘", "»a ", "「"])
def test_half_a_million_characters(unit: str) -> None:
    """Quadratic time would take minutes here."""
    text = (unit * (500_000 // len(unit) + 1))[:500_000].strip()
    assert bare("".join(part for _, part in split_dialogue(text))) == bare(text)


# ---------------------------------------------------------------------- lines


def test_without_a_second_voice_lines_are_as_ever() -> None:
    texts = ("“Why?” she asked him. He left the room.", "“No!”")
    lines = lines_of(*texts, dialogue=False)
    assert [line.text for line in lines] == ["“Why?” she asked him.", "He left the room. “No!”"]
    assert [line.key for line in lines] == [line_key(line.text, 0) for line in lines]


def test_a_line_ends_where_the_voice_changes() -> None:
    lines = lines_of("“Why?” she asked. He left the room. “I know,” he said, “it is late. Go.”")
    assert [(line.speaker, line.text) for line in lines] == [
        ("dialogue", "“Why?”"), ("narration", "she asked. He left the room."), ("dialogue", "“I know,”"),
        ("narration", "he said,"), ("dialogue", "“it is late. Go.”"),
    ]  # fmt: skip
    clause, sentence = module.CLAUSE_PAUSE, module.SENTENCE_PAUSE
    assert [line.pause_s for line in lines] == [clause, sentence, clause, clause, module.CHAPTER_PAUSE]


def test_short_lines_join_their_own_voice_only() -> None:
    lines = lines_of("It was late.", "“Why?”", "“No!”", "Silence.", "The rain fell on.")
    assert [(line.speaker, line.text) for line in lines] == [
        ("narration", "It was late."), ("dialogue", "“Why?” “No!”"), ("narration", "Silence. The rain fell on."),
    ]  # fmt: skip
    assert [line.text for line in lines_of("It was late.", "“No!”", "The rain fell.")] == [
        "It was late.", "“No!”", "The rain fell.",
    ]  # fmt: skip


def test_headings_are_the_narrator_s() -> None:
    assert [line.speaker for line in lines_of(Block("heading", "“Why?” He Asked"))] == ["narration"]


def test_the_speaker_is_part_of_the_key() -> None:
    assert line_key("No.", 0) == line_key("No.", 0, "narration") != line_key("No.", 0, "dialogue")
    same = lines_of("“I never left.”", "He laughed at us.", "“I never left.”")
    assert same[0].text == same[2].text and same[0].key != same[2].key
    assert same[1].key == line_key("He laughed at us.", 0), "narration keeps the key that it has without a second voice"
    assert [line.key for line in same[::2]] == [line_key("“I never left.”", n, "dialogue") for n in (0, 1)]


@pytest.mark.parametrize(
    ("before", "after", "within"),
    [
        ("“Why?”", "she asked.", True), ("“Why?”", "Holmes asked him.", True), ("“Why?”", "Holmes left him.", False),
        ("“Well,”", "said he.", True), ("said he.", "“It is late.”", False), ("said he,", "“it is late.”", True),
        ("she said:", "“It is late.”", True), ("“I go—”", "He fell.", True), ("He left.", "“no more.”", True),
    ],
)  # fmt: skip
def test_where_a_sentence_goes_on(before: str, after: str, within: bool) -> None:
    assert goes_on(before, after) is within
