"""A narrator that needs no model, for tests of what is around it. Knows the protocol of narrators, and numpy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from rhapsode.narrator import Options, Voices
from rhapsode.types import Line, Sampling, Take

RATE = 24_000


class FakeNarrator:
    """Reads every line as `seconds` of a steady tone."""

    sample_rate = RATE
    sampling = Sampling()

    def __init__(self, seconds: float, problem: str = "") -> None:
        self.seconds, self.problem = seconds, problem

    def settings(self) -> dict[str, Any]:
        return {"narrator": "fake"}

    def notes(self) -> list[str]:
        return []

    def expected_seconds(self, line: Line) -> float:
        return self.seconds

    def read(self, lines: Iterable[Line]) -> Iterator[Take]:
        for line in lines:
            audio = np.full(round(self.seconds * RATE), 0.25, np.float32)
            yield Take(line, audio, RATE, frames=1, seed=0, problem=self.problem)

    def useful(self) -> float:
        return 1.0

    def retakes(self) -> int:
        return 0


class FakeDoor:
    def __init__(self, narrator: FakeNarrator) -> None:
        self.narrator = narrator

    def load(self, options: Options) -> FakeNarrator:
        return self.narrator

    def voices(self, options: Options) -> Voices:
        return Voices(("one",), ("auto",))
