"""The written utterances that the voice learns from: where they come from and in what forms they stand.

Knows books, the Bible's verses, a list of words and the grammar of templates.py. Knows no phonemes. Every choice
follows a seed.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rhapsode.book.lines import MAX_CHARS, split_lines
from rhapsode.book.reader import read_book
from rhapsode.types import Block, Book, Chapter
from training.stories import HEADINGS, SHORT
from training.templates import Grammar

BOOKS = ("sherlock", "chickens", "s-moby-dick")
_NO_STORY = re.compile(
    r"title ?page|imprint|colophon|copyright|dedication|transcriber|etymology|extracts|contents|gutenberg|licen[cs]e",
    re.I,
)
_NOT_OF_THE_BOOK = re.compile(
    r"gutenberg|e-?book|e-?text|copyright|licen[cs]e|standard ?ebooks|public domain|\[|\*", re.I
)
_VERSE = re.compile(r"(\d?\s?[A-Za-z]+)(\d+):\d+ (.*)")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_CLAUSE_END = re.compile(r"(?<=[,;:])\s+|\s*—\s*|(?<=[.!?])[”’\"]?\s+")

_GROUPED = 0.30  # share of lines that open a group of two or three; fewer come to be one, for want of room
_WORDS_FREQUENT = 0.35  # share of a word list that is taken from the frequent words
RUN = 6  # words in a row that may not be shared with a sentence of the evaluation
HELD_OUT_RUN = 8  # and with a held-out sentence of a book


@dataclass(frozen=True, slots=True)
class Utterance:
    text: str
    source: str


def book(path: Path, chance: random.Random) -> list[Utterance]:
    """The lines of a book, some of them joined to the next, without what publishers and transcribers wrote."""
    story = [chapter.number for chapter in read_book(path).chapters if not _NO_STORY.search(chapter.title)]
    lines = split_lines(read_book(path))
    out: list[Utterance] = []
    for number in story[: -1 if path.stem == "s-moby-dick" else None]:
        texts = [line.text for line in lines if line.chapter == number]
        mine = [text for text in texts if not _NOT_OF_THE_BOOK.search(text)]
        out += [Utterance(text, path.stem) for text in grouped(mine, chance)]
    return out


def bible(path: Path, chance: random.Random) -> list[Utterance]:
    """The sentences of the King James Bible, a chapter at a time; `path` has a verse a line, 'Ge1:1 In the ...'."""
    chapters: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := _VERSE.fullmatch(line.strip()):
            chapters.setdefault(match[1] + match[2], []).append(match[3])
    blocks = [(Block("paragraph", " ".join(verses)),) for verses in chapters.values()]
    whole = Book("", "", "en", tuple(Chapter(number, "", block) for number, block in enumerate(blocks, start=1)))
    by_chapter: dict[int, list[str]] = {}
    for said in split_lines(whole):
        by_chapter.setdefault(said.chapter, []).append(said.text)
    return [Utterance(text, "bible") for mine in by_chapter.values() for text in grouped(mine, chance)]


def grouped(lines: Sequence[str], chance: random.Random) -> Iterator[str]:
    """The lines in order; some are followed in the same utterance by the next one or two."""
    place = 0
    while place < len(lines):
        many = chance.choice((2, 2, 3)) if chance.random() < _GROUPED else 1
        while many > 1 and len(" ".join(lines[place : place + many])) > MAX_CHARS:
            many -= 1
        yield " ".join(lines[place : place + many])
        place += many


def word_lists(words: Sequence[str], frequent: Sequence[str], chance: random.Random) -> Iterator[Utterance]:
    """Every word of a list once, in random company of two to nine, with frequent words strewn in."""
    left = list(words)
    chance.shuffle(left)
    while left:
        company = []
        for _ in range(chance.randint(2, 9)):
            company.append(chance.choice(frequent) if chance.random() < _WORDS_FREQUENT or not left else left.pop())
        for place in range(len(company) - 1):
            if chance.random() < 0.08:
                company[place] += chance.choice(",,,;:")
        yield Utterance(_ended(" ".join(company), chance), "words")


def spliced(clauses: Sequence[str], chance: random.Random) -> Utterance:
    """A sentence of two to five clauses that never stood together."""
    parts = [chance.choice(clauses) for _ in range(chance.choice((2, 2, 3, 3, 4, 5)))]
    text = parts[0]
    for part in parts[1:]:
        text += chance.choice((", ", ", ", ", ", "; ", ": ", "—", " — ", " and ", " but ", " when ", ". ")) + part
    text = re.sub(r"(?<=\. )[a-z]", lambda match: match[0].upper(), text[:MAX_CHARS].rsplit(" ", 1)[0])
    return Utterance(_ended(text, chance), "spliced")


def shuffled(tokens: Sequence[str], chance: random.Random) -> Utterance:
    """Words as frequent as they are in books, in no order."""
    words = [chance.choice(tokens) for _ in range(chance.randint(3, 24))]
    for place in range(len(words) - 1):
        if chance.random() < 0.1:
            words[place] += chance.choice(",,,,;:—…")
    return Utterance(_ended(" ".join(words).replace("— ", "—"), chance), "shuffled")


def clauses_of(texts: Iterable[str]) -> list[str]:
    """Clauses of two to nine words without quotes, lower-case where the first word is not a name."""
    counts: Counter[str] = Counter()
    found = []
    for text in texts:
        counts.update(_WORD.findall(text))
        found += [re.sub(r"[“”\"‘()]|’(?!\w)", "", piece).strip(" ,;:.!?—…-") for piece in _CLAUSE_END.split(text)]
    out = []
    for piece in found:
        words = piece.split(" ")
        if 2 <= len(words) <= 9 and len(piece) <= 70:
            name = counts[words[0]] > 3 * counts[words[0].lower()] or words[0].startswith(("I’", "I"))
            out.append(piece if name else piece[0].lower() + piece[1:])
    return out


def grammar(count: int, seed: int) -> Iterator[Utterance]:
    """Sentences, short ones and headings of the templates."""
    source, chance = Grammar(seed), random.Random(seed + 1)
    for _ in range(count):
        kind = chance.random()
        if kind < 0.10:
            yield Utterance(source.fill(chance.choice(SHORT)), "short")
        elif kind < 0.18:
            yield Utterance(source.fill(chance.choice(HEADINGS)), "heading")
        else:
            text = source.sentence()
            while chance.random() < 0.15 and len(text) < 150:
                text += " " + source.sentence()
            yield Utterance(text[:MAX_CHARS] if len(text) <= MAX_CHARS else source.sentence()[:MAX_CHARS], "templates")


def dressed(utterance: Utterance, chance: random.Random) -> Utterance:
    """The same in another form now and then: case, quotes, dashes, ellipses, the mark at its end."""
    text = unicodedata.normalize("NFC", utterance.text)
    if chance.random() < 0.25:
        text = text.translate(_STRAIGHT)
    if "—" in text:
        text = text.replace("—", chance.choice(("—", "—", "—", " — ", " — ", " – ", "--")))
        text = re.sub(r" {2,}", " ", text).strip()
    if "…" in text and chance.random() < 0.5:
        text = text.replace("…", "...")
    if chance.random() < 0.06:
        text = text.rstrip(".!?;:,") or text
    form = chance.random()
    if re.search(r"\b[A-Z]{2,}", text) and utterance.source != "bible":
        form = 1.0  # capitals that mean something
    if form < 0.08:
        text = text.lower()
    elif form < 0.11 or (utterance.source == "heading" and form < 0.4):
        text = text.upper() if len(text) < 120 else text
    elif form < 0.14:
        text = text[0].lower() + text[1:]
    return Utterance(text, utterance.source)


def key(text: str) -> str:
    """What two utterances share that sound alike: their words."""
    return " ".join(_words(text))


def runs(text: str, length: int) -> set[str]:
    """Every run of that many words in a text."""
    words = _words(text)
    return {" ".join(words[at : at + length]) for at in range(len(words) - length + 1)}


def _words(text: str) -> list[str]:
    return [word.lower().replace("’", "'") for word in _WORD.findall(text)]


def read_words(path: Path) -> list[str]:
    """Words and names of a list, one a line; possessives of which only every tenth."""
    words = path.read_text(encoding="utf-8").split()
    good = [word for word in words if re.fullmatch(r"[A-Z]?[a-zéèêñöüôâçå]{1,15}('s)?", word)]
    return [word for number, word in enumerate(good) if not word.endswith("'s") or number % 10 == 0]


def _ended(text: str, chance: random.Random) -> str:
    text = text.strip(" ,;:—…-")
    return text[:1].upper() + text[1:] + chance.choice("......!?")


_STRAIGHT = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'"})


def draft(books: Path, kjv: Path | None, words: Path | None, sizes: dict[str, int], seed: int) -> list[Utterance]:
    """All utterances in their plain form; `sizes` bounds the characters of each kind of source."""
    chance = random.Random(seed)
    prose = [utterance for name in BOOKS for utterance in book(books / f"{name}.epub", chance)]
    verses = bible(kjv, chance) if kjv else []
    chance.shuffle(verses)
    verses = list(bounded(verses, sizes["bible"]))
    tokens = [word for utterance in prose for word in utterance.text.split() if _WORD.fullmatch(word)]
    tokens += [word for utterance in verses[::4] for word in utterance.text.split() if _WORD.fullmatch(word)]
    frequent = [word for word, _ in Counter(tokens).most_common(4000)]
    clauses = clauses_of(utterance.text for utterance in [*prose, *verses[::4]])
    lists = word_lists(read_words(words), frequent, chance) if words else iter(())
    return [
        *prose,
        *verses,
        *bounded(lists, sizes["words"]),
        *bounded(grammar(10**6, seed), sizes["templates"]),
        *bounded((spliced(clauses, chance) for _ in range(10**6)), sizes["spliced"]),
        *bounded((shuffled(tokens, chance) for _ in range(10**6)), sizes["shuffled"]),
    ]


def bounded(utterances: Iterable[Utterance], characters: int) -> Iterator[Utterance]:
    """Utterances until they are that many characters."""
    total = 0
    for utterance in utterances:
        if total >= characters:
            return
        total += len(utterance.text)
        yield utterance
