"""Measuring MLX's device: `gauge.Gauge` on what is there. Knows MLX's networks, formats and memory; no torch.

The floor is every product of talker and predictor in their order, compiled, and nothing else.
"""

from __future__ import annotations

import gc
import math
import platform
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import version
from typing import Any

import mlx.core as mx
import numpy as np

from rhapsode import machine
from rhapsode.bench.gauge import Width
from rhapsode.bench.stopwatch import Stopwatch
from rhapsode.errors import UserError
from rhapsode.memory import peak_rss_mb
from rhapsode.qwen3 import names, shapes
from rhapsode.qwen3.backends import MLX
from rhapsode.qwen3.checkpoint import Checkpoint
from rhapsode.qwen3.config import CodecConfig, ModelConfig
from rhapsode.qwen3.mlx import load, memory, remembered
from rhapsode.qwen3.mlx.load import Model
from rhapsode.qwen3.mlx.transformer import Trunk
from rhapsode.qwen3.remembered import Chosen, Measured
from rhapsode.qwen3.trials import Trial

FORMATS: Mapping[str, Any] = load.FORMATS
COPY_BYTES = 256 << 20  # beyond any cache
PRODUCT_ROWS = 512  # enough that a product waits for arithmetic, not for weights
SLOTS = (8, 24)  # that are measured where none are named, as far as they fit
DECK = 4_194_301  # numbers that are drawn once and dealt over and over; a prime, so that no row repeats another
_SMALL = 0.1  # of what is added to a residual stream many times over
_QUIET = 0.02  # of what is heard


def choose_device(device: str) -> str:
    return MLX


def default_slots(device: str, model: ModelConfig, codec: CodecConfig, format: str) -> tuple[int, ...]:
    most = memory.default_slots(model, codec, *FORMATS[format])
    return tuple(slots for slots in SLOTS if slots < most) + (most,)


def refill(device: str, slots: int) -> int:
    return 1


def pick(formats: Sequence[str], device: str, model: ModelConfig, slots: int) -> list[Chosen]:
    """On a GPU, `auto` by itself compares all formats that are narrow enough for its memory."""
    if tuple(formats) == ("auto",) and mx.default_device() != mx.Device(mx.cpu):
        return [Chosen(name) for name in FORMATS if name != "float32"]
    return [Chosen(load.choose_format(format)) for format in formats]


def remember(
    device: str, model: ModelConfig, tables: Mapping[int, Mapping[str, Measured]], date: str, *, trained: bool
) -> None:
    remembered.remember(model, tables, date, trained=trained)


@contextmanager
def threads(asked: int | None) -> Iterator[None]:
    if asked is not None:
        raise UserError("--threads is for the CPU through PyTorch; MLX takes the threads it wants: leave it out.")
    yield


def load_model(checkpoint: Checkpoint, device: str, format: str) -> Model:
    return load.load_model(checkpoint, format)


# ---------------------------------------------------------------------- random weights


def random_model(model: ModelConfig, codec: CodecConfig, device: str, format: str) -> Model:
    dtype, deck = FORMATS[format][0], _deck()
    official = {name: wanted.shape for name, wanted in shapes.model_tensors(model).items()}
    of_codec = {name: wanted.shape for name, wanted in shapes.codec_tensors(codec).items()}
    decoder = _weights(names.codec_sources(codec.decoder), of_codec, mx.float32, deck)
    tables = codec.decoder.codebooks, codec.decoder.codebook_size, codec.decoder.codebook_dim // 2
    decoder["quantiser.tables"] = _dealt("quantiser.tables", tables, mx.float32, 1.0, deck)
    return load.assemble(
        model, codec, format,
        _weights(names.talker_sources(model.talker), official, dtype, deck),
        _weights(names.predictor_sources(model.predictor, model.talker), official, dtype, deck),
        decoder,
    )  # fmt: skip


def _deck() -> mx.array:
    return mx.array(np.random.Generator(np.random.PCG64(0)).standard_normal(DECK, dtype=np.float32))


def _weights(
    sources: names.Sources, official: Mapping[str, tuple[int, ...]], dtype: mx.Dtype, deck: mx.array
) -> dict[str, mx.array]:
    found = {}
    for ours, theirs in sources.items():
        parts = [official[name] for name in theirs]
        shape = (sum(part[0] for part in parts), *parts[0][1:])
        found[ours] = _random(ours, shape, dtype, deck)
    return found


def _random(name: str, shape: tuple[int, ...], dtype: mx.Dtype, deck: mx.array) -> mx.array:
    """Numbers for a parameter of ours, as large as lets nothing overflow."""
    owner, _, leaf = name.rpartition(".")
    if leaf in ("alpha", "beta"):  # logarithms around 0
        return _dealt(name, shape, dtype, _SMALL, deck)
    if "embedding" in owner:
        return _dealt(name, shape, dtype, 1.0, deck)
    if leaf == "bias":
        return mx.zeros(shape, dtype)
    if len(shape) == 1:  # norms and scales
        return mx.full(shape, _SMALL if leaf.startswith(("scale_", "gamma")) else 1.0, dtype)
    small = _QUIET if shape[0] == 1 else _SMALL if owner.endswith((".out", ".down", ".conv_2")) else 1.0
    return _dealt(name, shape, dtype, small * math.prod(shape[1:]) ** -0.5, deck)


