"""Qwen3-TTS on MLX: Apple silicon, and MLX's own CPU build where there is no such machine. Imports no torch."""

import os

# Some GPUs round what goes into a float32 product to TF32 unless this is said before the first one: 13 of 30 lines
# would have other codes, and the sound would be off by 0.3%.
os.environ.setdefault("MLX_ENABLE_TF32", "0")
