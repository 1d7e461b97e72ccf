"""The queue and the slots: longest first, equal ones in order, a freed slot taken again at once."""

from __future__ import annotations

import random

import pytest

from rhapsode.engine.lanes import LINES_OF_A_LANE, STRETCHES, Lanes, Reading, stretches
from rhapsode.engine.stepper import Request


def reading(line: int, expected: float, attempt: int = 1) -> Reading:
    return Reading(line, Request(None, cap=1, seed=0), expected, attempt)


def seated(lanes: Lanes) -> list[tuple[int, int]]:
    return [(slot, reading.line) for slot, reading in lanes.fill()]


def test_the_longest_come_first_and_sit_in_the_lowest_slots() -> None:
    lanes = Lanes(2, [reading(0, 1.0), reading(1, 9.0), reading(2, 4.0), reading(3, 6.0)])
    assert (lanes.running, lanes.waiting) == (0, 4)
    assert seated(lanes) == [(0, 1), (1, 3)]
    assert (lanes.running, lanes.waiting) == (2, 2)


def test_nothing_more_is_seated_while_all_slots_are_taken() -> None:
    lanes = Lanes(1, [reading(0, 1.0), reading(1, 2.0)])
    assert seated(lanes) == [(0, 1)]
    assert seated(lanes) == []
    assert lanes.waiting == 1


def test_a_freed_slot_is_taken_by_the_next_longest() -> None:
    lanes = Lanes(3, [reading(line, line) for line in range(6)])
    assert seated(lanes) == [(0, 5), (1, 4), (2, 3)]
    assert lanes.release(1).line == 4
    assert lanes.running == 2
    assert seated(lanes) == [(1, 2)]
    lanes.release(0)
    lanes.release(2)
    assert seated(lanes) == [(0, 1), (2, 0)], "the lowest free slot first, in whatever order they were freed"


def test_equal_lengths_come_in_the_order_given() -> None:
    lanes = Lanes(5, [reading(3, 2.0), reading(1, 2.0), reading(4, 7.0), reading(0, 2.0), reading(2, 2.0)])
    assert [line for _, line in seated(lanes)] == [4, 3, 1, 0, 2]


def test_an_added_reading_takes_its_place_by_length() -> None:
    lanes = Lanes(1, [reading(0, 1.0), reading(1, 3.0), reading(2, 5.0)])
    lanes.add(reading(7, 4.0, attempt=2))
    order = []
    while lanes.waiting:
        ((slot, sitting),) = lanes.fill()
        order.append((sitting.line, sitting.attempt))
        lanes.release(slot)
    assert order == [(2, 1), (7, 2), (1, 1), (0, 1)]


def test_a_reading_can_be_added_to_an_empty_queue() -> None:
    lanes = Lanes(2, [])
    assert (seated(lanes), lanes.running, lanes.waiting) == ([], 0, 0)
    lanes.add(reading(0, 1.0))
    assert seated(lanes) == [(0, 0)]


def test_whoever_sat_in_a_slot_comes_back_unchanged() -> None:
    one = reading(5, 2.5, attempt=3)
    lanes = Lanes(4, iter([one]))
    assert lanes.fill() == [(0, one)]
    assert lanes.release(0) is one
    with pytest.raises(KeyError):
        lanes.release(0)


@pytest.mark.parametrize("slots", [1, 2, 5, 30])
def test_every_reading_sits_once_whatever_ends_first(slots: int) -> None:
    chance = random.Random(slots)
    lanes = Lanes(slots, [reading(line, chance.choice([1.0, 2.0, 3.0])) for line in range(20)])
    taken: set[int] = set()
    sat = []
    while lanes.waiting or lanes.running:
        for slot, line in seated(lanes):
            assert 0 <= slot < slots and slot not in taken
            taken.add(slot)
            sat.append(line)
        assert len(taken) == lanes.running == min(slots, lanes.running + lanes.waiting), "no slot stays empty"
        leaving = chance.choice(sorted(taken))
        taken.discard(leaving)
        lanes.release(leaving)
    assert sorted(sat) == list(range(20))


# ------------------------------------------------------------------ refill by groups


def test_lines_wait_until_enough_slots_are_free() -> None:
    lanes = Lanes(6, [reading(line, line) for line in range(20)], refill=3)
    assert len(seated(lanes)) == 6, "nothing runs"
    for slot in (4, 1):
        lanes.release(slot)
        assert seated(lanes) == []
    lanes.release(5)
    assert [slot for slot, _ in seated(lanes)] == [1, 4, 5]


def test_the_last_lines_do_not_wait_for_more_slots_than_they_need() -> None:
    lanes = Lanes(6, [reading(line, line) for line in range(8)], refill=4)
    assert len(seated(lanes)) == 6
    lanes.release(2)
    assert seated(lanes) == []
    lanes.release(3)
    assert seated(lanes) == [(2, 1), (3, 0)]
    lanes.add(reading(9, 9))
    assert seated(lanes) == []
    lanes.release(0)
    assert seated(lanes) == [(0, 9)]


def test_nothing_waits_where_nothing_runs() -> None:
    lanes = Lanes(2, [reading(line, line) for line in range(5)], refill=8)
    for wanted in (2, 2, 1, 0):
        assert len(seated(lanes)) == wanted
        for slot in range(wanted):
            lanes.release(slot)


def test_stretches_come_one_after_the_other_and_a_line_again_in_its_own() -> None:
    parts = [0, 0, 1, 1, 2, 2]
    lanes = Lanes(1, [Reading(n, Request(None, 1, 0), float(n % 2), stretch=part) for n, part in enumerate(parts)])
    order = []
    while found := lanes.fill():
        [(slot, sitting)] = found
        order.append(sitting.line)
        lanes.release(slot)
        if order == [1, 0, 3]:
            lanes.add(Reading(0, Request(None, 1, 0), 0.5, attempt=2, stretch=0))
    assert order == [1, 0, 3, 0, 2, 5, 4]


def test_a_book_has_stretches_of_about_one_length_where_lanes_have_lines_enough() -> None:
    slots = 10
    fewest = LINES_OF_A_LANE * slots
    assert stretches([], slots) == []
    assert set(stretches([1.0] * (2 * fewest - 1), slots)) == {0}
    expected = [1.0 + n % 7 for n in range(9 * fewest)]
    parts = stretches(expected, slots)
    assert parts == sorted(parts) and set(parts) == set(range(STRETCHES))
    for part in range(STRETCHES):
        seconds = sum(one for one, at in zip(expected, parts, strict=True) if at == part)
        assert seconds == pytest.approx(sum(expected) / STRETCHES, rel=0.05)
    assert set(stretches([0.0] * 9 * fewest, slots)) == {0}
