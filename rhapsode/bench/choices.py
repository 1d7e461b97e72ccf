"""What can be asked of a measurement, and the words of the command line for it.

Knows options and their limits; whether devices, formats and shapes exist is asked where they are known.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass

from rhapsode.bench.schedule import SCHEDULES
from rhapsode.bench.workload import MOST_LINES
from rhapsode.errors import UserError

AUTO = "auto"
OTHERS = ("official", "faster")


@dataclass(frozen=True, slots=True)
class Options:
    shapes: str | None = None
    checkpoint: str | None = None
    device: str = AUTO
    formats: tuple[str, ...] = (AUTO,)
    slots: tuple[int, ...] = ()  # empty: what suits the device
    lines: int | None = None  # None: as many as take about a minute
    schedule: str = "refill"
    against: str | None = None
    repeats: int = 3
    threads: int | None = None  # None: what suits the processor
    stages: bool = False
    remember: bool = False

    def __post_init__(self) -> None:
        for name, value in (
            ("--lines", self.lines),
            ("--repeats", self.repeats),
            ("--threads", self.threads),
            *(("--slots", slots) for slots in self.slots),
        ):
            if value is not None and value < 1:
                raise UserError(f"{name} must be 1 or more, not {value}.")
        if self.lines is not None and self.lines > MOST_LINES:
            raise UserError(f"--lines must be at most {MOST_LINES}, as far as the book is drawn, not {self.lines}.")
        if self.schedule not in SCHEDULES:
            raise UserError(f"There is no schedule {self.schedule!r}; there are {', '.join(SCHEDULES)}.")
        for other in self.others:
            if other not in OTHERS:
                raise UserError(f"There is nothing called {other!r} to run against; there are {', '.join(OTHERS)}.")
        if self.shapes is not None and self.checkpoint is not None:
            raise UserError("--shapes makes random weights and --checkpoint reads some; name one of them.")

    @property
    def others(self) -> tuple[str, ...]:
        """What is run against."""
        return () if self.against is None else _names(self.against)


def options(chosen: Namespace) -> Options:
    """The command line's words as options. Raises `UserError` for what is no number or out of its limits."""
    return Options(
        shapes=chosen.shapes,
        checkpoint=chosen.checkpoint,
        device=chosen.device,
        formats=_names(chosen.format),
        slots=() if chosen.slots == AUTO else _numbers("--slots", chosen.slots),
        lines=chosen.lines,
        schedule=chosen.schedule,
        against=chosen.against,
        repeats=chosen.repeats,
        threads=chosen.threads,
        remember=not chosen.no_remember,
        stages=chosen.stages or chosen.report is not None,
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def _numbers(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(number) for number in text.split(",")))
    except ValueError:
        raise UserError(f"{name} wants whole numbers with commas between them, as in 8,16, not {text!r:.60}.") from None
