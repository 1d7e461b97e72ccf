"""A tiny random checkpoint on the CPU, and the prompts of a few lines."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from rhapsode.qwen3.checkpoint import Checkpoint, open_checkpoint
from rhapsode.qwen3.prompt import Prompt, PromptMaker
from rhapsode.qwen3.tokens import TextTokenizer
from rhapsode.qwen3.torch.load import Model, load_model
from rhapsode.qwen3.voices import choose
from tests import tiny_checkpoint

TEXTS = (
    "Why?",
    "The old man and the sea, and the boy.",
    "It was a dark and stormy night; the rain fell in torrents.",
    "Oh",
    "1, 2, 3",
    "Three words here.",
    "McDonald had a farm.",
)


class Tiny(NamedTuple):
    checkpoint: Checkpoint
    model: Model
    whole: list[Prompt]  # all text in the prefill
    streaming: list[Prompt]  # one text token a frame


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.write(tmp_path_factory.mktemp("tiny"), mean_frames=8.0)


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Tiny:
    checkpoint = open_checkpoint(tiny_folder)
    tokenizer = TextTokenizer(tiny_folder, checkpoint.model.first_control_token)
    voice = choose(checkpoint.model, "ryan", "english")

    def prompts(streaming: bool) -> list[Prompt]:
        make = PromptMaker(checkpoint.model, tokenizer, voice, streaming=streaming)
        return [make(text) for text in TEXTS]

    return Tiny(checkpoint, load_model(checkpoint, "cpu", "float32"), prompts(False), prompts(True))
