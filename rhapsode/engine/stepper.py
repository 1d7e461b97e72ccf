"""What the engine asks of an accelerator: slots, admit, step, finished codes, sound.

Array-free but for what crosses this seam: finished codes and waveforms, as numpy arrays. PyTorch and MLX each
implement it; the engine knows neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np


class Ending(IntEnum):
    """Why a lane stands still."""

    RUNNING = 0
    SPOKEN = 1  # the model ended the line
    CAPPED = 2  # the frame cap was reached without an end
    NOT_FINITE = 3  # the logits held NaN or infinity


class OutOfRoom(Exception):
    """The device has not the memory for what was asked of it; `str(error)` is what it said.

    Making a stepper and all of its methods may raise this. The stepper is then of no more use.
    """


@dataclass(frozen=True, slots=True)
class Request:
    """One reading of one line, as an accelerator sees it."""

    prompt: Any  # made and understood by the model's own rooms
    cap: int  # frames at most
    seed: int  # 64 bits; the random words of this reading


class Pending(Protocol):
    """Sound that was asked for and may still be in the making."""

    def waves(self) -> list[np.ndarray]:
        """Float32 samples [frames * samples_per_frame] of each line, when they are there. To be called once."""


class Stepper(Protocol):
    """Lanes on one device. Work may be queued; only `finished`, `codes` and a `Pending` wait for results."""

    slots: int
    sample_rate: int
    samples_per_frame: int

    def admit(self, placements: Sequence[tuple[int, Request]]) -> None:
        """Start requests in free slots: one prefill for the group."""

    def step(self) -> None:
        """Advance every running lane by one frame."""

    def finished(self) -> list[tuple[int, int, Ending]]:
        """(slot, frames, ending) of lanes that stand still and were not reported yet.

        A device that queues may report a lane one step late; the lane computes nothing that is kept meanwhile.
        """

    def codes(self, slot: int, frames: int) -> np.ndarray:
        """The codes of a finished lane, int [frames, codebooks]. The slot is free afterwards.

        Waits for no step that was queued after the one in which the lane ended.
        """

    def vocode(self, codes: Sequence[np.ndarray]) -> Pending:
        """Begin to turn the codes of whole lines, each [frames, codebooks], into sound.

        What was begun is collected in the same order, and at most one group is begun before the one before it is
        collected.
        """

    def synchronise(self) -> None:
        """Return when everything that was queued is done."""
