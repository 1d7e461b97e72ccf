"""Every stage on the GPU, started in time and beside each other: what waits for files waits by itself.

`python -m training.all --work W --teachers FOLDER`. Two GPUs are used if there are two: the talker learns on one, the
decoder is polished on the other; on one GPU it is polished after the talker. W must hold what `training.prepare` made.
Stages that are done are not run again.
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


def start_joe(stages: Stages, options: argparse.Namespace, first: int, second: int) -> list[str]:
    """Joe on every GPU; the names of his processes."""
    gpus = sorted({first, second})
    started = []
    for part, gpu in enumerate(gpus):
        share = ("--part", f"{part}/{len(gpus)}", "--hours", str(options.joe_hours / len(gpus)))
        # With two GPUs the codec needs the first one for itself as soon as it is compiled.
        seconds = options.teach_seconds if gpu == second else min(options.teach_seconds, options.early_seconds)
        started.append(_teach(stages, options, gpu, f"joe-{part}", "joe", *share, "--seconds", str(seconds)))
    return started


def start_kokoro(stages: Stages, options: argparse.Namespace, gpu: int) -> list[str]:
    """Kokoro in several processes, and the other voices; their names."""
    parts, seconds = options.kokoro_parts, ("--seconds", str(options.teach_seconds))
    started = []
    for part in range(parts):
        share = ("--part", f"{part}/{parts}", "--hours", str(options.kokoro_hours / parts))
        started.append(_teach(stages, options, gpu, f"kokoro-{part}", "kokoro", *share, *seconds))
    started.append(_teach(stages, options, gpu, EXTRA, EXTRA, "--hours", str(options.extra_hours), *seconds))
    return started


def _teach(stages: Stages, options: argparse.Namespace, gpu: int, name: str, voice: str, *more: str) -> str:
    common = ("--teachers", str(options.teachers), "--style", options.style, "--voice", voice)
    return stages.start("teach", gpu, *common, *more, name=name)


def run(stages: Stages, options: argparse.Namespace, first: int, second: int) -> None:
    """Every stage that is not done. Raises `RuntimeError` when one fails."""
    work, alone = stages.work, first == second
    # Both compile while the teachers speak.
    if not work.is_done("codes"):
        patient = ("--after-speech",) if alone else ()
        stages.start("codec", first, "--seconds", str(options.codec_seconds), *patient)
    if not work.is_done("talker"):
        stages.start("talker", second, "--seconds", str(options.talker_seconds))
    if not work.is_done("speech"):
        joe = start_joe(stages, options, first, second)
        if alone:  # processes take turns on a GPU: Joe, who keeps one busy, spoke at a twentieth beside Kokoro
            stages.wait(*joe)
        stages.wait(*joe, *start_kokoro(stages, options, second))
        work.done("speech")
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
    parser.add_argument("--joe-hours", type=float, default=150.0)
    parser.add_argument("--kokoro-hours", type=float, default=100.0)
    parser.add_argument("--extra-hours", type=float, default=1.2)
    parser.add_argument("--kokoro-parts", type=int, default=6, help="processes that speak as Kokoro")
    parser.add_argument("--style", default="jf_gongitsune", help="of Kokoro")
    parser.add_argument("--teach-seconds", type=float, default=480.0, help="the longest that a teacher speaks")
    parser.add_argument("--early-seconds", type=float, default=100.0, help="that Joe speaks on the codec's GPU")
    parser.add_argument("--codec-seconds", type=float, default=400.0)
    parser.add_argument("--talker-seconds", type=float, default=1000.0)
    parser.add_argument("--polish-seconds", type=float, default=900.0, help="0: not at all")
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
