"""How far a format's numbers are from float32's: logits on forced codes, and the codec's waveform.

Knows that codes are chosen by two functions of the stepper, and puts its own there: they write down the logits and
choose what a script says, so that both formats are compared on the same path.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rhapsode.bench.gauge import Model, gauge_of
from rhapsode.bench.measure import scripted_stepper
from rhapsode.bench.requests import readings
from rhapsode.bench.workload import Script, Workload
from rhapsode.qwen3.config import CodecConfig, ModelConfig

FRAMES, TOKENS = 6, (5, 20)
SOUND_FRAMES = 125  # ten seconds: of a shorter sound the largest difference says little


@dataclass(frozen=True, slots=True)
class Trace:
    """What a model says while it is made to say something else."""

    talker: np.ndarray  # float32 [draws, lines, codes]
    predictor: np.ndarray  # float32 [draws, lines, codes]
    wave: np.ndarray  # float32 [samples]


@dataclass(frozen=True, slots=True)
class Deviation:
    """Root mean square of the difference over the spread of the reference; of the wave, largest over peak."""

    talker: float
    predictor: float
    codec: float


def trace(model: Model, config: ModelConfig, codec: CodecConfig) -> Trace:
    """A few frames of two lines on forced codes, and the sound of one of them."""
    workload = Workload(tuple(Script(tokens, FRAMES + 1) for tokens in TOKENS))
    lines, books = readings(workload, config), config.talker.codebooks
    most = min(config.talker.codes, config.predictor.vocab, codec.decoder.codebook_size)
    script = np.random.Generator(np.random.PCG64(7)).integers(0, most, (FRAMES + 1, books, 2))
    stepper = scripted_stepper(model, codec, lines, len(lines))
    forced = gauge_of(model.device).forced
    talker, predictor = forced(script[:, 0].copy()), forced(script[:, 1:].reshape(-1, 2))
    stepper.draw_with(talker, predictor)
    stepper.admit([(slot, reading.request) for slot, reading in enumerate(lines)])
    for _ in range(FRAMES):
        stepper.step()
    sound = np.random.Generator(np.random.PCG64(11)).integers(0, most, (SOUND_FRAMES, books))
    wave = stepper.vocode([sound]).waves()[0]
    return Trace(talker.logits()[..., : config.talker.codes], predictor.logits(), wave)


def deviation(of: Trace, reference: Trace) -> Deviation:
    return Deviation(
        _relative(of.talker, reference.talker),
        _relative(of.predictor, reference.predictor),
        float(np.abs(of.wave - reference.wave).max() / np.abs(reference.wave).max()),
    )


def _relative(of: np.ndarray, reference: np.ndarray) -> float:
    spread = np.sqrt(np.square(reference - reference.mean(-1, keepdims=True), dtype=np.float64).mean())
    return float(np.sqrt(np.square(of - reference, dtype=np.float64).mean()) / spread)
