"""How far a format's numbers are from float32's: logits on forced codes, and the codec's waveform.

Knows that codes are chosen by two functions of the stepper, and puts its own there: they write down the logits and
choose what a script says, so that both formats are compared on the same path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rhapsode.bench.measure import scripted_stepper
from rhapsode.bench.requests import readings
from rhapsode.bench.workload import Script, Workload
from rhapsode.qwen3.config import CodecConfig, ModelConfig
from rhapsode.qwen3.torch.load import Model

FRAMES, TOKENS = 6, (5, 20)


@dataclass(frozen=True, slots=True)
class Trace:
    """What a model says while it is made to say something else."""

    talker: Tensor  # float32 [draws, lines, codes]
    predictor: Tensor  # float32 [draws, lines, codes]
    wave: np.ndarray  # float32 [samples]


@dataclass(frozen=True, slots=True)
class Deviation:
    """Root mean square of the difference over the spread of the reference; of the wave, largest over peak."""

    talker: float
    predictor: float
    codec: float


class Forced:
    """In a draw's place: logits are kept, codes come from a script [draws, lines]."""

    def __init__(self, script: Tensor) -> None:
        self._script, self.logits = script, list[Tensor]()

    def __call__(self, logits: Tensor, uniform: Tensor) -> Tensor:
        lines = self._script.shape[1]
        codes = torch.zeros(len(logits), dtype=torch.int64, device=logits.device)
        codes[:lines] = self._script[len(self.logits)].to(logits.device)
        self.logits.append(logits[:lines].cpu())
        return codes


def trace(model: Model, config: ModelConfig, codec: CodecConfig) -> Trace:
    """A few frames of two lines on forced codes, and the sound of one of them."""
    workload = Workload(tuple(Script(tokens, FRAMES + 1) for tokens in TOKENS))
    lines, books = readings(workload, config), config.talker.codebooks
    most = min(config.talker.codes, config.predictor.vocab, codec.decoder.codebook_size)
    script = torch.from_numpy(np.random.Generator(np.random.PCG64(7)).integers(0, most, (FRAMES + 1, books, 2)))
    stepper = scripted_stepper(model, codec, lines, len(lines))
    talker, predictor = Forced(script[:, 0]), Forced(script[:, 1:].flatten(0, 1))
    stepper.draw_with(talker, predictor)
    stepper.admit([(slot, reading.request) for slot, reading in enumerate(lines)])
    for _ in range(FRAMES):
        stepper.step()
    wave = stepper.vocode([script[:, :, 0].numpy()])[0]
    return Trace(torch.stack(talker.logits)[..., : config.talker.codes], torch.stack(predictor.logits), wave)


def deviation(of: Trace, reference: Trace) -> Deviation:
    return Deviation(
        _relative(of.talker, reference.talker),
        _relative(of.predictor, reference.predictor),
        float(np.abs(of.wave - reference.wave).max() / np.abs(reference.wave).max()),
    )


def _relative(of: Tensor, reference: Tensor) -> float:
    spread = (reference - reference.mean(-1, keepdim=True)).square().mean().sqrt()
    return float((of - reference).square().mean().sqrt() / spread)
