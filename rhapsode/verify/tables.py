"""A result for people: a table for the terminal, another in Markdown for the card of a model.

Knows columns and sentences. Measures nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from textwrap import wrap

from rhapsode.verify.result import Result, Row, Scored

_WIDE = 90  # columns of a terminal that a legend takes
_Columns = tuple[tuple[str, Callable[[Row], str]], ...]

_OF: _Columns = (
    ("voice", lambda row: row.voice),
    ("section", lambda row: row.section),
)
_WORDS: _Columns = (
    *_OF,
    ("lines", lambda row: str(row.lines)),
    ("words", lambda row: str(row.errors.words)),
    ("WER", lambda row: f"{row.errors.rate:.1%}"),
    ("sub", lambda row: str(row.errors.substitutions)),
    ("ins", lambda row: str(row.errors.insertions)),
    ("del", lambda row: str(row.errors.deletions)),
    ("no end", lambda row: str(row.no_end)),
    ("retakes", lambda row: str(row.retakes)),
    ("bad", lambda row: str(row.bad)),
)
_SOUND: _Columns = (
    *_OF,
    ("length", lambda row: f"{row.duration:.2f}"),
    ("least", lambda row: f"{row.shortest:.2f}"),
    ("most", lambda row: f"{row.longest:.2f}"),
    ("level dB", lambda row: f"{row.level_db:.1f}"),
    ("spread dB", lambda row: f"{row.level_spread_db:.1f}"),
    ("DC", lambda row: f"{row.offset:.4f}"),
    ("peak", lambda row: f"{row.peak:.2f}"),
    ("clicks", lambda row: str(row.clicks)),
)
_NAMES_LEFT = len(_OF)  # columns that are words and stand to the left
WORDS_LEGEND = (
    "WER: words substituted, inserted and deleted, over the words to be said. no end: lines that were cut off; "
    "bad: lines of which no good reading came out."
)
SOUND_LEGEND = (
    "length: seconds over those that the text should take, of all lines and of the extremes. level: RMS of speech "
    "without pauses, full scale 0 dB, mean over lines; spread: its standard deviation. DC and peak: of the worst line, "
    "full scale 1."
)


def terminal_table(result: Result, worst: int = 10) -> str:
    """All rows, and the worst lines with what was heard."""
    parts = [_heading(result)]
    for columns, legend in ((_WORDS, WORDS_LEGEND), (_SOUND, SOUND_LEGEND)):
        cells = _cells(columns, result.rows())
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        parts += ["", *("  ".join(_padded(row, widths)).rstrip() for row in cells), *wrap(legend, _WIDE)]
    lines = result.worst(worst)
    if lines:
        parts += ["", "The worst lines:"]
        for line in lines:
            parts += [_name_of(line), f"    said:  {line.sentence.text}", f"    heard: {line.heard}"]
    return "\n".join(parts)


def markdown_table(result: Result, worst: int = 10) -> str:
    """The same as Markdown."""
    parts = [_heading(result)]
    for columns, legend in ((_WORDS, WORDS_LEGEND), (_SOUND, SOUND_LEGEND)):
        head, *rows = ("| " + " | ".join(map(_cell, row)) + " |" for row in _cells(columns, result.rows()))
        rule = "|" + "|".join("---" if at < _NAMES_LEFT else "---:" for at in range(len(columns))) + "|"
        parts += ["", head, rule, *rows, "", legend]
    lines = result.worst(worst)
    if lines:
        parts += ["", "The worst lines:", "", "| line | said | heard |", "|---|---|---|"]
        parts += [f"| {_name_of(line)} | {_cell(line.sentence.text)} | {_cell(line.heard)} |" for line in lines]
    return "\n".join(parts) + "\n"


def _cells(columns: _Columns, rows: list[Row]) -> list[list[str]]:
    return [[name for name, _ in columns], *([show(row) for _, show in columns] for row in rows)]


def _heading(result: Result) -> str:
    seed = f", seed {result.seed}" if result.seed is not None else ""
    return f"{result.source}{seed}, heard by {result.listener}"


def _name_of(line: Scored) -> str:
    problem = f", {line.problem}" if line.problem else ""
    return f"{line.voice} {line.sentence.number}: {line.errors.total} of {line.errors.words} words wrong{problem}"


def _padded(row: list[str], widths: list[int]) -> list[str]:
    return [
        cell.ljust(width) if at < _NAMES_LEFT else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
