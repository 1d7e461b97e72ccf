"""`rhapsode bench` from its words to its last line, and the sentences for what cannot be had."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rhapsode.bench import official, run
from rhapsode.cli import main
from tests import tiny_checkpoint
from tests.bench.conftest import BOOK


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint.write(tmp_path_factory.mktemp("tiny"))


def test_the_last_line_is_json(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "draw", lambda: BOOK)
    report = tmp_path / "made" / "report.html"
    words = ["bench", "--checkpoint", str(folder), "--device", "cpu", "--slots", "2", "--lines", "2", "--repeats", "1"]
    assert main([*words, "--report", str(report)]) == 0
    out, err = capsys.readouterr()
    assert "Where the time goes" in out and "bench: " in err
    found = json.loads(out.splitlines()[-1])
    assert found["whole"]["lines"] == 2 and found["source"] == str(folder)
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert main([*words, "--report", str(report)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main([*words, "--json"]) == 0
    (only,) = capsys.readouterr().out.splitlines()
    assert json.loads(only)["book"] == found["book"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--slots", "0"], "--slots must be 1 or more, not 0."),
        (["--slots", "a,b"], "whole numbers with commas"),
        (["--lines", "0"], "--lines must be 1 or more"),
        (["--lines", "20001"], "at most 20000"),
        (["--repeats", "0"], "--repeats must be 1 or more"),
        (["--threads", "0"], "--threads must be 1 or more"),
        (["--format", "int3"], "no format 'int3'; there are float32"),
        (["--shapes", "3b"], "no shapes '3b'; there are 1.7b, 0.6b, small, demo."),
        (["--schedule", "x"], "no schedule 'x'; there are refill, sorted, book."),
        (["--against", "me"], "there are official, faster."),
        (["--against", "official,x"], "nothing called 'x'"),
        (["--device", "tpu"], "no device 'tpu'"),
        (["--checkpoint", "nowhere"], "nowhere is not a folder"),
        (["--checkpoint", "nowhere", "--shapes", "0.6b"], "name one of them"),
    ],
)
def test_a_problem_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 2
    out, err = capsys.readouterr()
    assert not out and sentence in err and err.count("\n") == 1


def test_without_the_official_package_there_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> str:
        raise official.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(official.importlib.metadata, "version", missing)
    assert main(["bench", "--against", "official"]) == 2
    assert "transformers is not installed" in capsys.readouterr().err
