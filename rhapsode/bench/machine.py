"""Which machine this is and how much memory it has: what a figure is worth nothing without.

Knows the operating system and torch's account of devices. Measures no speed.
"""

from __future__ import annotations

import platform

import torch

from rhapsode import machine
from rhapsode.memory import peak_rss_mb


def describe(device: str) -> dict[str, str | int]:
    """Processor or accelerator, cores, threads, versions."""
    found: dict[str, str | int] = {
        "device": device,
        "processor": machine.processor(),
        "cores": machine.cores(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if device.startswith("cuda"):
        found["accelerator"] = torch.cuda.get_device_name(device)
    return found


def free_bytes(device: str) -> int | None:
    """Memory that a model may take on a device; None where the system does not say."""
    if device.startswith("cuda"):
        return torch.cuda.mem_get_info(device)[0]
    return machine.free_bytes()


def forget_peak(device: str) -> float:
    """Let the peak begin anew from what the process holds now, where the system can do that; that size in MB."""
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats(device)
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as control:
            control.write("5")
    except OSError:  # not Linux, or not allowed
        pass
    return peak_rss_mb()


def peak_mb(device: str) -> dict[str, float]:
    """The most memory held since `forget_peak`, in MB (10^6 bytes): of the process, and on the device."""
    found = {"process": peak_rss_mb()}
    if device.startswith("cuda"):
        found["device"] = round(torch.cuda.max_memory_allocated(device) / 1e6, 1)
        found["reserved"] = round(torch.cuda.max_memory_reserved(device) / 1e6, 1)
        found["recorded graphs"] = round(_graph_bytes(torch.device(device).index or 0) / 1e6, 1)
    return found


def _graph_bytes(device: int) -> int:
    """What recorded graphs keep for themselves: segments in pools of their own."""
    return sum(
        segment["total_size"]
        for segment in torch.cuda.memory_snapshot()
        if segment["device"] == device and tuple(segment["segment_pool_id"]) != (0, 0)
    )
