"""`rhapsode bench` on MLX: the same tables as on PyTorch, the same numbers in every format, and no torch."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from rhapsode.bench import on_mlx, run  # noqa: E402
from rhapsode.bench.deviation import deviation, trace  # noqa: E402
from rhapsode.bench.measure import STAGES, BookRun  # noqa: E402
from rhapsode.bench.source import Source, random_source  # noqa: E402
from rhapsode.cli import main  # noqa: E402
from rhapsode.qwen3 import remembered as kept  # noqa: E402
from rhapsode.qwen3.checkpoint import Checkpoint  # noqa: E402
from rhapsode.qwen3.mlx import load, memory, remembered  # noqa: E402
from rhapsode.qwen3.remembered import Measured  # noqa: E402
from tests import tiny_checkpoint  # noqa: E402
from tests.bench.conftest import BOOK  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ON_CPU = pytest.mark.skipif(mx.default_device() != mx.Device(mx.cpu), reason="of the CPU build")


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_mlx, "COPY_BYTES", 1 << 16)
    monkeypatch.setattr(kept, "cache_file", lambda: tmp_path / "formats.json")


@pytest.fixture(scope="module")
def source() -> Source:
    return random_source("tiny", tiny_checkpoint.model_config(), tiny_checkpoint.codec_config())


def test_a_run_ends_with_json_and_keeps_its_table(
    checkpoint: Checkpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "draw", lambda: BOOK)
    words = ["bench", "--checkpoint", str(checkpoint.folder), "--device", "mlx", "--slots", "2", "--lines", "2"]
    report = tmp_path / "mac.html"
    assert main([*words, "--repeats", "1", "--format", "float32,bfloat16,int8", "--report", str(report)]) == 0
    out = capsys.readouterr().out
    found = json.loads(out.splitlines()[-1])
    assert found["machine"]["mlx"] and "torch" not in found["machine"]
    assert {row["format"] for row in found["formats"]} == {"float32", "bfloat16", "int8"}
    assert 0 < found["deviation"]["bfloat16"]["talker"] < 0.1 and found["deviation"]["int8"]["talker"] > 0
    assert found["weights_bytes"]["int8"] < found["weights_bytes"]["bfloat16"] < found["weights_bytes"]["float32"]
    assert [row["name"] for row in found["stages"]["rows"]] == [*STAGES, "other"]
    assert all(row["seconds"] > 0 for row in found["stages"]["rows"][:4])
    assert "mlx 0" in report.read_text(encoding="utf-8")
    assert {one["task"] for one in found["ways"]} >= {"convolution", "SnakeBeta"}
    assert all(one["taken"] in one["errors"] for one in found["ways"])
    assert "Ways to compute the same" in out and "conv1d" in report.read_text(encoding="utf-8")
    assert remembered.best(checkpoint.model, 2) is not None


def test_random_weights_are_the_same_numbers_in_every_format(source: Source) -> None:
    wide, narrow = (source.build("mlx", format) for format in ("float32", "bfloat16"))
    for ours, theirs in zip(wide.talker.arrays(), narrow.talker.arrays(), strict=True):
        rounded = ours.astype(theirs.dtype).astype(mx.float32)
        assert np.array_equal(np.array(rounded), np.array(theirs.astype(mx.float32)))
    again = source.build("mlx", "float32")
    same = deviation(trace(again, source.model, source.codec), trace(wide, source.model, source.codec))
    assert (same.talker, same.predictor, same.codec) == (0.0, 0.0, 0.0)


def test_random_networks_are_as_torch_makes_them_in_size(source: Source) -> None:
    """Logits and sound of about the same spread: neither nothing nor an overflow."""
    ours, theirs = (trace(source.build(device, "float32"), source.model, source.codec) for device in ("mlx", "cpu"))
    for name in ("talker", "predictor"):
        assert 0.3 < getattr(ours, name).std() / getattr(theirs, name).std() < 3
    assert 0 < np.abs(ours.wave).max() < 1


def test_lines_end_where_they_are_scripted(source: Source) -> None:
    ticks = itertools.count()
    book = BookRun(
        source.build("mlx", "float32"), source.model, source.codec, BOOK, 2, "refill", lambda: float(next(ticks))
    )
    meter = book.once()
    assert meter.kept_frames == sum(line.frames for line in BOOK.lines)


@pytest.mark.parametrize(("words", "sentence"), [
    (["--against", "official"], "The official package runs on PyTorch"),
    (["--threads", "2"], "leave it out"),
    (["--format", "int3"], "no format 'int3' on mlx; there are float32"),
])  # fmt: skip
def test_a_problem_is_one_sentence(
    checkpoint: Checkpoint, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--device", "mlx", "--checkpoint", str(checkpoint.folder), *words]) == 2
    assert sentence in capsys.readouterr().err


SLOW, FAST, FAR = Measured(9.0, 0.0, 0.0, 0.0), Measured(5.0, 0.01, 0.01, 0.0), Measured(1.0, 0.9, 0.9, 0.0)


@ON_CPU
def test_the_measured_format_and_lanes_are_taken(checkpoint: Checkpoint) -> None:
    tables = {
        24: {"float32": SLOW, "float16": FAST, "int4": FAR},
        16: {"float32": SLOW, "float16": Measured(3.0, 0.01, 0.01, 0.0)},
        8: {"float32": SLOW, "float16": Measured(4.0, 0.01, 0.01, 0.0)},
    }
    assert load.load_model(checkpoint, "auto").format == "float32"
    assert load.load_model(checkpoint, "float32").default_slots == max(memory.SLOTS)
    remembered.remember(checkpoint.model, tables, "2026-11-30", trained=True)
    model = load.load_model(checkpoint, "auto")
    assert model.format == "float16" and model.default_slots == 16
    assert model.notes == ("float16: the fastest within its tolerance on this machine, measured on 2026-11-30.",)
    assert load.load_model(checkpoint, "auto", 4).format == "float32"  # nothing was measured there
    assert load.load_model(checkpoint, "float16", 8).default_slots == 8


def test_bench_needs_no_torch(checkpoint: Checkpoint, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; from rhapsode.bench import alone, on_mlx; "
        "alone.LINE_S, on_mlx.COPY_BYTES = 0.64, 1 << 16; "
        "from rhapsode.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    words = ["bench", "--checkpoint", str(checkpoint.folder), "--device", "mlx", "--slots", "1", "--lines", "1"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--repeats", "1", "--json", "--stages"],
        cwd=ROOT, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["machine"]["device"] == "mlx"


@ON_CPU
def test_without_formats_named_a_gpu_compares_them_all(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    def pick(*formats: str) -> list[Any]:
        return [one.format for one in on_mlx.pick(formats, "mlx", source.model, 8)]

    assert pick("auto") == ["float32"]
    monkeypatch.setattr(on_mlx.mx, "default_device", lambda: mx.Device(mx.gpu))
    assert pick("auto") == ["bfloat16", "float16", "int8", "int4"]
    assert pick("int8") == ["int8"]
