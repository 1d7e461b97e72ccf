"""Kernels of our own: right in both languages, taken only where right and clearly faster, given what they declare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from rhapsode.qwen3.checkpoint import Checkpoint  # noqa: E402
from rhapsode.qwen3.mlx import check as checks  # noqa: E402
from rhapsode.qwen3.mlx import kernels, library, questions  # noqa: E402
from rhapsode.qwen3.mlx.load import load_model  # noqa: E402
from rhapsode.qwen3.trials import Trial, Way, require  # noqa: E402
from tests.mlx import emulate  # noqa: E402

SLOTS, BITS = 2, 8
ON_CPU = pytest.mark.skipif(mx.default_device() != mx.Device(mx.cpu), reason="of the CPU build")
SNAKE, SNAKED, SHARED = "SnakeBeta", "SnakeBeta and convolution", "quantised product"


class Clock:
    """Time that only the ways below take."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    monkeypatch.setattr(checks, "_found", {})
    monkeypatch.setattr(questions, "has_gpu", lambda: True)
    library.forget()
    yield Clock()
    library.forget()


def costing(clock: Clock, seconds: float, way: Way) -> Way:
    def run(*inputs: Any) -> Any:
        clock.now += seconds
        return way.run(*inputs)

    return Way(way.name, run)


