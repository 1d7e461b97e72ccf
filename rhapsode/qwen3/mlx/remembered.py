"""Formats and lanes that were fastest on MLX on this machine, as `rhapsode bench` measured them.

Knows how far a format may be from float32 and what a table holds for. Measures nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

import mlx.core as mx

from rhapsode.machine import cores, processor
from rhapsode.qwen3.config import ModelConfig
from rhapsode.qwen3.mlx import memory
from rhapsode.qwen3.remembered import Best, Measured, Tolerance, bucket, fastest, keep

WAVE = 0.005  # of the codec, which is in float32 here in any case
# Four bits are for those who ask for them: what they say was seen to collapse elsewhere.
TOLERANCES = {
    "float32": Tolerance(0.0, WAVE),
    "float16": Tolerance(0.05, WAVE),
    "bfloat16": Tolerance(0.05, WAVE),
    "int8": Tolerance(0.10, WAVE),
}
ROUNDED = {"int8"}  # how far off random weights are with fewer bits says nothing of trained ones


def best(config: ModelConfig, slots: int, formats: tuple[str, ...] = ()) -> Best | None:
    """The fastest format at these slots, of those named or of all; None where nothing is known."""
    return fastest(key(config, slots), TOLERANCES, ROUNDED, lambda name: not formats or name in formats)


def best_slots(config: ModelConfig, format: str, most: int) -> int | None:
    """Slots up to `most` at which a lane's frame took least in this format; None where nothing is known."""
    known = {slots: found.ms for slots in memory.SLOTS if slots <= most and (found := best(config, slots, (format,)))}
    return min(known, key=lambda slots: known[slots], default=None)


def remember(
    config: ModelConfig, tables: Mapping[int, Mapping[str, Measured]], date: str, *, trained: bool
) -> None:  # fmt: skip
    """Keep tables by slots. Raises `OSError` where that cannot be written."""
    keep({key(config, slots): formats for slots, formats in tables.items()}, date, trained=trained)


def key(config: ModelConfig, slots: int) -> str:
    talker, predictor = config.talker.trunk, config.predictor.trunk
    shapes = "/".join(f"{t.layers}x{t.hidden}x{t.intermediate}" for t in (talker, predictor))
    where = f"mlx {version('mlx')} on {mx.default_device()}"
    return " | ".join((processor(), f"{cores()} cores", where, shapes, f"{bucket(slots)} slots"))
