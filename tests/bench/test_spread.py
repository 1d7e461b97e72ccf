"""The book over several devices: everyone his share, all of it once, and the time of the slowest."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from rhapsode.bench import run as run_module
from rhapsode.bench import spread
from rhapsode.bench.choices import Options
from rhapsode.bench.source import find_source
from rhapsode.bench.spread import Job, read_together, share_out
from rhapsode.bench.table import terminal
from rhapsode.bench.workload import draw
from rhapsode.cli import main
from rhapsode.errors import UserError
from rhapsode.qwen3.devices import alone
from rhapsode.qwen3.torch import several as several_module
from tests import tiny_checkpoint
from tests.bench.conftest import BOOK

TWO = [alone("cpu"), alone("cpu")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.write(tmp_path_factory.mktemp("tiny"))


def test_shares_are_equal_by_what_is_known_beforehand() -> None:
    book = draw(500)
    shares = share_out(book, 3)
    assert sorted(line for share in shares for line in share) == list(range(500))
    tokens = [sum(book.lines[line].tokens for line in share) for share in shares]
    assert max(tokens) - min(tokens) <= min(line.tokens for line in book.lines) + 1
    frames = [sum(book.lines[line].frames for line in share) for share in shares]
    assert max(frames) < 1.05 * min(frames)


def test_all_lines_are_read_once_and_the_last_ends_the_clock(folder: Path) -> None:
    ticks = itertools.count()
    told: list[str] = []
    job = Job(None, str(folder), "", "float32", 2, 1, BOOK, ())
    whole, rows = read_together(job, TWO, 3, 12.5, lambda: float(next(ticks)), told.append)
    assert (whole.lines, whole.kept_frames, whole.audio_s) == (6, BOOK.frames, BOOK.frames / 12.5)
    assert whole.seconds.runs == (1.0, 1.0, 1.0) and len(told) == 3
    assert sum(row.lines for row in rows) == 6 and sum(row.audio_s for row in rows) == pytest.approx(whole.audio_s)
    assert all(row.seconds > 0 and row.warm_up_s > 0 and row.peak_mb["process"] > 0 for row in rows)
    assert whole.lane_frames >= whole.kept_frames and whole.steps < whole.lane_frames / 2
    assert whole.kv_bytes > 0 and whole.warm_up_s == max(row.warm_up_s for row in rows)


def test_a_process_that_dies_is_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[spread.Crew] = []

    class Doomed(spread.Crew):
        def __init__(self, workers: list[spread.Worker]) -> None:
            super().__init__(workers)
            made.append(self)
            self._processes[1].kill()

    monkeypatch.setattr(spread, "Crew", Doomed)
    job = Job(None, str(folder), "", "float32", 2, 1, BOOK, ())
    with pytest.raises(UserError, match="The process on cpu was ended by signal 9"):
        read_together(job, TWO, 1, 12.5, lambda: 0.0, lambda message: None)
    assert all(process.poll() is not None for process in made[0]._processes)


def test_a_result_has_a_row_for_each(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    options = Options(checkpoint=str(folder), slots=(2,), lines=4, repeats=1, threads=1)
    found = run_module.measure(
        find_source(None, str(folder)), "cpu", ("float32",), options, lambda: float(next(ticks)), lambda message: None,
        BOOK, devices=TWO,
    )  # fmt: skip
    said = json.loads(json.dumps(found.as_json()))
    assert [row["device"] for row in said["devices"]] == ["cpu", "cpu"]
    assert sum(row["lines"] for row in said["devices"]) == said["whole"]["lines"] == 4
    assert said["whole"]["runs"] == [1.0] and said["peak_mb"]["process"] > 0
    assert terminal(found).count("  cpu: 2 lines, ") == 2


@pytest.mark.parametrize("words", [["--stages"], ["--schedule", "book"], ["--against", "official"]])
def test_what_is_for_one_device_is_refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(several_module, "several", lambda name: TWO)
    assert main(["bench", "--device", "cuda:all", *words]) == 2
    assert "are for one." in capsys.readouterr().err
