"""What the operating system says of this machine: processor, cores that may be used, memory.

Knows no accelerator and no array library.
"""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
from pathlib import Path


def processor() -> str:
    """The processor by its maker's name where the system says it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    if sys.platform == "darwin":  # which of the chips it is; `platform` says only "arm"
        try:
            words = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            said = subprocess.run(words, capture_output=True, text=True, timeout=5).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            said = ""
        if said:
            return said
    return platform.processor() or platform.machine()


def total_bytes() -> int | None:
    """Memory of the machine; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows
        return None


def free_bytes() -> int | None:
    """Memory that a program may still take; None where the system does not say."""
    try:
        with open("/proc/meminfo", "rb") as lines:
            for line in lines:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:  # not Linux
        pass
    return None


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
