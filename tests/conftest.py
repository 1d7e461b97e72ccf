"""What every test shares: one thread for arithmetic, so that a busy machine slows tests evenly."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
