"""Which back end a device name belongs to. Imports no array library."""

from __future__ import annotations

import platform
import sys
from importlib.util import find_spec
from typing import Literal

from rhapsode.errors import UserError

MLX: Literal["mlx"] = "mlx"
Backend = Literal["torch", "mlx"]


def backend_of(device: str) -> Backend:
    """MLX where it is named, or for `auto` on Apple silicon. Raises `UserError` if what is meant is not installed.

    PyTorch, which has the other devices, is not brought to Apple silicon; there `auto` takes it only where it is all
    that is there.
    """
    chosen: Backend = MLX if device == MLX or (device == "auto" and _is_apple() and not _torch_alone()) else "torch"
    if not _installed(chosen):
        raise UserError(
            f"The device {device!r} needs {chosen}, which is not installed: pip install 'rhapsode[{chosen}]' brings it."
        )
    return chosen


def _is_apple() -> bool:
    return sys.platform == "darwin" and platform.machine() == "arm64"


def _torch_alone() -> bool:
    return _installed("torch") and not _installed("mlx")


def _installed(package: str) -> bool:
    return find_spec(package) is not None
