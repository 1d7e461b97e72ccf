"""Starting the command as a process of its own. Knows processes and terminals, nothing of books."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path


def environment(*path: Path, **more: str) -> dict[str, str]:
    """This process's environment and import path, with `path` before it."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), *sys.path]), **more}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "rhapsode", *map(str, arguments)]


def on_a_terminal(arguments: list[str], stop_when: Callable[[], bool] | None = None) -> tuple[int, str, str]:
    """Exit code, stdout and what was written to the terminal that stderr is; SIGINT once `stop_when` holds."""
    import pty

    master, slave = pty.openpty()
    process = subprocess.Popen(
        command(*arguments),
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
