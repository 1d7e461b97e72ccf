"""How far a reading is: a bar where there is a terminal, plain lines now and then elsewhere, or nothing.

Knows takes and seconds. Prints to stderr only, so that stdout stays for results.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from typing import TYPE_CHECKING, Any, TextIO, cast

from rhapsode.types import Take

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

PLAIN_EVERY_S = 15.0
_NO_BARS = ("dumb", "unknown")  # terminals on which a bar cannot be drawn


def clock(seconds: float) -> str:
    """3725.4 -> "1:02:05"."""
    whole = max(0, round(seconds))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


class Progress:
    """Seconds of sound made, how fast, how long still."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        stream = stream or sys.stderr
        self._stream = cast(TextIO, _Patient(stream)) if stream is not None else io.StringIO()
        self._quiet = quiet or stream is None  # a process may have been started without one
        self._terminal = not self._quiet and self._stream.isatty() and os.environ.get("TERM") not in _NO_BARS
        self._bar: Bar | None = None
        self._began = self._spoke = 0.0
        self._expected, self._expected_done, self._made = 1e-9, 0.0, 0.0
        self._writing, self._what = False, "reading"

    @staticmethod
    def silent() -> Progress:
        return Progress(quiet=True)

    def note(self, text: str) -> None:
        """Something the user should know, on a line of its own."""
        if self._bar is not None:  # printed past it, a line would be glued to the bar
            self._bar.console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)
        elif not self._quiet:
            print(text, file=self._stream, flush=True)

    def begin(self, expected_s: float, resumed: int) -> None:
        """Reading starts: `expected_s` seconds of speech, by the length of the text."""
        if resumed:
            self.note(f"{resumed} lines were read before and are kept.")
        self._expected, self._began, self._spoke = max(expected_s, 1e-9), time.perf_counter(), time.perf_counter()
        self._expected_done, self._made = 0.0, 0.0
        self._writing, self._what = False, "reading"
        self._open(self._expected)

    def take(self, take: Take, expected_s: float) -> None:
        """One more line is there; `expected_s` is its share of what `begin` was told."""
        self._made += take.seconds
        self._expected_done += expected_s
        if take.problem:
            self.note(f"line {take.line.index + 1}: {take.problem} after {take.tries} tries: {take.line.text!r:.70}")
        self._show(self._expected_done, self._expected, self._reading())

    def writing(self, done: int, total: int) -> None:
        """Samples of the finished file."""
        if not self._writing:
            self._writing, self._what, self._began = True, "writing", time.perf_counter()
            self._open(total)
        spent, total = time.perf_counter() - self._began, max(total, 1)
        self._show(done, total, f"{clock(spent * (total - done) / max(done, 1))} left")

    def end(self) -> None:
        """Takes the bar away and gives the terminal its cursor back; due on every way out. Twice does no harm."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _reading(self) -> str:
        spent = max(time.perf_counter() - self._began, 1e-9)
        left = spent * max(self._expected / max(self._expected_done, 1e-9) - 1, 0.0)
        return f"{clock(self._made)} made, {self._made / spent:.1f} x real time, {clock(left)} left"

    def _open(self, total: float) -> None:
        """A bar for what begins now, where there is a terminal to draw it on."""
        if not self._terminal:
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        self.end()
        console = Console(file=self._stream)
        columns = (TextColumn(self._what), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[state]}"))
        self._bar = Progress(*columns, console=console, transient=True)
        self._bar.add_task(self._what, total=total, state="")
        self._bar.start()

    def _show(self, done: float, total: float, state: str) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=min(done, total), state=state)
        elif not self._quiet and time.perf_counter() - self._spoke >= PLAIN_EVERY_S:
            self._spoke = time.perf_counter()
            print(f"{self._what} {min(done / total, 1.0):.0%}: {state}", file=self._stream, flush=True)


class _Patient:
    """A stream whose reader may leave, as a terminal does that is closed: what it does not take is lost, and no more.

    Reading goes on for hours after it; nobody wants to lose them for a line of progress.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
