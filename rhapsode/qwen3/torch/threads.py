"""How many threads the arithmetic takes: what was asked for, else what this process may use.

Knows the system's account of cores, shares of them and torch's own default. A talker too narrow for a second thread
is the stepper's business.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch

# More threads wait for each other longer than they compute, at the few rows of a step: an assumption beyond 2 cores.
MOST = 32


def choose_threads(asked: int | None, variable: str | None, cores: int, default: int) -> int:
    """Threads for `asked` (--threads), `variable` (OMP_NUM_THREADS), cores that may be used, and torch's default.

    What the user says is done. Otherwise no more than cores, than torch takes, and than `MOST`.
    """
    if asked is not None:
        return asked
    first = (variable or "").split(",")[0].strip()
    if first.isascii() and first.isdigit() and int(first) > 0:
        return int(first)
    return max(1, min(cores, default, MOST))


def use_threads(asked: int | None = None) -> int:
    """Let torch take so many threads from now on, and say how many."""
    threads = choose_threads(asked, os.environ.get("OMP_NUM_THREADS"), cores(), torch.get_num_threads())
    if threads != torch.get_num_threads():
        torch.set_num_threads(threads)
    return threads


def cores() -> int:
    """Cores that this process may keep busy: those it may run on, and its share of time on them."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = quota()
    return max(1, there if share is None else min(there, math.ceil(share)))


def quota(root: Path = Path("/")) -> float | None:
    """Cores' worth of time that the control groups of this process leave it; None for no limit or no such thing."""
    found = [share for folder in _groups(root) if (share := _share(folder)) is not None]
    return min(found, default=None)


def _groups(root: Path) -> list[Path]:
    """Folders of the process's group and of those around it, in the second version and in the first."""
    top = root / "sys/fs/cgroup"
    folders = [top, top / "cpu", top / "cpu,cpuacct"]
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return folders
    for line in lines:
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = top / controllers if controllers else top
        parts = [part for part in path.split("/") if part not in ("", "..")]
        folders += [base.joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1)]
    return folders


def _share(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():
            limit, period = (folder / "cpu.max").read_text().split()[:2]
        else:
            limit, period = (folder / "cpu.cfs_quota_us").read_text(), (folder / "cpu.cfs_period_us").read_text()
        share = int(limit) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # "max" is no number
        return None
    return share if share > 0 else None  # -1 is no limit
