"""Every stage on the GPU, started in time and beside each other: what waits for files waits by itself.

`python -m training.all --work W --teachers FOLDER`. Two GPUs are used if there are two: on one the codec learns while
Kokoro still speaks on the other, then the decoder is polished on one while the talker learns on the other. On one GPU
all this is done one after the other. W must hold what `training.prepare` made. Stages that are done are not run again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import torch

from training.audio import EXTRA
from training.common import Work
from training.layout import begin_checkpoint

_LOOK_S = 0.5  # between two looks at what runs
_SAID = 1500  # characters of what a failed stage printed last


class Stages:
    """Processes by name; what one prints lands in a file of its own, W/<name>.out."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, stage: str, gpu: int, *options: str, name: str | None = None) -> str:
        """Start a stage that sees one GPU; the name by which to wait for it."""
        name = name or stage
        command = [sys.executable, "-m", f"training.{stage}", "--work", str(self.work.folder), *options]
        surroundings = {**os.environ, "PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": str(gpu)}
        with (self.work.folder / f"{name}.out").open("ab") as output:
            self._running[name] = subprocess.Popen(command, env=surroundings, stdout=output, stderr=subprocess.STDOUT)
        self.work.say(f"started {name}")
        return name

    def wait(self, *names: str) -> None:
        """Until all of them are done. Raises `RuntimeError` as soon as any stage that runs has failed."""
        waiting = list(names)
        while True:
            for name in list(self._running):
                code = self._running[name].poll()
                if code:
                    said = (self.work.folder / f"{name}.out").read_text(errors="replace")[-_SAID:]
                    raise RuntimeError(f"{name} ended with {code}: {said}")
                if code == 0:
                    del self._running[name]
                    self.work.say(f"{name} is done")
            waiting = [name for name in waiting if name in self._running]
            if not waiting:
                return
            time.sleep(_LOOK_S)

    def stop(self) -> None:
        """End what still runs."""
        for process in self._running.values():
            if process.poll() is None:
                process.terminate()
        for process in self._running.values():
            process.wait()


def start_joe(stages: Stages, options: argparse.Namespace, gpu: int) -> str:
    """Joe, in one process that keeps a GPU busy; its name."""
    share = ("--hours", str(options.joe_hours), "--seconds", str(options.joe_seconds))
    return _teach(stages, options, gpu, "joe", "joe", *share)


def start_kokoro(stages: Stages, options: argparse.Namespace, gpu: int, parts: range, seconds: float) -> list[str]:
    """Some of Kokoro's processes; with the first of them the other voices. Their names."""
    started, count, most = [], options.kokoro_parts, ("--seconds", str(seconds))
    for part in parts:
        share = ("--part", f"{part}/{count}", "--hours", str(options.kokoro_hours / count))
        started.append(_teach(stages, options, gpu, f"kokoro-{part}", "kokoro", *share, *most))
    if 0 in parts:
        started.append(_teach(stages, options, gpu, EXTRA, EXTRA, "--hours", str(options.extra_hours), *most))
    return started


def _teach(stages: Stages, options: argparse.Namespace, gpu: int, name: str, voice: str, *more: str) -> str:
    common = ("--teachers", str(options.teachers), "--style", options.style, "--voice", voice)
    return stages.start("teach", gpu, *common, *more, name=name)


def speak(stages: Stages, options: argparse.Namespace, first: int, second: int) -> None:
    """All speech, by `first` only as long as the codec compiles for it. Joe keeps a GPU busy and has one alone."""
    early = options.kokoro_parts // 3 if first != second else 0
    kokoro = start_kokoro(stages, options, first, range(early), options.early_seconds)
    stages.wait(start_joe(stages, options, second))
    if first != second:  # compiles beside Kokoro, whose processes leave gaps
        start_talker(stages, options, second)
    rest = range(early, options.kokoro_parts)
    stages.wait(*kokoro, *start_kokoro(stages, options, second, rest, options.teach_seconds))
    stages.work.done("speech")


def start_talker(stages: Stages, options: argparse.Namespace, gpu: int) -> None:
    """The talker, which compiles and waits for codes; unless it is done."""
    if not stages.work.is_done("talker"):
        stages.start("talker", gpu, "--seconds", str(options.talker_seconds))


def run(stages: Stages, options: argparse.Namespace, first: int, second: int) -> None:
    """Every stage that is not done. Raises `RuntimeError` when one fails."""
    work, alone = stages.work, first == second
    # On one GPU both compile while the teachers speak, and wait until it is theirs.
    if not work.is_done("codes"):
        patient = ("--after-speech",) if alone else ()
        stages.start("codec", first, "--seconds", str(options.codec_seconds), *patient)
    if alone or work.is_done("speech"):
        start_talker(stages, options, second)
    if not work.is_done("speech"):
        speak(stages, options, first, second)
    stages.wait("codec")
    if alone:
        stages.wait("talker")
    if options.polish_seconds and not work.is_done("polish"):
        stages.start("polish", first, "--seconds", str(options.polish_seconds))
    stages.wait("polish", "talker")
    work.done("all")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--teachers", type=Path, required=True, help="the folder that training.teachers packed")
    parser.add_argument("--joe-hours", type=float, default=100.0)
    parser.add_argument("--joe-seconds", type=float, default=110.0, help="the longest that Joe speaks")
    parser.add_argument("--kokoro-hours", type=float, default=100.0)
    parser.add_argument("--extra-hours", type=float, default=1.2)
    parser.add_argument("--kokoro-parts", type=int, default=12, help="processes that speak as Kokoro")
    parser.add_argument("--style", default="jf_gongitsune", help="of Kokoro")
    parser.add_argument("--teach-seconds", type=float, default=480.0, help="the longest that Kokoro speaks")
    parser.add_argument("--early-seconds", type=float, default=85.0, help="that Kokoro speaks on the codec's GPU")
    parser.add_argument("--codec-seconds", type=float, default=600.0)
    parser.add_argument("--talker-seconds", type=float, default=860.0)
    parser.add_argument("--polish-seconds", type=float, default=780.0, help="0: not at all")
    options = parser.parse_args(arguments)
    gpus = torch.cuda.device_count()
    if not gpus:
        raise SystemExit("There is no GPU here; single stages run on the CPU too, with --device cpu.")
    work = Work(options.work, "all")
    stages = Stages(work)
    began = time.monotonic()
    try:
        begin_checkpoint(options.work)
        run(stages, options, 0, min(1, gpus - 1))
    except RuntimeError as error:
        work.say(f"FAILED: {error}")
        raise SystemExit(1) from None
    finally:
        stages.stop()
        work.say(f"{time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    main()
