"""How much memory MLX may take on this machine, and how many lines fit beside the weights.

Knows sizes from a configuration, and MLX's limits. On Apple silicon the memory is the whole machine's: what is taken
here is taken from everything else that runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mlx.core as mx

from rhapsode import machine
from rhapsode.qwen3 import shapes
from rhapsode.qwen3.config import CodecConfig, ModelConfig
from rhapsode.qwen3.limits import PROMPT, kv_bytes, longest_line
from rhapsode.qwen3.mlx.codec import context_frames
from rhapsode.qwen3.mlx.library import GROUP

SLOTS = (24, 16, 8, 4, 2, 1)  # that are tried, the most first; beyond 24 an M4 gained nothing
PIECES = (256, 128, 64)  # frames of a line that the codec takes at once
SHARE = 0.7  # of the memory, where the device does not say how much it may use
CACHE = 0.125  # of what may be used: buffers that MLX keeps for the next call
_ALIVE = 11  # arrays of the widest kind that the codec holds at once, as its test measures
PREFILL = 512  # rows of prompts at once


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be taken of the memory."""

    slots: int
    piece: int
    usable: int | None  # bytes
    weights: int
    needed: int  # with keys and values of all slots, and what the codec works with

    @property
    def fits(self) -> bool:
        return self.usable is None or self.needed <= self.usable


def plan(
    model: ModelConfig, codec: CodecConfig, dtype: mx.Dtype, bits: int | None, slots: int | None = None,
    usable: int | None = None,
) -> Plan:  # fmt: skip
    """The most slots that fit, or those that are wanted, and pieces of the codec that fit beside them."""
    usable = usable or usable_bytes()
    weights = weight_bytes(model, codec, dtype, bits)
    kv = kv_bytes(model.talker.trunk, longest_line(codec.frame_rate), dtype.size)
    found = None
    for lanes in SLOTS if slots is None else (slots,):
        for piece in PIECES:
            needed = weights + lanes * kv + max(_codec_bytes(codec, piece), _prefill_bytes(model, dtype))
            found = Plan(lanes, piece, usable, weights, needed)
            if found.fits:
                return found
    assert found is not None
    return found


def usable_bytes() -> int | None:
    """What a program should take at most; None where nobody says."""
    info = mx.device_info()
    told = info.get("max_recommended_working_set_size")
    total = info.get("memory_size") or info.get("total_memory") or machine.total_bytes()  # Metal, CUDA, processor
    share = int(SHARE * int(total)) if total else None
    return min(int(told), share) if told and share else share


def limit(plan: Plan) -> None:
    """Let MLX wait for what is queued before it takes more than the plan has, and keep few spare buffers."""
    if plan.usable is None:
        return
    mx.set_memory_limit(plan.usable)
    mx.set_cache_limit(int(CACHE * plan.usable))
    if mx.metal.is_available():
        mx.set_wired_limit(min(plan.weights, plan.usable))  # weights are not to be swapped out


def weight_bytes(model: ModelConfig, codec: CodecConfig, dtype: mx.Dtype, bits: int | None) -> int:
    """Bytes of all that is loaded of a checkpoint."""
    total = 0.0
    for name, wanted in shapes.model_tensors(model).items():
        few = bits and len(wanted.shape) == 2 and wanted.shape[1] % GROUP == 0 and _is_quantised(name)
        size = bits / 8 + 2 * dtype.size / GROUP if few and bits else dtype.size
        total += math.prod(wanted.shape) * size * (wanted.component not in shapes.NOT_LOADED)
    for wanted in shapes.codec_tensors(codec).values():
        total += math.prod(wanted.shape) * mx.float32.size * (wanted.component not in shapes.NOT_LOADED)
    return int(total)


def _is_quantised(name: str) -> bool:
    """By the official name: the matrices of both trunks, and the predictor's heads."""
    return ".layers." in name or ".lm_head." in name


def _codec_bytes(codec: CodecConfig, piece: int) -> int:
    """What one piece of one line is worked on in: the last stages have few channels and many steps."""
    decoder = codec.decoder
    widest, rate, channels = 0, math.prod(decoder.upsampling_ratios), decoder.channels
    for factor in decoder.upsample_rates:
        rate, channels = rate * factor, channels // 2
        widest = max(widest, rate * channels)
    return _ALIVE * widest * (piece + context_frames(decoder)) * mx.float32.size


def _prefill_bytes(model: ModelConfig, dtype: mx.Dtype) -> int:
    """Rows of prompts between the layers, and the scores of their attention."""
    trunk = model.talker.trunk
    return PREFILL * (6 * trunk.intermediate * dtype.size + trunk.heads * 2 * PROMPT * mx.float32.size)


def default_slots(model: ModelConfig, codec: CodecConfig, dtype: mx.Dtype, bits: int | None) -> int:
    return plan(model, codec, dtype, bits).slots
