"""Tracks have the length that was planned, to the sample, and no clicks at the edges of takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rhapsode.audio.assemble import plan_tracks, soften, soften_stream, stream
from rhapsode.audio.takes import TakeStore
from rhapsode.audio.wave import to_pcm
from rhapsode.errors import OutputError
from rhapsode.types import Line, Take

Takes = Callable[..., Take]
Lines = Callable[..., Line]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TakeStore]:
    with TakeStore(tmp_path / "book.m4b.takes", {}) as opened:
        yield opened


def test_tracks_and_their_samples(store: TakeStore, make_take: Takes, make_line: Lines) -> None:
    lines = [
        make_line(0, 1, pause_s=0.25),
        make_line(1, 1, pause_s=0.00001),  # rounds to none
        make_line(2, 4, pause_s=3.0),
        make_line(3, 5),
    ]
    for line, samples in zip(lines, (2_400, 1_001, 7, 0), strict=True):
        store.put(make_take(line, samples=samples))
    tracks = plan_tracks(lines, {1: "One", 4: "  ", 9: "Not there"}, store)
    assert [(track.title, track.chapter, track.samples) for track in tracks] == [
        ("One", 1, 2_400 + 6_000 + 1_001),
        ("4", 4, 7 + 72_000),
        ("5", 5, 0),
    ]
    assert [line for track in tracks for line in track.lines] == lines
    for track in tracks:
        assert sum(map(len, stream(track, store))) == track.samples
    whole = np.concatenate(list(stream(tracks, store)))
    assert whole.dtype == np.int16
    assert not whole[2_400:8_400].any()
    assert not whole[-72_000:].any()
    edges = [0, 2_399, 8_400, 9_400]  # of the first two takes
    assert not whole[edges].any()
    assert to_pcm(make_take(lines[0]).audio)[[0, -1]].all()
    middle = slice(8_400 + 120, 8_400 + 1_001 - 120)
    assert (whole[middle] == to_pcm(make_take(lines[1], samples=1_001).audio)[120:-120]).all()


def test_edges_are_soft() -> None:
    loud = np.full(1_000, -20_000, dtype=np.int16)
    soft = soften(loud, 120)
    assert soft[0] == soft[-1] == 0
    assert (soft[120:-120] == loud[120:-120]).all()
    assert np.abs(np.diff(soft.astype(int))).max() <= 20_000 / 120 + 1
    assert (soft == soft[::-1]).all()
    assert (loud == -20_000).all()
    for short in (0, 1, 2, 3, 100):
        assert len(soften(loud[:short], 120)) == short


def test_a_line_without_a_take(store: TakeStore, make_line: Lines) -> None:
    with pytest.raises(KeyError, match="line 0 has no take"):
        plan_tracks([make_line(0)], {}, store)


def test_chapters_in_pieces_and_pauses_without_sense(store: TakeStore, make_take: Takes, make_line: Lines) -> None:
    lines = [make_line(index, chapter) for index, chapter in enumerate((1, 2, 1))]
    for line in lines:
        store.put(make_take(line))
    with pytest.raises(ValueError, match="chapter 1 comes back"):
        plan_tracks(lines, {}, store)
    for pause in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="pause"):
            plan_tracks([replace(lines[0], pause_s=pause)], {}, store)


def test_a_track_that_changed_after_the_plan(store: TakeStore, make_take: Takes, make_line: Lines) -> None:
    line = make_line(0)
    store.put(make_take(line, samples=500))
    tracks = plan_tracks([line], {}, store)
    store.put(make_take(line, samples=501))
    with pytest.raises(RuntimeError, match=r"chapter 1 is \+1 samples longer than the 500 planned"):
        list(stream(tracks, store))


def test_a_take_that_is_not_as_long_as_recorded(store: TakeStore, make_take: Takes, make_line: Lines) -> None:
    line = make_line(0)
    store.put(make_take(line, samples=500))
    tracks = plan_tracks([line], {}, store)
    wav = store.folder / f"{line.key:016x}.wav"
    wav.write_bytes(wav.read_bytes()[:-2])
    with pytest.raises(OutputError, match="damaged"):
        list(stream(tracks, store))


def test_memory_of_a_stream_is_that_of_one_take(store: TakeStore, make_take: Takes, make_line: Lines) -> None:
    lines = [make_line(index, pause_s=60.0 if index == 50 else 0.1) for index in range(100)]
    for line in lines:
        store.put(make_take(line, samples=24_000))
    tracks = plan_tracks(lines, {}, store)
    tracemalloc.start()
    try:
        assert sum(map(len, stream(tracks, store))) == tracks[0].samples
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1_000_000  # the track is 8 MB, its longest pause 2.9 MB


@pytest.mark.parametrize("fade", [0, 1, 3, 10])
def test_a_sound_softened_by_pieces_is_the_same(fade: int) -> None:
    numbers = np.random.default_rng(1)
    for length in (0, 1, 2, 5, 6, 7, 19, 20, 21, 100):
        sound = numbers.integers(-30_000, 30_000, length).astype(np.int16)
        for size in (1, 4, 30, 100):
            pieces = [sound[start : start + size] for start in range(0, length, size)]
            found = np.concatenate(list(soften_stream(pieces, fade)))
            np.testing.assert_array_equal(found, soften(sound, fade))
