"""The CUDA devices that one name stands for: "cuda:all", or "cuda:0,1".

Knows which there are. Uses none of them.
"""

from __future__ import annotations

import torch

from rhapsode.errors import UserError
from rhapsode.qwen3.devices import Device, alone
from rhapsode.qwen3.torch.load import available_devices

ALL = "all"


def several(name: str) -> list[Device]:
    """Each device that a name of kind "cuda:..." means, in order; one where it means one.

    Raises `UserError` for a device that there is not, or that is named twice.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    which = name.partition(":")[2]
    parts = [str(number) for number in range(count)] if which == ALL else [part.strip() for part in which.split(",")]
    for part in parts or [ALL]:
        if not (part.isascii() and part.isdigit() and int(part) < count):
            raise UserError(
                f"There is no device {f'cuda:{part}'!r} here; there are {', '.join(available_devices())} (or auto)."
            )
    numbers = [int(part) for part in parts]
    if len(set(numbers)) < len(numbers):
        raise UserError(f"The device {name!r} names one of them twice.")
    return [alone(f"cuda:{number}") for number in numbers]
