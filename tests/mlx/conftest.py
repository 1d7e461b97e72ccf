"""A tiny checkpoint and the prompts of a few lines."""

from __future__ import annotations

import pytest

from rhapsode.qwen3.checkpoint import Checkpoint, open_checkpoint
from rhapsode.qwen3.prompt import Prompt, PromptMaker
from rhapsode.qwen3.tokens import TextTokenizer
from rhapsode.qwen3.voices import choose
from tests import tiny_checkpoint
from tests.engine.conftest import TEXTS


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return open_checkpoint(tiny_checkpoint.write(tmp_path_factory.mktemp("mlx"), mean_frames=8.0))


@pytest.fixture(scope="session")
def prompts(checkpoint: Checkpoint) -> list[Prompt]:
    tokenizer = TextTokenizer(checkpoint.folder, checkpoint.model.first_control_token)
    make = PromptMaker(checkpoint.model, tokenizer, choose(checkpoint.model, "ryan", "english"))
    return [make(text) for text in TEXTS]
