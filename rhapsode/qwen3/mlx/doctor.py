"""What `rhapsode doctor` is told of MLX's device. Knows devices, formats and the checks."""

from __future__ import annotations

import time

import mlx.core as mx

from rhapsode.qwen3.backends import MLX
from rhapsode.qwen3.config import CodecConfig, ModelConfig
from rhapsode.qwen3.mlx import memory
from rhapsode.qwen3.mlx.check import check
from rhapsode.qwen3.mlx.load import FORMATS, choose_format
from rhapsode.qwen3.trials import Device


def examine(model: ModelConfig, codec: CodecConfig, device: str, format: str, slots: int | None) -> Device:
    format = choose_format(format)
    dtype, bits = FORMATS[format]
    slots = slots or memory.default_slots(model, codec, dtype, bits)
    trials = tuple(check(model, codec, dtype, bits, slots, time.perf_counter))
    where = "Metal" if mx.metal.is_available() else str(mx.default_device())
    hardware = f"{mx.device_info().get('device_name', 'unknown')}, {where}"
    return Device(MLX, hardware, memory.usable_bytes(), tuple(FORMATS), format, slots, trials, ())
