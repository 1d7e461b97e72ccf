"""A kernel of our own: taken only where it is right and clearly faster, and given everything that it declares."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from rhapsode.qwen3.checkpoint import Checkpoint  # noqa: E402
from rhapsode.qwen3.mlx import check as checks  # noqa: E402
from rhapsode.qwen3.mlx import kernels, library  # noqa: E402
from rhapsode.qwen3.mlx.load import load_model  # noqa: E402
from rhapsode.qwen3.trials import Trial, Way, require  # noqa: E402

SLOTS = 2


class Clock:
    """Time that only the ways below take."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    monkeypatch.setattr(checks, "_found", {})
    monkeypatch.setattr(checks, "_has_gpu", lambda: True)
    library.forget()
    clock = Clock()
    ways = [way if way.name == library.OURS else costing(clock, 1.0, way) for way in library.WAYS["SnakeBeta"]]
    monkeypatch.setitem(library.WAYS, "SnakeBeta", tuple(ways))
    yield clock
    library.forget()


def costing(clock: Clock, seconds: float, way: Way) -> Way:
    def run(*inputs: Any) -> Any:
        clock.now += seconds
        return way.run(*inputs)

    return Way(way.name, run)


def try_with(
    kernel: Callable[..., Any], seconds: float, clock: Clock, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> list[Trial]:
    """The check's answers about SnakeBeta where our kernel is this one, and takes so long (others: 1.0)."""
    first, _, last = library.WAYS["SnakeBeta"]
    ours = costing(clock, seconds, Way(library.OURS, kernel))
    monkeypatch.setitem(library.WAYS, "SnakeBeta", (first, ours, last))
    trials = checks.check(checkpoint.model, checkpoint.codec, mx.float32, None, SLOTS, clock)
    found = [trial for trial in trials if trial.task == "SnakeBeta"]
    assert len(found) == len(checks.snake_sizes(checkpoint.codec.decoder))
    return found


def right(x: Any, alpha: Any, height: Any) -> Any:
    return x + mx.square(mx.sin(alpha * x)) * height


def test_a_right_and_faster_kernel_is_taken(
    clock: Clock, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(trial.taken == library.OURS for trial in try_with(right, 0.5, clock, checkpoint, monkeypatch))
    assert library.taken("SnakeBeta", (checkpoint.codec.decoder.channels,)).name == library.OURS


@pytest.mark.parametrize("seconds", [0.9, 1.0, 3.0])
def test_a_slower_kernel_is_refused(
    clock: Clock, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    trials = try_with(right, seconds, clock, checkpoint, monkeypatch)
    assert all(trial.taken == "compiled" and not trial.wrong for trial in trials)
    assert not require(trials), "slower is not wrong: nothing is said"


def short(x: Any, alpha: Any, height: Any) -> Any:
    """The last block of threads is never started."""
    flat = right(x, alpha, height).reshape(-1)
    done = x.size // kernels.THREADS * kernels.THREADS
    return mx.where(mx.arange(x.size) < done, flat, 0.0).reshape(x.shape)


def unsupplied(x: Any, alpha: Any, height: Any) -> Any:
    """An input that it declares holds zeros."""
    return right(x, mx.zeros_like(alpha), height)


def narrow(x: Any, alpha: Any, height: Any) -> Any:
    return right(*(one.astype(mx.float16) for one in (x, alpha, height))).astype(mx.float32)


def missing(x: Any, alpha: Any, height: Any) -> Any:
    raise RuntimeError("No Metal back-end.")


@pytest.mark.parametrize("kernel", [short, unsupplied, narrow, missing])
def test_a_wrong_kernel_is_refused_however_fast(
    clock: Clock, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, kernel: Callable[..., Any]
) -> None:
    trials = try_with(kernel, 0.001, clock, checkpoint, monkeypatch)
    assert all(trial.taken == "compiled" and trial.wrong == [library.OURS] for trial in trials)
    (sentence,) = require(trials)
    assert sentence.startswith(f"SnakeBeta by {library.OURS} is wrong on this device")


def test_it_is_not_asked_where_there_is_no_gpu(checkpoint: Checkpoint) -> None:
    trials = checks.check(checkpoint.model, checkpoint.codec, mx.float32, None, SLOTS)
    assert all(library.OURS not in trial.errors for trial in trials)
    assert not load_model(checkpoint, "float32", SLOTS).notes


@pytest.mark.parametrize("metal", [True, False], ids=["metal", "cuda"])
@pytest.mark.parametrize("shape", [(1, 7, 3), (2, 100, 16), (1, 256, 1)])
def test_the_kernel_is_given_what_it_declares(
    monkeypatch: pytest.MonkeyPatch, metal: bool, shape: tuple[int, ...]
) -> None:
    """With a GPU's place taken by a reading of the call: every thread of the grid does what the source says."""
    calls = itertools.count()

    def maker(*, name: str, input_names: list[str], output_names: list[str], source: str) -> Callable[..., Any]:
        words = set(re.findall(r"[A-Za-z_]+", source))
        assert set(input_names) <= words and set(output_names) <= words and "C" in words

        def run(**call: Any) -> list[Any]:
            next(calls)
            given = dict(zip(input_names, map(np.array, call["inputs"]), strict=True))
            ((_, channels),) = call["template"]
            threads = call["grid"][0]
            assert threads % call["threadgroup"][0] == 0 and call["output_dtypes"] == [mx.float32]
            flat, out = given["x"].reshape(-1), np.full(call["output_shapes"][0], np.nan, np.float32).reshape(-1)
            for place in range(threads):
                if place < given["count"][0]:
                    wave = np.sin(flat[place] * given["alpha"][place % channels])
                    out[place] = flat[place] + wave * wave * given["height"][place % channels]
            return [mx.array(out.reshape(shape))]

        return run

    monkeypatch.setattr(kernels, "_kernel", [])
    monkeypatch.setattr(kernels.mx.metal, "is_available", lambda: metal)
    monkeypatch.setattr(kernels.mx.fast, "metal_kernel" if metal else "cuda_kernel", maker)
    x, alpha, height = mx.random.normal(shape), mx.random.normal(shape[-1:]), mx.random.normal(shape[-1:])
    assert np.allclose(np.array(kernels.snake(x, alpha, height)), np.array(right(x, alpha, height)), atol=1e-5)
    assert next(calls) == 1
