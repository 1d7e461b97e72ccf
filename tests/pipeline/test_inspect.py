"""`inspect` on files of the real sizes: only their headers are there, the rest is a hole."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rhapsode import cli
from rhapsode.bench import shapes as published
from rhapsode.qwen3 import shapes
from rhapsode.qwen3.config import read_codec_config, read_model_config
from tests.pipeline import processes

BYTES = {"BF16": 2, "F32": 4}
TRUNK, TEXT, PREDICTOR, CODEC, REST = 1_409_410_048, 311_164_928, 175_125_760, 170_557_441, 32_976_704
SPEAKER, TOTAL = 12_001_088, 2_099_234_881
CODEC_FILE_BYTES = 682_293_092  # of the published file, which has a header of its own
TALKER_06B_BASE = 914_643_008  # parameters of 0.6B Base without the codec

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files with holes as POSIX has them")


def write_header(path: Path, tensors: Mapping[str, shapes.Wanted], dtype: str) -> None:
    """A safetensors file with these tensors, whose data is a hole."""
    header, at = {}, 0
    for name, want in tensors.items():
        end = at + math.prod(want.shape) * BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": list(want.shape), "data_offsets": [at, end]}
        at = end
    raw = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(raw)) + raw)
        file.truncate(8 + len(raw) + at)


def write_checkpoint(folder: Path, config: dict[str, Any]) -> Path:
    (folder / "speech_tokenizer").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "speech_tokenizer/config.json").write_text(json.dumps(published.CODEC))
    model = read_model_config(folder / "config.json")
    codec = read_codec_config(folder / "speech_tokenizer/config.json")
    write_header(folder / "model.safetensors", shapes.model_tensors(model), "BF16")
    write_header(folder / "speech_tokenizer/model.safetensors", shapes.codec_tensors(codec), "F32")
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1.7B Base."""
    return write_checkpoint(tmp_path_factory.mktemp("real") / "1.7B-Base", published.base_17b())


def inspected(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert cli.main(["inspect", str(folder), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and out.count("\n") == 1
    return json.loads(out)


def test_counts_to_the_last_digit(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = inspected(base, capsys)
    assert (found["checkpoint"], found["size"], found["kind"]) == (str(base), "1b7", "base")
    assert [row["parameters"] for row in found["components"]] == [TRUNK, TEXT, PREDICTOR, CODEC, REST]
    assert found["total"]["parameters"] == TOTAL == TRUNK + TEXT + PREDICTOR + CODEC + REST
    names = [row["component"] for row in found["components"]]
    assert names[0].startswith("talker trunk") and names[1] == "text embedding"
    assert "15 embeddings, 15 heads, projection" in names[2] and f"speaker encoder {SPEAKER:,}" in names[4]
    parts = {row["component"]: row["parameters"] for row in found["codec"]}
    assert list(parts) == ["codec encoder", "codec decoder", "codec codebooks"]
    assert sum(parts.values()) == CODEC
    # 16 tables of the decoder with their counts, 32 of the encoder with counts and a flag each.
    assert parts["codec codebooks"] == 16 * 2048 * (256 + 1) + 32 * (2048 * (256 + 1) + 1)


def test_bytes_and_dtypes(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = inspected(base, capsys)
    *model, codec, rest = found["components"]
    for row in (*model, rest):
        assert row["dtypes"] == ["BF16"] and row["bytes"] == 2 * row["parameters"]
    for row in (codec, *found["codec"]):
        assert row["dtypes"] == ["F32"] and row["bytes"] == 4 * row["parameters"]
    assert 0 < CODEC_FILE_BYTES - codec["bytes"] < 100_000, "all but the header of the published file"
    total = found["total"]
    assert total["dtypes"] == ["BF16", "F32"]
    assert total["bytes"] == sum(row["bytes"] for row in found["components"])
    assert total["tensors"] == sum(row["tensors"] for row in found["components"])
    trunk, _, predictor = model
    assert trunk["tensors"] == 28 * 11 + 1 and predictor["tensors"] == 5 * 11 + 1 + 15 + 15 + 2


def test_the_smaller_size_and_the_other_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = inspected(write_checkpoint(tmp_path / "0.6B-Base", published.base_06b()), capsys)
    assert found["total"]["parameters"] - CODEC == TALKER_06B_BASE
    assert "projection" not in found["components"][2]["component"].replace("text projection", "")
    found = inspected(write_checkpoint(tmp_path / "0.6B-Custom", published.CUSTOM_06B), capsys)
    assert found["kind"] == "custom_voice" and "speaker encoder" not in found["components"][4]["component"]


def test_the_table_for_people(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(base)]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    for figure in (TRUNK, TEXT, PREDICTOR, CODEC, REST, SPEAKER, TOTAL):
        assert f"{figure:,}" in out
    (total,) = [line for line in lines if line.startswith("total")]
    assert f"{TOTAL:,}" in total and f"{2 * (TOTAL - CODEC) + 4 * CODEC:,} bytes" in total and "BF16+F32" in total
    assert len({line.index(" bytes") for line in lines if " tensors" in line and "codec " not in line[:6]}) == 1


def test_it_reads_headers_only(base: Path) -> None:
    """4.5 GB of files cost little memory and no framework."""
    code = (
        "import sys\n"
        "from rhapsode.cli import main\n"
        "assert main(['inspect', sys.argv[1], '--json']) == 0\n"
        "assert not {'torch', 'numpy', 'safetensors'} & set(sys.modules), 'what was imported'\n"
        "try:\n"
        "    peak = [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0]\n"
        "except OSError:\n"
        "    import resource\n"
        "    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        "print(peak, file=sys.stderr)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(base)], capture_output=True, text=True, env=processes.environment()
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["total"]["parameters"] == TOTAL
    assert int(result.stderr) * 1024 < 150e6


def test_a_file_that_is_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_checkpoint(tmp_path / "cut", published.base_17b())
    file = folder / "model.safetensors"
    os.truncate(file, file.stat().st_size - 1)
    assert cli.main(["inspect", str(folder)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("rhapsode: ") and "cut off" in err and err.count("\n") == 1
