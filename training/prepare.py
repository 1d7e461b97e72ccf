"""`python -m training.prepare`: from texts to the numbers that the teachers and the pupil are trained with.

Writes data/utterances.npz, data/vocab.json, data/merges.txt and data/statistics.json under the work folder. Knows the
order of the stages and the layout of the files; the stages themselves are corpus, words, phonemes and tokenizer.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from training import corpus, tokenizer
from training.corpus import Utterance
from training.phonemes import LABELS, TEACHERS, Espeak, Track, Vocabulary, read_vocabularies, tracks
from training.words import Unsaid, words_of

SEED = 20
MOST_IDS = 480  # of Kokoro, whose styles go by length and end near 510
SIZES = {"bible": 2_500_000, "words": 1_100_000, "templates": 2_700_000, "spliced": 900_000, "shuffled": 450_000}
HELD_OUT = {"book": 120, "templates": 40, "long": 20, "short": 20}
_SENTENCES = Path(__file__).resolve().parents[1] / "rhapsode" / "verify" / "sentences.txt"
SOURCES = {
    "sherlock": ("The Adventures of Sherlock Holmes, Arthur Conan Doyle", "public domain"),
    "chickens": ("Love Among the Chickens, P. G. Wodehouse", "public domain"),
    "s-moby-dick": ("Moby-Dick, Herman Melville", "public domain"),
    "bible": ("The King James Bible", "public domain"),
    "words": ("random lists of the words of SCOWL (Debian's wamerican)", "SCOWL's permissive licence"),
    "templates": ("sentences written for it, from a grammar", "Apache-2.0"),
    "short": ("one to three words, from a grammar", "Apache-2.0"),
    "heading": ("headings, from a grammar", "Apache-2.0"),
    "spliced": ("clauses of the books put together anew", "public domain"),
    "shuffled": ("words of the books in random order", "public domain"),
}
_TWO = re.compile(r"[a-z][.!?][”’\"']? [“‘\"']?[A-Z]")
_BOOKS = set(corpus.BOOKS)


@dataclass(frozen=True, slots=True)
class Spoken:
    """An utterance with what each teacher is given for it, `at` still in characters."""

    utterance: Utterance
    tracks: list[Track]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m training.prepare", description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True, help="folder of the training; data/ is made in it")
    parser.add_argument("--books", type=Path, required=True, help=f"folder with {', '.join(corpus.BOOKS)} (.epub)")
    parser.add_argument("--kjv", type=Path, help="the Bible, a verse a line: `bible -f gen1:1-rev22:21`")
    parser.add_argument("--words", type=Path, help="a list of words, one a line: /usr/share/dict/american-english")
    options = parser.parse_args(arguments)
    clock = time.monotonic()
    chance = random.Random(SEED)
    drafted = corpus.draft(options.books, options.kjv, options.words, SIZES, SEED)
    banned = evaluation_runs(_SENTENCES)
    held, rest = split(drafted, banned, chance)
    dropped: Counter[str] = Counter()
    rest = without(rest, held, banned, dropped)
    print(f"{len(drafted)} drafted, {len(rest)} to be said, {time.monotonic() - clock:.0f} s", flush=True)
    said_held, said = pronounce(held, rest, dropped)
    print(f"{len(said)} said, {time.monotonic() - clock:.0f} s", flush=True)
    data = options.work / "data"
    merges = tokenizer.learn(spoken.utterance.text for spoken in said)
    tokenizer.write(data, merges)
    save(data / "utterances.npz", said_held, said, merges)
    figures = statistics(said_held, said, merges, dropped)
    (data / "statistics.json").write_text(json.dumps(figures, indent=1, ensure_ascii=False), encoding="utf-8")
    print(json.dumps(figures, indent=1, ensure_ascii=False))
    print(f"{time.monotonic() - clock:.0f} s")


def split(
    drafted: Sequence[Utterance], banned: set[str], chance: random.Random
) -> tuple[dict[str, list[Utterance]], list[Utterance]]:
    """Candidates to be held out by kind, twice as many as wanted, and the rest, dressed and shuffled."""
    order = list(drafted)
    chance.shuffle(order)
    kinds: dict[str, list[Utterance]] = {kind: [] for kind in HELD_OUT}
    rest = []
    for utterance in order:
        kind = held_out_kind(utterance)
        clean = banned.isdisjoint(corpus.runs(utterance.text, corpus.RUN))
        if kind and clean and len(kinds[kind]) < 2 * HELD_OUT[kind]:
            kinds[kind].append(utterance)
        else:
            rest.append(corpus.dressed(utterance, chance))
    return kinds, rest


def held_out_kind(utterance: Utterance) -> str:
    """The kind of held-out utterance that one may be, "" for none."""
    text, ends = utterance.text, sum(utterance.text.count(mark + " ") for mark in ".!?")
    if utterance.source in _BOOKS and text[0].isupper() and text[-1] in ".?!":
        if not ends and 30 <= len(text) <= 200:
            return "book"
        return "long" if 1 <= ends <= 2 and len(text) >= 150 else ""
    if utterance.source == "templates" and 20 <= len(text) <= 200:
        return "templates"
    return "short" if utterance.source == "short" else ""


def evaluation_runs(path: Path) -> set[str]:
    """Runs of words of the sentences that a checkpoint is judged by; none where the file is missing."""
    if not path.exists():
        return set()
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    short = {corpus.key(line) for line in lines}
    return set().union(*(corpus.runs(line, corpus.RUN) for line in lines)) | short - {""}


def without(
    rest: Iterable[Utterance], held: dict[str, list[Utterance]], banned: set[str], dropped: Counter[str]
) -> list[Utterance]:
    """`rest` without doubles, without held-out sentences and without what shares a run with the evaluation."""
    known = {corpus.key(utterance.text) for kind in held.values() for utterance in kind}
    prose = [utterance.text for kind in ("book", "long") for utterance in held[kind]]
    held_runs = set().union(*(corpus.runs(text, corpus.HELD_OUT_RUN) for text in prose))
    out = []
    for utterance in rest:
        key = corpus.key(utterance.text)
        if key in known:
            dropped["double"] += 1
        elif key in banned or not banned.isdisjoint(corpus.runs(utterance.text, corpus.RUN)):
            dropped["shares words with the evaluation"] += 1
        elif not held_runs.isdisjoint(corpus.runs(utterance.text, corpus.HELD_OUT_RUN)):
            dropped["shares words with a held-out sentence"] += 1
        else:
            out.append(utterance)
        known.add(key)
    return out


def pronounce(
    held: dict[str, list[Utterance]], rest: Sequence[Utterance], dropped: Counter[str]
) -> tuple[list[Spoken], list[Spoken]]:
    """Held-out and other utterances with their phonemes; what cannot be said is counted and left out."""
    espeak, vocabularies = Espeak(), read_vocabularies()

    def said(utterances: Iterable[Utterance]) -> Iterable[Spoken]:
        for utterance in utterances:
            try:
                yield Spoken(utterance, tracks_of(utterance.text, espeak, vocabularies))
            except Unsaid as reason:
                dropped[str(reason)] += 1

    first = [spoken for kind, many in HELD_OUT.items() for spoken in list(said(held[kind]))[:many]]
    return first, list(said(rest))


def tracks_of(text: str, espeak: Espeak, vocabularies: Sequence[Vocabulary]) -> list[Track]:
    """A text as the phonemes of each teacher. Raises `Unsaid` for what they would not say as it is written."""
    found = tracks(words_of(text), espeak, vocabularies)
    if max(len(track.ids) for track in found) > MOST_IDS:
        raise Unsaid("too long")
    if len(found[0].ids) > 2 * len(text) + 8:
        raise Unsaid("spelled out")
    return found


def save(path: Path, held: Sequence[Spoken], rest: Sequence[Spoken], merges: Sequence[tokenizer.Merge]) -> None:
    """utterances.npz, the held-out utterances first."""
    everything = [*held, *rest]
    texts = [spoken.utterance.text for spoken in everything]
    encodings = tokenizer.build(merges).encode_batch(texts, add_special_tokens=False)
    tokens = [
        np.array(tokenizer.token_of_chars(encoding.offsets, len(text)), np.uint16)
        for encoding, text in zip(encodings, texts, strict=True)
    ]
    raw = [text.encode() for text in texts]
    names = list(SOURCES)
    arrays: dict[str, Any] = {
        "text": np.frombuffer(b"".join(raw), np.uint8),
        "text_end": np.cumsum([len(piece) for piece in raw], dtype=np.int64),
        "held_out": np.int64(len(held)),
        "labels": np.int64(LABELS),
        "source": np.array([names.index(spoken.utterance.source) for spoken in everything], np.uint8),
    }
    for number, teacher in enumerate(TEACHERS):
        mine = [spoken.tracks[number] for spoken in everything]
        arrays[f"{teacher}_ids"] = _joined([track.ids for track in mine])
        arrays[f"{teacher}_end"] = np.cumsum([len(track.ids) for track in mine], dtype=np.int64)
        arrays[f"{teacher}_at"] = np.concatenate(
            [token[np.array(track.at)] for token, track in zip(tokens, mine, strict=True)]
        )
        halves = (_joined([track.first for track in mine]), _joined([track.second for track in mine]))
        arrays[f"{teacher}_label"] = np.stack(halves, axis=1)
    np.savez_compressed(path, **arrays)


def _joined(pieces: Sequence[Sequence[int]]) -> np.ndarray:
    return np.concatenate([np.array(piece, np.uint8) for piece in pieces])


def statistics(
    held: Sequence[Spoken], rest: Sequence[Spoken], merges: Sequence[tokenizer.Merge], dropped: Counter[str]
) -> dict[str, object]:
    """What the corpus is, for the model card."""
    texts = [spoken.utterance.text for spoken in [*held, *rest]]
    characters = sum(map(len, texts))
    encodings = tokenizer.build(merges).encode_batch(texts, add_special_tokens=False)
    count = sum(len(encoding.ids) for encoding in encodings)
    shares: Counter[str] = Counter()
    for spoken in rest:
        shares[spoken.utterance.source] += len(spoken.utterance.text)
    lengths = Counter(min(len(text) // 25 * 25, 300) for text in texts)
    return {
        "utterances": len(texts),
        "held_out": len(held),
        "characters": characters,
        "tokens": count,
        "characters_per_token": round(characters / count, 3),
        "vocabulary": 256 + len(merges),
        "phonemes": {
            teacher: sum(len(spoken.tracks[number].ids) for spoken in [*held, *rest])
            for number, teacher in enumerate(TEACHERS)
        },
        "labels": LABELS,
        "lower_case_share": round(sum(text == text.lower() for text in texts) / len(texts), 4),
        "capitals_share": round(sum(text == text.upper() for text in texts) / len(texts), 4),
        "no_final_mark_share": round(sum(text[-1].isalpha() for text in texts) / len(texts), 4),
        "one_or_two_words_share": round(sum(len(text.split()) < 3 for text in texts) / len(texts), 4),
        "several_sentences_share": round(sum(bool(_TWO.search(text)) for text in texts) / len(texts), 4),
        "length_histogram": {f"{low}-{low + 24}": lengths[low] for low in sorted(lengths)},
        "sources": {
            name: {"what": what, "licence": licence, "characters": shares[name],
                   "share": round(shares[name] / characters, 4)}
            for name, (what, licence) in SOURCES.items()
        },
        "dropped": dict(dropped.most_common()),
    }  # fmt: skip


if __name__ == "__main__":
    main()
