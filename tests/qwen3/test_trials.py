"""Ways that are wrong, fail, or are slow: which of them is taken, and what is said."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rhapsode.errors import UserError
from rhapsode.qwen3.trials import TIMES, Trial, Way, choose, require

TRUTH = np.array([1.0, 2.0, 4.0])


class Clock:
    """Moves only while something runs that takes time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def way(self, name: str, seconds: float, found: np.ndarray = TRUTH) -> Way:
        def run(x: float) -> np.ndarray:
            self.now += seconds
            return found * x

        return Way(name, run)


def tried(*ways: Way, clock: Clock | None = None) -> Trial:
    return choose("task", "3", ways, (1.0,), TRUTH, 1e-3, np.asarray, clock)


def failing(error: type[Exception]) -> Callable[..., np.ndarray]:
    def run(x: float) -> np.ndarray:
        raise error("no")

    return run


def test_the_first_right_way_is_taken_without_a_clock() -> None:
    clock = Clock()
    trial = tried(clock.way("kernel", 9.0), clock.way("plain", 1.0))
    assert trial.taken == "kernel" and not trial.wrong and list(trial.errors) == ["kernel"] and not trial.sentence


@pytest.mark.parametrize(
    "found", [TRUTH * 1.01, TRUTH * np.nan, np.zeros(3), TRUTH[:2], TRUTH + [0, 0, np.inf]],
    ids=["off", "nan", "zeros", "short", "inf"],
)  # fmt: skip
def test_a_wrong_way_is_never_taken_however_fast(found: np.ndarray) -> None:
    clock = Clock()
    trial = tried(clock.way("kernel", 0.001, found), clock.way("plain", 1.0), clock=clock)
    assert trial.taken == "plain" and trial.wrong == ["kernel"]
    assert "task at 3 by kernel is wrong on this device" in trial.sentence
    (sentence,) = require([trial])
    assert sentence.endswith("plain is used.") and trial.as_json()["errors"]["kernel"] != float("inf")


@pytest.mark.parametrize("error", [RuntimeError, ValueError, NotImplementedError])
def test_a_way_that_raises_is_as_good_as_wrong(error: type[Exception]) -> None:
    trial = tried(Way("kernel", failing(error)), Clock().way("plain", 1.0))
    assert trial.taken == "plain"


@pytest.mark.parametrize(("kernel", "wanted"), [(0.5, "kernel"), (0.7, "kernel"), (0.9, "plain"), (1.5, "plain")])
def test_a_way_must_be_clearly_faster_than_those_before_it(kernel: float, wanted: str) -> None:
    clock = Clock()
    trial = tried(clock.way("plain", 1.0), clock.way("kernel", kernel), clock=clock)
    assert trial.taken == wanted
    assert trial.seconds == pytest.approx({"plain": 1.0, "kernel": kernel})


def test_the_least_of_several_times_counts() -> None:
    clock, calls = Clock(), iter([5.0, *([2.0] * (TIMES - 1)), 0.5])

    def run(x: float) -> np.ndarray:
        clock.now += next(calls)
        return TRUTH

    assert tried(Way("plain", run), clock=clock).seconds == {"plain": 0.5}


def test_where_no_way_is_right_there_is_a_sentence() -> None:
    trial = tried(Clock().way("kernel", 1.0, TRUTH * 2), Clock().way("plain", 1.0, TRUTH * 3))
    assert not trial.taken
    with pytest.raises(UserError, match="task at 3 by kernel is wrong on this device .*no other way"):
        require([trial])
