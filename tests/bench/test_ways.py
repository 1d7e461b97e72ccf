"""Which ways are shown, and what is said of them."""

from __future__ import annotations

from rhapsode.bench.ways import HEAD, compared, lines, rows
from rhapsode.qwen3.trials import Trial

FAST = Trial("product", "24 x 64", 0.1, {"theirs": 0.0, "ours": 0.0}, {"theirs": 0.002, "ours": 0.001}, "ours")
SLOW = Trial("product", "8 x 64", 0.1, {"theirs": 0.0, "ours": 0.0}, {"theirs": 0.003, "ours": 0.004}, "theirs")
WRONG = Trial("sort", "3", 0.1, {"argsort": 1.0, "counting": 0.0}, {}, "counting")
PLAIN = Trial("norm", "3", 0.1, {"written out": 0.0}, {}, "written out")


def test_only_what_was_compared_is_shown_and_each_size_once() -> None:
    found = compared([("int8", FAST), ("int8", PLAIN), ("int8", WRONG), ("int4", FAST), ("int4", SLOW)])
    assert [(one.format, one.trial) for one in found] == [("int8", FAST), ("int8", WRONG), ("int4", SLOW)]
    assert found[0].as_json()["format"] == "int8" and found[0].as_json()["taken"] == "ours"


def test_a_task_is_summed_over_its_sizes() -> None:
    assert list(lines(compared([("int8", FAST), ("int8", SLOW), ("int8", WRONG)]))) == [
        "  product, 2 sizes: theirs 5 ms, taken at 1; ours 5 ms, taken at 1",
        "  sort, 1 sizes: argsort, taken at 0, wrong at 1; counting, taken at 1",
    ]


def test_a_size_is_a_row() -> None:
    found = rows(compared([("int8", FAST), ("int8", WRONG)]))
    assert found[0] == ["product", "24 x 64", "theirs 2; ours 1", "ours"]
    assert found[1] == ["sort", "3", "argsort wrong; counting not timed", "counting"]
    assert all(len(row) == len(HEAD) for row in found)
