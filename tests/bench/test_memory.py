"""The row of memory: bytes of weights, of keys and values, and of the peak above what was there before the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rhapsode.bench import machine
from rhapsode.bench.choices import Options
from rhapsode.bench.on_torch import weight_bytes
from rhapsode.bench.result import Result
from rhapsode.bench.run import measure
from rhapsode.bench.source import Source
from rhapsode.bench.spread import Row
from rhapsode.bench.table import short, terminal
from tests.bench.conftest import BOOK


@pytest.fixture(scope="module")
def result(source: Source) -> Result:
    ticks = iter(range(10**9))
    with pytest.MonkeyPatch.context() as patch:
        # 100 MB were held before the model was made, 350 at most while it read.
        patch.setattr(machine, "peak_rss_mb", lambda: 350.0)
        patch.setattr(machine, "forget_peak", lambda device: 100.0)
        options = Options(slots=(2,), lines=2, repeats=1)
        return measure(source, "cpu", ("bfloat16",), options, lambda: float(next(ticks)), lambda message: None, BOOK)


def test_the_peak_is_that_above_what_was_held_before(source: Source, result: Result) -> None:
    row = result.as_json()["memory"]
    assert row["weights"] == weight_bytes(source.build("cpu", "bfloat16"))
    assert row["kv"] == result.whole.kv_bytes > 0
    assert row["peak"] == 250e6
    assert row["over"] == pytest.approx((250e6 - row["kv"]) / row["weights"], rel=1e-4)


def test_a_device_counts_for_itself(result: Result) -> None:
    """What a device holds, it holds for the model: nothing was there before."""
    there = replace(result, peak_mb={**result.peak_mb, "device": 30.0})
    assert there.memory()["peak"] == 30e6


def test_the_peak_of_several_devices_is_that_of_one(result: Result) -> None:
    """Keys and values are counted over all of them."""
    weights, kv = result.sweep.weights_bytes[result.whole.format], result.whole.kv_bytes
    rows = tuple(Row(f"cuda:{n}", 1, 1.0, 1.0, 1.0, {}) for n in range(2))
    one = replace(result, peak_mb={"device": (weights + kv / 2) / 1e6}, devices=rows)
    assert one.memory()["over"] == pytest.approx(1.0)


def test_three_digits_and_whole_numbers() -> None:
    assert [short(number) for number in (1803.1, 203853.3, 15.875, 0.00055, 99.96)] == [
        "1,803", "203,853", "15.9", "0.00055", "100",
    ]  # fmt: skip


def test_weights_and_keys_and_values_alone_are_once_the_weights(result: Result) -> None:
    weights, kv = result.sweep.weights_bytes["bfloat16"], result.whole.kv_bytes
    tight = replace(result, peak_mb={"before the model": 7.0, "process": 7.0 + (weights + kv) / 1e6})
    assert tight.memory()["over"] == pytest.approx(1.0, rel=1e-4)
    assert "keys and values: 1.00 x its weights" in terminal(tight)


def test_the_peak_begins_anew_before_the_model_and_not_after(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """What formats of the table took before is not the peak of the one that reads the book."""
    ticks, order = iter(range(10**9)), []

    def noted(name: str, does: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*words: Any) -> Any:
            order.append(name)
            return does(*words)

        return noting

    watched = replace(source, build=noted("build", source.build))
    monkeypatch.setattr(machine, "forget_peak", noted("forget", lambda device: 1.0))
    monkeypatch.setattr(machine, "peak_mb", noted("peak", lambda device: {"process": 2.0}))
    options = Options(slots=(2,), lines=2, repeats=1)
    measure(watched, "cpu", ("float32",), options, lambda: float(next(ticks)), lambda message: None, BOOK)
    assert order == ["build", "forget", "build", "peak"]
