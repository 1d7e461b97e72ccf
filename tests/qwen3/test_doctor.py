"""`rhapsode doctor` on PyTorch: what it says of this machine, and that a wrong library is found out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rhapsode.cli import main
from rhapsode.qwen3.torch import check
from rhapsode.qwen3.torch.formats import has_int8
from tests import tiny_checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.write(tmp_path_factory.mktemp("doctor"))


FORMATS = ["float32", "bfloat16", *(["int8"] if has_int8() else [])]


@pytest.mark.parametrize("format", FORMATS)
def test_this_machine_is_right(folder: Path, format: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["doctor", "--device", "cpu", "--checkpoint", str(folder), "--format", format]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["right"] and found["device"] == "cpu" and found["format"] == format
    assert found["formats"] == FORMATS and found["packages"]["torch"] == torch.__version__
    assert {"sort", "softmax", "convolution", "random numbers"} <= {one["task"] for one in found["checks"]}
    assert main(words) == 0
    assert f"{len(found['checks'])} checks, 0 wrong" in capsys.readouterr().out


BROKEN: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "product": (check.F, "linear", lambda x, w: torch.zeros(*x.shape[:-1], len(w))),
    "rows alike in any batch": (check.F, "linear", lambda x, w: (x @ w.T) * (1 + 1e-6 * len(x))),
    "convolution": (check.F, "conv1d", lambda x, w: torch.zeros(1, len(w), 64)),
    "random numbers": (check, "uniforms", lambda words, counters: torch.zeros(counters.shape)),
}


@pytest.mark.parametrize("task", BROKEN)
def test_what_is_wrong_is_named(
    folder: Path, task: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(*BROKEN[task])
    assert main(["doctor", "--device", "cpu", "--checkpoint", str(folder), "--format", "float32"]) == 2
    out, err = capsys.readouterr()
    assert f"wrong  {task}" in out and "cpu computes wrongly here" in err and task in err


@pytest.mark.parametrize(("words", "sentence"), [
    (["--device", "tpu"], "no device 'tpu'"),
    (["--format", "int3"], "no format 'int3'"),
    (["--slots", "0"], "--slots must be 1 or more"),
    (["--checkpoint", "nowhere"], "nowhere is not a folder"),
])  # fmt: skip
def test_a_problem_is_one_sentence(
    folder: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--device", "cpu", "--checkpoint", str(folder), *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_library_that_cannot_be_loaded_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Installed, but for want of a library of the system, say, no use."""

    def broken(name: str) -> Any:
        raise OSError("libgomp.so.1: cannot open shared object file\nand more")

    monkeypatch.setattr("rhapsode.qwen3.backends.import_module", broken)
    for command in (["doctor"], ["say", "Oh."], ["bench", "--shapes", "demo"]):
        assert main([*command, "--device", "cpu"]) == 2
        said = "needs torch, which is installed but cannot be loaded: libgomp.so.1: cannot open shared object file."
        assert capsys.readouterr().err == f"rhapsode: The device 'cpu' {said}\n"
