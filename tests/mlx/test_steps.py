"""MLX by itself: how far each format is from float32, endings that are read a step late, and a book of two devices."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from rhapsode.cli import main  # noqa: E402
from rhapsode.engine.stepper import Request  # noqa: E402
from rhapsode.qwen3.checkpoint import Checkpoint  # noqa: E402
from rhapsode.qwen3.mlx.load import FORMATS, Model, load_model  # noqa: E402
from rhapsode.qwen3.mlx.stepper import MlxStepper  # noqa: E402
from rhapsode.qwen3.prompt import Prompt  # noqa: E402
from tests.engine.conftest import TEXTS  # noqa: E402
from tests.engine.torch_lanes import limits_for, read, seed_of, stepper  # noqa: E402

# Root mean square of the difference of the talker's logits over their spread.
TOLERANCES = {"float32": 0.0, "float16": 0.01, "bfloat16": 0.03, "int8": 0.04, "int4": 0.5}


def logits(model: Model, prompts: list[Prompt]) -> np.ndarray:
    """Of codebook 0 for the first frame of each line."""
    kind: Any = MlxStepper
    mlx: Any = model
    lanes: Any = stepper(mlx, limits_for(prompts), len(prompts), kind=kind)
    lanes.admit([(slot, Request(prompt, 4, seed_of(slot))) for slot, prompt in enumerate(prompts)])
    return np.array(model.talker.logits(lanes.state["hidden"]))


@pytest.fixture(scope="session")
def wanted(checkpoint: Checkpoint, prompts: list[Prompt]) -> np.ndarray:
    return logits(load_model(checkpoint, "float32"), prompts)


def test_every_format_has_a_tolerance() -> None:
    assert set(TOLERANCES) == set(FORMATS)


@pytest.mark.parametrize("format", FORMATS)
def test_logits_are_within_the_tolerance_of_the_format(
    checkpoint: Checkpoint, prompts: list[Prompt], wanted: np.ndarray, format: str
) -> None:
    found = logits(load_model(checkpoint, format), prompts)
    apart = float(np.sqrt(np.square(found - wanted).mean()) / wanted.std())
    assert apart <= TOLERANCES[format]
    assert (apart > 0.0) == (format != "float32"), "a format that changes nothing is not that format"


class Late(MlxStepper):
    """As on a device that queues: what a step left is read after the next one."""

    def __init__(self, *networks: Any, **room: Any) -> None:
        super().__init__(*networks, **room)
        self.queues = True


def test_endings_may_be_read_a_step_late(checkpoint: Checkpoint, prompts: list[Prompt]) -> None:
    model: Any = load_model(checkpoint, "float32")
    at_once: Any = MlxStepper
    late: Any = Late
    wanted = read(model, prompts, range(7), 3, kind=at_once)
    found = read(model, prompts, range(7), 3, kind=late)
    assert {line: codes.tolist() for line, (codes, _) in found.items()} == {
        line: codes.tolist() for line, (codes, _) in wanted.items()
    }


class Poisoned(MlxStepper):
    """What the lines before left behind is not a number."""

    def __init__(self, *networks: Any, **room: Any) -> None:
        super().__init__(*networks, **room)
        self.kv.layers = [mx.full(layer.shape, float("nan"), layer.dtype) for layer in self.kv.layers]


def test_a_line_reads_nothing_of_the_one_before(checkpoint: Checkpoint, prompts: list[Prompt]) -> None:
    model: Any = load_model(checkpoint, "float32")
    clean: Any = MlxStepper
    poisoned: Any = Poisoned
    wanted = read(model, prompts, range(3), 3, kind=clean)
    found = read(model, prompts, range(3), 3, kind=poisoned)
    assert all(np.array_equal(found[line][0], codes) for line, (codes, _) in wanted.items())


def samples(file: Path) -> np.ndarray:
    with wave.open(str(file)) as sound:
        return np.frombuffer(sound.readframes(sound.getnframes()), np.int16).astype(np.float64)


def test_a_book_is_the_same_on_both_devices(checkpoint: Checkpoint, tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("\n\n".join(TEXTS[:4]), encoding="utf-8")
    for device in ("mlx", "cpu"):
        words = ["narrate", str(book), "-o", str(tmp_path / f"{device}.wav"), "--device", device, "--slots", "2"]
        assert main([*words, "--checkpoint", str(checkpoint.folder), "--format", "float32"]) == 0
    ours, theirs = samples(tmp_path / "mlx.wav"), samples(tmp_path / "cpu.wav")
    assert len(ours) == len(theirs) and theirs.std() > 0
    assert np.abs(ours - theirs).max() <= 1e-3 * np.abs(theirs).max() + 1


def test_threads_are_not_ignored_in_silence(checkpoint: Checkpoint, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["say", "Why?", "--checkpoint", str(checkpoint.folder), "--device", "mlx", "--threads", "2"]
    assert main(words) == 2
    assert "leave it out" in capsys.readouterr().err
