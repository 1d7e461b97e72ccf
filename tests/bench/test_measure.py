"""The whole way of a measurement on a tiny model, with a clock that ticks once for each reading of it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

from rhapsode.bench import machine
from rhapsode.bench import run as run_module
from rhapsode.bench.choices import Options
from rhapsode.bench.counts import count
from rhapsode.bench.deviation import deviation, trace
from rhapsode.bench.measure import STAGES, BookRun
from rhapsode.bench.page import page
from rhapsode.bench.result import Result
from rhapsode.bench.run import measure
from rhapsode.bench.schedule import SCHEDULES, plan
from rhapsode.bench.source import Source
from rhapsode.bench.stopwatch import Clock
from rhapsode.bench.table import terminal
from rhapsode.qwen3.torch.mixed import TOLERANCE
from tests.bench.conftest import BOOK


def quiet(message: str) -> None:
    pass


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_book_is_read_as_planned(source: Source, ticking: Clock, schedule: str) -> None:
    run = BookRun(source.build("cpu", "float32"), source.model, source.codec, BOOK, 2, schedule, ticking)
    whole = run.whole(3, quiet)
    assert whole.seconds.runs == (1.0, 1.0, 1.0)
    assert (whole.kept_frames, whole.audio_s) == (BOOK.frames, BOOK.frames / 12.5)
    planned = plan(BOOK, 2, schedule)
    assert (whole.steps, whole.lane_frames) == (planned.steps, 2 * planned.steps)
    assert whole.useful == planned.useful
    assert whole.kv_bytes == run.stepper.kv.bytes + run.stepper.depth_kv.bytes > 0
    assert whole.x == pytest.approx(1 / whole.rtf) and whole.x_total == pytest.approx(whole.x / whole.useful)


@pytest.mark.parametrize("refill", [1, 2, 3])
def test_a_book_refilled_by_groups_is_read_as_planned(source: Source, ticking: Clock, refill: int) -> None:
    run = BookRun(source.build("cpu", "float32"), source.model, source.codec, BOOK, 3, "refill", ticking)
    run.policy = replace(run.policy, refill=refill)
    whole, planned = run.whole(1, quiet), plan(BOOK, 3, "refill", refill)
    assert (whole.steps, whole.useful) == (planned.steps, planned.useful)
    assert whole.prefills == len({seat.start for seat in planned.seats}) == {1: 4, 2: 3, 3: 2}[refill]


def test_stages_add_up_to_the_pass(source: Source, ticking: Clock) -> None:
    """Each of n stages takes one tick, and between any two of them another one passes, which is nobody's."""
    run = BookRun(source.build("cpu", "float32"), source.model, source.codec, BOOK, 2, "refill", ticking)
    whole = run.whole(1, quiet)
    stages = run.stages(whole, count(source.model, source.codec))
    rows = {row.name: row for row in stages.rows}
    assert rows["predictor"].seconds == rows["talker"].seconds == whole.steps
    assert rows["prefill"].seconds == whole.prefills and rows["codec"].seconds == len(BOOK.lines)
    assert sum(row.seconds for row in stages.rows) == stages.whole_s
    assert stages.whole_s == 2 * sum(rows[name].seconds for name in STAGES) + 1
    assert sum(row.share for row in stages.rows) == pytest.approx(1)
    assert stages.excess == stages.whole_s / whole.seconds.median - 1
    counts = count(source.model, source.codec)
    assert rows["talker"].ms_frame == pytest.approx(1e3 * whole.steps / whole.lane_frames)
    assert rows["codec"].operations_s == pytest.approx(BOOK.frames * counts.codec.operations / len(BOOK.lines))
    assert rows["other"].operations_s is None
    assert run.watch.time(run.once)[0] == 1.0  # the stopwatch at the stages is taken off again


def test_a_line_that_ends_elsewhere_is_an_error(source: Source, ticking: Clock) -> None:
    model = source.build("cpu", "float32")
    run = BookRun(model, source.model, source.codec, BOOK, 2, "refill", ticking)
    with torch.no_grad():
        model.talker.head.weight[0, 0] = float("nan")
    with pytest.raises(RuntimeError, match="not what was scripted"):
        run.once()


def test_deviation_is_that_of_the_format(source: Source) -> None:
    reference = trace(source.build("cpu", "float32"), source.model, source.codec)
    same = deviation(trace(source.build("cpu", "float32"), source.model, source.codec), reference)
    assert (same.talker, same.predictor, same.codec) == (0.0, 0.0, 0.0)
    narrow = trace(source.build("cpu", "bfloat16"), source.model, source.codec)
    apart = deviation(narrow, reference)
    assert 1e-3 < apart.talker < 0.1 and 1e-3 < apart.predictor < 0.1 and apart.codec <= TOLERANCE
    assert narrow.predictor.shape == (6 * 15, 2, source.model.predictor.vocab)
    assert narrow.talker.shape == (7, 2, source.model.talker.codes)
    louder = replace(reference, wave=reference.wave * 1.5)
    assert deviation(louder, reference).codec == pytest.approx(0.5)


