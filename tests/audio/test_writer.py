"""Takes written beside the reading: all of them, in order, and what goes wrong comes back."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from rhapsode.audio.takes import TakeStore
from rhapsode.audio.writer import WAITING, TakeWriter
from rhapsode.errors import OutputError
from rhapsode.types import Line, Take


def take(number: int) -> Take:
    return Take(Line(number, 1, f"Line {number}.", number), np.full(50, number / 1000, np.float32), 24_000, 1, 0)


class Slow(TakeStore):
    """Writes when it is let."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {})
        self.let, self.thread = threading.Event(), threading.current_thread()
        self.order: list[int] = []
        self.bad = -1

    def put(self, take: Take) -> object:  # type: ignore[override]
        self.let.wait(600)
        self.thread = threading.current_thread()
        self.order.append(take.line.index)
        if take.line.index == self.bad:
            raise OutputError("the disk is full.")
        return super().put(take)


@pytest.fixture
def store(tmp_path: Path) -> Slow:
    return Slow(tmp_path / "x.takes")


def test_reading_goes_on_while_takes_are_written(store: Slow) -> None:
    with TakeWriter(store) as writer:
        for number in range(WAITING):
            writer.put(take(number))  # nothing is written yet
        assert not store.order
        store.let.set()
        for number in range(WAITING, 100):
            writer.put(take(number))
    assert store.order == list(range(100)) and all(store.has(take(number).line) for number in range(100))
    assert store.thread is not threading.current_thread()


def test_what_is_on_its_way_is_written_when_reading_stops(store: Slow) -> None:
    with pytest.raises(KeyboardInterrupt), TakeWriter(store) as writer:
        for number in range(WAITING):
            writer.put(take(number))
        store.let.set()
        raise KeyboardInterrupt
    assert store.order == list(range(WAITING))


def test_what_goes_wrong_comes_back(store: Slow) -> None:
    store.bad = 2
    store.let.set()
    with pytest.raises(OutputError, match="full"), TakeWriter(store) as writer:
        for number in range(100):
            writer.put(take(number))
    assert store.order == [0, 1, 2], "nothing is kept after it"


def test_what_goes_wrong_at_the_end_comes_back_too(store: Slow) -> None:
    store.bad = 3
    with pytest.raises(OutputError, match="full"), TakeWriter(store) as writer:
        for number in range(4):
            writer.put(take(number))
        store.let.set()
