"""How many lines side by side suit a PyTorch device: as many as its products gain from, and its memory holds.

Knows sizes from a configuration, and how much memory is free. Computes nothing.
"""

from __future__ import annotations

import math

import torch

from rhapsode import machine
from rhapsode.qwen3 import shapes
from rhapsode.qwen3.config import ModelConfig, TalkerConfig
from rhapsode.qwen3.limits import kv_bytes, longest_line
from rhapsode.qwen3.torch.formats import FORMATS
from rhapsode.qwen3.torch.stepper import WIDE

# Where each line more costs little of a step's time; `docs/bench.md` has the table for the CPU.
MOST = {"cpu": 64, "cuda": 64, "mps": 16}
NARROW = 16  # of a talker on the CPU whose weights fit into its caches: more gain nothing, and delay the first line
SHARE = 0.5  # of what is free: keys and values are not all that a step needs


def default_slots(talker: TalkerConfig, device: str, format: str, free: int | None = None) -> int:
    """Lanes for a talker whose weights are there; at least 1. free: bytes, where they are known beforehand."""
    kind = device.split(":")[0]
    most = NARROW if kind == "cpu" and talker.trunk.hidden < WIDE else MOST[kind]
    free = free_bytes(device) if free is None else free
    if free is None:
        return most
    lane = kv_bytes(talker.trunk, longest_line(), _width(format))
    fitting = int(SHARE * free / lane)
    return most if fitting >= most else max(1, 1 << max(0, fitting.bit_length() - 1))


def slots_before_loading(model: ModelConfig, device: str, format: str) -> int:
    """The same for weights that are yet to be loaded."""
    free = free_bytes(device)
    wanted = (one for one in shapes.model_tensors(model).values() if one.component not in shapes.NOT_LOADED)
    weights = sum(math.prod(one.shape) for one in wanted) * (1 if format == "int8" else _width(format))
    return default_slots(model.talker, device, format, None if free is None else max(0, free - weights))


def free_bytes(device: str) -> int | None:
    """Memory that may still be taken on a device; None where nobody says."""
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(device)[0])
    return machine.free_bytes()


def _width(format: str) -> int:
    """Bytes of a key or value; `auto`, as yet unknown, is taken for the widest."""
    return FORMATS.get(format, torch.float32).itemsize
