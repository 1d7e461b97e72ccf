"""Small programs for the GPU, each beside the plain PyTorch function that says what it computes.

Knows whether Triton is there and works, and what every kernel asks of its tensors. A kernel's twin takes its place
where it does not, and on devices that it knows nothing of. Nothing in this file needs Triton to be imported.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import os
from functools import lru_cache

import torch
from torch import Tensor


def interpreted() -> bool:
    """Whether kernels run on the CPU, statement by statement, as tests want them to."""
    return os.environ.get("TRITON_INTERPRET", "") == "1"


@lru_cache
def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


@lru_cache
def trouble(device: torch.device) -> str:
    """What is in the way of kernels on a device; "" where a small one could be made and is right.

    Triton compiles at first use, for which it needs more than itself: a C compiler, a driver that it knows.
    """
    if not has_triton():
        return "Triton is not installed"
    from rhapsode.qwen3.torch.kernels import gate

    try:
        found = gate.launch(torch.ones(1, 2, device=device)).item()
    except Exception as error:  # whatever a compiler or a driver raises
        return f"Triton makes no kernel here ({(str(error).splitlines() or [type(error).__name__])[0]:.120})"
    right = math.isclose(found, 1 / (1 + math.exp(-1)), rel_tol=1e-3)
    return "" if right else f"Triton's kernels are wrong here ({found:.4g} is not 0.7311)"


def sentence(device: torch.device) -> str:
    """What a user of a card should know of it."""
    found = trouble(device)
    if found:
        return f"{found}: steps and codec on this card are plain PyTorch, several times slower."
    return f"kernels by Triton {importlib.metadata.version('triton')}."


def runs_on(device: torch.device) -> bool:
    """Whether kernels are used for tensors of a device; where not, their twins are."""
    if device.type != "cuda":
        return has_triton() and interpreted()
    return not trouble(device)


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
