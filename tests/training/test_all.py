"""The order in which stages are started and awaited, with processes that are none."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.stand_in import Clock, write_texts
from training import all as everything
from training.common import Work

EARLY = [*(f"kokoro-{part}" for part in range(4)), "extra"]  # on the first GPU, while the codec compiles
LATE = [f"kokoro-{part}" for part in range(4, 12)]


@dataclass
class Fake:
    """A process that ends after it was looked at so often."""

    name: str
    gpu: str
    options: list[str]
    looks: int
    code: int
    ended: bool = False
    terminated: bool = False

    def poll(self) -> int | None:
        self.looks -= 1
        self.ended = self.ended or self.looks < 0
        return self.code if self.ended else None

    def terminate(self) -> None:
        self.terminated = self.ended = True

    def wait(self) -> int:
        assert self.ended, f"{self.name} was never told to end"
        return self.code


@dataclass
class Machine:
    """Starts such processes; `looks` and `codes` by name, for those that are not to end well after three looks."""

    work: Path
    looks: dict[str, int] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    started: list[Fake] = field(default_factory=list)
    before: dict[str, list[str]] = field(default_factory=dict)  # what ran when a process was started

    def __call__(self, command: list[str], *, env: dict[str, str], stdout: Any, stderr: Any) -> Fake:
        assert command[1] == "-m" and command[3:5] == ["--work", str(self.work)] and stderr == subprocess.STDOUT
        name = Path(stdout.name).stem
        stdout.write(f"{name} says something\n".encode())
        process = Fake(name, env["CUDA_VISIBLE_DEVICES"], command[2:3] + command[5:], self.looks.get(name, 3),
                       self.codes.get(name, 0))  # fmt: skip
        self.before[name] = [other.name for other in self.started if not other.ended]
        self.started.append(process)
        return process

    def names(self) -> list[str]:
        return [process.name for process in self.started]

    def get(self, name: str) -> Fake:
        return next(process for process in self.started if process.name == name)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    write_texts(tmp_path)
    machine = Machine(tmp_path)
    monkeypatch.setattr(everything.subprocess, "Popen", machine)
    monkeypatch.setattr(everything, "time", Clock())
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    return machine


def run(machine: Machine, *options: str) -> None:
    everything.main(["--work", str(machine.work), "--teachers", "packed", *options])


def log(machine: Machine) -> str:
    return (machine.work / "all.log").read_text()


def test_two_gpus_share_the_work(machine: Machine) -> None:
    machine.looks = {"codec": 40, "talker": 90, "joe": 6, "polish": 5}
    run(machine)
    assert machine.names() == ["codec", *EARLY, "joe", "talker", *LATE, "polish"]
    assert machine.before["talker"] == ["codec"] and "joe" not in machine.before["kokoro-4"]
    assert machine.before["polish"] == ["talker"], "codes must be there, and the talker goes on beside it"
    assert {process.name for process in machine.started if process.gpu == "0"} == {"codec", *EARLY, "polish"}
    assert {file.stem for file in machine.work.glob("*.ok")} == {"speech", "all"}
    assert (machine.work / "checkpoint" / "config.json").exists()
    assert log(machine).index("joe is done") < log(machine).index("codec is done") < log(machine).index("polish is")


def test_teachers_share_their_hours(machine: Machine) -> None:
    run(machine, "--joe-hours", "10", "--kokoro-hours", "6", "--kokoro-parts", "3", "--early-seconds", "7")
    joe, early, late = (machine.get(name).options for name in ("joe", "kokoro-0", "kokoro-2"))
    assert joe[:1] == ["training.teach"] and joe[joe.index("--hours") + 1] == "10.0" and "--part" not in joe
    assert early[early.index("--seconds") + 1] == "7.0" and late[late.index("--seconds") + 1] == "480.0"
    assert late[late.index("--part") + 1] == "2/3" and late[late.index("--hours") + 1] == "2.0"
    extra = machine.get("extra").options
    assert extra[extra.index("--voice") + 1] == "extra" and "--part" not in extra


def test_one_gpu_does_it_all(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    run(machine)
    assert {process.gpu for process in machine.started} == {"0"}
    assert machine.names() == ["codec", "talker", "joe", *EARLY[:-1], *LATE, "extra", "polish"]
    assert "joe" not in machine.before["kokoro-0"], "Joe needs the GPU for himself"
    assert machine.before["polish"] == [], "so do talker and polish"
    assert "--after-speech" in machine.get("codec").options


def test_no_gpu_is_said_at_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(SystemExit, match="no GPU"):
        run(machine)
    assert not machine.started


def test_what_is_done_is_not_run_again(machine: Machine) -> None:
    for done in ("speech", "codes", "polish"):
        Work(machine.work, "before").done(done)
    run(machine)
    assert machine.names() == ["talker"]


def test_polish_can_be_left_out(machine: Machine) -> None:
    run(machine, "--polish-seconds", "0")
    assert "polish" not in machine.names()


@pytest.mark.parametrize("name", ["kokoro-9", "codec", "talker", "polish"])
def test_a_stage_that_fails_ends_the_others_with_one_error(
    machine: Machine, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.looks = {other: 1000 for other in (*EARLY, *LATE, "codec", "talker") if name != "polish"} | {name: 12}
    machine.looks |= {"talker": 1000} if name == "polish" else {}
    machine.codes = {name: 3}
    with pytest.raises(SystemExit) as error:
        run(machine)
    assert error.value.code == 1
    said = capsys.readouterr().out
    assert said.count("FAILED") == 1 and f"FAILED: {name} ended with 3: {name} says something" in said
    assert all(process.ended for process in machine.started)
    assert machine.get("talker").terminated == (name != "talker")
    assert not machine.get(name).terminated and not (machine.work / "all.ok").exists()


def test_an_error_of_its_own_ends_them_too(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*names: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(everything.Stages, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(machine)
    assert machine.started and all(process.terminated for process in machine.started)
