"""How long a line should take, and whether a reading of it can be kept.

Knows text as characters and codes as numbers. Knows no model; durations are in seconds of speech.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import numpy as np

# Seconds of speech a character takes, by rough kind, between a brisk and a calm narrator.
_LETTER_S, _DIGIT_S, _IDEOGRAPH_S, _SYLLABLE_S, _MARK_S = 0.065, 0.35, 0.25, 0.17, 0.08
_START_S = 0.3
# A reading may take this many times the expected length, and this much more, before it is cut off.
_CAP_FACTOR, _CAP_EXTRA_S = 2.5, 2.0

LOOP_FRAMES, LOOP_TURNS, LOOP_PERIOD = 24, 3, 25
SILENT_PEAK = 1e-3  # -60 dB: nothing that was meant to be speech is as quiet throughout

NO_END = "no end before the cap"
PROBLEMS = ("", "loops", NO_END, "silent", "not finite")  # from good to worst


def expected_seconds(text: str) -> float:
    """How long a text should take to read."""
    return _START_S + sum(map(_character_seconds, text))


def cap_seconds(text: str) -> float:
    """How long a reading may get before it is taken for one that does not end."""
    return _CAP_EXTRA_S + _CAP_FACTOR * expected_seconds(text)


@lru_cache(4096)  # a book has few different ones
def _character_seconds(character: str) -> float:
    if character.isspace():
        return _LETTER_S
    if character.isnumeric() and not "一" <= character <= "鿿":
        return _DIGIT_S
    if character.isalpha():
        point = ord(character)
        if 0x3400 <= point <= 0x9FFF or 0x20000 <= point <= 0x3FFFF or 0xF900 <= point <= 0xFAFF:
            return _IDEOGRAPH_S
        if 0x3040 <= point <= 0x30FF or 0xAC00 <= point <= 0xD7AF:
            return _SYLLABLE_S
        return _LETTER_S
    return _MARK_S if unicodedata.category(character)[0] in "PS" else 0.0


def speakable(text: str) -> bool:
    """Whether there is anything to say: a letter or a digit. Models ramble over punctuation alone."""
    return any(character.isalnum() for character in text)


def loops(codes: np.ndarray) -> bool:
    """Whether codebook 0 repeats one pattern for `LOOP_FRAMES` frames and `LOOP_TURNS` turns. codes [frames, books]."""
    first = np.asarray(codes)[:, 0]
    for period in range(1, min(LOOP_PERIOD, len(first) // 2) + 1):
        same = first[period:] == first[:-period]
        # A run of n equal pairs is a pattern of n + period frames.
        run = max(LOOP_FRAMES, LOOP_TURNS * period) - period
        if np.count_nonzero(same) >= run and _longest_run(same) >= run:
            return True
    return False


def _longest_run(flags: np.ndarray) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def judge_wave(wave: np.ndarray) -> str:
    """The problem with a waveform, "" if there is none."""
    # Two passes over a minute of sound and no copy of it: what is not finite comes through to the extremes.
    lowest, highest = wave.min(initial=0.0), wave.max(initial=0.0)
    if not (np.isfinite(lowest) and np.isfinite(highest)):
        return "not finite"
    return "silent" if max(-lowest, highest) < SILENT_PEAK else ""
