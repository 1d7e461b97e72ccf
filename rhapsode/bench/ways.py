"""Tasks that can be done in several ways: how long each way took here, and which is taken, as rows and lines.

Knows trials that a back end made before its first step. Tries nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rhapsode.qwen3.trials import Trial

HEAD = ("task", "size", "ways, ms", "taken")


@dataclass(frozen=True, slots=True)
class Tried:
    """A trial, and the first format that it was made for."""

    format: str
    trial: Trial

    def as_json(self) -> dict[str, Any]:
        return {"format": self.format, **self.trial.as_json()}


def compared(trials: Iterable[tuple[str, Trial]]) -> tuple[Tried, ...]:
    """Of trials by format those in which ways were timed, or one was wrong; each task and size once."""
    found: dict[tuple[str, str], Tried] = {}
    for format, trial in trials:
        if len(trial.seconds) > 1 or trial.wrong:
            found.setdefault((trial.task, trial.size), Tried(format, trial))
    return tuple(found.values())


def lines(tried: Iterable[Tried]) -> Iterator[str]:
    """One line for each task: over all sizes at which all its ways were timed, and at how many each is taken."""
    tasks: dict[str, list[Trial]] = {}
    for one in tried:
        tasks.setdefault(one.trial.task, []).append(one.trial)
    for task, trials in tasks.items():
        names = list(dict.fromkeys(name for trial in trials for name in trial.errors))
        timed = [trial for trial in trials if set(trial.seconds) == set(names)]
        said = [_said(name, trials, timed) for name in names]
        yield f"  {task}, {len(trials)} sizes: {'; '.join(said)}"


def _said(name: str, trials: list[Trial], timed: list[Trial]) -> str:
    ms = f" {1e3 * sum(trial.seconds[name] for trial in timed):.3g} ms" if timed else ""
    taken = sum(trial.taken == name for trial in trials)
    wrong = sum(name in trial.wrong for trial in trials)
    return f"{name}{ms}, taken at {taken}" + (f", wrong at {wrong}" if wrong else "")


def rows(tried: Iterable[Tried]) -> list[list[str]]:
    """Cells as `HEAD` has them."""
    return [[one.trial.task, one.trial.size, "; ".join(_cells(one.trial)), one.trial.taken] for one in tried]


def _cells(trial: Trial) -> Iterator[str]:
    for name in trial.errors:
        seconds = trial.seconds.get(name)
        said = "wrong" if name in trial.wrong else "not timed" if seconds is None else f"{1e3 * seconds:.3g}"
        yield f"{name} {said}"
