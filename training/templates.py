"""Sentences of our own: a small grammar whose slots are filled at random.

Knows modern prose, talk, questions, lists, names, places, dates, times and money. Knows no book. Each entry of the
grammar is a list of ways to fill a slot, parted by bars; {slot} within it is filled in turn.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from training.numerals import cardinal, clock, decimal, money, ordinal, year
from training.slots import SLOTS
from training.stories import SENTENCES

_SLOT = re.compile(r"\{(\w+)\}")
_BEGINNINGS = ("please", "oh", "opener")  # slots that are written as if a sentence began with them
_SENTENCE_BEGIN = re.compile(r"((?:(?<!\.)\.|[!?]) [“‘\"']?)([a-z])")
_ARTICLE = re.compile(r"\b([Aa])n? (?=(\w+))")
# Begins with another sound than its letter says.
_CONSONANT_SOUND = re.compile(r"one\b|once|uni[^nm]|use|usu|euro|eu|ut[ie]|ur[aeio]", re.I)


class Grammar:
    """Sentences from the slots, by a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ways = {name: [way.strip() for way in text.split("|") if way.strip()] for name, text in SLOTS.items()}
        self._made: dict[str, Callable[[], str]] = {
            "number": lambda: cardinal(self._number(), joined=self._random.random() < 0.8),
            "count": lambda: cardinal(self._random.choice((2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 20, 30, 40, 50))),
            "ordinal": lambda: ordinal(self._random.randint(1, 31)),
            "rank": lambda: ordinal(self._random.choice((*range(2, 13), 20, 50, 100))),
            "year": self._year,
            "clock": self._clock,
            "money": self._money,
            "decimal": lambda: decimal(self._random.randint(0, 120), str(self._random.randint(1, 999))),
            "percent": lambda: f"{cardinal(self._random.randint(1, 100))} percent",
            "chapter": lambda: cardinal(self._random.randint(1, 60)),
            "room": lambda: cardinal(self._random.randint(1, 400), joined=False),
        }  # fmt: skip

    def sentence(self) -> str:
        """A sentence from any frame."""
        return self.fill(self._random.choice(SENTENCES))

    def fill(self, template: str) -> str:
        """A template with every slot filled, articles put right, and a capital at the beginning."""
        for _ in range(8):  # slots nest to this depth at most
            filled = _SLOT.sub(self._fill_one, template)
            if filled == template:
                break
            template = filled
        else:
            raise ValueError(f"{template!r} does not come to an end")
        text = _ARTICLE.sub(lambda m: m[1] + ("n " if sounds_like_vowel(m[2]) else " "), template)
        return _SENTENCE_BEGIN.sub(lambda m: m[1] + m[2].upper(), _capital(text))

    def _fill_one(self, match: re.Match[str]) -> str:
        name = match[1]
        if name in self._made:
            return self._made[name]()
        way = self._random.choice(self._ways[name])
        within = re.search(r"[,;:\w] $", match.string[: match.start()])
        return way[0].lower() + way[1:] if within and name in _BEGINNINGS else way

    def _number(self) -> int:
        top = self._random.choice((20, 100, 100, 1000, 10_000, 999_999))
        return self._random.randint(2, top)

    def _year(self) -> str:
        either = (self._random.randint(1500, 2029), self._random.randint(1800, 1999))
        return year(self._random.choice(either))

    def _clock(self) -> str:
        minute = self._random.choice((0, 0, 15, 30, 45, 5 * self._random.randint(0, 11), self._random.randint(1, 59)))
        return clock(self._random.randint(1, 12), minute)

    def _money(self) -> str:
        names = self._random.choice((("dollar", "cent"), ("dollar", "cent"), ("euro", "cent")))
        cents = self._random.choice((0, 0, self._random.randint(1, 99)))
        return money(self._random.choice((self._random.randint(1, 30), self._number())), cents, names=names)


def sounds_like_vowel(word: str) -> bool:
    """Whether 'an' stands before a word."""
    return not _CONSONANT_SOUND.match(word) and bool(re.match(r"[aeiou]|hour|honest|honou?r|heir", word, re.I))


def _capital(text: str) -> str:
    """The first letter as a capital."""
    for place, char in enumerate(text):
        if char.isalpha():
            return text[:place] + char.upper() + text[place + 1 :]
    return text
