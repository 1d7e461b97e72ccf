"""What a reading came to: the file, the time, the frames, the lines that stayed bad.

Knows figures. Prints nothing and computes no sound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rhapsode.memory import peak_rss_mb
from rhapsode.narrator import Narrator
from rhapsode.types import Line


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of which no good reading came out; the best one is in the book."""

    line: int
    chapter: int
    problem: str
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """What came out and what it took."""

    out: str
    audio_s: float  # length of the file
    wall_s: float  # from the call to the finished file
    rtf: float  # wall seconds per second of sound made in this run (of the file, where all of it was there before)
    lines: int
    useful: float  # codec frames kept over frames computed
    retakes: int
    bad_lines: int
    peak_rss_mb: float
    resumed: int  # lines whose takes were there before
    chapters: int
    bad: tuple[BadLine, ...] = ()
    record: str = ""  # where every line's seed, tries and problem are written down


def make_report(
    out: Path,
    narrator: Narrator,
    lines: Sequence[Line],
    problems: Mapping[int, str],
    *,
    audio_s: float,
    made_s: float,
    wall_s: float,
    resumed: int = 0,
    record: str = "",
) -> Report:
    """The report of a finished file. `problems`: index of a line -> what is wrong with its take, "" for nothing."""
    bad = tuple(
        BadLine(line.index, line.chapter, problems[line.index], line.text) for line in lines if problems[line.index]
    )
    return Report(
        out=str(out),
        audio_s=round(audio_s, 3),
        wall_s=round(wall_s, 3),
        rtf=round(wall_s / (made_s or audio_s), 4),
        lines=len(lines),
        useful=round(narrator.useful(), 4),
        retakes=narrator.retakes(),
        bad_lines=len(bad),
        peak_rss_mb=peak_rss_mb(),
        resumed=resumed,
        chapters=len({line.chapter for line in lines}),
        bad=bad,
        record=record,
    )
