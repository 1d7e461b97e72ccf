"""What was computed and what of it was kept.

Knows counts. Reads no clock: speed is the bench's business.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Meter:
    steps: int = 0  # frames computed by the slowest lane: calls of the stepper
    lane_frames: int = 0  # steps times slots: what the device computed
    kept_frames: int = 0  # frames of the takes that were handed out
    prefills: int = 0
    retakes: int = 0

    def step(self, slots: int) -> None:
        self.steps += 1
        self.lane_frames += slots

    @property
    def useful(self) -> float:
        """Kept frames over computed ones; 1.0 before anything was computed."""
        return self.kept_frames / self.lane_frames if self.lane_frames else 1.0