def try_with(
    task: str, kernel: Callable[..., Any], seconds: float, clock: Clock, checkpoint: Checkpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> list[Trial]:  # fmt: skip
    """The check's answers about a task where our kernel is this one, and takes so long (others: 1.0)."""
    first, _, last = library.WAYS[task]
    first, last = costing(clock, 1.0, first), costing(clock, 1.0, last)
    ours = costing(clock, seconds, Way(library.OURS, kernel))
    monkeypatch.setitem(library.WAYS, task, (first, ours, last))
    trials = checks.check(checkpoint.model, checkpoint.codec, mx.float32, BITS, SLOTS, clock)
    found = [trial for trial in trials if trial.task == task and library.OURS in trial.errors]
    assert found
    return found


RIGHT: dict[str, Callable[..., Any]] = {
    SNAKE: lambda x, alpha, height: x + mx.square(mx.sin(alpha * x)) * height,
    SNAKED: library._in_turn_plain,
    SHARED: library._widened,
}


@pytest.mark.parametrize("task", RIGHT)
def test_a_right_and_faster_kernel_is_taken(
    clock: Clock, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    trials = try_with(task, RIGHT[task], 0.5, clock, checkpoint, monkeypatch)
    assert all(trial.taken == library.OURS for trial in trials)
    assert library.OURS in {way.name for (asked, _), way in library._taken.items() if asked == task}


@pytest.mark.parametrize("task", RIGHT)
@pytest.mark.parametrize("seconds", [0.9, 1.0, 3.0])
def test_a_slower_kernel_is_refused(
    clock: Clock, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, task: str, seconds: float
) -> None:
    trials = try_with(task, RIGHT[task], seconds, clock, checkpoint, monkeypatch)
    assert all(trial.taken == library.WAYS[task][0].name and not trial.wrong for trial in trials)
    assert not require(trials), "slower is not wrong: nothing is said"


def short(task: str, *inputs: Any) -> Any:
    """The last block of threads is never started."""
    found = RIGHT[task](*inputs)
    return mx.where(mx.arange(found.size) < found.size - 1, found.reshape(-1), 0.0).reshape(found.shape)


def unsupplied(task: str, *inputs: Any) -> Any:
    """An input that it declares holds zeros."""
    return RIGHT[task](inputs[0], mx.zeros_like(inputs[1]), *inputs[2:])


def narrow(task: str, *inputs: Any) -> Any:
    """Numbers of a few bits only."""
    found = RIGHT[task](*inputs)
    return found * (1 + 1 / 16)


def missing(task: str, *inputs: Any) -> Any:
    raise RuntimeError("No Metal back-end.")


@pytest.mark.parametrize("task", RIGHT)
@pytest.mark.parametrize("kernel", [short, unsupplied, narrow, missing])
def test_a_wrong_kernel_is_refused_however_fast(
    clock: Clock, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, kernel: Callable[..., Any], task: str
) -> None:
    trials = try_with(task, lambda *inputs: kernel(task, *inputs), 0.001, clock, checkpoint, monkeypatch)
    wrong = [trial for trial in trials if trial.wrong]
    assert all(trial.taken == library.WAYS[task][0].name and trial.wrong == [library.OURS] for trial in wrong)
    # The last number may be too small to matter against the peak of some size, but not of all.
    assert wrong == trials or (kernel is short and wrong)
    (sentence,) = require(trials)
    assert sentence.startswith(f"{task} by {library.OURS} is wrong on this device")


def test_half_precision_in_a_sine_is_refused(
    clock: Clock, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(*inputs: Any) -> Any:
        return RIGHT[SNAKE](*(one.astype(mx.float16) for one in inputs)).astype(mx.float32)

    trials = try_with(SNAKE, half, 0.001, clock, checkpoint, monkeypatch)
    assert len(trials) == len(checks.snake_sizes(checkpoint.codec.decoder))
    assert all(trial.wrong == [library.OURS] for trial in trials)


@ON_CPU
def test_they_are_not_asked_where_there_is_no_gpu(checkpoint: Checkpoint) -> None:
    trials = checks.check(checkpoint.model, checkpoint.codec, mx.float32, None, SLOTS)
    assert all(library.OURS not in trial.errors for trial in trials)
    assert not load_model(checkpoint, "float32", SLOTS).notes


def test_many_rows_are_for_the_library(
    clock: Clock, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """A prefill has more rows than share a read: our kernel is neither asked nor taken there."""
    try_with(SHARED, RIGHT[SHARED], 0.01, clock, checkpoint, monkeypatch)
    taken = {size[-1]: way.name for (task, size), way in library._taken.items() if task == SHARED}
    assert taken == {"few": library.OURS, "many": "quantized_matmul"}
    assert library.quantised_size(8, 64, 64, kernels.MOST_LANES)[-1] == "few"
    assert library.quantised_size(8, 64, 64, kernels.MOST_LANES + 1)[-1] == "many"


# ---------------------------------------------------------------------- the bodies themselves


@pytest.fixture(params=[True, False], ids=["metal", "cuda"])
def launches(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """A GPU's place taken by threads of the processor; what was launched."""
    if emulate.COMPILER is None:
        pytest.skip("no C++ compiler to run a kernel's body with")
    seen: list[str] = []
    metal = request.param
    make = emulate.maker(tmp_path_factory.getbasetemp(), metal, seen)
    monkeypatch.setattr(kernels, "_kernels", {})
    monkeypatch.setattr(kernels.mx.metal, "is_available", lambda: metal)
    monkeypatch.setattr(kernels.mx.fast, "metal_kernel" if metal else "cuda_kernel", make)
    return seen


def numbers(*shape: int) -> Any:
    return mx.array(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


def near(found: Any, wanted: Any) -> bool:
    return found.shape == wanted.shape and bool(np.allclose(np.array(found), np.array(wanted), atol=1e-4, rtol=1e-4))


@pytest.mark.parametrize("shape", [(1, 7, 3), (2, 100, 16), (1, 128, 1)])
def test_snake_does_what_its_twin_does(launches: list[str], shape: tuple[int, ...]) -> None:
    x, alpha, height = numbers(*shape), 9 * numbers(shape[-1]), numbers(shape[-1])
    assert near(kernels.snake(x, alpha, height), library._snaked(x, alpha, height))
    assert launches == ["rhapsode_snake"]


@pytest.mark.parametrize(("rows", "time", "into", "out", "kernel", "dilation"), [
    (1, 64, 16, 96, 1, 1), (2, 65, 17, 97, 7, 1), (1, 63, 5, 3, 7, 9), (1, 10, 40, 16, 7, 3),
])  # fmt: skip
def test_a_snaked_convolution_does_what_its_twin_does(
    launches: list[str], rows: int, time: int, into: int, out: int, kernel: int, dilation: int
) -> None:
    """Sizes of a block, and one more and one less; fewer steps than the convolution looks back."""
    inputs = numbers(rows, time, into), numbers(into), numbers(into), numbers(out, kernel, into), dilation
    assert near(kernels.snaked_convolution(*inputs), library._in_turn_plain(*inputs))
    assert launches == ["rhapsode_snaked_convolution"]


@pytest.mark.parametrize(("rows", "into", "out", "bits"), [
    (1, 64, 8, 8), (3, 192, 7, 4), (24, 128, 9, 8), (25, 64, 1, 4), (32, 1088, 3, 8),
])  # fmt: skip
def test_a_shared_read_does_what_its_twin_does(
    launches: list[str], rows: int, into: int, out: int, bits: int
) -> None:  # fmt: skip
    inputs = numbers(rows, 1, into), *mx.quantize(numbers(out, into), group_size=library.GROUP, bits=bits), bits
    assert near(kernels.shared_read(*inputs, library.GROUP), library._widened(*inputs))
    assert launches == ["rhapsode_shared_read"]


X, ALPHA = numbers(1, 4, 3), numbers(3)


@pytest.mark.parametrize(("call", "sentence"), [
    (lambda: kernels.snake(X, ALPHA[:2], ALPHA), "is read"),
    (lambda: kernels.snake(X.astype(mx.float16), ALPHA, ALPHA), "float32"),
    (lambda: kernels.snaked_convolution(X, ALPHA, ALPHA, numbers(5, 7, 4), 1), "is read"),
    (lambda: kernels.shared_read(numbers(33, 64), *mx.quantize(numbers(8, 64), group_size=64, bits=8), 8, 64), "rows"),
    (lambda: kernels.shared_read(
        numbers(2, 64).astype(mx.bfloat16), *mx.quantize(numbers(8, 64), group_size=64, bits=8), 8, 64), "types"),
    (lambda: kernels._launch("snake", {"x": X}, {}, (1, 1, 1), X.shape, X.dtype), "declares"),
])  # fmt: skip
def test_what_a_kernel_is_not_written_for_is_an_error(call: Callable[[], Any], sentence: str) -> None:
    """None of these come to a GPU: what a kernel reads beyond its inputs would be anything."""
    with pytest.raises(RuntimeError, match=sentence):
        call()


def test_both_languages_say_the_same() -> None:
    for inputs, body in kernels.BODIES.values():
        assert all(name in body for name in (*inputs, "y["))
    words = ("SHARED", "WAIT", "SINE", "TOGETHER")
    for dialect in (kernels.METAL, kernels.CUDA):
        assert all(f"#define {word}" in dialect.header for word in words)
        assert all(f"int {name} =" in dialect.prelude for name in ("me", "block_x", "block_y", "block_z"))


# ---------------------------------------------------------------------- a trap that was seen elsewhere


def test_a_rotation_that_turns_only_the_first_row_is_refused(
    clock: Clock, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However fast, and where one row at several positions comes out right."""

    def first_row(x: Any, heads: Any, turn: Any) -> Any:
        found = library._at_once(x, heads, turn)
        return found if x.shape[2] > 1 else mx.concatenate([found[:1], x[1:]])

    at_once, plain = library.WAYS["rotation"]
    ways = costing(clock, 1.0, plain), costing(clock, 0.1, Way(at_once.name, first_row))
    monkeypatch.setitem(library.WAYS, "rotation", ways)
    trials = checks.check(checkpoint.model, checkpoint.codec, mx.float32, None, SLOTS, clock)
    of_task = [trial for trial in trials if trial.task == "rotation"]
    assert any(trial.wrong == [at_once.name] and trial.taken == plain.name for trial in of_task)
    trunk = checkpoint.model.talker.trunk
    assert library.taken("rotation", (trunk.head_dim, "float32")).name == plain.name
