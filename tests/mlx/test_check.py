"""What is asked of the library: twins that agree, broken functions that are found, sizes that are those in use."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from rhapsode.cli import main  # noqa: E402
from rhapsode.errors import UserError  # noqa: E402
from rhapsode.qwen3.checkpoint import Checkpoint  # noqa: E402
from rhapsode.qwen3.mlx import check as checks  # noqa: E402
from rhapsode.qwen3.mlx import library, questions  # noqa: E402
from rhapsode.qwen3.mlx.load import load_model  # noqa: E402
from rhapsode.qwen3.mlx.stepper import MlxStepper  # noqa: E402
from rhapsode.qwen3.prompt import Prompt  # noqa: E402
from rhapsode.qwen3.trials import Trial, Way  # noqa: E402
from rhapsode.types import Sampling  # noqa: E402
from tests.engine.torch_lanes import read  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
STEPPER: Any = MlxStepper
SLOTS = 3


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(checks, "_found", {})
    library.forget()
    yield
    library.forget()


def break_all_but_last(monkeypatch: pytest.MonkeyPatch, task: str, run: Callable[..., Any]) -> None:
    *others, last = library.WAYS[task]
    monkeypatch.setitem(library.WAYS, task, (*(Way(way.name, run) for way in others), last))


def break_first(monkeypatch: pytest.MonkeyPatch, task: str, run: Callable[..., Any]) -> None:
    """Let the library's way of a task do something else."""
    first, *others = library.WAYS[task]
    monkeypatch.setitem(library.WAYS, task, (Way(first.name, run), *others))


def tried(checkpoint: Checkpoint, dtype: Any = mx.float32, bits: int | None = None) -> list[Trial]:
    return checks.check(checkpoint.model, checkpoint.codec, dtype, bits, SLOTS)


KINDS = [(mx.float32, None), (mx.float16, None), (mx.bfloat16, 8), (mx.bfloat16, 4)]


@pytest.mark.parametrize(("dtype", "bits"), KINDS)
def test_this_machine_is_right(checkpoint: Checkpoint, dtype: Any, bits: int | None) -> None:
    trials = tried(checkpoint, dtype, bits)
    assert all(trial.taken for trial in trials)
    # MLX's CPU build adds up quantised products in the type of the rows, which is too few bits at some sizes.
    wrong = [trial.sentence for trial in trials if trial.wrong and trial.task != "quantised product"]
    assert not wrong
    assert {trial.task for trial in trials} >= set(library.WAYS) - ({"quantised product"} if bits is None else set())


