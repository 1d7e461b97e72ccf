"""A checkpoint in MLX: official tensors straight into our networks, and the formats that there are.

Knows formats by the names that users type. Imports no torch.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import mlx.core as mx

from rhapsode.engine.decode import Policy
from rhapsode.errors import CheckpointError, UserError
from rhapsode.qwen3 import names
from rhapsode.qwen3.checkpoint import Checkpoint
from rhapsode.qwen3.config import CodecConfig, ModelConfig
from rhapsode.qwen3.limits import Limits
from rhapsode.qwen3.mlx import memory, remembered
from rhapsode.qwen3.mlx.check import check
from rhapsode.qwen3.mlx.codec import CodecDecoder
from rhapsode.qwen3.mlx.predictor import Predictor
from rhapsode.qwen3.mlx.stepper import MlxStepper
from rhapsode.qwen3.mlx.talker import Talker
from rhapsode.qwen3.trials import Trial, require
from rhapsode.types import Sampling

AUTO = "auto"
# What rows are computed in, and the bits of a weight where they are fewer.
FORMATS: dict[str, tuple[mx.Dtype, int | None]] = {
    "float32": (mx.float32, None),
    "bfloat16": (mx.bfloat16, None),
    "float16": (mx.float16, None),
    "int8": (mx.bfloat16, 8),
    "int4": (mx.bfloat16, 4),
}


@dataclass(frozen=True, slots=True)
class Model:
    """The three networks on MLX's default device."""

    talker: Talker
    predictor: Predictor
    codec: CodecDecoder
    format: str
    device: str = "mlx"
    codec_format: str = "float32"
    notes: tuple[str, ...] = ()  # what this machine does not compute as it should
    default_slots: int = memory.SLOTS[0]

    def slots_for(self, positions: int | None) -> int:
        """Lanes for lines of so many positions: those that were tried when it was made."""
        return self.default_slots

    def policy(self, lanes: int, positions: int | None, tries: int) -> Policy:
        """How much to begin at once with so many lanes."""
        return Policy(tries=tries, group_lines=1)

    def forget(self) -> None:
        """Give back memory that nothing uses any more, as after a stepper that did not fit."""
        gc.collect()
        mx.clear_cache()

    def stepper(
        self, sampling: Sampling, *, slots: int, prompt: int, frames: int, sample_rate: int, scripted: bool = False
    ) -> MlxStepper:
        """Slots for lines of at most `prompt` rows and `frames` frames; `scripted` as `MlxStepper` has it."""
        return MlxStepper(
            self.talker, self.predictor, self.codec, sampling,
            slots=slots, limits=Limits(prompt, frames), sample_rate=sample_rate, scripted=scripted,
        )  # fmt: skip


def load_model(checkpoint: Checkpoint, format: str, slots: int | None = None) -> Model:
    """Load, and try what the steps of so many slots (None: as many as suit) rely on.

    Raises `UserError` for a format that there is not or a device that computes wrongly, `CheckpointError` for a file
    that cannot be read.
    """
    note = ""
    if format == AUTO:
        format, note = _measured_format(checkpoint.model, slots)
    format, config = choose_format(format), checkpoint.model
    dtype, _ = FORMATS[format]
    file = _read(checkpoint.model_file)
    talker = _weights(file, names.talker_sources(config.talker), dtype)
    predictor = _weights(file, names.predictor_sources(config.predictor, config.talker), dtype)
    del file  # what is read is let go of as soon as it has its type
    made = assemble(config, checkpoint.codec, format, talker, predictor, _codec_weights(checkpoint), slots)
    return replace(made, notes=(note, *made.notes)) if note else made


def assemble(
    model: ModelConfig, codec: CodecConfig, format: str,
    talker: dict[str, mx.array], predictor: dict[str, mx.array], decoder: dict[str, mx.array], slots: int | None = None,
) -> Model:  # fmt: skip
    """Networks of weights by our names, those of talker and predictor in the type of the format.

    The dictionaries are empty afterwards: nothing is kept twice.
    """
    dtype, bits = FORMATS[format]
    room = _room(model, codec, format, slots)
    memory.limit(room)
    notes = tuple(require(check(model, codec, dtype, bits, room.slots, time.perf_counter))) + (
        () if room.fits else (_tight(room, format),)
    )
    made = Model(
        Talker(model.talker, talker, bits),
        Predictor(model.predictor, model.talker, predictor, bits),
        CodecDecoder(codec.decoder, decoder, room.piece),
        format, default_slots=room.slots, notes=notes,
    )  # fmt: skip
    # Read and made narrow here and once: within a compiled step it would be done again in every frame.
    for weights in (talker, predictor, decoder):
        weights.clear()
    for network in (made.talker, made.predictor, made.codec):
        mx.eval(network.arrays())
    return made


def _room(model: ModelConfig, codec: CodecConfig, format: str, slots: int | None) -> memory.Plan:
    """What is to be taken of the memory, at the slots that were measured best where none are wanted."""
    room = memory.plan(model, codec, *FORMATS[format], slots)
    if slots is None and (best := remembered.best_slots(model, format, room.slots)):
        return memory.plan(model, codec, *FORMATS[format], best)
    return room


def trials(model: ModelConfig, codec: CodecConfig, format: str, slots: int | None = None) -> list[Trial]:
    """What a model of this format relies on, tried once in a process."""
    return check(model, codec, *FORMATS[format], _room(model, codec, format, slots).slots, time.perf_counter)


def _measured_format(config: ModelConfig, slots: int | None) -> tuple[str, str]:
    """What `bench` found fastest here at these slots, and what to say of it; `auto` where nothing is known."""
    best = remembered.best(config, slots or memory.SLOTS[0])
    if best is None:
        return AUTO, ""
    return best.format, f"{best.format}: the fastest within its tolerance on this machine, measured on {best.date}."


def _tight(room: memory.Plan, format: str) -> str:
    return (
        f"{room.slots} slots in {format} need {room.needed / 1e9:.1f} GB, and {(room.usable or 0) / 1e9:.1f} may be "
        "used here: fewer --slots or a --format with fewer bits would be faster."
    )


def choose_format(format: str) -> str:
    """The format that is meant. Raises `UserError` for one that there is not."""
    if format == AUTO:
        return "float32" if mx.default_device() == mx.Device(mx.cpu) else "bfloat16"
    if format not in FORMATS:
        raise UserError(f"There is no format {format!r} on mlx; there are {', '.join(FORMATS)} (or auto).")
    return format


def _codec_weights(checkpoint: Checkpoint) -> dict[str, mx.array]:
    """In float32 whatever the file holds: half precision is not good enough for its sines."""
    config, file = checkpoint.codec.decoder, _read(checkpoint.codec_file)
    weights = _weights(file, names.codec_sources(config), mx.float32)
    tables = [
        file[sums].astype(mx.float32) / mx.maximum(file[usage].astype(mx.float32), 1e-5)[:, None]
        for sums, usage in names.decoder_tables(config)
    ]
    return {**weights, "quantiser.tables": mx.stack(tables)}


def _read(file: Path) -> dict[str, mx.array]:
    try:
        found = mx.load(str(file))
    except (RuntimeError, OSError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}.") from None
    assert isinstance(found, dict)
    return found


def _weights(file: Mapping[str, mx.array], sources: names.Sources, dtype: mx.Dtype) -> dict[str, mx.array]:
    found = {}
    for ours, theirs in sources.items():
        parts = [file[name].astype(dtype) for name in theirs]
        found[ours] = parts[0] if len(parts) == 1 else mx.concatenate(parts)
    return found
