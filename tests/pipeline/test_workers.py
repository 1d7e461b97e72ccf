"""Processes of their own: what is sent comes back as it was, and none is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rhapsode.errors import CheckpointError
from rhapsode.workers import QUEUED, Crew, Gone, Worker
from tests.pipeline import processes


@contextmanager
def crew(*works: str, argument: Any = None, **environment: str) -> Iterator[Crew]:
    made = Crew([Worker(f"tests.pipeline.crew_work:{work}", argument, environment) for work in works])
    try:
        yield made
    finally:
        made.end()


def test_arrays_come_back_as_they_were() -> None:
    sound = np.arange(300_000, dtype=np.float32)
    with crew("echo", argument={"a": 1}, CREW_TEST="there") as made:
        assert made.hear() == (0, ("argument", {"a": 1}, "there"))
        for array in (sound, sound[::2], sound.reshape(3, -1).T, np.zeros(0, np.float32), np.zeros((2, 0, 3), np.int8)):
            made.send(0, {"line": 7, "sound": array})
            number, back = made.hear()
            assert (number, back["line"], back["sound"].dtype) == (0, 7, array.dtype)
            assert np.array_equal(back["sound"], array)
            back["sound"][...] = 1  # it may be written to


def test_none_as_a_message_is_the_end() -> None:
    with crew("echo") as made:
        made.hear()
        made.send(0, None)
        assert made.hear() == (0, Gone("ended with code 0"))
        made.send(0, "to nobody")


def test_sending_does_not_wait_for_who_speaks() -> None:
    """Megabytes for a process that is stuck in saying megabytes, to which nobody listens."""
    with crew("fill", argument=1_000_000) as made:
        for _ in range(4):
            made.send(0, np.ones(1_000_000, np.float32))
        assert sum(len(made.hear()[1]) for _ in range(3 * QUEUED)) == 3 * QUEUED * 1_000_000


def test_errors_for_the_user_are_raised_here() -> None:
    with (
        crew("refuse", argument="It has no head.") as made,
        pytest.raises(CheckpointError, match=r"^It has no head\.$"),
    ):
        made.hear()


def test_other_errors_bring_their_traceback() -> None:
    with crew("break_down", argument="not this") as made, pytest.raises(RuntimeError, match="ValueError: not this"):
        made.hear()


@pytest.mark.parametrize(("work", "reason"), [("run_out", "ran out of memory"), ("say_nonsense", "ended with code 1")])
def test_an_early_end_is_told(work: str, reason: str) -> None:
    with crew("echo", work) as made:
        heard = dict(made.hear() for _ in range(2))
        assert heard[1] == Gone(reason)
        made.send(0, "no second word of it")
        assert made.hear() == (0, "no second word of it")


def test_a_killed_process_is_told_of_and_the_others_go_on() -> None:
    with crew("echo", "echo") as made:
        made.hear(), made.hear()
        made._processes[1].kill()
        assert made.hear() == (1, Gone("was ended by signal 9, perhaps for want of memory"))
        made.send(1, "lost")
        made.send(0, "kept")
        assert made.hear() == (0, "kept")


def test_who_has_no_stderr_has_workers() -> None:
    script = (
        "from tests.pipeline.test_workers import crew\nwith crew('echo', argument=3) as made:\n    print(made.hear())"
    )
    command = ["sh", "-c", '"$0" -c "$1" 2>&-', sys.executable, script]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120)
    assert done.stdout == "(0, ('argument', 3, None))\n"


def test_none_is_left_behind() -> None:
    with crew("fill", "echo", argument=1_000_000) as made:
        made.hear()
        processes, ears = made._processes, made._ears
        # Ctrl-C in a terminal reaches the sessions there, not them: they are ended, once.
        assert [os.getsid(process.pid) for process in processes] == [process.pid for process in processes]
    assert [process.poll() for process in processes] == [-9, -9]
    assert not any(ear.is_alive() for ear in ears)
    made.end()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for a process as Linux shows them")
def test_whoever_loses_his_starter_ends(tmp_path: Path) -> None:
    """As when that is killed and can tidy nothing up."""
    child = os.fork()
    if not child:
        try:
            made = Crew([Worker("tests.pipeline.crew_work:echo", None, {})])
            made.hear()
            (tmp_path / "pid").write_text(str(made._processes[0].pid))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    orphan = int((tmp_path / "pid").read_text())
    if not processes.gone(orphan):
        os.kill(orphan, 9)
        pytest.fail("it goes on without anybody")
