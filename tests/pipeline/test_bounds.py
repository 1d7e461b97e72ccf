"""What a long book must not do: fill the memory, or fill the disk after hours of work."""

from __future__ import annotations

import tracemalloc
import weakref
from pathlib import Path

import numpy as np
import pytest

import rhapsode
from rhapsode.audio.takes import TakeInfo, TakeStore
from rhapsode.audio.writer import WAITING
from rhapsode.qwen3.narrator import Qwen3Narrator
from rhapsode.types import Take
from tests.pipeline import books, fakes


def peak_of_narrating(lines: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes that Python and NumPy hold at most while a book of `lines` takes of ten seconds is made into a file."""
    book = books.write_markdown(folder / f"{lines}.md", books.long_tale(chapters=1, lines=lines - 1))
    door = fakes.FakeDoor(fakes.FakeNarrator(seconds=10.0))
    text = rhapsode.read_book(book)  # which may take more for a moment than all that is measured here
    monkeypatch.setattr("rhapsode.pipeline.find", lambda name: door)
    monkeypatch.setattr("rhapsode.pipeline.read_book", lambda path: text)
    tracemalloc.start()
    try:
        report = rhapsode.narrate(book, folder / f"{lines}.wav")
        assert report.lines == lines and report.audio_s > 10 * lines
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_book(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take = 10 * fakes.RATE * 4  # as it is read, in float32
    peak_of_narrating(2, here, monkeypatch)  # what is imported and cached the first time
    held = peak_of_narrating(96, here, monkeypatch)
    # How many wait depends on which thread is faster. At most: those in the queue, the one just read, the one at
    # the disk with its copies in four bytes and in two. Half a take is left for all else, 5 kB for each line.
    assert take < held < (WAITING + 1 + 2.5 + 0.5) * take


def test_takes_of_the_model_are_let_go_once_they_are_stored(
    checkpoint: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = books.write_markdown(here / "tale.md", books.long_tale(chapters=1, lines=23))
    alive: weakref.WeakSet[_Handle] = weakref.WeakSet()
    most, put = [], TakeStore.put

    def counting(store: TakeStore, take: Take) -> TakeInfo:
        handle = _Handle()
        alive.add(handle)
        weakref.finalize(take.audio, _forget, [handle])
        del handle
        most.append(len(alive))
        return put(store, take)

    monkeypatch.setattr(TakeStore, "put", counting)
    report = rhapsode.narrate(book, checkpoint=checkpoint, device="cpu", slots=4)
    assert len(most) == report.lines == 24
    assert max(most) <= 2, "the one being stored, and the one before it"


class _Handle:
    """Lives as long as the array whose finaliser holds it."""


def _forget(held: list[_Handle]) -> None:
    held.clear()


def test_a_full_disk_is_noticed_before_anything_is_read(
    checkpoint: Path, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rhapsode.audio.files.free_bytes", lambda path: 3_000_000)
    monkeypatch.setattr(Qwen3Narrator, "read", lambda *_: pytest.fail("it began to read"))
    with pytest.raises(rhapsode.OutputError, match=r"tale\.m4b needs about 2\d MB and only 3\.0 MB are free"):
        rhapsode.narrate(book, Path("new", "tale.m4b"), checkpoint=checkpoint, device="cpu")
    assert not Path("new").exists()


def test_a_refusal_leaves_what_was_there_and_adds_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rhapsode.pipeline.find", lambda _: fakes.FakeDoor(fakes.FakeNarrator(seconds=10.0)))
    book = books.write_markdown(here / "tale.md", books.long_tale(chapters=1, lines=3))
    rhapsode.narrate(book, here / "tale.wav", keep_takes=True)
    before = set(here.rglob("*"))
    monkeypatch.setattr("rhapsode.audio.files.free_bytes", lambda path: 20_000_000)
    for settings in ({"narrator": "fake"}, {"narrator": "another"}):
        monkeypatch.setattr(fakes.FakeNarrator, "settings", lambda _, settings=settings: settings)
        with pytest.raises(rhapsode.OutputError, match="are free there"):
            rhapsode.narrate(book, here / "tale.wav", overwrite=True)
    assert set(here.rglob("*")) == before


def test_room_is_asked_for_by_the_length_of_the_book(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, int] = {}
    monkeypatch.setattr("rhapsode.pipeline.require_space", lambda path, needed: asked.update({path.name: needed}))
    for name, lines in (("short", 3), ("long", 9)):
        book = books.write_markdown(here / f"{name}.md", books.long_tale(chapters=1, lines=lines))
        monkeypatch.setattr("rhapsode.pipeline.find", lambda _: fakes.FakeDoor(fakes.FakeNarrator(seconds=10.0)))
        for suffix in (".wav", ".m4b"):
            rhapsode.narrate(book, here / (name + suffix), keep_takes=True)
    six_takes = 6 * 10 * fakes.RATE * 2
    assert asked["long.wav"] - asked["short.wav"] == pytest.approx(2 * six_takes, rel=0.1), "takes and file"
    assert six_takes < asked["long.m4b"] - asked["short.m4b"] < 1.5 * six_takes, "takes and a smaller file"
    kept = asked["long.wav"]
    rhapsode.narrate(here / "long.md", here / "long.wav", overwrite=True)
    assert kept - asked["long.wav"] == pytest.approx(10 * 10 * fakes.RATE * 2, rel=0.05), "takes that are there"


def test_a_broken_take_among_kept_ones_is_read_again(checkpoint: Path, book: Path) -> None:
    report = rhapsode.narrate(book, checkpoint=checkpoint, device="cpu", keep_takes=True)
    good = Path("tale.m4b").read_bytes()
    victim = sorted(Path(report.record).parent.glob("*.wav"))[0]
    raw = np.frombuffer(victim.read_bytes(), np.uint8).copy()
    raw[-1] ^= 1
    victim.write_bytes(raw.tobytes())
    again = rhapsode.narrate(book, checkpoint=checkpoint, device="cpu", overwrite=True)
    assert again.resumed == again.lines - 1
    assert Path("tale.m4b").read_bytes() == good
