"""Endings, codes and sound on their way to the host: on a device that is not there, streams are followed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rhapsode.qwen3.torch import results
from rhapsode.qwen3.torch.results import CodesReader, Sound, SoundRoom

RATE = 4


class Host:
    """Stands for torch on a card: what is queued on a stream happens when somebody waits for it."""

    def __init__(self) -> None:
        self.main = Stream(self)
        self.current = self.main
        self.pinned: list[int] = []  # sizes of what was allocated

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    def empty(self, *size: Any, dtype: torch.dtype = torch.float32, pin_memory: bool = False) -> Tensor:
        found = torch.zeros(*size, dtype=dtype)
        if pin_memory:
            self.pinned.append(found.numel())
        return found


class Stream:
    def __init__(self, host: Host, *_: Any, **__: Any) -> None:
        self.work: list[Callable[[], None]] = []

    def run(self) -> None:
        while self.work:
            self.work.pop(0)()

    synchronize = run

    def wait_event(self, event: Event) -> None:
        self.work.append(event.synchronize)

    def wait_stream(self, stream: Stream) -> None:
        self.work.append(stream.run)


class Event:
    def __init__(self, host: Host) -> None:
        self.host, self.done = host, False
        self.stream: Stream | None = None

    def record(self, stream: Stream | None = None) -> None:
        self.stream = stream or self.host.current
        self.stream.work.append(lambda: setattr(self, "done", True))

    def synchronize(self) -> None:
        assert self.stream is not None, "an event that nobody recorded"
        while not self.done:
            self.stream.work.pop(0)()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host()
    monkeypatch.setattr(results.torch, "empty", found.empty)
    monkeypatch.setattr(results.torch.cuda, "Stream", lambda *a, **k: Stream(found))
    monkeypatch.setattr(results.torch.cuda, "Event", lambda: Event(found))
    monkeypatch.setattr(results.torch.cuda, "stream", found.stream)
    monkeypatch.setattr(results.torch.cuda, "current_stream", lambda *_: found.current)
    monkeypatch.setattr(results, "send", lambda array, _: torch.from_numpy(array))
    copy = Tensor.copy_

    def queued(into: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
        assert non_blocking
        found.current.work.append(lambda: void(copy(into, source)))
        return into

    monkeypatch.setattr(Tensor, "copy_", queued)
    monkeypatch.setattr(Tensor, "record_stream", lambda *_: None)
    return found


def void(_: object) -> None:
    pass


def codec(codes: Tensor) -> Tensor:
    return codes[:, :, 0].repeat_interleave(RATE, 1).float()


def queued_on(host: Host) -> Callable[[Tensor], Tensor]:
    """The same, whose sound is there when its stream has come to it."""

    def start(codes: Tensor) -> Tensor:
        made = torch.full((codes.shape[0], codes.shape[1] * RATE), torch.nan)
        host.current.work.append(lambda: void(made.set_(codec(codes))))
        return made

    return start


def batch(*first: int, frames: int = 3) -> np.ndarray:
    return np.array(first)[:, None, None] * np.ones((1, frames, 2), np.int64)


def test_groups_overlap_and_keep_their_sound(host: Host) -> None:
    """Two groups are on their way at once; memory on the host is used again and stays that of two."""
    room = SoundRoom(torch.device("cuda"))
    before: Sound | None = None
    kept: list[list[np.ndarray]] = []
    for number in range(1, 7):
        sound = room.start(queued_on(host), batch(number, -number), [RATE * 3, RATE])
        if before is not None:
            kept.append(before.waves())
        before = sound
    assert before is not None
    kept.append(before.waves())
    for number, (one, other) in enumerate(kept, 1):
        np.testing.assert_array_equal(one, np.full(RATE * 3, number, np.float32))
        np.testing.assert_array_equal(other, np.full(RATE, -number, np.float32))
    assert len(host.pinned) == 2


def test_memory_grows_with_the_groups_and_what_is_too_small_goes(host: Host) -> None:
    room = SoundRoom(torch.device("cuda"))
    for frames in (2, 9, 4, 9, 30, 1):
        [wave] = room.start(codec, batch(frames, frames=frames), [RATE * frames]).waves()
        np.testing.assert_array_equal(wave, np.full(RATE * frames, frames, np.float32))
    assert host.pinned == [RATE * 2, RATE * 9, RATE * 30]
    assert len(room._spare) == 1


class Careful:
    """A codec that would wait for its sound, in which the lines that begin with 7 do not come out."""

    def __init__(self, host: Host) -> None:
        self.host, self.again = host, list[int]()

    def unchecked(self, codes: Tensor) -> Tensor:
        return queued_on(self.host)(torch.where(codes[:, :1, :1] == 7, torch.nan, codes.float()))

    def __call__(self, codes: Tensor) -> Tensor:
        self.again += codes[:, 0, 0].tolist()
        return codec(codes) + 0.5


def test_only_what_is_not_finite_is_waited_for(host: Host) -> None:
    room, careful = SoundRoom(torch.device("cuda")), Careful(host)
    sound = room.start(careful, batch(3, 7, 4), [RATE * 3, RATE * 2, RATE])
    assert not careful.again
    waves = sound.waves()
    assert careful.again == [7]
    assert [wave.tolist() for wave in waves] == [[3.0] * RATE * 3, [7.5] * RATE * 2, [4.0] * RATE]


def test_codes_are_fetched_without_the_step_in_flight(host: Host) -> None:
    reader = CodesReader(torch.device("cuda"))
    done = torch.arange(4 * 6 * 2, dtype=torch.int32).view(4, 6, 2)
    host.main.work.append(lambda: pytest.fail("the step in flight was waited for"))
    for ended in ({2: 5, 0: 1}, {3: 6}, {1: 6, 0: 6, 2: 6, 3: 0}):
        found = reader.read(done, ended)
        assert set(found) == set(ended)
        for slot, frames in ended.items():
            np.testing.assert_array_equal(found[slot], done[slot, :frames])
    kept = reader.read(done, {1: 4})[1]
    reader.read(done + 100, {0: 4})
    np.testing.assert_array_equal(kept, done[1, :4])


def test_a_device_that_does_not_queue_has_everything_at_once() -> None:
    cpu = torch.device("cpu")
    waves = SoundRoom(cpu).start(codec, batch(5, 6), [RATE, 0]).waves()
    assert [wave.tolist() for wave in waves] == [[5.0] * RATE, []]
    done = torch.arange(12, dtype=torch.int32).view(2, 3, 2)
    [codes] = CodesReader(cpu).read(done, {1: 2}).values()
    done.zero_()
    assert codes.tolist() == [[6, 7], [8, 9]]
