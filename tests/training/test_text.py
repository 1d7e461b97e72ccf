"""The written, spoken and numbered forms of the training text, on small strings: no espeak and no books."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from rhapsode.qwen3.tokens import TextTokenizer
from training import corpus, numerals, tokenizer
from training.corpus import Utterance
from training.phonemes import (
    LABELS,
    PHONES,
    Vocabulary,
    align,
    kokoro_symbols,
    piper_symbols,
    tracks,
    unlike,
)
from training.prepare import held_out_kind, split, without
from training.slots import SLOTS
from training.stories import HEADINGS, SENTENCES, SHORT
from training.templates import Grammar, sounds_like_vowel
from training.words import Unsaid, mark_in, words_of


def spoken(text: str) -> list[tuple[str, str]]:
    return [(word.spoken, word.mark) for word in words_of(text)]


def label(phone: str) -> int:
    return PHONES.index(phone) + 1


def shown(symbols: list[tuple[str, int, int]]) -> str:
    return "".join(symbol for symbol, _, _ in symbols)


# ---- written to spoken


def test_abbreviations_lose_their_dot_and_marks_keep_their_place() -> None:
    text = "“Mr. Holmes,” said J. H. Brown—“of course…” Really?"
    assert spoken(text) == [
        ("mister", ""), ("Holmes", ","), ("said", ""), ("j", ""), ("h", ""), ("Brown", "—"), ("of", ""),
        ("course", "…"), ("Really", "?"),
    ]  # fmt: skip
    for word in words_of(text):
        assert not word.mark or text[word.mark_at] == word.mark
    assert text[slice(words_of(text)[0].begin, words_of(text)[0].end)] == "Mr."


def test_an_abbreviation_at_the_end_keeps_the_full_stop_as_a_mark() -> None:
    assert spoken("He is a Dr.")[-1] == ("doctor", ".")


@pytest.mark.parametrize(
    ("gap", "mark", "at"),
    [
        (",” ", ",", 0), ("... ", "…", 0), (" … ", "…", 1), ("?!” ", "?", 0), (" — ", "—", 1), ("--", "—", 0),
        (" - ", "—", 1), (" (", ",", 1), ("” ", "", 0), (" ", "", 0), (".—", ".", 0), (";—", "—", 1),
    ],
)  # fmt: skip
def test_the_strongest_mark_of_a_gap(gap: str, mark: str, at: int) -> None:
    assert mark_in(gap) == (mark, at)


def test_capitals_are_said_as_words_unless_they_are_letters() -> None:
    assert " ".join(word for word, _ in spoken("THE SPECKLED Band of the FBI")) == "the speckled Band of the FBI"


def test_elided_letters_belong_to_their_word() -> None:
    words = words_of("’Twas a man o’ war, ‘twelve’ of th’ best")
    assert [word.spoken for word in words] == ["'Twas", "a", "man", "of", "war", "twelve", "of", "the", "best"]
    assert (words[0].begin, words[3].end) == (0, 14)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("In 1842 he", "digit"), ("Psst pst", "no vowel"), ("Chapter XIV.", "Roman"), ("…", "no word"), ("a * b", "odd"),
     ("A. Smith", "initial")],
)  # fmt: skip
def test_what_cannot_be_said_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Unsaid, match=reason):
        words_of(text)


# ---- phonemes


@pytest.mark.parametrize(
    ("ipa", "kokoro"),
    [
        ("lˈɪɾəl", "lˈɪTᵊl"), ("bˈʌʔn̩", "bˈʌtn"), ("tʃˈɜːtʃ", "ʧˈɜɹʧ"), ("dʒˈɔɪ", "ʤˈY"), ("mˈʌðɚɹɪn", "mˈʌðəɹɪn"),
        ("ɡˈoʊəθ", "ɡˈOəθ"), ("ðɪʲ", "ðɪ"), ("ɐbˈaʊt", "əbˈWt"), ("həlˈoʊ", "həlˈO"), ("kæfˈeɪ", "kæfˈA"),
        ("nˈoːɹθ", "nˈɔɹθ"), ("ɹˈoʊzᵻz", "ɹˈOzᵻz"),
    ],
)  # fmt: skip
def test_kokoro_writes_american_in_its_own_symbols(ipa: str, kokoro: str) -> None:
    assert shown(kokoro_symbols(ipa)) == kokoro


def test_piper_keeps_the_ipa_but_for_links() -> None:
    assert shown(piper_symbols("ðɪʲ")) == "ðɪ"
    assert shown(piper_symbols("tʃˈɜːtʃ")) == "tʃˈɜːtʃ"


def test_both_teachers_name_the_same_sounds() -> None:
    def heard(symbols: list[tuple[str, int, int]]) -> list[int]:
        both = [number for _, first, second in symbols for number in (first, second)]
        return [number for place, number in enumerate(both) if not place or number != both[place - 1]]

    for ipa in ("tʃˈɜːtʃ", "dʒˈɔɪ", "lˈɪɾəl", "bˈɜːdz", "ˈoʊvɚ", "fˈaɪɚ", "nˈoːɹθ"):
        assert heard(piper_symbols(ipa)) == heard(kokoro_symbols(ipa)), ipa


def test_stress_and_length_take_the_labels_of_their_neighbours() -> None:
    assert piper_symbols("ˈuː") == [("ˈ", label("u"), label("u")), ("u", label("u"), label("u"))] + [
        ("ː", label("u"), label("u"))
    ]
    assert kokoro_symbols("ˈaɪ") == [("ˈ", label("a"), label("a")), ("I", label("a"), label("ɪ"))]


def test_a_symbol_without_a_label_is_refused() -> None:
    with pytest.raises(Unsaid, match="symbol"):
        piper_symbols("bɮ")


# ---- alignment


def test_words_that_run_together_are_one_group() -> None:
    alone = ["ˈɛnd", "ʌv", "ðə", "dˈeɪ"]
    assert align(alone, ["ˈɛnd", "ʌvðə", "dˈeɪ"]) == [(0, 1, 0, 1), (1, 3, 1, 2), (3, 4, 2, 3)]


def test_a_word_that_falls_apart_is_one_group() -> None:
    assert align(["ˈɛt sˈɛɾɚɹə", "ɡˈʊd"], ["ˈɛt", "sˈɛɾɚɹə", "ɡˈʊd"]) == [(0, 1, 0, 2), (1, 2, 2, 3)]


def test_unlike_counts_what_lies_between() -> None:
    assert unlike("ʌvðə", "ʌvðə") == 0
    assert unlike("ʌv", "ʌvðə") == 2
    assert unlike("abcd", "axcd") == 1
    assert unlike("", "ab") == 2


SIGNS = " ,.!?;:—…ˈˌː\u0329"


def vocabularies() -> list[Vocabulary]:
    symbols = "".join(PHONES) + SIGNS + "ɚɐʔAIOWYʤʧTᵊ"
    numbers = {symbol: number for number, symbol in enumerate(dict.fromkeys(symbols), start=20)}
    numbers[" "] = 3
    return [Vocabulary("joe", numbers), Vocabulary("kokoro", numbers | {" ": 16})]


def test_tracks_follow_the_text() -> None:
    said = {"end of the day": "ˈɛnd ʌvðə dˈeɪ", "end": "ˈɛnd", "of": "ʌv", "the": "ðə", "day": "dˈeɪ", "so": "sˈoʊ"}
    text = "end of the day … so"
    joe, kokoro = tracks(words_of(text), said.__getitem__, vocabularies())
    for track in (joe, kokoro):
        assert len(track.ids) == len(track.first) == len(track.second) == len(track.at)
        assert track.at == sorted(track.at)
        assert text[track.at[0]] == "e" and track.at[-1] == len(text) - 1
    mark = vocabularies()[1].mark("…", False)
    assert text[kokoro.at[kokoro.ids.index(mark)]] == "…"
    assert mark not in joe.ids  # Piper knows no ellipsis and is given a comma
    assert joe.ids[-1] == vocabularies()[0].mark(".", True)  # a line is never left open


def test_spaces_are_half_of_either_neighbour_and_pauses_are_silent() -> None:
    said = {"a day": "ɐ dˈeɪ", "so": "sˈoʊ"}
    _, track = tracks(words_of("a day, so."), said.__getitem__, vocabularies())
    space = track.ids.index(16)
    assert (track.first[space], track.second[space]) == (label("ə"), label("d"))
    comma = track.ids.index(vocabularies()[1].mark(",", False))
    assert track.first[comma : comma + 2] == track.second[comma : comma + 2] == [0, 0]
    assert max(track.first + track.second) < LABELS


# ---- tokens

SAMPLE = ["the cat and the hat", "The assistance of the saint, and that is that.", "“Then,” said he."] * 20


def test_tokens_are_those_of_the_product(tmp_path: Path) -> None:
    merges = tokenizer.learn(SAMPLE, merges=20)
    tokenizer.write(tmp_path, merges)
    product = TextTokenizer(tmp_path, limit=512)
    ours = tokenizer.build(merges)
    for text in ("assistant\n", "the “naïve” cat—1842 …\n", "<|im_start|>assistant"):
        assert product(text) == tuple(ours.encode(text, add_special_tokens=False).ids)
        assert product.text(product(text)) == text
    assert len(product("assistant\n")) == 2
    assert product("\n") == (10,)
    assert product("7Q") == (ord("7"), ord("Q"))


def test_bytes_come_first_and_merges_after() -> None:
    merges = tokenizer.learn(SAMPLE, merges=20)
    vocab = tokenizer.vocabulary(merges)
    assert [vocab[sign] for sign in tokenizer.byte_symbols()] == list(range(256))
    assert sorted(vocab.values()) == list(range(len(vocab)))
    assert len(vocab) <= 256 + len(merges)


def test_a_word_is_completed_with_the_fewest_merges() -> None:
    merges = [("a", "s"), ("as", "s"), ("i", "s"), ("t", "a")]
    done = tokenizer.complete(merges, "assistant")
    assert done[:4] == merges
    assert tokenizer.apply(done, "assistant") == ["assistant"]
    assert len(done) == len(merges) + len(tokenizer.apply(merges, "assistant")) - 1


def test_characters_find_their_first_token() -> None:
    offsets = [(0, 2), (2, 3), (2, 3), (2, 3), (3, 6)]
    assert tokenizer.token_of_chars(offsets, 6) == [0, 0, 1, 4, 4, 4]


# ---- sentences


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (numerals.cardinal(0), "zero"), (numerals.cardinal(2105), "two thousand one hundred and five"),
        (numerals.cardinal(1042), "one thousand and forty-two"), (numerals.ordinal(21), "twenty-first"),
        (numerals.ordinal(30), "thirtieth"), (numerals.ordinal(100), "one hundredth"),
        (numerals.year(1842), "eighteen forty-two"), (numerals.year(1905), "nineteen oh five"),
        (numerals.year(2007), "two thousand and seven"), (numerals.year(1900), "nineteen hundred"),
        (numerals.clock(9, 15), "a quarter past nine"), (numerals.clock(12, 45), "a quarter to one"),
        (numerals.clock(6, 0), "six o’clock"), (numerals.clock(3, 40), "twenty to four"),
        (numerals.clock(8, 7), "eight oh seven"), (numerals.money(23, 5), "twenty-three dollars and five cents"),
        (numerals.money(1, 1), "one dollar and one cent"), (numerals.decimal(3, "14"), "three point one four"),
    ],
)  # fmt: skip
def test_numbers_in_words(said: str, words: str) -> None:
    assert said == words


def test_every_frame_can_be_filled() -> None:
    grammar = Grammar(1)
    for frame in [*SENTENCES, *SHORT, *HEADINGS, *(f"{{{name}}}" for name in SLOTS)]:
        for _ in range(5):
            text = grammar.fill(frame)
            assert "{" not in text and "|" not in text and not any(char.isdigit() for char in text), text


def test_sentences_begin_with_capitals_and_go_on_without() -> None:
    grammar = Grammar(1)
    assert grammar.fill("the end. “so it was,” {said} he").startswith("The end. “So it was,”")
    assert all(grammar.fill("first, {please}")[7].islower() for _ in range(20))


def test_articles_agree() -> None:
    words = ("owl", "honest", "useful", "one", "umbrella", "uncle", "horse", "university")
    assert [word for word in words if sounds_like_vowel(word)] == ["owl", "honest", "umbrella", "uncle"]
    assert Grammar(1).fill("a owl and an cat") == "An owl and a cat"


# ---- the corpus


def test_grouping_keeps_every_line_once_and_in_order() -> None:
    lines = [f"line number {number}." for number in range(200)]
    grouped = list(corpus.grouped(lines, random.Random(1)))
    assert " ".join(grouped) == " ".join(lines)
    assert 1 < max(text.count(".") for text in grouped) <= 3
    assert max(map(len, corpus.grouped(["x" * 200] * 30, random.Random(1)))) == 200


def test_every_word_of_a_list_comes_once() -> None:
    words = [f"{a}{b}" for a in "bdfgklmn" for b in "aeiou"]
    said = " ".join(utterance.text for utterance in corpus.word_lists(words, ["and"], random.Random(1)))
    found = sorted(word for word in corpus.key(said).split() if word != "and")
    assert found == sorted(words)


def test_dressing_changes_the_form_and_not_the_words() -> None:
    chance = random.Random(1)
    plain = Utterance("“Yes,” he said—“no…” and left.", "templates")
    forms = {corpus.dressed(plain, chance).text for _ in range(400)}
    assert {corpus.key(form) for form in forms} == {corpus.key(plain.text)}
    assert any(form == form.lower() for form in forms) and any(form == form.upper() for form in forms)
    assert any('"' in form for form in forms) and any(" — " in form for form in forms)
    assert any("..." in form for form in forms) and any(form.endswith("left") for form in forms)


def test_nothing_of_the_evaluation_or_of_the_held_out_is_left() -> None:
    banned = corpus.runs("the red fox ran over the hill at night", corpus.RUN)
    held = {"book": [Utterance("One two three four five six seven eight nine.", "sherlock")], "long": []}
    rest = [
        Utterance("He said THE RED FOX, ran over the... moon.", "templates"),
        Utterance("And two three four five six seven eight nine ten.", "sherlock"),
        Utterance("Something else altogether.", "bible"),
        Utterance("something else altogether", "bible"),
    ]
    dropped: Counter[str] = Counter()
    assert [utterance.text for utterance in without(rest, held, banned, dropped)] == ["Something else altogether."]
    assert sum(dropped.values()) == 3


def test_held_out_candidates_are_taken_from_the_rest() -> None:
    drafted = [Utterance(f"The {numerals.cardinal(n)} men of the sea went home again.", "sherlock") for n in range(400)]
    banned = {f"the {numerals.cardinal(n)} men of the sea" for n in range(20)}
    held, rest = split(drafted, banned, random.Random(1))
    assert len(held["book"]) == 240 and len(rest) == 160
    assert not {corpus.key(u.text) for u in held["book"]} & {corpus.key(u.text) for u in rest}
    assert not set(drafted[:20]) & set(held["book"])
    assert held_out_kind(Utterance("Chapter ten", "heading")) == ""
