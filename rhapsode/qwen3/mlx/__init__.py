"""Qwen3-TTS on MLX: Apple silicon, and MLX's own CPU build where there is no such machine. Imports no torch."""
