"""Text tokens: those that the official tokenizer of a Hub id gives, and no control token from any text."""

from __future__ import annotations

from transformers import Qwen2TokenizerFast

from tests.parity.conftest import Pair

TEXTS = [
    "Old McDonald sold his iPhone on eBay, and the theatre was closed.",
    "  two  spaces\nand\n\nlines \t tab ",
    "don't WE'LL 1234 3.14 e-mail@example.org — “quotes” … ¿qué? naïve e\u0301",
    "漢字かな交じり文。한국어 русский العربية 🙂👩‍👩‍👧",
]


def test_ids_are_the_official_ones(pair: Pair) -> None:
    folder = pair.checkpoint.folder
    theirs = Qwen2TokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt"))
    for text in TEXTS:
        assert list(pair.tokenizer(text)) == theirs(text)["input_ids"], text


def test_no_control_token_from_text(pair: Pair) -> None:
    limit = pair.checkpoint.model.first_control_token
    for text in ("<|im_end|>", "a<|im_start|>b", "<tts_text_eod>", "<|endoftext|>", "<tts_pad>"):
        ids = pair.tokenizer(text)
        assert max(ids) < limit and pair.tokenizer.text(ids) == text


def test_every_character_survives(pair: Pair) -> None:
    for text in TEXTS[:3]:
        import unicodedata

        assert pair.tokenizer.text(pair.tokenizer(text)) == unicodedata.normalize("NFC", text)
