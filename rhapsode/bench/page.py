"""A result as one HTML page that needs nothing else: tables, and plots drawn as SVG.

Knows a `Result`, HTML and coordinates. Measures nothing. Colours follow the reader's choice of light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from rhapsode.bench import ways
from rhapsode.bench.result import Result
from rhapsode.bench.table import short, terminal

_COLOURS = 6  # series before colours come again
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 720, 300, 60, 40, 12
_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1b1f; --faint: #8a8a93; --line: #d9d9de; --idle: #f0d7d2;
  --c0: #2f6db5; --c1: #c2571a; --c2: #2a8a57; --c3: #8a4fb0; --c4: #a8861c; --c5: #5c6b7a; }
@media (prefers-color-scheme: dark) { :root { --paper: #17171a; --ink: #e8e8ea; --faint: #8e8e98; --line: #37373d;
  --idle: #5a2f28; --c0: #6ea8ee; --c1: #ee9158; --c2: #62c795; --c3: #c090e6; --c4: #d9bb55; --c5: #9fb0c0; } }
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 60rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 12px; }
pre, .scroll { overflow-x: auto; } pre { font-size: 13px; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: right; font-weight: normal; }
th { color: var(--faint); } td:first-child, th:first-child { text-align: left; }
.axis { stroke: var(--line); } .idle { fill: var(--idle); } .seat { stroke: var(--paper); stroke-width: .5; }
"""


def page(result: Result) -> str:
    """The whole page. Everything in it that came from outside is escaped."""
    whole = result.whole
    title = f"{result.source}: {short(whole.x)} x real time"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(_summary(result))}</p>",
        "<h2>Speed by lanes and format</h2>",
        _speed(result),
        *_where(result),
        "<h2>Lanes over time</h2>",
        f"<p>Each bar is a line in its slot; what is left between and after them was computed for nothing "
        f"({whole.schedule}, {1 - result.seats.useful:.1%} idle).</p>",
        _lanes(result),
        *_ways(result),
        "<h2>All figures</h2>",
        f"<pre>{escape(terminal(result))}</pre>",
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n' + "\n".join(
        [*parts, "</body></html>", ""]
    )


def _summary(result: Result) -> str:
    machine, whole = result.machine, result.whole
    said = (("threads", "{} threads"), ("torch", "torch {}"), ("mlx", "mlx {}"))
    library = ", ".join(form.format(machine[name]) for name, form in said if name in machine)
    return (
        f"{machine.get('accelerator', machine['processor'])}, {library}. "
        f"{whole.lines} lines of the fixed book ({result.sample_hash}) in {whole.format} on {whole.slots} slots: "
        f"{whole.audio_s:.0f} s of sound in {whole.seconds.median:.1f} s, RTF {whole.rtf:.3g}, "
        f"{whole.useful:.1%} of frames useful."
    )


def _speed(result: Result) -> str:
    """x real time of talker and predictor over slots, both axes in powers of two."""
    cells = result.sweep.cells
    points: dict[str, list[tuple[float, float]]] = {}
    for cell in cells:
        points.setdefault(cell.format, []).append((cell.slots, cell.slots / cell.step.median / result.frame_rate))
    slots = sorted({cell.slots for cell in cells})
    speeds = [speed for series in points.values() for _, speed in series]
    low, high = math.floor(math.log2(min(speeds))), math.ceil(math.log2(max(speeds)) + 1e-9)
    across = _Scale(math.log2(slots[0]) - 0.2, math.log2(slots[-1]) + 0.2, _LEFT, _WIDTH - 110)
    up = _Scale(low, max(high, low + 1), _HEIGHT - _BOTTOM, _TOP)
    powers = range(low, max(high, low + 1) + 1)
    body = [_text(up(power) + 4, f"{2.0**power:g} x", "end", _LEFT - 8) + _rule(up(power)) for power in powers]
    body += [_text(_HEIGHT - _BOTTOM + 18, str(n), "middle", across(math.log2(n))) for n in slots]
    body.append(_text(_HEIGHT - 4, "slots", "middle", (_LEFT + _WIDTH - 110) / 2))
    for number, (format, series) in enumerate(points.items()):
        places = [(across(math.log2(n)), up(math.log2(speed))) for n, speed in sorted(series)]
        colour = f"var(--c{number % _COLOURS})"
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        body.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        body += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in places]
        body.append(_text(places[-1][1] + 4, format, "start", places[-1][0] + 10))
    return _svg(_WIDTH, _HEIGHT, body, "Speed of talker and predictor by slots and format")


