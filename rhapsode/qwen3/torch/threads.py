"""How many threads the arithmetic takes: what was asked for, else what this process may use.

Knows torch's own default. A talker too narrow for a second thread
is the stepper's business.
"""

from __future__ import annotations

import os

import torch

from rhapsode.machine import cores

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
