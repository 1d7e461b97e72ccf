"""A tiny random checkpoint, and a way to its prompts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rhapsode.qwen3.checkpoint import Checkpoint, open_checkpoint
from rhapsode.qwen3.prompt import Prompt, PromptMaker
from rhapsode.qwen3.tokens import TextTokenizer
from rhapsode.qwen3.voices import choose
from tests import tiny_checkpoint


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    folder: Path = tmp_path_factory.mktemp("tiny")
    tiny_checkpoint.write(folder, mean_frames=None, seed=11)
    return open_checkpoint(folder)


@pytest.fixture(scope="session")
def make_prompt(checkpoint: Checkpoint) -> Callable[[str], Prompt]:
    tokenizer = TextTokenizer(checkpoint.folder, checkpoint.model.first_control_token)
    return PromptMaker(checkpoint.model, tokenizer, choose(checkpoint.model, "eric", "chinese"))
