"""Standard streams that are not there, and such whose other side has left: no traceback, and the work is done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rhapsode import cli
from tests.pipeline import processes


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_error(unbuffered: str, checkpoint: Path, here: Path) -> None:
    """`rhapsode voices | head -0`: the pipe is closed before anything is written."""
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        processes.command("voices", "--checkpoint", checkpoint),
        stdout=writer,
        stderr=subprocess.PIPE,
        env=processes.environment(PYTHONUNBUFFERED=unbuffered),
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (1, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="streams as POSIX has them")
@pytest.mark.parametrize("closed", [1, 2])
def test_a_process_that_was_started_without_a_stream(closed: int, checkpoint: Path, here: Path) -> None:
    """`rhapsode voices >&-`, as a service starts it."""
    result = subprocess.run(
        processes.command("voices", "--checkpoint", checkpoint),
        capture_output=True,
        env=processes.environment(),
        preexec_fn=lambda: os.close(closed),
    )
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.startswith(b"voices:") == (closed == 2)


@pytest.mark.skipif(sys.platform == "win32", reason="streams as POSIX has them")
def test_processes_of_a_process_without_streams_have_some(here: Path) -> None:
    """Those of several devices put their own stdout on their stderr."""
    child = "import os; os.dup2(2, 1)"
    code = (
        "import subprocess, sys; from rhapsode import cli; cli.main(['voices', '--narrator', 'none']);"
        f"sys.exit(subprocess.run([sys.executable, '-c', {child!r}]).returncode)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env=processes.environment(), preexec_fn=lambda: os.closerange(0, 3)
    )
    assert result.returncode == 0


def test_nothing_to_read_from(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main(["say", "-"]) == 2
    assert "nothing to say" in capsys.readouterr().err


def test_progress_that_nobody_reads_does_not_change_the_code(checkpoint: Path, here: Path) -> None:
    """`rhapsode narrate ... 2>&1 >/dev/null | head -0`: the work was done."""
    (here / "a.md").write_text("---\nlang: la\n---\nOh, dear me.\n")  # a language that is worth a note
    reader, writer = os.pipe()
    os.close(reader)
    arguments = ["narrate", "a.md", "-o", "x.wav", "--checkpoint", checkpoint, "--device", "cpu"]
    result = subprocess.run(
        processes.command(*arguments), stdout=subprocess.PIPE, stderr=writer, env=processes.environment()
    )
    os.close(writer)
    assert result.returncode == 0 and result.stdout.startswith(b"x.wav: ")
