"""Starting the command as a process of its own. Knows processes and terminals, nothing of books."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


def environment(*path: Path, **more: str) -> dict[str, str]:
    """This process's environment and import path, with `path` before it."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), *sys.path]), **more}


# Whoever is to be stopped in the midst of his work does not come to its end first, however late he is stopped.
HELD = """
import runpy, sys, time
from rhapsode.qwen3.narrator import Qwen3Narrator
from rhapsode.qwen3.shared import SharedNarrator
most = int(sys.argv.pop(1))
def held(read):
    def reading(self, lines):
        takes = read(self, lines)
        for _ in range(most):
            yield next(takes)
        time.sleep(1e6)
    return reading
for kind in (Qwen3Narrator, SharedNarrator):
    kind.read = held(kind.read)
runpy.run_module("rhapsode", run_name="__main__", alter_sys=True)
"""


def command(*words: object, most: int | None = None, first: str = "") -> list[str]:
    """The command with its words. With `most` it reads so many lines and then waits; `first` is run before it."""
    program = ["-m", "rhapsode"] if most is None else ["-c", first + HELD, str(most)]
    return [sys.executable, *program, *map(str, words)]


def gone(pid: int) -> bool:
    """Whether a process ends within a minute, or has. Linux says so; a zombie has."""
    state = Path(f"/proc/{pid}/stat")
    for _ in range(6000):
        try:
            if state.read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:  # no such process
            return True
        time.sleep(0.01)
    return False


def on_a_terminal(words: list[str], stop_when: Callable[[], bool] | None = None) -> tuple[int, str, str]:
    """Exit code, stdout and what was written to the terminal that stderr is; SIGINT once `stop_when` holds.

    `words` are those of `command`.
    """
    import pty

    master, slave = pty.openpty()
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=slave,
        stdin=subprocess.DEVNULL,
        env=environment(TERM="xterm", COLUMNS="100"),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores it
    )
    os.close(slave)
    screen = b""
    try:
        while True:
            if select.select([master], [], [], 0.01)[0]:
                try:
                    piece = os.read(master, 65536)
                except OSError:  # Linux: the other side is closed
                    break
                if not piece:
                    break
                screen += piece
            if stop_when and stop_when():
                process.send_signal(signal.SIGINT)
                stop_when = None
        out, _ = process.communicate()
    finally:
        process.kill()
        process.wait()
        os.close(master)
    return process.returncode, out.decode(), screen.decode()
