"""What a measurement asks of a back end beside its stepper: models, their ceiling, the device's clock and memory.

PyTorch answers in `on_torch.py`, MLX in `on_mlx.py`; nothing else here knows an array library, and only the one that
is asked is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rhapsode.bench.stopwatch import Stopwatch
from rhapsode.engine.stepper import Stepper
from rhapsode.qwen3.backends import MLX, backend_of
from rhapsode.qwen3.config import CodecConfig, ModelConfig
from rhapsode.qwen3.remembered import Chosen, Measured
from rhapsode.qwen3.trials import Trial

Model = Any  # of either back end: talker, predictor, codec, format, device, policy(), stepper()


@dataclass(frozen=True, slots=True)
class Width:
    """Bytes of a number."""

    weights: float
    rows: float  # keys and values among them
    codec: float  # on average: some of its weights may be narrower than others


class Forced(Protocol):
    """In a draw's place: logits are kept, codes come from a script."""

    def __call__(self, logits: Any, uniform: Any) -> Any: ...

    def logits(self) -> np.ndarray:
        """Float32 [draws, lines, codes], of what was asked so far."""


class Gauge(Protocol):
    FORMATS: Mapping[str, Any]

    def choose_device(self, device: str) -> str:
        """The device that is meant. Raises `UserError` for one that there is not."""

    def default_slots(self, device: str, model: ModelConfig, codec: CodecConfig, format: str) -> tuple[int, ...]:
        """That are measured where none are named."""

    def refill(self, device: str, slots: int) -> int:
        """Free slots that are waited for before lines are admitted."""

    def pick(self, formats: Sequence[str], device: str, model: ModelConfig, slots: int) -> list[Chosen]:
        """The formats that are meant. Raises `UserError` for one that there is not."""

    def remember(
        self, device: str, model: ModelConfig, tables: Mapping[int, Mapping[str, Measured]], date: str, *, trained: bool
    ) -> None:
        """Keep tables by slots. Raises `OSError`."""

    def threads(self, asked: int | None) -> AbstractContextManager[None]:
        """Within it, the arithmetic takes so many. Raises `UserError` where that cannot be chosen."""

    def random_model(self, model: ModelConfig, codec: CodecConfig, device: str, format: str) -> Model:
        """Random weights, the same numbers in every format."""

    def load_model(self, checkpoint: Any, device: str, format: str) -> Model: ...

    def synchronise(self, device: str) -> None:
        """Return when everything that was queued is done."""

    def forget(self) -> None:
        """Let go of a model before the next one is made."""

    def copy_rate(self, device: str, watch: Stopwatch) -> float:
        """Bytes read and written in a second by a plain copy."""

    def product_rate(self, model: Model, watch: Stopwatch) -> float:
        """Operations a second of the talker's widest product at many rows."""

    def floor(self, model: Model, lanes: int, watch: Stopwatch) -> float:
        """Seconds of every product of one frame at these lanes."""

    def exact(self) -> AbstractContextManager[None]:
        """Within it, float32 is float32: no library may round its factors for speed."""

    def forced(self, script: np.ndarray) -> Forced:
        """`script`: codes [draws, lines]."""

    def weight_bytes(self, model: Model) -> int: ...

    def width(self, model: Model) -> Width: ...

    def kv_bytes(self, stepper: Stepper) -> int: ...

    def ways(self, model: ModelConfig, codec: CodecConfig, format: str) -> Sequence[Trial]:
        """What was tried before a model of this format was built, where there is more than one way to compute."""

    def describe(self, device: str) -> dict[str, str | int]: ...

    def free_bytes(self, device: str) -> int | None: ...

    def forget_peak(self, device: str) -> float:
        """Let the peak begin anew; MB held by the process."""

    def peak_mb(self, device: str) -> dict[str, float]: ...


def gauge_of(device: str) -> Gauge:
    """Who measures a device. Raises `UserError` where its back end is not installed."""
    if backend_of(device) == MLX:
        from rhapsode.bench import on_mlx

        return on_mlx
    from rhapsode.bench import on_torch

    return on_torch
