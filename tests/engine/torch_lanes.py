"""Short ways to read lines on the PyTorch stepper: all of them through the engine, or step by step by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from rhapsode.engine.decode import Policy, decode
from rhapsode.engine.lanes import Reading
from rhapsode.engine.stepper import Ending, Request
from rhapsode.qwen3.limits import Limits
from rhapsode.qwen3.prompt import Prompt
from rhapsode.qwen3.torch.load import Model
from rhapsode.qwen3.torch.stepper import TorchStepper
from rhapsode.types import Sampling

CAP = 24
ONCE = Policy(tries=1, group_lines=1)
Sound = dict[int, tuple[np.ndarray, np.ndarray]]  # line -> codes, wave


def seed_of(line: int) -> int:
    """64 bits that differ in both words."""
    return (line + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1


def limits_for(prompts: Iterable[Prompt], cap: int = CAP) -> Limits:
    prompts = list(prompts)
    return Limits(max(map(len, prompts)), cap, max(len(prompt.trailing) for prompt in prompts))


def stepper(
    model: Model, limits: Limits, slots: int, sampling: Sampling | None = None, kind: type[TorchStepper] = TorchStepper
) -> TorchStepper:
    networks = model.talker, model.predictor, model.codec
    return kind(*networks, sampling or Sampling(), slots=slots, limits=limits, sample_rate=24000)


def read(
    model: Model, prompts: Sequence[Prompt], lines: Iterable[int], slots: int, *, order: Sequence[int] | None = None,
    sampling: Sampling | None = None, limits: Limits | None = None, kind: type[TorchStepper] = TorchStepper,
    cap: int = CAP,
) -> Sound:  # fmt: skip
    """Codes and sound of some lines, begun in the order given (the first listed first)."""
    lines = list(lines)
    order = list(order) if order is not None else lines
    lanes = stepper(model, limits or limits_for((prompts[line] for line in lines), cap), slots, sampling, kind)
    readings = [Reading(line, Request(prompts[line], cap, seed_of(line)), -order.index(line)) for line in lines]
    finished = decode(readings, lanes, lambda line, attempt: Request(prompts[line], cap, seed_of(line)), ONCE)
    return {one.line: (one.codes, one.wave) for one in finished}


def alone(model: Model, prompts: Sequence[Prompt], lines: Iterable[int], *, sampling: Sampling | None = None) -> Sound:
    """Every line on a stepper of its own, with room for nothing else."""
    sounds: Sound = {}
    for line in lines:
        sounds |= read(model, prompts, [line], 1, sampling=sampling)
    return sounds


def assert_same(ours: Sound, theirs: Sound, where: str = "") -> None:
    assert set(ours) <= set(theirs)
    for line, (codes, wave) in ours.items():
        both = min(len(codes), len(theirs[line][0]))
        wrong = np.argwhere(codes[:both] != theirs[line][0][:both])
        assert not len(wrong), f"{where}: line {line} differs first at frame {wrong[0][0]}, codebook {wrong[0][1]}"
        assert len(codes) == len(theirs[line][0]), f"{where}: line {line} ends elsewhere"
        assert wave.tobytes() == theirs[line][1].tobytes(), f"{where}: line {line} has other sound"


class ByHand:
    """A stepper that is told what to do; keeps the codes of what ended."""

    def __init__(self, lanes: TorchStepper, prompts: Sequence[Prompt]) -> None:
        self.lanes, self.prompts = lanes, prompts
        self.sitting: dict[int, int] = {}
        self.codes: dict[int, np.ndarray] = {}
        self.endings: dict[int, Ending] = {}

    def admit(
        self, slot: int, line: int, *, seed: int | None = None, prompt: int | None = None, cap: int = CAP
    ) -> None:
        """Start a line with its own prompt and seed, or with others."""
        text = self.prompts[line if prompt is None else prompt]
        self.lanes.admit([(slot, Request(text, cap, seed_of(line) if seed is None else seed))])
        self.sitting[slot] = line

    def step(self, steps: int = 1) -> list[tuple[int, int, Ending]]:
        """Steps while anything runs; what ended in them."""
        ended = []
        for _ in range(steps):
            self.lanes.step()
            for slot, frames, ending in self.lanes.finished():
                line = self.sitting.pop(slot)
                self.codes[line], self.endings[line] = self.lanes.codes(slot, frames), ending
                ended.append((slot, frames, ending))
        return ended

    def finish(self) -> dict[int, np.ndarray]:
        while self.sitting:
            self.step()
        return self.codes


def poison(lanes: TorchStepper, slot: int) -> None:
    """NaN in everything that a slot remembers of its line's keys and values."""
    with torch.inference_mode():
        lanes.kv.keys[:, slot] = float("nan")
        lanes.kv.values[:, slot] = float("nan")
