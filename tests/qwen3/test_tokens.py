"""The text tokenizer: how text is split, that nothing vanishes, and files that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rhapsode.errors import CheckpointError
from rhapsode.qwen3.checkpoint import Checkpoint
from rhapsode.qwen3.tokens import TextTokenizer
from tests.qwen3.conftest import GONE, edit


@pytest.fixture
def tokenizer(custom: Checkpoint) -> TextTokenizer:
    return TextTokenizer(custom.folder, custom.model.first_control_token)


def refused(folder: Path, *words: str, limit: int = 280) -> None:
    with pytest.raises(CheckpointError) as caught:
        TextTokenizer(folder, limit)
    message = str(caught.value)
    assert message.endswith(".") and "\n" not in message
    for word in words:
        assert word in message, message


# ------------------------------------------------------------------ text


def test_merges_are_used(custom: Checkpoint, tokenizer: TextTokenizer) -> None:
    vocab = json.loads((custom.folder / "vocab.json").read_text())
    assert tokenizer("assistant") == (vocab["assistant"],)
    assert tokenizer(" the") == (vocab["Ġthe"],)
    assert tokenizer("a") == (vocab["a"],)


def test_digits_stand_alone_and_mcdonald_is_one_word(own: Path) -> None:
    """What a merge can reach shows where text is split before: between digits, and not at a capital."""
    for number, token in enumerate(("12", "McD")):
        edit(own / "vocab.json", token, 300 + number)
    with open(own / "merges.txt", "a") as stream:
        stream.write("1 2\nMc D\n")
    tokenizer = TextTokenizer(own, 400)
    assert [tokenizer.text((token,)) for token in tokenizer("12")] == ["1", "2"]
    assert [tokenizer.text((token,)) for token in tokenizer("McDon")] == ["McD", "o", "n"]


@pytest.mark.parametrize(
    "text", ["plain", "naïve café", "“Oh,” she said…", "今天", "🙂", "a\tb\n\nc  d", "<|im_end|>", "\u200b", "x\x00y"]
)
def test_text_comes_back(custom: Checkpoint, tokenizer: TextTokenizer, text: str) -> None:
    ids = tokenizer(text)
    assert tokenizer.text(ids) == text
    assert all(0 <= token < custom.model.first_control_token for token in ids)


def test_text_is_composed(tokenizer: TextTokenizer) -> None:
    assert tokenizer("e\u0301") == tokenizer("é")
    assert tokenizer("") == ()


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt"])
def test_missing_files(own: Path, name: str) -> None:
    (own / name).unlink()
    refused(own, name, "is missing")


def test_a_vocabulary_that_is_none(own: Path) -> None:
    for content in ("[1]", '{"a": "1"}', '{"a": 1.5}', '{"a": null}'):
        (own / "vocab.json").write_text(content)
        refused(own, "vocab.json", "should map tokens to ids")
    (own / "vocab.json").write_text("{")
    refused(own, "vocab.json", "cannot be read as JSON")


def test_a_vocabulary_that_would_lose_text(own: Path) -> None:
    edit(own / "vocab.json", "Ġ", GONE)
    edit(own / "vocab.json", "z", GONE)
    refused(own, "vocab.json", "lacks 2 of the 256 byte tokens")


@pytest.mark.parametrize(("value", "found"), [(280, "280"), (-1, "-1"), (1 << 40, str(1 << 40))])
def test_ids_beyond_the_text(own: Path, value: int, found: str) -> None:
    edit(own / "vocab.json", "assistant", value)
    refused(own, "vocab.json", "'assistant'", f"has id {found}", "text ends below 280")


@pytest.mark.parametrize(
    ("line", "shown"), [("one", '"one"'), ("a b c", '"a b c"'), ("a  b", '"a  b"'), ("x" * 500, '"xxx')]
)
def test_merges_that_are_not_two_tokens(own: Path, line: str, shown: str) -> None:
    file = own / "merges.txt"
    number = len(file.read_text().splitlines()) + 1
    file.write_text(file.read_text() + line + "\n")
    refused(own, "merges.txt", f"line {number} should hold two tokens", shown)


def test_merges_of_tokens_that_there_are_not(own: Path) -> None:
    file = own / "merges.txt"
    file.write_text(file.read_text() + "q q\n")
    refused(own, "merges.txt", "does not fit vocab.json")


def test_merges_that_are_no_text(own: Path) -> None:
    (own / "merges.txt").write_bytes(b"\xff\xfe\x00")
    refused(own, "merges.txt", "cannot be read")


def test_blank_lines_and_the_version_are_no_merges(own: Path, tokenizer: TextTokenizer) -> None:
    file = own / "merges.txt"
    lines = file.read_text().splitlines()
    assert lines[0].startswith("#version")
    file.write_text("\n".join([lines[0], "", *lines[1:], "", ""]))
    assert TextTokenizer(own, 280)("assistant") == tokenizer("assistant")
    file.write_text("\n".join(lines[1:]))
    assert TextTokenizer(own, 280)("assistant") == tokenizer("assistant")
