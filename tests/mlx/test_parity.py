"""MLX against PyTorch in float32: the same codes, the same sound; and a command line that never imports torch."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

mx = pytest.importorskip("mlx.core")

from rhapsode.errors import UserError  # noqa: E402
from rhapsode.qwen3 import backends  # noqa: E402
from rhapsode.qwen3 import mlx as room  # noqa: E402
from rhapsode.qwen3.checkpoint import open_checkpoint  # noqa: E402
from rhapsode.qwen3.mlx import sampling as ours  # noqa: E402
from rhapsode.qwen3.mlx.load import load_model as load_mlx  # noqa: E402
from rhapsode.qwen3.mlx.stepper import MlxStepper  # noqa: E402
from rhapsode.qwen3.prompt import PromptMaker  # noqa: E402
from rhapsode.qwen3.tokens import TextTokenizer  # noqa: E402
from rhapsode.qwen3.torch import sampling as theirs  # noqa: E402
from rhapsode.qwen3.torch.load import load_model as load_torch  # noqa: E402
from rhapsode.qwen3.voices import choose  # noqa: E402
from rhapsode.types import Sampling  # noqa: E402
from tests import tiny_checkpoint  # noqa: E402
from tests.engine.conftest import TEXTS  # noqa: E402
from tests.engine.torch_lanes import read  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-3  # of the peak


@pytest.fixture(scope="module", params=[True, False], ids=["1.7b", "0.6b"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.write(tmp_path_factory.mktemp("mlx"), mean_frames=8.0, projection=request.param)


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streaming"])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(greedy=True), Sampling(top_p=0.8)], ids=["s", "g", "p"])
def test_codes_and_sound_are_those_of_torch(folder: Path, streaming: bool, sampling: Sampling) -> None:
    """Seven lines in three slots: mixed lengths, and slots that are taken again."""
    checkpoint = open_checkpoint(folder)
    tokenizer = TextTokenizer(folder, checkpoint.model.first_control_token)
    voice = choose(checkpoint.model, "ryan", "english")
    prompts = [PromptMaker(checkpoint.model, tokenizer, voice, streaming=streaming)(text) for text in TEXTS]
    mlx: Any = load_mlx(checkpoint, "float32")
    kind: Any = MlxStepper
    wanted = read(load_torch(checkpoint, "cpu", "float32"), prompts, range(7), 3, sampling=sampling)
    found = read(mlx, prompts, range(7), 3, sampling=sampling, kind=kind)
    for line, (codes, wave) in wanted.items():
        assert np.array_equal(codes, found[line][0]), f"line {line}"
        assert np.abs(wave - found[line][1]).max() <= TOLERANCE * np.abs(wave).max()


def test_random_numbers_are_equal_to_the_bit() -> None:
    words = np.random.default_rng(0).integers(0, 2**32, (50, 2))
    counters = np.random.default_rng(1).integers(0, 2**20, (50, 16))
    wanted = theirs.uniforms(torch.from_numpy(words), torch.from_numpy(counters)).numpy()
    found = ours.uniforms(mx.array(words.astype(np.uint32)), mx.array(counters.astype(np.uint32)))
    assert np.array(found).tobytes() == wanted.tobytes()


def test_long_lines_in_pieces_sound_as_whole_ones(folder: Path) -> None:
    codec = load_mlx(open_checkpoint(folder), "float32").codec
    codes = mx.array(np.random.default_rng(0).integers(0, 64, (1, 50, 16)).astype(np.int32))
    whole = np.array(codec(codes))
    assert np.abs(np.array(codec(codes, piece=16)) - whole).max() <= TOLERANCE * np.abs(whole).max()


def test_the_command_line_reads_without_torch(folder: Path, tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from rhapsode.cli import main; sys.exit(main(sys.argv[1:]))"
    out = tmp_path / "say.wav"
    done = subprocess.run(
        [sys.executable, "-c", code, "say", "Why?", "--checkpoint", str(folder), "--device", "mlx", "-o", str(out)],
        cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size > 44


def test_a_book_is_read_without_torch(folder: Path, tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from rhapsode.cli import main; sys.exit(main(sys.argv[1:]))"
    book, out = tmp_path / "book.txt", tmp_path / "book.m4b"
    book.write_text("Why?\n\nOh, the old man.", encoding="utf-8")
    words = ["narrate", str(book), "-o", str(out), "--checkpoint", str(folder), "--device", "mlx"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size > 1000


@pytest.mark.parametrize(("said", "holds"), [(None, "0"), ("1", "1")])
def test_float32_products_are_rounded_only_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, said: str | None, holds: str
) -> None:
    monkeypatch.setenv("MLX_ENABLE_TF32", said or "")
    if said is None:
        monkeypatch.delenv("MLX_ENABLE_TF32")
    importlib.reload(room)
    assert os.environ["MLX_ENABLE_TF32"] == holds


def test_a_back_end_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_installed", lambda package: package == "torch")
    with pytest.raises(UserError, match="needs mlx, which is not installed"):
        backends.backend_of("mlx")
    assert backends.backend_of("cpu") == "torch"


@pytest.mark.parametrize(("apple", "there", "device", "wanted"), [
    (True, {"mlx", "torch"}, "auto", "mlx"),
    (True, {"mlx"}, "auto", "mlx"),
    (True, {"torch"}, "auto", "torch"),
    (True, {"mlx", "torch"}, "cpu", "torch"),
    (False, {"mlx", "torch"}, "auto", "torch"),
    (False, {"mlx", "torch"}, "mlx", "mlx"),
    (True, {"mlx"}, "cpu", "The device 'cpu' needs torch, which is not installed: pip install 'rhapsode[torch]' brings it."),  # noqa: E501
    (True, set(), "auto", "The device 'auto' needs mlx, which is not installed: pip install 'rhapsode[mlx]' brings it."),  # noqa: E501
])  # fmt: skip
def test_a_device_belongs_to_a_back_end(
    monkeypatch: pytest.MonkeyPatch, apple: bool, there: set[str], device: str, wanted: str
) -> None:
    monkeypatch.setattr(backends, "_installed", lambda package: package in there)
    monkeypatch.setattr(backends, "_is_apple", lambda: apple)
    if " " not in wanted:
        assert backends.backend_of(device) == wanted
        return
    with pytest.raises(UserError) as caught:
        backends.backend_of(device)
    assert str(caught.value) == wanted
