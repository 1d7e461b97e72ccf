"""Qwen3-TTS on PyTorch: CPU, CUDA, MPS.

Threads that wait for each other must not spin: with another program on one of two cores, a step of a small model took
2,030 ms spinning and 60 ms sleeping. The runtime reads this once, when torch is first imported.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # some 10 us: waking a sleeper for each product takes longer
