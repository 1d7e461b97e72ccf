"""What all training stages share: the work folder, a log, the pace of a run, a captured step, optimisers.

Knows no network and no data.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

_SAY_S = 10.0  # between two reports of a run
_STEPS_AHEAD = 8  # that the host may be ahead of the device
_RISEN = 1.4  # times its lowest mean: a loss that has risen so far does not come back


class Work:
    """A folder that stages hand files to each other in. A marker says that a stage's files are whole."""

    def __init__(self, folder: Path, stage: str) -> None:
        self.folder, self.stage, self._began = folder, stage, time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        self._log = (folder / f"{stage}.log").open("a", buffering=1, encoding="utf-8")

    def say(self, text: str) -> None:
        """A line to the log and to the terminal, with the seconds since this process began."""
        line = f"[{self.stage} {time.monotonic() - self._began:7.1f}] {text}"
        self._log.write(line + "\n")
        print(line, flush=True)

    def done(self, what: str) -> None:
        """Mark the files of `what` as whole, for the stages that wait for them."""
        (self.folder / f"{what}.ok").write_text("ok\n")

    def is_done(self, what: str) -> bool:
        """Whether `what` has been marked, in this run or an earlier one."""
        return (self.folder / f"{what}.ok").exists()

    def wait(self, what: str, most_s: float = 900.0) -> None:
        """Until another stage has marked its files. Raises `TimeoutError`."""
        limit = time.monotonic() + most_s
        while not self.is_done(what):
            if time.monotonic() > limit:
                raise TimeoutError(f"{self.stage} waited {most_s:.0f} s for {what}")
            time.sleep(0.2)


def stage_parser(about: str) -> argparse.ArgumentParser:
    """The options that every stage with a network has."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--work", type=Path, required=True, help="the folder that stages share")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def prepare_torch(seed: int) -> None:
    """Chance from a seed; products on the GPU in TF32 where they are not narrower anyway."""
    torch.manual_seed(seed)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True


def save(value: Any, file: Path) -> None:
    """Whole or not at all: a run may be stopped at any moment."""
    part = file.with_suffix(file.suffix + ".part")
    torch.save(value, part)
    os.replace(part, file)


def load(file: Path, device: str = "cpu") -> Any:
    """What `save` wrote: tensors, numbers and containers of them, never code."""
    return torch.load(file, map_location=device, weights_only=True)


def autocast(device: str) -> torch.autocast:
    """bfloat16 products on the GPU, float32 on the CPU."""
    kind = torch.device(device).type
    return torch.autocast(kind, dtype=torch.bfloat16, enabled=kind == "cuda", cache_enabled=False)


class Averages:
    """Running sums of a step's figures on the device, read once in a while. The first figure is what is to fall."""

    def __init__(self, names: Sequence[str], device: str) -> None:
        self.names = names
        self._lowest = math.inf
        self._sums = torch.zeros(len(names) + 1, device=device)
        self._since = time.monotonic()

    @torch.no_grad()
    def add(self, *values: Tensor) -> None:
        """One step's figures, in the order of the names."""
        one = torch.ones((), device=self._sums.device)
        self._sums.add_(torch.stack([*(value.detach().float() for value in values), one]))

    def read(self) -> str:
        """Steps a second and the means since the last reading. Waits for the device.

        Raises `RuntimeError` when the first mean is no number, or far above what it has been.
        """
        *sums, count = self._sums.tolist()
        self._sums.zero_()
        now = time.monotonic()
        speed, self._since = count / max(1e-9, now - self._since), now
        means = " ".join(f"{name} {total / max(1.0, count):.4f}" for name, total in zip(self.names, sums, strict=True))
        said = f"{speed:.1f} steps/s {means}"
        if count:
            first = sums[0] / count
            if not first < _RISEN * self._lowest:
                raise RuntimeError(f"the training came apart: {self.names[0]} was {self._lowest:.4f}, now: {said}")
            self._lowest = min(first, self._lowest)
        return said


def paced(work: Work, averages: Averages, device: str, seconds: float, state: dict[str, Any]) -> Iterator[float]:
    """Before every step, the share of `seconds` that has passed; reports in between.

    state: "steps" done and "seconds" spent in all runs, earlier ones too; kept up to date. A run that goes on from a
    state in which the seconds are spent has no step.
    """
    spent = state["seconds"]
    began = said = time.monotonic()
    while (passed := spent + time.monotonic() - began) < seconds:
        state["seconds"] = passed
        yield passed / seconds
        state["steps"] += 1
        if state["steps"] % _STEPS_AHEAD == 0 and torch.device(device).type == "cuda":
            torch.cuda.synchronize()
        if time.monotonic() - said > _SAY_S:
            said = time.monotonic()
            work.say(f"step {state['steps']} {averages.read()}")
    state["seconds"] = max(spent, seconds)


