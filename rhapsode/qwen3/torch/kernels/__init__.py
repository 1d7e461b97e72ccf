"""Small programs for the GPU, each beside the plain PyTorch function that says what it computes.

Knows whether Triton is there, and what every kernel asks of its tensors. A kernel's twin takes its place where Triton
is missing, and on devices that it knows nothing of. Imported for `has_triton` alone, nothing here needs Triton.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os

import torch
from torch import Tensor


def interpreted() -> bool:
    """Whether kernels run on the CPU, statement by statement, as tests want them to."""
    return os.environ.get("TRITON_INTERPRET", "") == "1"


def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def sentence() -> str:
    """What a user of a card should know of it."""
    if not has_triton():
        return "Triton is not installed: steps and codec on this card are plain PyTorch, several times slower."
    return f"kernels by Triton {importlib.metadata.version('triton')}."


def runs_on(device: torch.device) -> bool:
    """Whether kernels are used for tensors of a device; where not, their twins are."""
    return has_triton() and (device.type == "cuda" or interpreted())


def require(name: str, tensor: Tensor, shape: tuple[int | None, ...], dtype: torch.dtype | None = None) -> None:
    """Raises `ValueError` for a tensor that is not what a kernel will take it for. None in a shape: any size.

    A kernel that is given too little reads what lies behind it, and says nothing.
    """
    fits = len(shape) == tensor.dim() and all(w is None or w == s for w, s in zip(shape, tensor.shape, strict=True))
    if not fits:
        raise ValueError(f"{name} has shape {list(tensor.shape)}, and a kernel wants {list(shape)}")
    if dtype is not None and tensor.dtype is not dtype:
        raise ValueError(f"{name} is {tensor.dtype}, and a kernel wants {dtype}")
    if tensor.numel() and tensor.stride(-1) != 1:
        raise ValueError(f"{name} is not contiguous in its last dimension, as a kernel wants it")
