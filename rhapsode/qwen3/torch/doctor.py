"""What `rhapsode doctor` is told of a PyTorch device. Knows devices, formats and the checks."""

from __future__ import annotations

import torch

from rhapsode import machine
from rhapsode.qwen3.config import CodecConfig, ModelConfig
from rhapsode.qwen3.torch import kernels
from rhapsode.qwen3.torch.check import check
from rhapsode.qwen3.torch.formats import FORMATS, has_int8
from rhapsode.qwen3.torch.load import available_devices, choose_device
from rhapsode.qwen3.torch.mixed import has_fast_bfloat16
from rhapsode.qwen3.torch.remembered import pick_format
from rhapsode.qwen3.torch.slots import slots_before_loading
from rhapsode.qwen3.trials import Device


def examine(model: ModelConfig, codec: CodecConfig, device: str, format: str, slots: int | None) -> Device:
    device = choose_device(device)
    kind = device.split(":")[0]
    chosen = pick_format(format, device, model, slots)
    slots = slots or slots_before_loading(model, device, chosen.format)
    there = tuple(name for name in FORMATS if name != "int8" or (kind == "cpu" and has_int8()))
    notes = [f"devices here: {', '.join(available_devices())}.", *([chosen.note] if chosen.note else [])]
    if kind == "cpu":
        fast = "fast" if has_fast_bfloat16() else "not fast"
        notes.append(f"{torch.get_num_threads()} threads; bfloat16 is {fast} here.")
    hardware, memory = machine.processor(), machine.free_bytes()
    if kind == "cuda":
        hardware, memory = torch.cuda.get_device_name(device), torch.cuda.mem_get_info(device)[0]
        notes.append(kernels.sentence(torch.device(device)))
    trials = tuple(check(model, codec, device, chosen.format, slots))
    return Device(device, hardware, memory, there, chosen.format, slots, trials, tuple(notes))
