"""How long a line may take, and what makes a reading of it bad."""

from __future__ import annotations

import numpy as np
import pytest

from rhapsode.engine import judge
from rhapsode.engine.judge import LOOP_FRAMES, LOOP_PERIOD, LOOP_TURNS


def words(characters: int) -> str:
    return ("the quick brown fox jumps over a lazy dog " * 20)[:characters]


# ------------------------------------------------------------------ durations


@pytest.mark.parametrize("text", ["Why?", "No.", "I", "“Oh!”", "3次", "1次", "7", "A—", "好。", "네!", "1次。"])
def test_a_short_line_is_cut_off_after_a_few_seconds(text: str) -> None:
    assert 2.5 <= judge.cap_seconds(text) <= 5.0


def test_a_paragraph_may_take_longer_than_any_reading_of_it() -> None:
    # 300 characters take a slow reader 30 seconds (10 characters a second), a brisk one 17.
    assert 17 <= judge.expected_seconds(words(300)) <= 30
    assert 35 <= judge.cap_seconds(words(300)) <= 75


@pytest.mark.parametrize(
    ("text", "slow_s"),
    [
        ("今天天气很好我们一起去公园散步吧", 16 / 3),  # 3 syllables a second
        ("わたしはとしょかんでほんをよみました", 18 / 5),
        ("오늘은날씨가아주좋습니다", 12 / 4),
        ("1234567890", 10 / 2),
        ("In 1984, 365 days.", 7.0),
        ("³⁄₄ and ½", 4.0),
    ],
)
def test_the_cap_is_above_a_slow_reading_in_any_script(text: str, slow_s: float) -> None:
    assert judge.cap_seconds(text) > slow_s


def test_ideographs_and_digits_take_longer_than_letters() -> None:
    letter, digit, ideograph, kana = (judge.expected_seconds(c) for c in ("a", "7", "好", "か"))
    assert letter < kana < ideograph < digit
    assert judge.expected_seconds("三") == ideograph, "a numeral that is an ideograph is read as one syllable"
    assert judge.expected_seconds("豈") == judge.expected_seconds("𠀀") == ideograph


def test_expected_length_grows_with_the_text_and_never_below_zero() -> None:
    assert 0 < judge.expected_seconds("") < judge.expected_seconds("a") < judge.expected_seconds("ab")
    assert judge.expected_seconds("a\u0301") == judge.expected_seconds("a"), "an accent takes no time"
    assert judge.expected_seconds("a!") > judge.expected_seconds("a")
    for text in ("", "Why?", words(300), "1次"):
        assert judge.cap_seconds(text) > 2 * judge.expected_seconds(text)


# ------------------------------------------------------------------ loops


def codes(first: list[int] | np.ndarray) -> np.ndarray:
    """Codes whose codebook 0 is given and whose others are all different."""
    rest = np.random.default_rng(5).integers(0, 2048, (len(first), 15))
    return np.concatenate((np.asarray(first)[:, None], rest), axis=1)


def speech(frames: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2048, frames)


def pattern(period: int, frames: int) -> np.ndarray:
    return np.resize(np.arange(3000, 3000 + period), frames)


def needed(period: int) -> int:
    return max(LOOP_FRAMES, LOOP_TURNS * period)


@pytest.mark.parametrize("period", range(1, LOOP_PERIOD + 1))
@pytest.mark.parametrize("before, after", [(0, 0), (0, 40), (33, 0), (20, 21)], ids=["all", "start", "end", "middle"])
def test_a_repeated_pattern_is_found_wherever_it_is(period: int, before: int, after: int) -> None:
    around = speech(before), speech(after, seed=2)
    assert judge.loops(codes(np.concatenate((around[0], pattern(period, needed(period)), around[1]))))
    assert not judge.loops(codes(np.concatenate((around[0], pattern(period, needed(period) - 1), around[1]))))


def test_a_pattern_longer_than_the_longest_period_is_no_loop() -> None:
    assert not judge.loops(codes(pattern(LOOP_PERIOD + 1, 8 * LOOP_PERIOD)))


def test_a_pattern_that_is_interrupted_begins_anew() -> None:
    once = pattern(4, LOOP_FRAMES - 1)
    assert not judge.loops(codes(np.concatenate((once, [5], once, [6], once))))


@pytest.mark.parametrize("seed", range(5))
def test_random_codes_do_not_loop(seed: int) -> None:
    chance = np.random.default_rng(seed)
    assert not judge.loops(chance.integers(0, 2048, (2000, 16)))
    assert not judge.loops(chance.integers(0, 8, (400, 16))), "even where few codes are in use"


def test_a_held_silence_is_no_loop_until_it_is_too_long() -> None:
    def held(frames: int) -> np.ndarray:
        return codes(np.concatenate((speech(30), np.full(frames, 7), speech(30, seed=2))))

    assert not judge.loops(held(LOOP_FRAMES - 1))
    assert judge.loops(held(LOOP_FRAMES))


def test_other_codebooks_are_not_looked_at() -> None:
    repeated = np.tile(np.arange(16), (80, 1))
    repeated[:, 0] = speech(80)
    assert not judge.loops(repeated)


@pytest.mark.parametrize("frames", [0, 1, 2, 3])
def test_lines_of_hardly_any_frames_do_not_loop(frames: int) -> None:
    assert judge.loops(np.zeros((frames, 16), np.int32)) is False


# ------------------------------------------------------------------ text and sound


@pytest.mark.parametrize("text", ["a", "…é", "3", "½", "好", "ж!", "— a —", "٣"])
def test_letters_and_digits_can_be_spoken(text: str) -> None:
    assert judge.speakable(text)


@pytest.mark.parametrize("text", ["", " \n\t", "…", "* * *", "—", "?!", "“”", "•", "\u200b", "🙂"])
def test_nothing_else_can(text: str) -> None:
    assert not judge.speakable(text)


def test_waves() -> None:
    tone = np.sin(np.arange(2400) / 10).astype(np.float32)
    assert judge.judge_wave(0.1 * tone) == ""
    assert judge.judge_wave(0.5e-3 * tone) == "silent"
    assert judge.judge_wave(np.zeros(100, np.float32)) == "silent"
    assert judge.judge_wave(np.zeros(0, np.float32)) == "silent"
    click = np.zeros(100, np.float32)
    click[50] = -0.2
    assert judge.judge_wave(click) == "", "loud below zero is loud"
    for bad in (np.nan, np.inf, -np.inf):
        broken = tone.copy()
        broken[77] = bad
        assert judge.judge_wave(broken) == "not finite"
    assert {"", "silent", "not finite"} <= set(judge.PROBLEMS)
