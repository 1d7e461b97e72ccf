"""A small file in the user's cache folder: tables of formats, as `rhapsode bench` measured them on this machine.

Knows how a table is kept and which of its formats is fastest within a tolerance. Knows no device: the back ends say
what a table holds for. Measures nothing. A file that is missing, unreadable or odd is as good as none.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_MOST_BYTES = 1 << 20
_DATE = re.compile(r"\d{4}-\d\d-\d\d\Z")


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a format may be from float32 for `auto` to take it."""

    logits: float  # root mean square of the difference over the spread, of talker and of predictor
    wave: float  # largest difference over the peak


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


@dataclass(frozen=True, slots=True)
class Best:
    format: str
    ms: float
    date: str  # of the measurement


def fastest(
    key: str, tolerances: Mapping[str, Tolerance], rounded: set[str], usable: Callable[[str], bool]
) -> Best | None:
    """The fastest format of a table within its tolerance; None where nothing is known.

    `rounded`: formats that only tables of trained weights speak for.
    """
    entry = _tables().get(key)
    if not isinstance(entry, dict) or not isinstance(entry.get("formats"), dict):
        return None
    date = entry.get("date")
    if not isinstance(date, str) or not _DATE.match(date):
        return None
    found = {name: one for name, raw in entry["formats"].items() if (one := _measured(raw)) is not None}
    known = [name for name in found if name in tolerances and (entry.get("trained") is True or name not in rounded)]
    good = [name for name in known if found[name].within(tolerances[name]) and usable(name)]
    best = min(good, key=lambda name: found[name].ms, default=None)
    return None if best is None else Best(best, found[best].ms, date)


def keep(tables: Mapping[str, Mapping[str, Measured]], date: str, *, trained: bool) -> Path:
    """Keep tables by their keys, in place of what was known for those. Raises `OSError` where that cannot be written.

    `trained`: whether the weights were a checkpoint's, and not random ones.
    """
    kept = _tables()
    for key, formats in tables.items():
        kept[key] = {"date": date, "trained": trained, "formats": {name: asdict(one) for name, one in formats.items()}}
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


def bucket(slots: int) -> int:
    """Slots count up to the next power of two."""
    return 1 << (slots - 1).bit_length()


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
