"""What a recorded step relies on: state that stays where it is, and a recorder that runs every step exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from rhapsode.engine.stepper import Request
from rhapsode.qwen3.torch import recorded
from rhapsode.qwen3.torch.recorded import Recorder
from tests.engine import torch_lanes
from tests.engine.conftest import Tiny


class FakeCuda:
    """Graphs that note what was recorded, and do it when they are replayed."""

    def __init__(self, done: list[str], fails: str = "") -> None:
        self.done, self.fails = done, fails
        self.recording: list[str] | None = None
        self.pools: list[Any] = []

    def synchronize(self, device: Any) -> None:
        assert self.recording is None

    def CUDAGraph(self) -> FakeGraph:
        return FakeGraph(self)

    @contextmanager
    def graph(self, graph: FakeGraph, pool: Any) -> Iterator[None]:
        self.pools.append(pool)
        self.recording = graph.work
        try:
            yield
            if self.fails:
                raise RuntimeError(self.fails)
        finally:
            self.recording = None


class FakeGraph:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda = cuda
        self.work: list[str] = []

    def pool(self) -> tuple[int, int]:
        return 7, 7

    def replay(self) -> None:
        self.cuda.done.extend(self.work)


def steps(fake: FakeCuda, monkeypatch: pytest.MonkeyPatch, keys: str) -> Recorder:
    monkeypatch.setattr(recorded.torch, "cuda", fake)
    recorder = Recorder(torch.device("cuda"))

    def work(key: str) -> None:
        (fake.done if fake.recording is None else fake.recording).append(key)

    for key in keys:
        recorder(key, lambda key=key: work(key))
    return recorder


def test_every_step_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda([])
    recorder = steps(fake, monkeypatch, "aaabab")
    assert fake.done == list("aaabab") and not recorder.trouble
    assert fake.pools == [None, (7, 7)], "graphs share their memory"


def test_what_cannot_be_recorded_is_done_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda([], fails="out of memory\nand more")
    with pytest.warns(UserWarning, match="stays slow"):
        recorder = steps(fake, monkeypatch, "aaaabb")
    assert fake.done == list("aaaabb")
    assert recorder.trouble == "a step could not be recorded and stays slow: out of memory"
    assert len(fake.pools) == 1, "it is not tried again"


def test_nothing_is_recorded_elsewhere() -> None:
    done: list[int] = []
    recorder = Recorder(torch.device("cpu"))
    for step in range(3):
        recorder("key", lambda step=step: done.append(step))
    assert done == [0, 1, 2] and recorder.trouble


def test_the_state_stays_where_it_is(tiny: Tiny) -> None:
    """A graph goes on reading and writing the memory that it was recorded with."""
    prompts = tiny.streaming
    lanes = torch_lanes.stepper(tiny.model, torch_lanes.limits_for(prompts), 2)

    def places() -> dict[str, int]:
        found = {name: value.data_ptr() for name, value in vars(lanes).items() if isinstance(value, Tensor)}
        for name in ("kv", "depth_kv"):
            found[f"{name}.keys"] = getattr(lanes, name).keys.data_ptr()
            found[f"{name}.values"] = getattr(lanes, name).values.data_ptr()
        return found

    before = places()
    assert {"hidden", "code", "frame", "ending", "seen", "done"} <= set(before)
    for line in range(2):
        lanes.admit([(0, Request(prompts[line], 5, line))])
        for _ in range(3):
            lanes.step()
            lanes.finished()
        assert places() == before
