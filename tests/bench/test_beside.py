"""Text and container beside the model: what is measured is of the sample's size, and it is said what it is."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from rhapsode.audio import container
from rhapsode.bench.beside import beside, text
from rhapsode.bench.choices import Options
from rhapsode.bench.result import Result
from rhapsode.bench.run import measure
from rhapsode.bench.source import Source
from rhapsode.bench.stopwatch import Clock
from rhapsode.bench.table import terminal
from tests.bench.conftest import BOOK

RATE, FRAME_RATE = 24000, 12.5


def test_the_text_is_as_long_as_its_tokens() -> None:
    paragraphs = text(BOOK).strip().split("\n\n")
    assert len(paragraphs) == len(BOOK.lines)
    for paragraph, line in zip(paragraphs, BOOK.lines, strict=True):
        assert 4.3 * line.tokens - 1 <= len(paragraph) <= 4.3 * line.tokens + 10  # it ends with a whole word
        assert paragraph[0].isupper() and paragraph.endswith(".")


def test_both_are_measured_each_by_itself(ticking: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that ticks at each reading: one tick each. What is written is as long as the sample's sound."""
    written: list[int] = []
    write = container.write_audiobook

    def counted(target: Any, *, blocks: Iterable[np.ndarray], **others: Any) -> Any:
        kept = list(blocks)
        written.append(sum(map(len, kept)))
        assert sum(samples for _, samples in others["tracks"]) == written[-1] and others["sample_rate"] == RATE
        done = write(target, blocks=kept, **others)
        assert target.suffix == ".m4b" and target.stat().st_size > 1000
        return done

    monkeypatch.setattr(container, "write_audiobook", counted)
    found = beside(BOOK, RATE, FRAME_RATE, ticking)
    assert found is not None
    assert written == [BOOK.frames * RATE / FRAME_RATE] and found.audio_s == BOOK.frames / FRAME_RATE
    assert (found.text_s, found.container_s, found.seconds) == (1.0, 1.0, 2.0)
    assert 1 <= found.lines <= len(BOOK.lines)  # short sentences join their neighbours


def read(source: Source, clock: Clock, *, stages: bool) -> Result:
    options = Options(slots=(2,), lines=2, repeats=1, stages=stages)
    return measure(source, "cpu", ("float32",), options, clock, lambda message: None, BOOK)


def test_a_result_with_stages_says_what_everything_takes(source: Source, ticking: Clock) -> None:
    found = read(source, ticking, stages=True)
    row = found.as_json()["beside"]
    assert (row["text_s"], row["container_s"]) == (1.0, 1.0)
    assert row["everything_s"] == found.whole.seconds.median + 2.0
    assert row["audio_s"] == BOOK.first(2).frames / FRAME_RATE  # of the sample, not of the book
    assert f"text 1.00 s ({1 / (found.stages.whole_s + 2):.1%}), container 1.00 s" in terminal(found)  # type: ignore[union-attr]
    assert f"everything {found.whole.seconds.median + 2:.2f} s" in terminal(found)


def test_without_stages_nothing_is_written(source: Source, ticking: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "write_audiobook", lambda *args, **others: pytest.fail("it was written"))
    found = read(source, ticking, stages=False)
    assert found.beside is None and "beside" not in found.as_json() and "Beside" not in terminal(found)


@pytest.mark.parametrize("missing", ["rhapsode.audio.container", "rhapsode.book"])
def test_a_bare_checkout_has_a_note_in_its_place(
    source: Source, ticking: Clock, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    found = read(source, ticking, stages=True)
    assert found.beside is None and found.stages is not None and "beside" not in found.as_json()
    assert any("text and container are not measured" in note for note in found.notes)
    assert "text and container are not measured" in terminal(found)
