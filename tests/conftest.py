"""What every test starts from, whoever runs it, where, in which order and beside what.

Knows the environment, random numbers and the time that an example of a property may take. Knows nothing of what is
tested.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shutil
import sys
import tempfile

import pytest

# One thread for arithmetic: a busy machine slows tests evenly, and a process that is forked misses no thread.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
if shutil.which("nvidia-smi") is None:  # without a card, Triton's kernels are run statement by statement
    os.environ.setdefault("TRITON_INTERPRET", "1")
# How wide and how colourful the terminal is from which tests are started: what they print is read.
for name in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "CLICOLOR_FORCE", "PYTHON_COLORS", "TTY_COMPATIBLE"):
    os.environ.pop(name, None)
# Files that take longest go first where several processes share the tests: none of them is the last to be begun.
LONGEST = (
    "parity/test_codes.py",
    "embedded/",
    "pipeline/test_shared.py",
    "mlx/test_kernels.py",
    "bench/test_measure.py",
)
_cache = tempfile.TemporaryDirectory(prefix="rhapsode-tests-")  # goes when the tests end
_numbers = itertools.count()

with contextlib.suppress(ImportError):  # a machine rented for its GPU has less than a developer's
    from hypothesis import HealthCheck, settings
    from hypothesis.internal.conjecture import providers

    # It takes constants from what has been imported: from whatever ran before, and wherever this folder lies.
    providers.is_local_module_file = lambda path: False
    # The same examples in every run; none is wrong for having taken long, or remembered.
    settings.register_profile(
        "steady", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("steady")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # of pytest-xdist
        items.sort(key=lambda item: next((n for n, part in enumerate(LONGEST) if part in item.nodeid), len(LONGEST)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Before any fixture of a test: no number and no measurement of an earlier one is left."""
    # What this machine remembers is not asked, nor changed.
    os.environ["XDG_CACHE_HOME"] = os.environ["LOCALAPPDATA"] = os.path.join(_cache.name, str(next(_numbers)))
    random.seed(0)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(0)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(0)
    if (mx := sys.modules.get("mlx.core")) is not None:
        mx.random.seed(0)
