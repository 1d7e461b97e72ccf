"""The format that was fastest on this machine, as `rhapsode bench` measured it, for whoever asks for `auto`.

Knows a small file in the user's cache folder, how far a format may be from float32, and what a book that was begun
was begun in. Measures nothing. A file that is missing, unreadable or odd is as good as none.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from rhapsode.errors import UserError
from rhapsode.machine import cores, processor
from rhapsode.qwen3.config import ModelConfig
from rhapsode.qwen3.torch import mixed
from rhapsode.qwen3.torch.load import DEFAULT_SLOTS, choose_device, choose_format

AUTO = "auto"
_MOST_BYTES = 1 << 20
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a format may be from float32 for `auto` to take it."""

    logits: float  # root mean square of the difference over the spread, of talker and of predictor
    wave: float  # largest difference over the peak


TOLERANCES = {
    "float32": Tolerance(0.0, 0.0),
    "bfloat16": Tolerance(0.05, mixed.TOLERANCE),
    "int8": Tolerance(0.10, mixed.TOLERANCE),
}
# Weights with fewer bits than they are published in: how far off random ones are says nothing of trained ones.
ROUNDED = {"int8"}


@dataclass(frozen=True, slots=True)
class Measured:
    """A format at some number of slots."""

    ms: float  # of a lane's frame
    talker: float
    predictor: float
    codec: float

    def within(self, limit: Tolerance) -> bool:
        return max(self.talker, self.predictor) <= limit.logits and self.codec <= limit.wave


@dataclass(frozen=True, slots=True)
class Chosen:
    format: str
    note: str = ""  # a sentence for the user; "" where nothing was chosen for him


def pick_format(
    format: str, device: str, config: ModelConfig, slots: int | None, begun: Sequence[Mapping[str, Any]] = ()
) -> Chosen:
    """The format that is meant. `begun`: settings of readings of the same book that `auto` is to go on with.

    Raises `UserError` for a device or format that there is not.
    """
    device = choose_device(device)
    if format != AUTO:
        return Chosen(choose_format(format, device))
    for settings in begun:
        earlier = settings.get("format")
        if isinstance(earlier, str) and _usable(earlier, device):
            return Chosen(earlier, f"{earlier}: the book was begun in it, and goes on so.")
    slots = slots or DEFAULT_SLOTS[device.split(":")[0]]
    best = recall(device, config, slots)
    if best is None:
        return Chosen(choose_format(AUTO, device))
    name, date = best
    limit = TOLERANCES[name].logits
    within = f" within {limit:.0%}" if limit else ""
    return Chosen(name, f"{name}: the fastest{within} on this machine at {slots} slots, measured on {date}.")


def _usable(format: str, device: str) -> bool:
    try:
        return choose_format(format, device) == format
    except UserError:
        return False


# ---------------------------------------------------------------------- the file


def recall(device: str, config: ModelConfig, slots: int) -> tuple[str, str] | None:
    """The fastest format within its tolerance, and the day it was measured; None where nothing is known."""
    entry = _tables().get(key(device, config, slots))
    if not isinstance(entry, dict) or not isinstance(entry.get("formats"), dict):
        return None
    date = entry.get("date")
    if not isinstance(date, str) or not _DATE.match(date):
        return None
    found = {name: one for name, raw in entry["formats"].items() if (one := _measured(raw)) is not None}
    known = [name for name in found if name in TOLERANCES and (entry.get("trained") is True or name not in ROUNDED)]
    good = [name for name in known if found[name].within(TOLERANCES[name]) and _usable(name, device)]
    return (min(good, key=lambda name: found[name].ms), date) if good else None


def remember(
    device: str, config: ModelConfig, tables: Mapping[int, Mapping[str, Measured]], date: str, *, trained: bool
) -> Path:
    """Keep tables by slots, in place of what was known at those. Raises `OSError` where that cannot be written.

    `trained`: whether the weights were a checkpoint's, and not random ones.
    """
    kept = _tables()
    for slots, formats in tables.items():
        known = {name: asdict(one) for name, one in formats.items()}
        kept[key(device, config, slots)] = {"date": date, "trained": trained, "formats": known}
    path = cache_file()
    if path is None:
        raise OSError("there is no cache folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            json.dump({"tables": kept}, file, indent=1)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    return path


def key(device: str, config: ModelConfig, slots: int) -> str:
    """What a table holds for. Slots count up to the next power of two."""
    talker, predictor = config.talker.trunk, config.predictor.trunk
    shapes = "/".join(f"{t.layers}x{t.hidden}x{t.intermediate}" for t in (talker, predictor))
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else processor()
    bucket = 1 << (slots - 1).bit_length()
    return " | ".join((name, f"{cores()} cores", f"torch {torch.__version__}", shapes, f"{bucket} slots", device))


def cache_file() -> Path | None:
    """Where it lies; None for a user without a home."""
    named = {"win32": "LOCALAPPDATA", "darwin": ""}.get(sys.platform, "XDG_CACHE_HOME")
    folder = Path(os.environ.get(named) or "") if named else Path()
    if not folder.is_absolute():
        try:
            folder = Path.home() / {"win32": "AppData/Local", "darwin": "Library/Caches"}.get(sys.platform, ".cache")
        except RuntimeError:
            return None
    return folder / "rhapsode" / "formats.json"


def _tables() -> dict[str, Any]:
    path = cache_file()
    try:
        if path is None or path.stat().st_size > _MOST_BYTES:
            return {}
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    tables = found.get("tables") if isinstance(found, dict) else None
    return tables if isinstance(tables, dict) else {}


def _measured(raw: Any) -> Measured | None:
    names = ("ms", "talker", "predictor", "codec")
    if not isinstance(raw, dict) or not all(type(raw.get(name)) in (int, float) for name in names):
        return None
    try:
        values = [float(raw[name]) for name in names]
    except OverflowError:
        return None
    return Measured(*values) if all(math.isfinite(v) and v >= 0 for v in values) and values[0] > 0 else None
