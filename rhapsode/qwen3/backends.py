"""Which back end a device name belongs to. Imports no array library."""

from __future__ import annotations

import platform
import sys
from importlib.util import find_spec
from typing import Literal

from rhapsode.errors import UserError

MLX = "mlx"
Backend = Literal["torch", "mlx"]


def backend_of(device: str) -> Backend:
    """MLX where it is named, or for `auto` on Apple silicon that has it. Raises `UserError` if it is not installed."""
    apple = sys.platform == "darwin" and platform.machine() == "arm64"
    chosen: Backend = "mlx" if device == MLX or (device == "auto" and apple and _installed("mlx")) else "torch"
    if not _installed(chosen):
        raise UserError(f"The device {device!r} needs {chosen}, which is not installed: pip install {_WANTED[chosen]}.")
    return chosen


_WANTED = {"mlx": "'rhapsode[mlx]'", "torch": "torch"}


def _installed(package: str) -> bool:
    return find_spec(package) is not None
