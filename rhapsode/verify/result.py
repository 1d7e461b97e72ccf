"""What a test of voices came to: one `Scored` a line, and the sums over voices and sections.

Knows figures and how they add up. Knows neither how they were measured nor how they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Any

from rhapsode.engine.judge import NO_END
from rhapsode.verify.sentences import Sentence
from rhapsode.verify.sound import SILENCE_DB, Sound
from rhapsode.verify.words import Errors

ALL = "all"  # the section that is every section


@dataclass(frozen=True, slots=True)
class Scored:
    """One sentence as one voice read it."""

    voice: str
    sentence: Sentence
    heard: str
    errors: Errors
    sound: Sound
    expected_s: float
    problem: str = ""  # what the narrator says is wrong with its reading
    tries: int = 1


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one voice in one section."""

    voice: str
    section: str
    lines: int
    errors: Errors
    no_end: int  # lines that were cut off
    retakes: int
    bad: int  # lines with any problem left
    duration: float  # seconds over expected seconds, of all lines together
    shortest: float  # the same of the line where it is least
    longest: float
    level_db: float  # mean over lines of the level of what is no pause
    level_spread_db: float  # standard deviation over lines
    offset: float  # largest mean of a line, without sign
    peak: float
    clicks: int

    def as_json(self) -> dict[str, Any]:
        return {
            "voice": self.voice,
            "section": self.section,
            "lines": self.lines,
            "words": self.errors.words,
            "wer": round(self.errors.rate, 4),
            "substitutions": self.errors.substitutions,
            "insertions": self.errors.insertions,
            "deletions": self.errors.deletions,
            "no_end": self.no_end,
            "retakes": self.retakes,
            "bad_lines": self.bad,
            "duration": round(self.duration, 3),
            "shortest": round(self.shortest, 3),
            "longest": round(self.longest, 3),
            "level_db": round(self.level_db, 2),
            "level_spread_db": round(self.level_spread_db, 2),
            "dc_offset": round(self.offset, 6),
            "peak": round(self.peak, 4),
            "clicks": self.clicks,
        }


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that was read and heard."""

    source: str  # what read: a checkpoint, or a folder of recordings
    listener: str  # what listened
    scored: tuple[Scored, ...]
    seed: int | None = None  # None where nothing was drawn

    def rows(self) -> list[Row]:
        """One row for each voice and section, and one for all sections of a voice where there are several."""
        rows = []
        for voice in _in_order(line.voice for line in self.scored):
            lines = [line for line in self.scored if line.voice == voice]
            sections = _in_order(line.sentence.section for line in lines)
            for section in sections:
                rows.append(_row(voice, section, [line for line in lines if line.sentence.section == section]))
            if len(sections) > 1:
                rows.append(_row(voice, ALL, lines))
        return rows

    def worst(self, most: int = 10) -> list[Scored]:
        """Lines with most errors, those with a problem of their own first."""
        wrong = [line for line in self.scored if line.errors.total or line.problem]
        return sorted(wrong, key=lambda line: (not line.problem, -line.errors.total, -line.errors.rate))[:most]

    def as_json(self) -> dict[str, Any]:
        """JSON values: the rows, and the worst lines."""
        worst = [
            {
                "voice": line.voice,
                "number": line.sentence.number,
                "errors": line.errors.total,
                "problem": line.problem,
                "said": line.sentence.text,
                "heard": line.heard,
            }
            for line in self.worst()
        ]
        head = {"source": self.source, "listener": self.listener, "seed": self.seed}
        return head | {"rows": [row.as_json() for row in self.rows()], "worst": worst}


def _row(voice: str, section: str, lines: list[Scored]) -> Row:
    shares = [line.sound.seconds / line.expected_s for line in lines]
    levels = [line.sound.level_db for line in lines if line.sound.level_db > SILENCE_DB] or [SILENCE_DB]
    return Row(
        voice=voice,
        section=section,
        lines=len(lines),
        errors=sum((line.errors for line in lines), Errors()),
        no_end=sum(line.problem == NO_END for line in lines),
        retakes=sum(max(0, line.tries - 1) for line in lines),
        bad=sum(line.problem != "" for line in lines),
        duration=sum(line.sound.seconds for line in lines) / sum(line.expected_s for line in lines),
        shortest=min(shares),
        longest=max(shares),
        level_db=fmean(levels),
        level_spread_db=pstdev(levels),
        offset=max(abs(line.sound.offset) for line in lines),
        peak=max(line.sound.peak for line in lines),
        clicks=sum(line.sound.clicks for line in lines),
    )


def _in_order(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
