"""One narrator over two devices: the same takes, one book, and no line lost with a process that dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import rhapsode
from rhapsode.errors import UserError
from rhapsode.narrator import Options
from rhapsode.qwen3 import narrator as qwen3
from rhapsode.qwen3.devices import Device, alone
from rhapsode.qwen3.shared import SharedNarrator
from rhapsode.qwen3.torch import several as several_module
from rhapsode.qwen3.torch.several import several
from rhapsode.types import Line, Take
from rhapsode.workers import Crew, deal
from tests.pipeline import processes

TEXT = "\n\n".join(f"The old man said {'and so on and ' * (n % 5)} {n}." for n in range(24)) + "\n\n* * *"
TWO = (alone("cpu"), alone("cpu"))


def options(checkpoint: Path, **changes: Any) -> Options:
    return Options(checkpoint=str(checkpoint), format="float32", slots=4, seed=3, **changes)


@pytest.fixture(scope="module")
def shared(checkpoint: Path) -> Iterator[SharedNarrator]:
    made = SharedNarrator(options(checkpoint), TWO)
    yield made
    made.close()


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    return rhapsode.lines(TEXT)


def sounds(takes: Any) -> dict[int, bytes]:
    return {take.line.index: take.audio.tobytes() for take in takes}


@pytest.fixture(scope="module")
def alone_sounds(checkpoint: Path, lines: list[Line]) -> dict[int, bytes]:
    return sounds(qwen3.load(options(checkpoint, device="cpu")).read(lines))


def line(index: int, text: str) -> Line:
    return Line(index, 1, text, index)


# ------------------------------------------------------------------ takes


def test_takes_are_those_of_one_device(
    checkpoint: Path, shared: SharedNarrator, lines: list[Line], alone_sounds: dict[int, bytes]
) -> None:
    one = qwen3.load(options(checkpoint, device="cpu"))
    assert (shared.settings(), shared.sample_rate, shared.sampling) == (one.settings(), one.sample_rate, one.sampling)
    assert shared.text_form == one.text_form
    assert "device" not in json.dumps(shared.settings())
    assert shared.notes()[-1] == "Reading on 2 devices: cpu, cpu."
    takes = list(shared.read(iter(lines)))
    assert len(takes) == len(lines) and sounds(takes) == alone_sounds
    assert all(any(take.line is line for line in lines) for take in takes)
    assert 0 < shared.useful() < 1 and shared.retakes() == sum(max(0, take.tries - 1) for take in takes)
    assert [shared.expected_seconds(line) for line in lines] == [one.expected_seconds(line) for line in lines]
    assert list(shared.read([])) == []


def test_lines_of_two_texts_are_all_read(shared: SharedNarrator, lines: list[Line]) -> None:
    both = [lines[0], line(lines[0].index, "The second text begins with this.")]
    assert sorted(take.line.text for take in shared.read(both)) == sorted(line.text for line in both)


def test_both_read(shared: SharedNarrator, lines: list[Line]) -> None:
    before = [counts.frames for counts in shared._counts]
    takes = list(shared.read(lines))
    made = [counts.frames - earlier for counts, earlier in zip(shared._counts, before, strict=True)]
    assert sum(made) == sum(take.frames for take in takes) and min(made) > 0


class FirstLines:
    """Of every share, those of `workers` are handed their first line and never the rest: they come to no end."""

    def __init__(self, patch: pytest.MonkeyPatch, *workers: int) -> None:
        self.shares: dict[int, list[Line]] = {}
        plain = Crew.send

        def send(crew: Crew, worker: int, message: Any) -> None:
            if worker in workers and isinstance(message, list):
                self.shares[worker], message = message, message[:1]
            plain(crew, worker, message)

        patch.setattr(Crew, "send", send)


def test_lines_of_a_process_that_dies_are_read_by_the_other(
    shared: SharedNarrator, lines: list[Line], alone_sounds: dict[int, bytes]
) -> None:
    told: list[str] = []
    takes: list[Take] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "tell", told.append)
        first = FirstLines(patch, 0)
        reading = shared.read(lines)
        takes.append(next(reading))
        while first.shares[0][0].text not in [take.line.text for take in takes]:  # which is not read again
            takes.append(next(reading))
        assert shared._crew is not None
        shared._crew._processes[0].kill()
        takes += reading
    lost = len(first.shares[0]) - 1
    assert told == [
        "The process on cpu was ended by signal 9, perhaps for want of memory; its "
        f"{lost} lines are read on the other devices."
    ]
    assert len(takes) == len(lines) and sounds(takes) == alone_sounds
    assert shared.useful() <= 1  # counted from both
    assert sounds(shared.read(lines)) == alone_sounds  # on two again
    assert shared._crew is not None and len(shared._crew._processes) == 2


def test_without_any_process_there_is_a_sentence(shared: SharedNarrator, lines: list[Line]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        FirstLines(patch, 0, 1)
        reading = shared.read(lines)
        next(reading)
        assert shared._crew is not None
        for process in shared._crew._processes:
            process.kill()
        with pytest.raises(UserError, match=r"no other is left to read its \d+ lines; what was read is kept\.$"):
            list(reading)
    assert shared._crew is None


def test_a_reading_that_is_left_ends_the_processes(shared: SharedNarrator, lines: list[Line]) -> None:
    reading = shared.read(lines)
    next(reading)
    assert shared._crew is not None
    left = shared._crew._processes
    reading.close()
    assert all(process.poll() is not None for process in left)
    assert len(list(shared.read(lines))) == len(lines)


def test_what_cannot_be_had_is_the_same_sentence(checkpoint: Path, tmp_path: Path) -> None:
    for wrong in (options(checkpoint, voice="nobody"), options(tmp_path / "nowhere")):
        with pytest.raises(UserError) as here:
            qwen3.load_one(wrong)
        with pytest.raises(UserError) as there:
            SharedNarrator(wrong, TWO)
        assert (type(there.value), str(there.value)) == (type(here.value), str(here.value))


def test_devices_that_would_not_read_alike_are_refused(checkpoint: Path) -> None:
    """As when one of them multiplies bfloat16 and the other does not."""
    apart = [Device("one", "cpu"), Device("two", "cpu", {"XDG_CACHE_HOME": "/nowhere", "PYTHONINSPECT": ""})]
    made = SharedNarrator.__new__(SharedNarrator)
    ready = SharedNarrator._started

    def started(self: SharedNarrator) -> Any:
        first, second = ready(self)
        second.settings["format"] = "bfloat16"
        return [first, second]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharedNarrator, "_started", started)
        with pytest.raises(UserError, match=r"one and two would not read alike \(format float32 and bfloat16\)"):
            made.__init__(options(checkpoint), apart)  # type: ignore[misc]
    assert made._crew is None


# ------------------------------------------------------------------ shares


def test_shares_are_about_equal() -> None:
    lines = [line(n, "x" * (1 + 7 * n % 31)) for n in range(200)]
    shares = deal(lines, 3, lambda one: len(one.text))
    assert sorted(one.index for share in shares for one in share) == list(range(200))
    lengths = [sum(len(one.text) for one in share) for share in shares]
    assert max(lengths) - min(lengths) <= 2
    assert all([one.index for one in share] == sorted(one.index for one in share) for share in shares)


def test_the_longest_line_is_dealt_first() -> None:
    shares = deal([line(0, "x"), line(1, "xx"), line(2, "xxx"), line(3, "x" * 7)], 2, lambda one: len(one.text))
    assert [[one.index for one in share] for share in shares] == [[3], [0, 1, 2]]
    assert deal([line(0, "x")], 2, lambda one: 1.0) == [[line(0, "x")], []]


# ------------------------------------------------------------------ names of devices


@pytest.fixture
def three_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("three_gpus")
def test_a_name_for_several_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [device.name for device in several("cuda:all")] == ["cuda:0", "cuda:1", "cuda:2"]
    assert several("cuda:2,0")[0] == Device("cuda:2", "cuda", {"CUDA_VISIBLE_DEVICES": "2"})
    assert [device.name for device in several("cuda:1")] == ["cuda:1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 6,7")
    assert several("cuda:1, 2")[0].environment == {"CUDA_VISIBLE_DEVICES": "6"}
    for wrong, sentence in {
        "cuda:3": "no device 'cuda:3' here; there are cpu, cuda:1, cuda:2, cuda",
        "cuda:0,x": "no device 'cuda:x'",
        "cuda:0,0": "'cuda:0,0' names one of them twice",
        "cuda:": "no device 'cuda:'",
    }.items():
        with pytest.raises(UserError, match=sentence):
            several(wrong)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there are CUDA devices")
def test_all_of_none_is_a_sentence() -> None:
    with pytest.raises(UserError, match="There is no device 'cuda:all' here; there are cpu"):
        qwen3.load(Options(device="cuda:all"))


# ------------------------------------------------------------------ the whole way


def test_one_book_comes_out(
    book: Path, here: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(several_module, "several", lambda name: list(TWO))
    wanted: dict[str, Any] = {"checkpoint": checkpoint, "format": "float32", "slots": 4, "keep_takes": True}
    one = rhapsode.narrate(book, here / "one.m4b", device="cpu", **wanted)
    two = rhapsode.narrate(book, here / "two.m4b", device="cuda:all", **wanted)
    assert (here / "one.m4b").read_bytes() == (here / "two.m4b").read_bytes()
    assert (one.lines, one.retakes, one.bad) == (two.lines, two.retakes, two.bad)
    names = [{path.name for path in Path(report.record).parent.glob("*.wav")} for report in (one, two)]
    assert names[0] == names[1] and Path(one.record).parent.name == Path(two.record).parent.name
    assert "Traceback" not in capfd.readouterr().err


TWO_PROCESSES = """
import os
from rhapsode import workers
from rhapsode.qwen3.devices import alone
from rhapsode.qwen3.torch import several
several.several = lambda name: [alone("cpu"), alone("cpu")]
start = workers._start
def noted(worker):
    process = start(worker)
    with open("pids", "a") as file:
        print(process.pid, file=file)
    return process
workers._start = noted
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes as Linux shows them")
@pytest.mark.parametrize("most", [0, 3], ids=["they load", "they read"])
def test_ctrl_c_ends_all_of_them(most: int, book: Path, here: Path, checkpoint: Path) -> None:
    """From the moment that both are started, and when takes of theirs are there."""
    words = ["narrate", book, "-o", "out.m4b", "--checkpoint", checkpoint, "--device", "cuda:all", "--slots", "2"]
    process = subprocess.Popen(
        processes.command(*words, most=most, first=TWO_PROCESSES),
        stderr=subprocess.PIPE, env=processes.environment(), start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip

    def written(pattern: str) -> int:
        return sum(path.read_bytes().count(b"\n") for path in here.glob(pattern))

    try:
        while process.poll() is None and (written("pids") < 2 or written("*.takes/*/record.jsonl") < most):
            time.sleep(0.01)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of the group
        _, said = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130 and b"stopped" in said and b"Traceback" not in said
    assert all(processes.gone(int(pid)) for pid in (here / "pids").read_text().split())
