"""What a device is called by those who name it, and what a process of its own needs to have it.

Knows names and environments. Asks no library which devices there are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

_VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Device:
    name: str  # as the user would type it
    there: str  # as a process of its own calls it
    environment: Mapping[str, str] = field(default_factory=dict)  # what that process is given besides


def alone(name: str) -> Device:
    """A device for a process that sees no other of its kind: whatever it does is done there.

    `name`: "cuda:1" is the second that this process may see. Devices of other kinds are what they are.
    """
    kind, _, number = name.partition(":")
    if kind != "cuda":
        return Device(name, name)
    visible = [part.strip() for part in os.environ.get(_VISIBLE, "").split(",") if part.strip()]
    place = int(number or 0)
    return Device(name, "cuda", {_VISIBLE: visible[place] if visible else str(place)})
