"""What every test shares: one thread for arithmetic, so that a busy machine slows tests evenly."""

from __future__ import annotations

import os
import shutil
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
if shutil.which("nvidia-smi") is None:  # without a card, Triton's kernels are run statement by statement
    os.environ.setdefault("TRITON_INTERPRET", "1")
# What this machine remembers is not asked, nor changed. The folder goes when the tests end.
_cache = tempfile.TemporaryDirectory(prefix="rhapsode-tests-")
os.environ["XDG_CACHE_HOME"] = os.environ["LOCALAPPDATA"] = _cache.name
