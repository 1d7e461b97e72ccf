"""Tiny random checkpoints, and copies of them that a test may damage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rhapsode.qwen3.checkpoint import Checkpoint, open_checkpoint
from rhapsode.qwen3.torch.load import Model, load_model
from tests import tiny_checkpoint

GONE = object()  # in `edit`: take the key away


@pytest.fixture(scope="session")
def custom_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Named voices, the structure of 1.7B."""
    return tiny_checkpoint.write(tmp_path_factory.mktemp("custom"), mean_frames=8.0)


@pytest.fixture(scope="session")
def base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No named voice but a speaker encoder, the structure of 0.6B."""
    return tiny_checkpoint.write(tmp_path_factory.mktemp("base"), kind="base", projection=False)


@pytest.fixture(scope="session")
def custom(custom_folder: Path) -> Checkpoint:
    return open_checkpoint(custom_folder)


@pytest.fixture(scope="session")
def base(base_folder: Path) -> Checkpoint:
    return open_checkpoint(base_folder)


@pytest.fixture(scope="session")
def custom_model(custom: Checkpoint) -> Model:
    return load_model(custom, "cpu", "float32")


@pytest.fixture
def own(custom_folder: Path, tmp_path: Path) -> Path:
    """A copy of the checkpoint with named voices."""
    return shutil.copytree(custom_folder, tmp_path / "own")


@pytest.fixture
def own_base(base_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(base_folder, tmp_path / "own_base")


Edit = Callable[..., Path]


def edit(file: Path, path: str, value: Any) -> Path:
    """Set (or with `GONE` take away) the value at a dotted path of a JSON file."""
    root = json.loads(file.read_text(encoding="utf-8"))
    *parents, leaf = path.split(".")
    place = root
    for key in parents:
        place = place[key]
    if value is GONE:
        del place[leaf]
    else:
        place[leaf] = value
    file.write_text(json.dumps(root), encoding="utf-8")
    return file
