"""A checkpoint on a PyTorch device in a format: which devices there are, what they prefer.

Knows devices and formats by the names that users type. Computes nothing.
"""

from __future__ import annotations

import gc
import warnings
from dataclasses import dataclass, replace

import torch

from rhapsode.engine.decode import Policy
from rhapsode.errors import UserError
from rhapsode.qwen3.checkpoint import Checkpoint
from rhapsode.qwen3.limits import Limits
from rhapsode.qwen3.torch import kernels, slots
from rhapsode.qwen3.torch.codec import CodecDecoder
from rhapsode.qwen3.torch.codec_fast import FastCodec, quicken
from rhapsode.qwen3.torch.encoder import CodecEncoder
from rhapsode.qwen3.torch.formats import FORMATS, has_int8
from rhapsode.qwen3.torch.kernels import runs_on
from rhapsode.qwen3.torch.mixed import has_fast_bfloat16, is_mixed, narrow
from rhapsode.qwen3.torch.predictor import Predictor
from rhapsode.qwen3.torch.stepper import TorchStepper
from rhapsode.qwen3.torch.streaming import Streamer
from rhapsode.qwen3.torch.talker import Talker
from rhapsode.qwen3.torch.weights import load_codec, load_encoder, load_talker
from rhapsode.types import Sampling


@dataclass(frozen=True, slots=True)
class Model:
    """The three networks on one device."""

    talker: Talker
    predictor: Predictor
    codec: CodecDecoder
    device: str
    format: str

    @property
    def codec_format(self) -> str:
        if isinstance(self.codec, FastCodec):
            return self.codec.format
        return "mixed" if is_mixed(self.codec) else "float32"

    @property
    def default_slots(self) -> int:
        """Lanes for lines of any length, in the memory that is free now."""
        return self.slots_for(None)

    def slots_for(self, positions: int | None) -> int:
        """The same for lines of so many positions, prompt and frames."""
        codec = self.codec.config
        return slots.default_slots(self.talker.config, self.device, self.format, codec=codec, positions=positions)

    def policy(self, lanes: int, positions: int | None, tries: int) -> Policy:
        """How much to begin at once with so many lanes, which are yet to be made."""
        where = self.device, self.format, lanes
        suits = slots.policy(self.talker.config, self.codec.config, *where, positions=positions)
        return replace(suits, tries=tries)

    def streamer(self, sampling: Sampling, *, prompt: int, frames: int, sample_rate: int) -> Streamer:
        """What reads lines of at most `prompt` rows and `frames` frames one by one, and gives their sound by pieces."""
        stepper = self.stepper(sampling, slots=1, prompt=prompt, frames=frames, sample_rate=sample_rate)
        stepper.prepare()  # or the first sound waits for it
        return Streamer(stepper)

    def forget(self) -> None:
        """Give back memory that nothing uses any more, as after a stepper that did not fit."""
        gc.collect()
        if self.device.startswith("cuda"):
            torch.cuda.empty_cache()

    def stepper(
        self, sampling: Sampling, *, slots: int, prompt: int, frames: int, sample_rate: int, scripted: bool = False
    ) -> TorchStepper:
        """Slots for lines of at most `prompt` rows and `frames` frames; `scripted` as `TorchStepper` has it."""
        return TorchStepper(
            self.talker,
            self.predictor,
            self.codec,
            sampling,
            slots=slots,
            limits=Limits(prompt=prompt, frames=frames),
            sample_rate=sample_rate,
            scripted=scripted,
        )


def load_model(checkpoint: Checkpoint, device: str, format: str) -> Model:
    """Load onto a device. Raises `UserError` for a device or format that there is not."""
    device = choose_device(device)
    format = choose_format(format, device)
    make_current(device)
    place = torch.device(device)
    talker, predictor = load_talker(checkpoint, FORMATS[format], place, int8=format == "int8")
    return assemble(talker, predictor, load_codec(checkpoint, place), device, format)


def make_current(device: str) -> None:
    """Graphs are recorded and kernels launched on the current device, whatever that of their tensors."""
    if device.startswith("cuda:"):
        torch.cuda.set_device(torch.device(device))


def assemble(talker: Talker, predictor: Predictor, codec: CodecDecoder, device: str, format: str) -> Model:
    """A model of networks that are there. Its float32 codec is narrowed where device and format gain by it and a
    trial allows it."""
    if device == "cpu" and format != "float32" and has_fast_bfloat16():
        narrow(codec)
    if device.startswith("cuda") and not runs_on(torch.device(device)):
        warnings.warn(kernels.sentence(torch.device(device)), stacklevel=2)
    elif device.startswith("cuda") and format != "float32":
        codec = quicken(codec)
    return Model(talker, predictor, codec, device, format)


def load_codec_encoder(checkpoint: Checkpoint, device: str) -> CodecEncoder:
    """What turns sound into codes, which reading with a named voice has no use for. In float32 on any device."""
    return load_encoder(checkpoint, torch.device(choose_device(device)))


def choose_device(device: str) -> str:
    there = available_devices()
    if device == "auto":
        return there[-1]
    kind = device.split(":")[0]
    if device not in there and not (kind in there and device == f"{kind}:0"):
        raise UserError(f"There is no device {device!r} here; there are {', '.join(there)} (or auto).")
    return device


def available_devices() -> list[str]:
    """Devices of this machine, the preferred one last."""
    devices = ["cpu"]
    if torch.backends.mps.is_available():
        devices.append("mps")
    if torch.cuda.is_available():
        devices.extend(f"cuda:{i}" for i in range(1, torch.cuda.device_count()))
        devices.append("cuda")
    return devices


def choose_format(format: str, device: str) -> str:
    if format == "auto":
        return "bfloat16" if device.startswith("cuda") else "float32"
    if format not in FORMATS:
        raise UserError(f"There is no format {format!r}; there are {', '.join(FORMATS)} (or auto).")
    if format == "int8" and not (device == "cpu" and has_int8()):
        raise UserError(f"int8 is there for the CPU with oneDNN; on {device} choose float32 or bfloat16.")
    return format
