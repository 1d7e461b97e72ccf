"""The format that was fastest on this machine, as `rhapsode bench` measured it, for whoever asks for `auto`.

Knows how far a format may be from float32, what a table holds for, and what a book that was begun was begun in.
Measures nothing; the file is `qwen3/remembered.py`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from rhapsode.errors import UserError
from rhapsode.machine import cores, processor
from rhapsode.qwen3.config import ModelConfig
from rhapsode.qwen3.remembered import Chosen, Measured, Tolerance, bucket, fastest, keep
from rhapsode.qwen3.torch import mixed
from rhapsode.qwen3.torch.load import choose_device, choose_format
from rhapsode.qwen3.torch.slots import slots_before_loading

AUTO = "auto"


TOLERANCES = {
    "float32": Tolerance(0.0, 0.0),
    "bfloat16": Tolerance(0.05, mixed.TOLERANCE),
    "int8": Tolerance(0.10, mixed.TOLERANCE),
}
# Weights with fewer bits than they are published in: how far off random ones are says nothing of trained ones.
ROUNDED = {"int8"}


def pick_format(
    format: str, device: str, config: ModelConfig, slots: int | None, begun: Sequence[Mapping[str, Any]] = ()
) -> Chosen:
    """The format that is meant. `begun`: settings of readings of the same book that `auto` is to go on with.

    Raises `UserError` for a device or format that there is not.
    """
    device = choose_device(device)
    if format != AUTO:
        return Chosen(choose_format(format, device))
    for settings in begun:
        earlier = settings.get("format")
        if isinstance(earlier, str) and _usable(earlier, device):
            return Chosen(earlier, f"{earlier}: the book was begun in it, and goes on so.")
    slots = slots or slots_before_loading(config, device, format)
    best = recall(device, config, slots)
    if best is None:
        return Chosen(choose_format(AUTO, device))
    name, date = best
    limit = TOLERANCES[name].logits
    within = f" within {limit:.0%}" if limit else ""
    return Chosen(name, f"{name}: the fastest{within} on this machine at {slots} slots, measured on {date}.")


def _usable(format: str, device: str) -> bool:
    try:
        return choose_format(format, device) == format
    except UserError:
        return False


# ---------------------------------------------------------------------- the table


def recall(device: str, config: ModelConfig, slots: int) -> tuple[str, str] | None:
    """The fastest format within its tolerance, and the day it was measured; None where nothing is known."""
    best = fastest(key(device, config, slots), TOLERANCES, ROUNDED, lambda name: _usable(name, device))
    return None if best is None else (best.format, best.date)


def remember(
    device: str, config: ModelConfig, tables: Mapping[int, Mapping[str, Measured]], date: str, *, trained: bool
) -> None:
    """Keep tables by slots. Raises `OSError` where that cannot be written.

    `trained`: whether the weights were a checkpoint's, and not random ones.
    """
    keep({key(device, config, slots): formats for slots, formats in tables.items()}, date, trained=trained)


def key(device: str, config: ModelConfig, slots: int) -> str:
    """What a table holds for."""
    talker, predictor = config.talker.trunk, config.predictor.trunk
    shapes = "/".join(f"{t.layers}x{t.hidden}x{t.intermediate}" for t in (talker, predictor))
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else processor()
    lanes = f"{bucket(slots)} slots"
    return " | ".join((name, f"{cores()} cores", f"torch {torch.__version__}", shapes, lanes, device))