def _where(result: Result) -> Iterator[str]:
    if result.stages is None:
        return
    yield "<h2>Where the time goes</h2>"
    body, left = [], 0.0
    rows = result.stages.rows
    total = sum(max(0.0, row.seconds) for row in rows) or 1.0
    for number, row in enumerate(rows):
        width = _WIDTH * max(0.0, row.seconds) / total
        body.append(
            f'<rect x="{left:.1f}" y="0" width="{width:.1f}" height="28" fill="var(--c{number % _COLOURS})">'
            f"<title>{escape(row.name)} {row.share:.1%}</title></rect>"
        )
        left += width
    for number, row in enumerate(rows):
        x = number * _WIDTH / len(rows)
        body.append(f'<rect x="{x:.1f}" y="40" width="12" height="12" fill="var(--c{number % _COLOURS})"/>')
        body.append(_text(51, f"{row.name} {row.share:.1%}", "start", x + 18))
    yield _svg(_WIDTH, 60, body, "Share of each stage")
    yield _table(
        ["stage", "seconds", "share", "ms a lane and frame"],
        [[row.name, f"{row.seconds:.2f}", f"{row.share:.1%}", f"{row.ms_frame:.3g}"] for row in rows],
    )


def _ways(result: Result) -> Iterator[str]:
    if result.ways:
        yield "<h2>Ways to compute the same</h2>"
        yield "<p>Tried before the first step: the first that is right is taken, or one that is clearly faster.</p>"
        yield _table(ways.HEAD, ways.rows(result.ways))


def _lanes(result: Result) -> str:
    """Every slot from the first step to the last; what no line covers shows as idle."""
    seats = result.seats
    height = max(4.0, min(16.0, 480 / seats.slots))
    across = _Scale(0, max(1, seats.steps), _LEFT, _WIDTH)
    tall = height * seats.slots
    body = [f'<rect class="idle" x="{_LEFT}" y="0" width="{_WIDTH - _LEFT}" height="{tall:.1f}"/>']
    for number, seat in enumerate(seats.seats):
        body.append(
            f'<rect class="seat" x="{across(seat.start):.2f}" y="{seat.slot * height:.1f}" '
            f'width="{across(seat.stop) - across(seat.start):.2f}" height="{height:.1f}" fill="var(--c0)" '
            f'fill-opacity="{0.95 if number % 2 else 0.75}"/>'
        )
    body.append(_text(12, "slot 0", "end", _LEFT - 8))
    body += [_text(tall + 16, f"step {n}", anchor, across(n)) for n, anchor in ((0, "start"), (seats.steps, "end"))]
    return _svg(_WIDTH, tall + 24, body, "Lines in their slots over the steps")


class _Scale:
    """A straight line from values to coordinates."""

    def __init__(self, low: float, high: float, start: float, stop: float) -> None:
        self._low, self._start, self._slope = low, start, (stop - start) / (high - low)

    def __call__(self, value: float) -> float:
        return self._start + (value - self._low) * self._slope


def _svg(width: float, height: float, body: Sequence[str], label: str) -> str:
    inner = "\n".join(body)
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(label)}">\n{inner}\n</svg>'


def _text(y: float, text: str, anchor: str, x: float) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _rule(y: float) -> str:
    return f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - 110}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    first = "".join(f"<th>{escape(name)}</th>" for name in head)
    rest = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{first}</tr>{rest}</table></div>'
