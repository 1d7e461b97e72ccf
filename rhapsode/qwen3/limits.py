"""How much room the lanes of a stepper have, whatever back end steps them.

Knows requests for Qwen3-TTS. Imports no array library.
"""

from __future__ import annotations

from dataclasses import dataclass

from rhapsode.engine.stepper import Request


@dataclass(frozen=True, slots=True)
class Limits:
    """What is allocated once: the longest prompt, frames of a line, and trailing text that any line may have."""

    prompt: int
    frames: int
    trailing: int = 0

    def check(self, request: Request) -> None:
        """Raises `ValueError` for a request that there is no room for."""
        prompt = request.prompt
        for what, size, most in (
            ("prompt rows", len(prompt), self.prompt),
            ("frames", request.cap, self.frames),
            ("trailing text", len(prompt.trailing), self.trailing),
        ):
            if size > most:
                raise ValueError(f"a line asks for {size} {what}, and {most} were allocated")
        if request.cap < 1:
            raise ValueError(f"a line needs a cap of one frame or more, not {request.cap}")
