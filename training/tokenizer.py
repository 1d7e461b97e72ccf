"""The byte-level BPE of the checkpoint: learned from the corpus, written as vocab.json and merges.txt.

Knows the product's pre-tokeniser and the two demands of the official prompt: the word `assistant` is one token and so
is a line end. Ids are the 256 bytes in byte order, then the merges in the order they apply. Knows no sound.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import (  # type: ignore[import-untyped]
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from rhapsode.qwen3.tokens import _SPLIT

LEARNED = 240  # merges from the corpus; those for `assistant` come on top
LIMIT = 504  # ids stay below: codec and controls want the rest of 512
WHOLE = "assistant"
Merge = tuple[str, str]


def byte_symbols() -> list[str]:
    """The printable sign that byte-level BPE writes for each byte, by byte value."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    signs = {byte: chr(byte) for byte in plain}
    others = (byte for byte in range(256) if byte not in signs)
    signs.update({byte: chr(0x100 + number) for number, byte in enumerate(others)})
    return [signs[byte] for byte in range(256)]


def learn(texts: Iterable[str], merges: int = LEARNED) -> list[Merge]:
    """Up to `merges` merges learned on texts, and then those that make `assistant` one token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = _pre_tokenizer()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + merges,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
    )
    tokenizer.train_from_iterator(texts, trainer)
    learned = [(first, second) for first, second in json.loads(tokenizer.to_str())["model"]["merges"]]
    return complete(learned[:merges], WHOLE)


def complete(merges: Sequence[Merge], word: str) -> list[Merge]:
    """`merges` and the fewest after them, pair by pair from the left, that make a word one token."""
    out = list(merges)
    pieces = apply(out, word)
    while len(pieces) > 1:
        out.append((pieces[0], pieces[1]))
        pieces = apply(out, word)
    return out


def apply(merges: Sequence[Merge], word: str) -> list[str]:
    """A word of ASCII letters in tokens: the earliest merge first, as BPE does."""
    rank = {merge: number for number, merge in enumerate(merges)}
    pieces = list(word)
    while len(pieces) > 1:
        pairs = list(zip(pieces, pieces[1:], strict=False))
        place = min(range(len(pairs)), key=lambda at: rank.get(pairs[at], len(rank)))
        if pairs[place] not in rank:
            break
        pieces[place : place + 2] = ["".join(pairs[place])]
    return pieces


def vocabulary(merges: Sequence[Merge]) -> dict[str, int]:
    """Token to id."""
    vocab = {sign: byte for byte, sign in enumerate(byte_symbols())}
    for first, second in merges:
        vocab.setdefault(first + second, len(vocab))
    return vocab


def build(merges: Sequence[Merge]) -> Tokenizer:
    """The tokenizer with those merges, which gives what the product's reader of the two files gives."""
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary(merges), merges=list(merges)))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = _pre_tokenizer()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def write(folder: Path, merges: Sequence[Merge]) -> None:
    """vocab.json and merges.txt in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocabulary(merges), ensure_ascii=False), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(merge) for merge in merges), ""]
    (folder / "merges.txt").write_text("\n".join(lines), encoding="utf-8")


def token_of_chars(offsets: Sequence[tuple[int, int]], length: int) -> list[int]:
    """For each character, the first token that holds it (or a byte of it)."""
    out = [0] * length
    for number in range(len(offsets) - 1, -1, -1):
        begin, end = offsets[number]
        out[begin:end] = [number] * (end - begin)
    return out


def _pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
