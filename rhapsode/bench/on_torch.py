"""Measuring a PyTorch device: `gauge.Gauge` on what is there. Knows torch's modules, formats and memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rhapsode.bench import ceiling, machine, weights
from rhapsode.bench.gauge import Width
from rhapsode.bench.stopwatch import Stopwatch
from rhapsode.qwen3.checkpoint import Checkpoint
from rhapsode.qwen3.config import CodecConfig, ModelConfig
from rhapsode.qwen3.remembered import Chosen, Measured
from rhapsode.qwen3.torch import load, remembered
from rhapsode.qwen3.torch.formats import FORMATS as _FORMATS
from rhapsode.qwen3.torch.formats import Int8Linear, has_int8
from rhapsode.qwen3.torch.load import Model
from rhapsode.qwen3.torch.slots import refill as waited_for
from rhapsode.qwen3.torch.slots import slots_before_loading
from rhapsode.qwen3.torch.stepper import WIDE
from rhapsode.qwen3.torch.threads import use_threads
from rhapsode.qwen3.trials import Trial

FORMATS: Mapping[str, Any] = _FORMATS
choose_device = load.choose_device


def default_slots(device: str, model: ModelConfig, codec: CodecConfig, format: str) -> tuple[int, ...]:
    most = slots_before_loading(model, device, format, codec)
    # Half as many take nearly as long for a step of a GPU, and end a book with fewer idle lanes.
    return (most // 2, most) if device.startswith("cuda") and most > 1 else (most,)


def refill(device: str, slots: int) -> int:
    return waited_for(device, slots)


def pick(formats: Sequence[str], device: str, model: ModelConfig, slots: int) -> list[Chosen]:
    """`auto` by itself compares what is narrower than float32, where the processor waits for weights or products."""
    if tuple(formats) == ("auto",) and device == "cpu" and model.talker.trunk.hidden >= WIDE:
        return [Chosen(name) for name in FORMATS if name == "bfloat16" or (name == "int8" and has_int8())]
    return [remembered.pick_format(format, device, model, slots) for format in formats]


def remember(
    device: str, model: ModelConfig, tables: Mapping[int, Mapping[str, Measured]], date: str, *, trained: bool
) -> None:
    remembered.remember(device, model, tables, date, trained=trained)


@contextmanager
def threads(asked: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    use_threads(asked)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def random_model(model: ModelConfig, codec: CodecConfig, device: str, format: str) -> Model:
    load.make_current(device)
    return weights.random_model(model, codec, device, format)


def load_model(checkpoint: Checkpoint, device: str, format: str) -> Model:
    return load.load_model(checkpoint, device, format)


def synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    elif device == "mps":
        torch.mps.synchronize()


def forget() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def copy_rate(device: str, watch: Stopwatch) -> float:
    return ceiling.copy_rate(device, watch)


def product_rate(model: Model, watch: Stopwatch) -> float:
    return ceiling.product_rate(model, watch)


def floor(model: Model, lanes: int, watch: Stopwatch) -> float:
    return ceiling.floor(model, lanes, watch)


@contextmanager
def exact() -> Iterator[None]:
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


class forced:
    """In a draw's place: logits are kept, codes come from a script [draws, lines]."""

    def __init__(self, script: np.ndarray) -> None:
        self._script, self._logits = torch.from_numpy(script), list[Tensor]()

    def __call__(self, logits: Tensor, uniform: Tensor) -> Tensor:
        lines = self._script.shape[1]
        codes = torch.zeros(len(logits), dtype=torch.int64, device=logits.device)
        codes[:lines] = self._script[len(self._logits)].to(logits.device)
        self._logits.append(logits[:lines].cpu())
        return codes

    def logits(self) -> np.ndarray:
        return torch.stack(self._logits).numpy()


def weight_bytes(model: Model) -> int:
    """What all three networks are kept in: parameters, and eight-bit weights with their scales."""
    total = 0
    for part in (part for network in (model.talker, model.predictor, model.codec) for part in network.modules()):
        total += sum(parameter.numel() * parameter.element_size() for parameter in part.parameters(recurse=False))
        if isinstance(part, Int8Linear):
            total += part.in_features * part.out_features + part.scale.numel() * part.scale.element_size()
    return total


def width(model: Model) -> Width:
    codec, rows = list(model.codec.parameters()), model.talker.head.weight.element_size()
    average = sum(weight.numel() * weight.element_size() for weight in codec) / sum(map(Tensor.numel, codec))
    return Width(1 if model.format == "int8" else rows, rows, average)


def kv_bytes(stepper: Any) -> int:
    return stepper.kv.bytes + stepper.depth_kv.bytes


def ways(model: ModelConfig, codec: CodecConfig, format: str) -> Sequence[Trial]:
    return ()


def describe(device: str) -> dict[str, str | int]:
    return machine.describe(device)


def free_bytes(device: str) -> int | None:
    return machine.free_bytes(device)


def forget_peak(device: str) -> float:
    return machine.forget_peak(device)


def peak_mb(device: str) -> dict[str, float]:
    return machine.peak_mb(device)
