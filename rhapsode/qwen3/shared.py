"""One narrator over several devices: a process for each, a share of the lines for each, and one stream of takes.

Knows how lines are dealt and what becomes of those of a process that dies. What reads on a device is the narrator of
that device, as it is; a line's seed does not depend on who reads it, so neither does its take.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rhapsode.errors import UserError
from rhapsode.narrator import Options, TextForm
from rhapsode.qwen3.devices import Device
from rhapsode.qwen3.narrator import expected_seconds, load_one, to_stderr
from rhapsode.types import Line, Sampling, Take
from rhapsode.workers import Crew, Gone, Worker, deal


@dataclass(frozen=True, slots=True)
class _Ready:
    settings: dict[str, Any]
    notes: list[str]
    sample_rate: int
    sampling: Sampling
    text_form: TextForm


@dataclass(frozen=True, slots=True)
class _Read:
    """A take, and the counts of its narrator so far."""

    take: Take
    useful: float
    retakes: int


@dataclass(frozen=True, slots=True)
class _Counts:
    """Of one process that works, or worked."""

    frames: int = 0  # kept
    useful: float = 1.0
    retakes: int = 0


class SharedNarrator:
    """Implements `rhapsode.narrator.Narrator`."""

    def __init__(self, options: Options, devices: Sequence[Device]) -> None:
        """Loads on all devices at once. Raises `UserError` for whatever any of them cannot have."""
        self.options, self.devices = options, tuple(devices)
        # Hears what is found out while it reads.
        self.tell: Callable[[str], None] = to_stderr
        self._crew: Crew | None = None
        self._past: list[_Counts] = []  # of processes that have ended
        self._counts: list[_Counts] = []
        first, *others = self._started()
        apart = [n for n, one in enumerate(others, 1) if one.settings != first.settings]
        if apart:
            self.close()
            raise UserError(_different(self.devices[0], self.devices[apart[0]], first, others[apart[0] - 1]))
        self._ready, self._notes = first, list(dict.fromkeys(note for one in (first, *others) for note in one.notes))
        self.sample_rate, self.sampling, self.text_form = first.sample_rate, first.sampling, first.text_form

    def settings(self) -> dict[str, Any]:
        return dict(self._ready.settings)

    def notes(self) -> list[str]:
        return [*self._notes, f"Reading on {len(self.devices)} devices: {', '.join(d.name for d in self.devices)}."]

    def expected_seconds(self, line: Line) -> float:
        return expected_seconds(line)

    def useful(self) -> float:
        """Frames kept over frames computed, of all processes."""
        counts = [one for one in (*self._past, *self._counts) if one.frames and one.useful]
        computed = sum(one.frames / one.useful for one in counts)
        return sum(one.frames for one in counts) / computed if computed else 1.0

    def retakes(self) -> int:
        return sum(one.retakes for one in (*self._past, *self._counts))

    def read(self, lines: Iterable[Line]) -> Iterator[Take]:
        """Takes of all lines as they come, from any device. Left before its end, it ends the processes too."""
        if self._crew is None:
            self._started()
        try:
            given = list(lines)
            # Numbered anew: lines of two texts read together have the same indices.
            for take in self._read({number: replace(line, index=number) for number, line in enumerate(given)}):
                # What it is handed is what it was given, not a copy that came back.
                yield replace(take, line=given[take.line.index])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes; another `read` starts them again."""
        if self._crew is not None:
            self._end()
        self._crew = None
        self._past += self._counts
        self._counts = []

    def _started(self) -> list[_Ready]:
        """Start a process on each device, and wait until all have loaded."""
        self._crew = Crew([
            Worker("rhapsode.qwen3.shared:_work", replace(self.options, device=device.there), device.environment)
            for device in self.devices
        ])  # fmt: skip
        self._end = weakref.finalize(self, self._crew.end)
        self._counts = [_Counts() for _ in self.devices]
        found: dict[int, _Ready] = {}
        try:
            while len(found) < len(self.devices):
                number, said = self._crew.hear()
                if isinstance(said, Gone):
                    raise UserError(f"The process on {self.devices[number].name} {said.reason} while it was loading.")
                found[number] = said
        except BaseException:
            self.close()
            raise
        return [found[number] for number in range(len(self.devices))]

    def _read(self, left: dict[int, Line]) -> Iterator[Take]:
        """Deal lines, hand on takes, deal again what a process that died has not read."""
        assert self._crew is not None
        owner: dict[int, int] = {}  # index of a line -> who reads it
        alive = set(range(len(self.devices)))
        self._deal(list(left.values()), alive, owner)
        while left:
            number, said = self._crew.hear()
            if isinstance(said, Gone):
                alive.discard(number)
                lost = [left[index] for index in left if owner[index] == number]
                self._mourn(number, said, len(lost), alive)
                self._deal(lost, alive, owner)
                continue
            take: Take = said.take
            before = self._counts[number].frames
            self._counts[number] = _Counts(before + take.frames, said.useful, said.retakes)
            del left[take.line.index]
            yield take
        if len(alive) < len(self.devices):
            self.close()  # so that another reading begins with all of them

    def _deal(self, lines: Sequence[Line], alive: Iterable[int], owner: dict[int, int]) -> None:
        assert self._crew is not None
        workers = sorted(alive)
        for worker, share in zip(workers, deal(lines, len(workers), self.expected_seconds), strict=True):
            owner.update((line.index, worker) for line in share)
            if share:
                self._crew.send(worker, share)

    def _mourn(self, number: int, gone: Gone, lost: int, alive: set[int]) -> None:
        said = f"The process on {self.devices[number].name} {gone.reason}"
        if not alive:
            raise UserError(f"{said}, and no other is left to read its {lost} lines; what was read is kept.")
        self.tell(f"{said}; its {lost} lines are read on the other devices.")


def _different(one: Device, other: Device, first: _Ready, second: _Ready) -> str:
    names = [name for name in {**first.settings, **second.settings}
             if first.settings.get(name) != second.settings.get(name)]  # fmt: skip
    said = ", ".join(f"{name} {first.settings.get(name)} and {second.settings.get(name)}" for name in names)
    return (
        f"{one.name} and {other.name} would not read alike ({said}); name a --format that both have, or one of them "
        "with --device."
    )


# ---------------------------------------------------------------------- in the process of a device


def _work(options: Options, shares: Iterator[list[Line]], say: Callable[[Any], None]) -> None:
    """Load, say so, read one share of lines after another."""
    narrator = load_one(options)
    say(_Ready(narrator.settings(), narrator.notes(), narrator.sample_rate, narrator.sampling, narrator.text_form))
    for lines in shares:
        for take in narrator.read(lines):
            say(_Read(take, narrator.useful(), narrator.retakes()))
