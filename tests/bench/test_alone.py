"""The codec by itself, one lane by itself, and how far steps are from their floor."""

from __future__ import annotations

import numpy as np
import pytest

from rhapsode.bench import alone
from rhapsode.bench.alone import codec_alone, group_sizes, one_lane
from rhapsode.bench.choices import Options
from rhapsode.bench.measure import BookRun
from rhapsode.bench.run import measure
from rhapsode.bench.source import Source
from rhapsode.bench.stopwatch import Clock
from rhapsode.bench.table import terminal
from rhapsode.engine.decode import Policy
from tests.bench.conftest import BOOK


@pytest.fixture
def run(source: Source, ticking: Clock) -> BookRun:
    return BookRun(source.build("cpu", "float32"), source.model, source.codec, BOOK, 2, "refill", ticking)


@pytest.fixture
def ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "LINE_S", 10.0)


@pytest.mark.parametrize(
    ("lines", "frames", "sizes"), [(32, 8192, [1, 32]), (16, 1024, [1, 8]), (8, 100, [1]), (1, 1024, [1])]
)
def test_groups_are_those_of_the_engine(
    run: BookRun, ten_seconds: None, lines: int, frames: int, sizes: list[int]
) -> None:
    run.policy = Policy(group_lines=lines, group_frames=frames)
    assert group_sizes(run) == sizes


def test_the_codec_is_timed_from_codes_to_sound(
    run: BookRun, ten_seconds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[tuple[int, ...]]] = []
    vocode = run.stepper.vocode

    def watched(codes: list[np.ndarray]) -> object:
        asked.append([line.shape for line in codes])
        return vocode(codes)

    monkeypatch.setattr(run.stepper, "vocode", watched)
    found = codec_alone(run, [1, 3], 2, 0.004)
    assert asked == [[(125, 16)]] * 3 + [[(125, 16)] * 3] * 3  # once to warm up, twice measured
    assert [(group.lines, group.audio_s, group.seconds.runs, group.x) for group in found.groups] == [
        (1, 10.0, (1.0, 1.0), 10.0), (3, 30.0, (1.0, 1.0), 30.0),
    ]  # fmt: skip
    assert (found.format, found.as_json()["deviation"], found.as_json()["groups"][1]["x"]) == ("float32", 0.004, 30.0)


def test_one_lane_reads_line_after_line(source: Source, ticking: Clock) -> None:
    lane = one_lane(source.build("cpu", "float32"), source.model, source.codec, 3, ticking)
    assert (lane.audio_s, lane.seconds.runs, lane.x) == (alone.LANE_LINES * alone.LINE_S, (1.0, 1.0, 1.0), lane.audio_s)
    assert lane.as_json()["x"] == lane.x
    assert (lane.first_sound.runs, lane.first_samples_s) == ((1.0,) * 5, alone.FIRST_FRAMES / 12.5)


def test_the_first_sound_is_that_of_the_first_frames(run: BookRun, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[list[tuple[int, ...]]] = []
    vocode = run.stepper.vocode
    monkeypatch.setattr(
        run.stepper, "vocode", lambda codes: (heard.append([line.shape for line in codes]), vocode(codes))[1]
    )
    whole = run.once().kept_frames
    heard.clear()
    assert [alone._first_sound(run) for _ in range(2)] == [1.0, 1.0]
    assert heard == [[(alone.FIRST_FRAMES, 16)]] * 2
    assert run.once().kept_frames == whole  # the slot is free again


def test_a_result_says_both_and_how_far_the_floor_is(source: Source) -> None:
    ticks = iter(range(10**9))
    options = Options(slots=(1, 2), lines=2, repeats=1)
    found = measure(source, "cpu", ("bfloat16",), options, lambda: float(next(ticks)), lambda message: None, BOOK)
    said = found.as_json()
    # A measurement takes a tick: of 4 steps on one side, of a floor on the other.
    assert [cell["x_floor"] for cell in said["formats"]] == [0.25, 0.25]
    assert said["codec"]["deviation"] == found.sweep.deviations["bfloat16"].codec > 0
    assert said["codec"]["groups"][0]["lines"] == 1 and said["lane"]["x"] == pytest.approx(2 * alone.LINE_S)
    assert said["whole"]["warm_up_s"] == 1.0
    text = terminal(found)
    for wanted in (
        "The codec alone, ",
        "One lane: 1.28 x",
        "the first 0.32 s of sound after 1000 ms",
        "x floor",
        "warm-up 1.0 s",
    ):
        assert wanted in text
    options = Options(slots=(2,), lines=2, repeats=1)
    found = measure(source, "cpu", ("float32",), options, lambda: float(next(ticks)), lambda message: None, BOOK)
    assert "lane" not in found.as_json() and "One lane" not in terminal(found)
