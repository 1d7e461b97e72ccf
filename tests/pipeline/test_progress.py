"""What progress says, by a clock that the test turns."""

from __future__ import annotations

import io
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from rhapsode.progress import PLAIN_EVERY_S, Progress, clock
from rhapsode.types import Line, Take


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("rhapsode.progress.time", SimpleNamespace(perf_counter=lambda: self.now))


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def take(seconds: float, problem: str = "", text: str = "A line.", index: int = 0) -> Take:
    audio = np.zeros(round(seconds * 100), np.float32)
    return Take(Line(index, 1, text, 1), audio, 100, frames=1, seed=0, tries=3 if problem else 1, problem=problem)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0:00"), (-3, "0:00"), (59.4, "0:59"), (59.6, "1:00"), (3599.7, "1:00:00"), (3725.4, "1:02:05"),
     (360_000, "100:00:00")],
)  # fmt: skip
def test_clock(seconds: float, said: str) -> None:
    assert clock(seconds) == said


def test_reading_says_made_speed_and_time_left(hands: Clock) -> None:
    heard = io.StringIO()
    progress = Progress(heard)
    progress.begin(80.0, resumed=0)
    progress.take(take(30.0), 20.0)
    assert heard.getvalue() == "", "not at every line"
    hands.now += PLAIN_EVERY_S - 0.1
    progress.take(take(1.0), 0.0)
    assert heard.getvalue() == ""
    hands.now += 0.1
    progress.take(take(29.0), 20.0)
    # 60 s of sound and half of the book in 15 s: 4 x real time, and as long again.
    assert heard.getvalue() == "reading 50%: 1:00 made, 4.0 x real time, 0:15 left\n"
    progress.take(take(1.0), 1.0)
    assert heard.getvalue().count("\n") == 1
    hands.now += 45
    progress.take(take(59.0), 100.0)
    # More than was expected is no more than all.
    assert heard.getvalue().splitlines()[1] == "reading 100%: 2:00 made, 2.0 x real time, 0:00 left"
    progress.end()


def test_writing_says_share_and_time_left(hands: Clock) -> None:
    heard = io.StringIO()
    progress = Progress(heard)
    progress.begin(1.0, resumed=0)
    progress.writing(0, 400)
    hands.now += 20
    progress.writing(100, 400)
    assert heard.getvalue() == "writing 25%: 1:00 left\n"


def test_notes_and_problems_are_lines_of_their_own(hands: Clock) -> None:
    heard = io.StringIO()
    progress = Progress(heard)
    progress.note("Something [bold]to[/] know.")
    progress.begin(10.0, resumed=7)
    progress.take(take(1.0, "loops", "He said " + "so " * 50, index=4), 1.0)
    lines = heard.getvalue().splitlines()
    assert lines[:2] == ["Something [bold]to[/] know.", "7 lines were read before and are kept."]
    assert lines[2].startswith("line 5: loops after 3 tries: 'He said so so") and len(lines[2]) < 110
    assert len(lines) == 3


def test_a_second_book_begins_at_nothing(hands: Clock) -> None:
    heard = io.StringIO()
    progress = Progress(heard)
    for _ in range(2):
        progress.begin(10.0, resumed=0)
        hands.now += 20
        progress.take(take(40.0), 5.0)
        progress.writing(0, 10)
        hands.now += 20
        progress.writing(5, 10)
    first, second = heard.getvalue().splitlines()[:2], heard.getvalue().splitlines()[2:]
    assert first == second == ["reading 50%: 0:40 made, 2.0 x real time, 0:20 left", "writing 50%: 0:20 left"]


def say_all(progress: Progress, hands: Clock) -> None:
    """Everything that a progress can be asked to show."""
    progress.note("x")
    progress.begin(10.0, resumed=7)
    hands.now += 60
    progress.take(take(1.0, "loops"), 1.0)
    progress.writing(1, 2)
    progress.end()


def test_quiet_says_nothing(hands: Clock) -> None:
    heard = io.StringIO()
    for progress in (Progress(heard, quiet=True), Progress.silent()):
        say_all(progress, hands)
    assert heard.getvalue() == ""


def test_nothing_is_divided_by_nothing(hands: Clock) -> None:
    for begun in (False, True):
        progress = Progress(io.StringIO())
        if begun:
            progress.begin(0.0, resumed=3)
            hands.now += 60
        progress.take(take(0.0), 0.0)
        hands.now += 60
        progress.writing(0, 0)
        progress.end()
        progress.end()


class Gone(io.StringIO):
    """A terminal or pipe whose other side is closed."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("terminal", [False, True])
def test_reading_goes_on_without_a_listener(
    terminal: bool, hands: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heard = Gone()
    monkeypatch.setattr(heard, "isatty", lambda: terminal)
    monkeypatch.setenv("TERM", "xterm")
    progress = Progress(heard)
    say_all(progress, hands)
    assert capsys.readouterr() == ("", ""), "nor does a bar complain from a thread of its own"


def test_a_process_without_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    Progress().note("x")
    Progress(quiet=True).note("x")


@pytest.mark.parametrize("kind", ["dumb", "unknown"])
def test_a_terminal_without_bars_gets_lines(kind: str, hands: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = io.StringIO()
    monkeypatch.setattr(heard, "isatty", lambda: True)
    monkeypatch.setenv("TERM", kind)
    progress = Progress(heard)
    progress.begin(10.0, resumed=0)
    hands.now += PLAIN_EVERY_S
    progress.take(take(5.0), 5.0)
    progress.end()
    assert heard.getvalue() == "reading 50%: 0:05 made, 0.3 x real time, 0:15 left\n"


def read_until(terminal: int, last: str) -> str:
    """What a terminal was sent up to `last`: one read hands out only what has arrived by then."""
    screen = b""
    while not screen.endswith(last.encode()) and len(screen) < 65536:
        screen += os.read(terminal, 65536)
    return screen.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="terminals as POSIX has them")
def test_a_note_does_not_run_into_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    import pty

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    note = "A note [that] is much longer than sixty columns of a terminal, and is not to be broken."
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal:
        progress = Progress(terminal)
        progress.begin(10.0, resumed=0)
        progress.take(take(1.0), 5.0)
        progress.note(note)
        progress.end()
        progress.note("Another.")
        terminal.flush()
        screen = read_until(master, "Another.\r\n")
    os.close(master)
    assert "reading" in screen and "\x1b[?25l" in screen
    assert screen.rfind("\x1b[?25h") > screen.rfind("\x1b[?25l"), "the cursor is back"
    before, _, after = screen.partition(note)
    assert before.endswith("\r\x1b[2K"), "the bar is wiped first"
    assert after.startswith("\r\n") and "Another.\r\n" in after
