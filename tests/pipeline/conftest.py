"""What the tests of the whole way share: a tiny checkpoint, small books, a folder of their own.

Knows fixtures. The checkpoint makes noise, in lines of eight frames on average, so that a book takes a second.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import tiny_checkpoint
from tests.pipeline import books


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CustomVoice checkpoint with the voices ryan, serena and eric; English, Chinese, German."""
    return tiny_checkpoint.write(tmp_path_factory.mktemp("tiny") / "checkpoint", mean_frames=8.0)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def book(here: Path) -> Path:
    """The small book of three chapters, as Markdown."""
    return books.write_markdown(here / "tale.md")
