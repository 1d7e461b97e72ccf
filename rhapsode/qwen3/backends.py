"""Which back end a device name belongs to, and whether its library is there. Needs no array library itself."""

from __future__ import annotations

import platform
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Literal

from rhapsode.errors import UserError

MLX: Literal["mlx"] = "mlx"
Backend = Literal["torch", "mlx"]
_MODULES: dict[Backend, str] = {"torch": "torch", "mlx": "mlx.core"}


def backend_of(device: str) -> Backend:
    """MLX where it is named, or for `auto` on Apple silicon.

    Raises `UserError` if what is meant is not installed, or is and cannot be loaded.

    PyTorch, which has the other devices, is not brought to Apple silicon; there `auto` takes it only where it is all
    that is there.
    """
    chosen: Backend = MLX if device == MLX or (device == "auto" and _is_apple() and not _torch_alone()) else "torch"
    if not _installed(chosen):
        raise UserError(
            f"The device {device!r} needs {chosen}, which is not installed: pip install 'rhapsode[{chosen}]' brings it."
        )
    try:
        import_module(_MODULES[chosen])
    except (ImportError, OSError) as error:  # a library of the system that it wants, or files of another version
        raise UserError(
            f"The device {device!r} needs {chosen}, which is installed but cannot be loaded: "
            f"{(str(error).splitlines() or [type(error).__name__])[0].rstrip('.')}."
        ) from error
    return chosen


def _is_apple() -> bool:
    return sys.platform == "darwin" and platform.machine() == "arm64"


def _torch_alone() -> bool:
    return _installed("torch") and not _installed("mlx")


def _installed(package: str) -> bool:
    return find_spec(package) is not None