def _dealt(name: str, shape: tuple[int, ...], dtype: mx.Dtype, scale: float, deck: mx.array) -> mx.array:
    count, start = math.prod(shape), zlib.crc32(name.encode()) % DECK
    dealt = mx.tile(deck, -(-(start + count) // DECK))[start : start + count]
    return (dealt * scale).astype(dtype).reshape(shape)


# ---------------------------------------------------------------------- ceiling


def synchronise(device: str) -> None:
    mx.synchronize()


def forget() -> None:
    gc.collect()
    mx.clear_cache()


def copy_rate(device: str, watch: Stopwatch) -> float:
    source = mx.ones(COPY_BYTES // 4, mx.uint32)
    mx.eval(source)
    one = mx.array(1, mx.uint32)
    return 2 * COPY_BYTES / min(watch.repeat(lambda: mx.eval(source ^ one), warm_up=1, times=5).runs)


def product_rate(model: Model, watch: Stopwatch) -> float:
    block = model.talker.trunk.blocks[0]
    x = mx.full((PRODUCT_ROWS, block.shape.hidden), 0.5, model.talker.dtype)
    operations = 2 * PRODUCT_ROWS * block.shape.hidden * 2 * block.shape.intermediate
    return operations / min(watch.repeat(lambda: mx.eval(block.gate_up(x)), warm_up=1, times=3).runs)


def floor(model: Model, lanes: int, watch: Stopwatch) -> float:
    talker, predictor, dtype = model.talker, model.predictor, model.talker.dtype
    wide = mx.full((lanes, talker.trunk.shape.hidden), 0.5, dtype)
    deep = mx.full((lanes, predictor.trunk.shape.hidden), 0.5, dtype)
    twice = (mx.concatenate([wide, wide]), mx.concatenate([deep, deep]))

    def frame(wide: mx.array, deep: mx.array, two_wide: mx.array, two_deep: mx.array) -> list[mx.array]:
        made = []
        for book in range(predictor.books):
            if predictor.project is not None:
                made.append(predictor.project(two_wide if book == 0 else wide))
            made += _products(predictor.trunk, two_deep if book == 0 else deep)
            made.append(predictor.heads[book](deep))
        return [*made, *_products(talker.trunk, wide), talker.head(wide)]

    # Not compiled: equal products of equal rows would be made once, and the layers' are made anew for every codebook.
    return watch.repeat(lambda: mx.eval(frame(wide, deep, *twice)), warm_up=2, times=3).median


def _products(trunk: Trunk, x: mx.array) -> list[mx.array]:
    made = []
    for block in trunk.blocks:
        shape = block.shape
        mixed = block.qkv(x)[:, : shape.heads * shape.head_dim]
        made += [block.out(mixed), block.down(block.gate_up(x)[:, : shape.intermediate])]
    return made


def exact() -> AbstractContextManager[None]:
    return nullcontext()


class forced:
    """In a draw's place: logits are kept, codes come from a script [draws, lines]."""

    def __init__(self, script: np.ndarray) -> None:
        self._script, self._logits = script, list[np.ndarray]()

    def __call__(self, logits: mx.array, uniform: mx.array) -> mx.array:
        codes = np.zeros(len(logits), np.int32)
        lines = self._script.shape[1]
        codes[:lines] = self._script[len(self._logits)]
        self._logits.append(np.array(logits[:lines]))
        return mx.array(codes)

    def logits(self) -> np.ndarray:
        return np.stack(self._logits)


# ---------------------------------------------------------------------- sizes and machine


def weight_bytes(model: Model) -> int:
    return sum(array.nbytes for part in (model.talker, model.predictor, model.codec) for array in part.arrays())


def width(model: Model) -> Width:
    dtype, bits = FORMATS[model.format]
    return Width(bits / 8 if bits else dtype.size, dtype.size, mx.float32.size)


def kv_bytes(stepper: Any) -> int:
    return stepper.kv_bytes


def ways(model: ModelConfig, codec: CodecConfig, format: str) -> Sequence[Trial]:
    return load.trials(model, codec, format)


def describe(device: str) -> dict[str, str | int]:
    """Processor or accelerator, cores, versions."""
    found: dict[str, str | int] = {
        "device": device, "processor": machine.processor(), "cores": machine.cores(),
        "python": platform.python_version(), "mlx": version("mlx"),
    }  # fmt: skip
    if mx.default_device() != mx.Device(mx.cpu):
        found["accelerator"] = str(mx.device_info().get("device_name", mx.default_device()))
    return found


def free_bytes(device: str) -> int | None:
    usable = memory.usable_bytes()
    return None if usable is None else usable - mx.get_active_memory()


def forget_peak(device: str) -> float:
    mx.reset_peak_memory()
    return peak_rss_mb()


def peak_mb(device: str) -> dict[str, float]:
    """The most memory held since `forget_peak`, in MB (10^6 bytes): of the process, and of MLX."""
    return {"process": peak_rss_mb(), "device": round(mx.get_peak_memory() / 1e6, 1)}
