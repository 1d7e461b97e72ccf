"""Word errors: exact counts, and no error where only the spelling differs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhapsode.verify.words import Errors, compare, words_of


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("“Don't stop!” — she said.", "don’t stop she said"),
        ("Everyone went downstairs.", "Every one went down stairs."),
        ("None the less, he came.", "Nonetheless he came"),
        ("Mister Green paid twelve pounds.", "Mr. Green paid £12."),
        ("on the twelfth of May", "on the 12th of May"),
        ("The grey colour of the harbour.", "The gray color of the harbor."),
        ("He had travelled to the theatre.", "He had traveled to the theater"),
        ("They realised it.", "They realized it."),
        ("I cannot; it is late.", "I can't. It's late."),
        ("We shall not, they have not.", "We shan't, they haven't"),
        ("at six o'clock", "at six o’clock"),
        ("a well-known man", "a well known man"),
        ("O foolish heart", "Oh, foolish heart"),
        ("HELP!", "help"),
    ],
)
def test_the_same_words(said: str, heard: str) -> None:
    assert compare(said, heard).total == 0, (words_of(said), words_of(heard))


@pytest.mark.parametrize(
    ("said", "heard", "counts"),
    [
        ("a b c d", "a b c d", (4, 0, 0, 0)),
        ("a b c d", "a x c d", (4, 1, 0, 0)),
        ("a b c d", "a b c", (4, 0, 0, 1)),
        ("a b c d", "a b e c d", (4, 0, 1, 0)),
        ("a b c d", "", (4, 0, 0, 4)),
        ("", "a b", (0, 0, 2, 0)),
        ("a b c d e", "x a b d f", (5, 1, 1, 1)),
        ("hour by hour", "our by hour", (3, 1, 0, 0)),  # an hour is no British our
        ("some where else", "somewhere elsa", (3, 1, 0, 0)),
    ],
)
def test_exact_counts(said: str, heard: str, counts: tuple[int, int, int, int]) -> None:
    assert compare(said, heard) == Errors(*counts)


WORDS = st.lists(st.sampled_from(["red", "green", "blue", "sky"]), max_size=7)


@given(WORDS, WORDS)
def test_what_errors_add_up_to(said: list[str], heard: list[str]) -> None:
    errors = compare(" ".join(said), " ".join(heard))
    assert errors.words == len(said)
    assert len(said) + errors.insertions - errors.deletions == len(heard)
    assert errors.total == levenshtein(said, heard)


def levenshtein(first: list[str], second: list[str]) -> int:
    """By the definition, from the other end."""
    if not first or not second:
        return len(first) + len(second)
    if first[0] == second[0]:
        return levenshtein(first[1:], second[1:])
    return 1 + min(levenshtein(first[1:], second), levenshtein(first, second[1:]), levenshtein(first[1:], second[1:]))


def test_rates_of_many_lines_are_those_of_all_words() -> None:
    together = Errors(10, 1, 0, 0) + Errors(30, 0, 2, 1)
    assert together == Errors(40, 1, 2, 1)
    assert together.rate == 0.1
    assert Errors().rate == 0
