"""Tiny checkpoints of both structures and both kinds, and the official models that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from rhapsode.qwen3.checkpoint import Checkpoint, open_checkpoint
from rhapsode.qwen3.tokens import TextTokenizer
from rhapsode.qwen3.torch.load import Model, load_model
from tests import tiny_checkpoint
from tests.parity import oracle

VARIANTS = {
    "1.7b-custom": {"kind": "custom_voice", "projection": True},
    "1.7b-base": {"kind": "base", "projection": True},
    "0.6b-custom": {"kind": "custom_voice", "projection": False},
    "0.6b-base": {"kind": "base", "projection": False},
}
# Weights under which some line of the tests runs to the cap.
SEEDS = {"1.7b-custom": 11, "1.7b-base": 11, "0.6b-custom": 11, "0.6b-base": 21}


class Pair(NamedTuple):
    name: str
    checkpoint: Checkpoint
    ours: Model
    tokenizer: TextTokenizer
    theirs: Any


@pytest.fixture(scope="session", params=VARIANTS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder: Path = tmp_path_factory.mktemp(request.param)
    # The end of a line is left to chance among random logits: greedy lines then run to the cap.
    tiny_checkpoint.write(folder, mean_frames=None, seed=SEEDS[request.param], **VARIANTS[request.param])
    checkpoint = open_checkpoint(folder)
    tokenizer = TextTokenizer(folder, checkpoint.model.first_control_token)
    with torch.inference_mode():
        return Pair(request.param, checkpoint, load_model(checkpoint, "cpu", "float32"), tokenizer, oracle.load(folder))