@pytest.fixture(scope="module")
def result(source: Source) -> Result:
    ticks = iter(range(10**9))
    options = Options(slots=(1, 2), lines=4, repeats=2, stages=True)
    return measure(source, "cpu", ("float32", "bfloat16"), options, lambda: float(next(ticks)), quiet, BOOK)


def test_a_result_has_every_format_at_every_number_of_slots(result: Result) -> None:
    found = result.as_json()
    assert [(cell["format"], cell["slots"]) for cell in found["formats"]] == [
        ("float32", 1), ("float32", 2), ("bfloat16", 1), ("bfloat16", 2),
    ]  # fmt: skip
    # Every measurement takes one tick, and of 4 steps: so many lanes, so much faster.
    assert [cell["ms_lane_frame"] for cell in found["formats"]] == [250.0, 125.0, 250.0, 125.0]
    assert list(found["deviation"]) == ["bfloat16"]
    assert found["weights_bytes"]["bfloat16"] < found["weights_bytes"]["float32"]
    assert found["peak_mb"]["process"] >= found["peak_mb"]["before the model"] > 0
    whole = found["whole"]
    assert (whole["slots"], whole["lines"], whole["runs"]) == (2, 4, [1.0, 1.0])
    assert found["book"] == {"lines": 6, "hash": BOOK.hash, "sample_hash": BOOK.first(4).hash}
    assert found["scheduling"]["refill"][2] > found["scheduling"]["book"][2]
    assert math.isfinite(found["ceiling"]["copy_bytes_s"]) and set(found["ceiling"]["floor_s"]["bfloat16"]) == {1, 2}


def test_the_table_says_it_all(result: Result) -> None:
    text = terminal(result)
    for wanted in (result.book_hash, "bfloat16", "refill", "predictor", "RTF", "spread", "sum of stages", "useful"):
        assert wanted in text
    rows = [line.split() for line in text.splitlines() if line.startswith("  bfloat16  ")]
    assert rows[0][:3] == ["bfloat16", "250", "125"]


class Page(HTMLParser):
    """What a page is made of, and whether its elements close in the order that they opened."""

    VOID = ("meta", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone(result: Result) -> None:
    text = page(replace(result, source="<script>alert(1)</script> & co"))
    parsed = Page(text)
    assert not parsed.open
    assert not {tag for tag, _ in parsed.found} & {"script", "link", "img", "iframe"}
    assert not re.search(r"(?:src|href|url)\s*[=(]|https?:", text)
    assert sum(tag == "svg" for tag, _ in parsed.found) == 3
    seats = [values for tag, values in parsed.found if tag == "rect" and values.get("class") == "seat"]
    idle = [values for tag, values in parsed.found if tag == "rect" and values.get("class") == "idle"]
    assert len(seats) == len(result.seats.seats) == 4 and len(idle) == 1
    width = sum(float(values["width"] or 0) for values in seats) / (2 * float(idle[0]["width"] or 0))
    assert width == pytest.approx(result.seats.useful, abs=1e-3)
    assert "prefers-color-scheme: dark" in text


def test_a_page_without_stages_and_with_one_cell(result: Result) -> None:
    cells = result.sweep.cells[:1]
    text = page(replace(result, stages=None, sweep=replace(result.sweep, cells=cells, weights_bytes={"float32": 1})))
    assert not Page(text).open and "nan" not in text


def test_without_room_there_is_no_deviation_but_a_note(
    source: Source, ticking: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "free_bytes", lambda device: 1000)
    found = measure(source, "cpu", ("bfloat16",), Options(slots=(1,), lines=1, repeats=1), ticking, quiet, BOOK)
    assert not found.sweep.deviations
    assert "no deviation is shown" in found.notes[0] and "no deviation is shown" in terminal(found)


@pytest.mark.parametrize(("seconds", "lines"), [(0.1, 3), (10.0, 4), (1e6, 6)])
def test_a_sample_takes_about_so_long(
    source: Source, ticking: Clock, monkeypatch: pytest.MonkeyPatch, seconds: float, lines: int
) -> None:
    """A frame takes a quarter of a tick, a line thus 2.7: at least three rounds of all slots, at most the book."""
    monkeypatch.setattr(run_module, "SAMPLE_S", seconds)
    found = measure(source, "cpu", ("float32",), Options(slots=(1,), repeats=1), ticking, quiet, BOOK)
    assert found.whole.lines == lines