@pytest.mark.parametrize("task", sorted(library.WAYS))
def test_the_plain_twin_is_right_too(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    """With all other ways out of order, every question about a task is answered by the last."""

    def broken(*inputs: Any) -> Any:
        raise RuntimeError("out of order")

    break_all_but_last(monkeypatch, task, broken)
    of_task = [trial for trial in tried(checkpoint, mx.bfloat16, 8) if trial.task == task]
    plain = library.WAYS[task][-1].name
    assert of_task and all(trial.taken == plain for trial in of_task)


ZEROS_ABOVE = {
    "sort": lambda x: mx.argsort(-x, axis=-1) if x.shape[-1] < 100 else mx.zeros(x.shape, mx.int32),
    "convolution": lambda x, w, d, g: mx.conv1d(x, w, dilation=d, groups=g) * (1 if d < 9 else 0),
    "running sum": lambda x: x,
    "softmax": lambda x: mx.softmax(x, axis=-1, precise=True) * mx.array(float("nan"), x.dtype),
    "largest": lambda x: mx.argmin(x, axis=-1),
    "layer norm": lambda x, w, b: x,
    "write keys": lambda kept, rows, positions, new: kept,
    "norm": lambda x, weight, eps: x if weight is None else weight * x,
    "rotation": lambda x, heads, turn: x,
    "added product": lambda x, weight, onto: x @ weight.T,
    "attention": lambda query, keys, values, mask: library._weighed(query, keys, values, None),
    "SnakeBeta and convolution": lambda x, *inputs: library._in_turn_plain(0 * x, *inputs),
    "compiling": lambda function: lambda *inputs: function(*inputs) * 0,
}


@pytest.mark.parametrize("task", ZEROS_ABOVE)
def test_codes_are_right_with_a_library_that_fails_silently(
    checkpoint: Checkpoint, prompts: list[Prompt], monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    """Zeros instead of a sort, a dilation that is ignored: what is read does not change, and it is said."""
    sampling = Sampling(greedy=True) if task == "largest" else Sampling(top_p=0.9)
    sound: Any = load_model(checkpoint, "float32", SLOTS)
    wanted = read(sound, prompts, range(2), 2, sampling=sampling, kind=STEPPER)
    library.forget()
    checks._found.clear()
    break_first(monkeypatch, task, ZEROS_ABOVE[task])
    model: Any = load_model(checkpoint, "float32", SLOTS)
    assert len(model.notes) == 1 and f"{task} by {library.WAYS[task][0].name} is wrong" in model.notes[0]
    found = read(model, prompts, range(2), 2, sampling=sampling, kind=STEPPER)
    for line, (codes, wave) in wanted.items():
        assert np.array_equal(codes, found[line][0])
        assert np.abs(wave - found[line][1]).max() <= 1e-3 * np.abs(wave).max()


@pytest.mark.parametrize(
    "task", ["norm", "rotation", "attention", "added product", "SnakeBeta and convolution", "write keys"]
)
def test_a_reading_is_the_same_whichever_way_is_taken(
    checkpoint: Checkpoint, prompts: list[Prompt], monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    """Each way within a step, a prefill and the codec, not only where it is tried."""
    seen: list[int] = []

    def counted(way: Way) -> Way:
        def run(*inputs: Any) -> Any:
            seen.append(1)
            return way.run(*inputs)

        return Way(way.name, run)

    wanted = read(load_model(checkpoint, "float32", SLOTS), prompts, range(3), 2, kind=STEPPER)  # type: ignore[arg-type]
    library.forget()
    checks._found.clear()
    last = library.WAYS[task][-1]
    monkeypatch.setitem(library.WAYS, task, (counted(last),))
    model: Any = load_model(checkpoint, "float32", SLOTS)
    seen.clear()
    found = read(model, prompts, range(3), 2, kind=STEPPER)
    assert seen, "the other way was not taken"
    for line, (codes, wave) in wanted.items():
        assert np.array_equal(codes, found[line][0])
        assert np.abs(wave - found[line][1]).max() <= 1e-3 * np.abs(wave).max()


def test_only_the_size_that_is_wrong_is_done_otherwise(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    break_first(monkeypatch, "sort", ZEROS_ABOVE["sort"])
    tried(checkpoint)
    assert library.taken("sort", (checkpoint.model.talker.vocab,)).name == "counting"
    assert library.taken("sort", (checkpoint.model.predictor.vocab,)).name == "argsort"


def test_what_no_way_does_right_ends_with_a_sentence(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    ways = tuple(Way(way.name, lambda x: x) for way in library.WAYS["softmax"])
    monkeypatch.setitem(library.WAYS, "softmax", ways)
    with pytest.raises(UserError, match="softmax at .* is wrong on this device .*Take another --device"):
        load_model(checkpoint, "float32", SLOTS)


def test_sizes_are_those_in_use(checkpoint: Checkpoint, prompts: list[Prompt], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a reading asks of the library was tried at that size."""
    model: Any = load_model(checkpoint, "int8", SLOTS)
    tried_at = {(task, size) for task, size in library._taken}
    asked: set[tuple[str, Any]] = set()
    plain = library.taken

    def watched(task: str, size: Any = ()) -> Way:
        asked.add((task, size))
        return plain(task, size)

    monkeypatch.setattr(library, "taken", watched)
    for sampling in (Sampling(top_p=0.9, top_k=0), Sampling(greedy=True)):
        read(model, prompts, range(2), 2, sampling=sampling, kind=STEPPER)
    assert asked and asked <= tried_at, asked - tried_at


def test_a_process_asks_once(checkpoint: Checkpoint) -> None:
    first = tried(checkpoint)
    assert tried(checkpoint) is first
    assert tried(checkpoint, mx.float16) is not first


def test_quantised_weights_are_unpacked_as_the_library_does() -> None:
    weight = mx.random.normal((8, 128))
    for bits in (4, 8):
        packed = mx.quantize(weight, group_size=library.GROUP, bits=bits)
        theirs = np.array(mx.dequantize(*packed, group_size=library.GROUP, bits=bits))
        assert np.allclose(questions.unpacked(*packed, bits), theirs, atol=1e-6)


def test_doctor_says_what_was_found(checkpoint: Checkpoint, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["doctor", "--device", "mlx", "--checkpoint", str(checkpoint.folder), "--slots", "3"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "device: mlx" in text and "right  sort" in text and ", 0 wrong" in text
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["right"] and found["slots"] == 3 and found["formats"][0] == "float32"
    assert {check["task"] for check in found["checks"]} >= {"sort", "softmax", "convolution", "write keys"}


def test_doctor_ends_with_code_2_where_something_is_wrong(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ways = tuple(Way(way.name, lambda x: x) for way in library.WAYS["running sum"])
    monkeypatch.setitem(library.WAYS, "running sum", ways)
    assert main(["doctor", "--device", "mlx", "--checkpoint", str(checkpoint.folder)]) == 2
    out, err = capsys.readouterr()
    assert "wrong  running sum" in out and "computes wrongly here: running sum" in err


def test_a_timed_choice_takes_what_is_faster(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that stands still but for what the ways of a convolution are said to take."""
    now = 0.0

    def lasting(way: Way, seconds: float) -> Way:
        def run(*inputs: Any) -> Any:
            nonlocal now
            now += seconds
            return way.run(*inputs)

        return Way(way.name, run)

    slow, fast = library.WAYS["convolution"]
    monkeypatch.setitem(library.WAYS, "convolution", (lasting(slow, 2.0), lasting(fast, 1.0)))
    trials = checks.check(checkpoint.model, checkpoint.codec, mx.float32, None, SLOTS, lambda: now)
    of_convolutions = [trial for trial in trials if trial.task == "convolution"]
    assert of_convolutions and all(trial.taken == fast.name for trial in of_convolutions)
    assert all(trial.seconds[slow.name] == 2 * trial.seconds[fast.name] > 0 for trial in of_convolutions)
    assert not any(trial.sentence for trial in of_convolutions), "slower is not wrong"


@pytest.mark.parametrize("command", ["doctor", "voices"])
def test_commands_need_no_torch(checkpoint: Checkpoint, command: str) -> None:
    code = "import sys; sys.modules['torch'] = None; from rhapsode.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [command, "--checkpoint", str(checkpoint.folder), *(["--device", "mlx"] if command == "doctor" else [])]
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("out", "kernel", "into", "dilation", "groups"), [
    (1, 7, 16, 1, 1), (3, 7, 40, 9, 1), (16, 7, 16, 3, 1), (16, 1, 8, 1, 1), (12, 7, 1, 1, 12),
])  # fmt: skip
def test_shifted_products_are_a_convolution(out: int, kernel: int, into: int, dilation: int, groups: int) -> None:
    """Few channels out of many, many out of few, and each by itself; two lines at once."""
    x = mx.random.normal((2, 30 + (kernel - 1) * dilation, into * groups))
    inputs = x, mx.random.normal((out, kernel, into)), dilation, groups
    found, wanted = (np.array(way.run(*inputs)) for way in library.WAYS["convolution"])
    assert found.shape == (2, 30, out) and np.allclose(found, wanted, atol=1e-4)
