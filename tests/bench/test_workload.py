"""The fixed book, and what scheduling alone makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from rhapsode.bench import workload
from rhapsode.bench.schedule import SCHEDULES, Plan, groups, plan
from rhapsode.bench.workload import Script, Workload, draw


def test_the_book_is_always_the_same() -> None:
    book = draw()
    assert (len(book.lines), book.hash) == (2000, "f0eed840079dc216")
    assert draw(50).lines == book.first(50).lines
    assert draw(50).hash != draw(51).hash


def test_a_hash_sees_every_number() -> None:
    lines = draw(20).lines
    changed = Workload((*lines[:-1], Script(lines[-1].tokens, lines[-1].frames + 1)))
    assert changed.hash != Workload(lines).hash


def test_lines_are_as_long_as_the_novels() -> None:
    lines = draw().lines
    tokens, frames = (np.array([getattr(line, name) for line in lines]) for name in ("tokens", "frames"))
    assert np.log(tokens).mean() == pytest.approx(workload.TOKENS_MEAN, abs=0.05)
    assert np.log(frames).mean() == pytest.approx(4.568, abs=0.05)  # as the source beside the numbers says
    assert np.log(frames).std() == pytest.approx(0.684, abs=0.07)
    assert tokens.min() >= workload.TOKENS_LEAST and tokens.max() <= workload.TOKENS_MOST
    assert frames.min() >= workload.FRAMES_LEAST and frames.max() <= workload.FRAMES_MOST
    assert 0.9 < np.corrcoef(np.log(tokens), np.log(frames))[0, 1] < 0.99


def script(*frames: int) -> Workload:
    return Workload(tuple(Script(count, count) for count in frames))


def test_refill_begins_a_line_the_moment_another_ends() -> None:
    seats = plan(script(4, 6, 2, 3), 2, "refill")
    assert [(seat.slot, seat.start, seat.stop) for seat in seats.seats] == [(0, 0, 6), (1, 0, 4), (1, 4, 7), (0, 6, 8)]
    assert (seats.steps, seats.useful) == (8, 15 / 16)


def test_refill_waits_for_as_many_free_slots_as_it_is_told() -> None:
    seats = plan(script(9, 8, 6, 5, 4, 2, 1), 3, "refill", refill=2)
    assert [(seat.slot, seat.start, seat.stop) for seat in seats.seats] == [
        (0, 0, 9), (1, 0, 8), (2, 0, 6), (1, 8, 13), (2, 8, 12), (0, 12, 14), (2, 12, 13),
    ]  # fmt: skip


@pytest.mark.parametrize(("schedule", "steps"), [("book", 6 + 3), ("sorted", 6 + 3), ("refill", 8)])
def test_a_group_waits_for_its_longest_line(schedule: str, steps: int) -> None:
    assert plan(script(4, 6, 2, 3), 2, schedule).steps == steps


def test_sorted_groups_hold_neighbours() -> None:
    book = script(1, 9, 2, 8)
    assert groups(book, 2, "book") == [[0, 1], [2, 3]]
    assert groups(book, 2, "sorted") == [[1, 3], [2, 0]]
    assert groups(book, 2, "refill") == [[0, 1, 2, 3]]
    with pytest.raises(ValueError, match="refill, sorted, book"):
        groups(book, 2, "random")


def test_on_a_book_each_schedule_is_better_than_the_last() -> None:
    refill, in_groups, in_order = (plan(draw(), 24, schedule) for schedule in SCHEDULES)
    assert in_order.useful < 0.5 < in_groups.useful < 0.9 < 0.97 < refill.useful
    for seats in (refill, in_groups, in_order):
        assert sum(seat.stop - seat.start for seat in seats.seats) == draw().frames
        ends: dict[int, int] = {}
        for seat in seats.seats:  # no slot holds two lines at once
            assert seat.start >= ends.get(seat.slot, 0)
            ends[seat.slot] = seat.stop


def test_what_a_book_that_is_wanted_from_its_beginning_costs_and_brings() -> None:
    """Sixteen hours in 512 lanes, as a card reads them."""
    book = draw(6300)
    usual, early = (plan(book, 512, "refill", 32, early=early) for early in (False, True))
    assert usual.steps < early.steps < 1.015 * usual.steps
    assert _half_is_whole(book, usual) > 0.98
    assert 0.5 < _half_is_whole(book, early) < 0.65
    assert plan(draw(2000), 512, "refill", 32, early=True) == plan(draw(2000), 512, "refill", 32), "too few lines"


def _half_is_whole(book: Workload, found: Plan) -> float:
    """The share of the steps after which all lines of the first half of the book have been read."""
    frames = np.cumsum([line.frames for line in book.lines])
    half = np.searchsorted(frames, frames[-1] / 2)
    return max(seat.stop for seat in found.seats if seat.line < half) / found.steps
