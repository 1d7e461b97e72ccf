"""Text to token ids, as the official tokenizer of a Hub id splits it, with no way to a control token.

Knows byte-level BPE from vocab.json and merges.txt. Added tokens are left out on purpose: `<|im_end|>` in a book is
eight harmless tokens of text.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import (  # type: ignore[import-untyped]
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
)

from rhapsode.errors import CheckpointError
from rhapsode.qwen3.strict import read_json

# The pre-tokeniser that a Hub id gives (by path, the official loader patches in another that splits "McDonald").
# Contractions; a word with one leading symbol; one digit; symbols with the line ends after them; white space.
PRE_TOKENIZER = "qwen2"
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class TextTokenizer:
    """Ids of plain text, each below `limit`."""

    def __init__(self, folder: Path, limit: int) -> None:
        """`limit`: the first control id of the text vocabulary. Raises `CheckpointError` for unusable files."""
        vocab_file, merges_file = folder / "vocab.json", folder / "merges.txt"
        vocab = read_json(vocab_file)
        if not isinstance(vocab, dict) or not all(isinstance(v, int) for v in vocab.values()):
            raise CheckpointError(f"{vocab_file} should map tokens to ids.")
        missing = [symbol for symbol in pre_tokenizers.ByteLevel.alphabet() if symbol not in vocab]
        if missing:
            raise CheckpointError(f"{vocab_file} lacks {len(missing)} of the 256 byte tokens; some text would vanish.")
        beyond = [token for token, value in vocab.items() if not 0 <= value < limit]
        if beyond:
            raise CheckpointError(
                f"{vocab_file}: token {beyond[0]!r} has id {vocab[beyond[0]]}; text ends below {limit}."
            )
        try:
            self._tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=_merges(merges_file)))
        except Exception as error:  # the library raises its plain Exception for a merge that is not in the vocabulary
            raise CheckpointError(f"{merges_file} does not fit vocab.json: {error}.") from None
        self._tokenizer.normalizer = normalizers.NFC()
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        self._tokenizer.decoder = decoders.ByteLevel()

    def __call__(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def text(self, ids: tuple[int, ...]) -> str:
        """The text of ids; what `__call__` took, in NFC."""
        return self._tokenizer.decode(list(ids))


def _merges(file: Path) -> list[tuple[str, str]]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise CheckpointError(f"{file} is missing; the official layout has it.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}.") from None
    merges = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (number == 1 and line.startswith("#version")):
            continue
        parts = line.split(" ")
        if len(parts) != 2:
            raise CheckpointError(f"{file}: line {number} should hold two tokens, not {json.dumps(line)[:60]}.")
        merges.append((parts[0], parts[1]))
    return merges