class Captured:
    """A training step without host work, run eagerly a few times and then replayed as one CUDA graph.

    The networks are small: a step is thousands of launches, which take longer than what they compute.
    """

    def __init__(self, step: Callable[[], None], device: str, *, pool: Any = None, warm: int = 4) -> None:
        self._step, self._left, self.pool = step, warm, pool
        self._cuda = torch.device(device).type == "cuda"
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        if not self._cuda:
            self._step()
        elif self._graph is not None:
            self._graph.replay()
        elif self._left:
            self._left -= 1
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self._step()
            torch.cuda.current_stream().wait_stream(side)
        else:
            self._capture()

    @property
    def is_captured(self) -> bool:
        """Whether calls replay a graph by now."""
        return self._graph is not None

    def _capture(self) -> None:
        """`pool` may afterwards be shared with other captured steps. What cannot be captured goes on as it was."""
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self.pool):
                self._step()
        except RuntimeError as error:
            print(f"a step could not be captured and stays slow: {error}", flush=True)
            self._cuda = False
            torch.cuda.synchronize()
            self._step()
            return
        self._graph, self.pool = graph, graph.pool()
        graph.replay()


class Rate:
    """A learning rate on the device, so that a captured step follows it."""

    def __init__(self, device: str) -> None:
        self.value = torch.zeros((), device=device)
        self._cuda = torch.device(device).type == "cuda"

    def adamw(self, parameters: Iterable[nn.Parameter], betas: tuple[float, float], decay: float) -> torch.optim.AdamW:
        """An optimiser that goes by this rate."""
        return torch.optim.AdamW(
            list(parameters), lr=self.value, betas=betas, weight_decay=decay, fused=self._cuda, capturable=self._cuda
        )

    def restore(self, optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        """The state of one of its optimisers, whose own loading would leave it with the rate of the saved moment."""
        optimiser.load_state_dict(state)
        for group in optimiser.param_groups:
            self.value.copy_(torch.as_tensor(group["lr"]))
            group["lr"] = self.value

    def set(self, rate: float) -> None:
        """The rate of the steps to come."""
        self.value.fill_(rate)


class Muon:
    """Momentum whose every step is made orthogonal by a Newton-Schulz iteration; for the matrices of the blocks.

    After K. Jordan et al., https://kellerjordan.github.io/posts/muon (2024): the quintic's coefficients are theirs.
    A fused matrix is several: `parts` gives the rows of each.
    """

    def __init__(self, parts: Sequence[tuple[Tensor, tuple[int, ...]]], rate: Rate, decay: float) -> None:
        self.rate, self.decay = rate, decay
        self._groups: dict[tuple[int, int], list[tuple[Tensor, int, int]]] = {}
        for parameter, rows in parts:
            start = 0
            for count in rows:
                group = self._groups.setdefault((count, parameter.shape[1]), [])
                group.append((parameter, start, start + count))
                start += count
            if start != parameter.shape[0]:
                raise ValueError(f"parts of {rows} rows do not make up {tuple(parameter.shape)}")
        device = parts[0][0].device
        self.momentum = {
            shape: torch.zeros(len(members), *shape, device=device) for shape, members in self._groups.items()
        }

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients as they are."""
        for (rows, columns), members in self._groups.items():
            momentum = self.momentum[rows, columns]
            gradient = torch.stack([_gradient(parameter)[a:b] for parameter, a, b in members]).float()
            momentum.lerp_(gradient, 0.05)
            turn = self._orthogonal(gradient.lerp(momentum, 0.95))
            turn = turn * (self.rate.value * max(1.0, rows / columns) ** 0.5)
            keep = 1 - self.rate.value * self.decay
            for (parameter, a, b), change in zip(members, turn, strict=True):
                parameter[a:b].mul_(keep).sub_(change)

    @staticmethod
    def _orthogonal(x: Tensor) -> Tensor:
        tall = x.shape[1] > x.shape[2]
        x = x.to(torch.bfloat16 if x.is_cuda else torch.float32)
        x = x.transpose(1, 2) if tall else x
        x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
        for _ in range(5):
            y = x @ x.transpose(1, 2)
            x = 3.4445 * x + (-4.7750 * y + 2.0315 * (y @ y)) @ x
        return (x.transpose(1, 2) if tall else x).float()


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
