"""Runs that were stopped, killed or repeated: what is kept, what is read again, and that the file is the same.

A killed process dies by SIGKILL, so that no handler of ours can tidy up.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rhapsode
from rhapsode.audio.files import PartFile
from rhapsode.audio.takes import TakeStore
from rhapsode.pipeline import Report
from tests.pipeline import books, processes

LINES = 24
LONG = books.long_tale(chapters=3, lines=LINES // 3 - 1)  # and a heading each

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills processes as POSIX does")


def narrate(book: Path, out: Path, checkpoint: Path, **options: Any) -> Report:
    return rhapsode.narrate(book, out, checkpoint=checkpoint, device="cpu", format="float32", slots=4, **options)


def sounds(report: Report) -> list[Path]:
    return sorted(Path(report.record).parent.glob("*.wav"))


def killed(work: Callable[[], object]) -> bool:
    """Do it in a child process; whether the child was killed before it came to an end."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def die_at(owner: type, name: str, call: int, last_words: Callable[..., object] | None = None) -> None:
    """From now on the `call`th call of a method kills this process; `last_words` gets its arguments before."""
    real, calls = getattr(owner, name), []

    def method(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == call:
            if last_words:
                last_words(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)

    setattr(owner, name, method)


@pytest.fixture(scope="module")
def long_book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return books.write_markdown(tmp_path_factory.mktemp("long") / "long.md", LONG)


@pytest.fixture(scope="module")
def undisturbed(long_book: Path, checkpoint: Path) -> bytes:
    """The file of a run from beginning to end."""
    out = long_book.with_name("undisturbed.m4b")
    report = narrate(long_book, out, checkpoint)
    assert report.lines == LINES and report.resumed == 0
    return out.read_bytes()


@pytest.mark.parametrize("torn", [False, True], ids=["between files", "within a record"])
def test_killed_among_the_takes(
    torn: bool, long_book: Path, checkpoint: Path, undisturbed: bytes, tmp_path: Path
) -> None:
    out = tmp_path / "book.m4b"

    def half_a_record(store: TakeStore, raw: bytes) -> None:
        os.write(store._record, raw[: len(raw) // 2])

    def work(call: int) -> None:
        die_at(TakeStore, "_append", call, half_a_record if torn else None)
        narrate(long_book, out, checkpoint)

    # Twice, since half a record must not spoil the whole one that is written after it.
    assert killed(lambda: work(11))
    assert killed(lambda: work(4))
    assert not out.exists()
    report = narrate(long_book, out, checkpoint)
    assert report.resumed == 10 + 3
    assert out.read_bytes() == undisturbed


def test_killed_while_the_file_is_written(
    long_book: Path, checkpoint: Path, undisturbed: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "book.m4b"

    def work() -> None:
        die_at(PartFile, "write", 8)
        narrate(long_book, out, checkpoint)

    assert killed(work)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".book.m4b.part", "book.m4b.takes"]
    monkeypatch.setattr(TakeStore, "put", lambda *_: pytest.fail("a line was read again"))
    report = narrate(long_book, out, checkpoint)
    assert report.resumed == LINES and report.useful == 1.0
    assert out.read_bytes() == undisturbed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["book.m4b", "book.m4b.takes"]


def test_killed_from_outside(checkpoint: Path, tmp_path: Path) -> None:
    """The real command, killed at any moment between the eighth take and the thirtieth."""
    source = books.write_markdown(tmp_path / "book.md", books.long_tale(chapters=2, lines=24))
    out = tmp_path / "book.wav"
    words = ["narrate", source, "-o", out, "--checkpoint", checkpoint, "--device", "cpu", "--slots", "4", "--quiet"]
    process = subprocess.Popen(processes.command(*words, most=30), env=processes.environment())
    try:
        while process.poll() is None and recorded(tmp_path) < 8:
            time.sleep(0.005)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    whole = recorded(tmp_path)
    report = narrate(source, out, checkpoint)
    assert 8 <= report.resumed == whole <= 30 < report.lines == 50
    narrate(source, tmp_path / "undisturbed.wav", checkpoint)
    assert out.read_bytes() == (tmp_path / "undisturbed.wav").read_bytes()


def recorded(folder: Path) -> int:
    """Whole lines of the record."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.takes/*/record.jsonl"))


def test_takes_are_dropped_and_the_record_stays(checkpoint: Path, book: Path) -> None:
    report = narrate(book, Path("tale.wav"), checkpoint)
    assert not sounds(report)
    entries = [json.loads(line) for line in Path(report.record).read_text().splitlines()]
    assert len(entries) == report.lines and all("seed" in entry and "problem" in entry for entry in entries)


def test_kept_takes_are_used_again(checkpoint: Path, book: Path) -> None:
    out = Path("tale.m4b")
    report = narrate(book, out, checkpoint, keep_takes=True)
    assert len(sounds(report)) == report.lines
    first = out.read_bytes()
    again = narrate(book, out, checkpoint, keep_takes=True, overwrite=True)
    assert again.resumed == report.lines == len(sounds(again))
    assert out.read_bytes() == first
    assert again.rtf == pytest.approx(again.wall_s / again.audio_s, abs=1e-3), "nothing was made: of the whole file"


@pytest.mark.parametrize(
    "change", [{"voice": "serena"}, {"seed": 7}, {"language": "german"}, {"sampling": {"top_k": 9}}]
)
def test_takes_of_other_settings_are_not_mixed(change: dict[str, Any], checkpoint: Path, book: Path) -> None:
    first = narrate(book, Path("a.wav"), checkpoint, keep_takes=True)
    other = narrate(book, Path("a.wav"), checkpoint, keep_takes=True, overwrite=True, **change)
    assert other.resumed == 0 and other.record != first.record
    narrate(book, Path("b.wav"), checkpoint, **change)
    assert Path("a.wav").read_bytes() == Path("b.wav").read_bytes()
    back = narrate(book, Path("a.wav"), checkpoint, overwrite=True)
    assert back.resumed == back.lines


def test_an_edited_book_keeps_the_lines_that_stayed(checkpoint: Path, here: Path) -> None:
    book = books.write_markdown(here / "tale.md")
    before = narrate(book, Path("tale.wav"), checkpoint, keep_takes=True)
    old = {line.text for line in rhapsode.split_lines(rhapsode.read_book(book))}
    title, paragraphs = books.TALE[0]
    edited = [(title, ["A paragraph that was not there.", *paragraphs]), books.TALE[2], books.TALE[1]]
    edited[2] = (edited[2][0], ["The letter came at midnight. Nobody read it before the evening."])
    books.write_markdown(book, edited)
    new = [line.text for line in rhapsode.split_lines(rhapsode.read_book(book))]
    changed = [text for text in new if text not in old]
    assert changed == ["A paragraph that was not there.", "The letter came at midnight."]
    after = narrate(book, Path("tale.wav"), checkpoint, overwrite=True)
    assert (after.resumed, after.lines) == (before.lines - 1, before.lines + 1)
    narrate(book, Path("fresh.wav"), checkpoint)
    assert Path("tale.wav").read_bytes() == Path("fresh.wav").read_bytes()


def test_two_runs_at_one_output_are_refused(checkpoint: Path, book: Path) -> None:
    with TakeStore(Path("tale.wav.takes"), {}), pytest.raises(rhapsode.OutputError, match="Another process"):
        narrate(book, Path("tale.wav"), checkpoint)
    assert not Path("tale.wav").exists()
