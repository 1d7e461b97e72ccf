"""The command line: results on stdout, everything else on stderr, codes 0, 2 and 130, one sentence for a problem."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

import rhapsode
from rhapsode import cli
from rhapsode.audio.wave import wav_header
from rhapsode.progress import Progress
from rhapsode.types import Line, Take
from rhapsode.verify import Result
from tests import tiny_checkpoint
from tests.pipeline import books, fakes, processes

JSON_KEYS = ["out", "audio_s", "wall_s", "rtf", "lines", "useful", "retakes", "bad_lines", "peak_rss_mb"]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process: exit code, stdout, stderr."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as leaving:  # argparse
            code = int(leaving.code or 0)
        return (code, *capsys.readouterr())

    return run


def refused(result: tuple[int, str, str], *said: str) -> None:
    """Code 2, nothing on stdout, and one sentence."""
    code, out, err = result
    assert (code, out) == (2, ""), err
    assert err.startswith("rhapsode: ") and err.endswith("\n") and err.count("\n") == 1, err
    assert len(err) < 500 and err.rstrip()[-1] in ".)", err
    for words in said:
        assert words in err


# ---------------------------------------------------------------------- problems


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.epub", None, "no file missing.epub"),
        ("empty.txt", b"", "empty.txt is empty"),
        ("blank.txt", b" \n\n \n", ""),
        ("signs.txt", b"... --- ...\n", "no text to read"),
        ("broken.epub", b"PK\x03\x04 and no more", "broken.epub"),
        ("scan.pdf", b"%PDF-1.7", "PDF"),
        ("noise.bin", bytes(range(256)), "not a book"),
        ("x" * 300 + ".md", None, "name too long"),
    ],
)
def test_books_that_are_none(
    name: str, content: bytes | None, said: str, run: Run, checkpoint: Path, here: Path
) -> None:
    if content is not None:
        (here / name).write_bytes(content)
    before = books.contents(here)
    refused(run("narrate", name, "--checkpoint", checkpoint, "--device", "cpu"), said)
    assert books.contents(here) == before


def test_a_folder_is_no_book(run: Run, checkpoint: Path, here: Path) -> None:
    (here / "folder").mkdir()
    for name in ("folder", ".", ".."):
        refused(run("narrate", name, "--checkpoint", checkpoint), "is a folder")


def test_an_encrypted_book(run: Run, checkpoint: Path, here: Path) -> None:
    books.write_epub(here / "locked.epub", encrypted=True)
    before = books.contents(here)
    refused(run("narrate", "locked.epub", "--checkpoint", checkpoint), "locked.epub", "DRM")
    assert books.contents(here) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--voice", "bob"], ["no voice 'bob'", "ryan, serena, eric"]),
        (["--device", "tpu"], ["no device 'tpu'", "cpu"]),
        (["--format", "int3"], ["no format 'int3'", "float32, bfloat16"]),
        (["--slots", "0"], ["--slots must be 1 or more, not 0"]),
        (["--slots", "-4"], ["not -4"]),
        (["--language", "klingon"], ["'klingon'", "english, chinese, german"]),
        (["-o", "tale.ogg"], ["'.ogg'", ".m4b, .m4a, .mp3, .opus, .flac, .wav"]),
        (["-o", "tale"], ["no suffix"]),
    ],
)
@pytest.mark.parametrize("command", ["narrate", "say"])
def test_wrong_options(
    command: str, arguments: list[str], said: list[str], run: Run, checkpoint: Path, book: Path
) -> None:
    before = books.contents(book.parent)
    what = "tale.md" if command == "narrate" else "Good evening to you."
    refused(run(command, what, "--checkpoint", checkpoint, *arguments), *said)
    assert books.contents(book.parent) == before


def test_chapters_that_are_none(run: Run, checkpoint: Path, book: Path) -> None:
    before = books.contents(book.parent)
    for chosen, said in {"7": "no chapter 7; the book has 3", "x": "'x' is no choice"}.items():
        refused(run("narrate", "tale.md", "--checkpoint", checkpoint, "--chapters", chosen), said)
    assert books.contents(book.parent) == before


def test_checkpoints_that_are_none(run: Run, checkpoint: Path, book: Path) -> None:
    half = book.parent / "half"
    (half / "speech_tokenizer").mkdir(parents=True)
    for name in ("config.json", "speech_tokenizer/config.json", "generation_config.json"):
        (half / name).write_bytes((checkpoint / name).read_bytes())
    (book.parent / "nothing").mkdir()
    before = books.contents(book.parent)
    for name, words in {
        "half": "model.safetensors is missing",
        "nothing": "config.json is missing",
        "no such id": "neither a checkpoint folder nor a Hub id",
        "a/b/c": "neither a checkpoint folder nor a Hub id",
        "tale.md": "neither a checkpoint folder nor a Hub id",
        "nobody/nothing": "not in the local cache",
    }.items():
        refused(run("narrate", "tale.md", "--checkpoint", name, "--offline"), words)
        refused(run("inspect", name, "--offline"), words)
    assert books.contents(book.parent) == before


@pytest.mark.parametrize(
    "arguments", [["narrate", "tale.md", "--speed", "2"], ["narrate"], ["sing"], [], ["say", "x", "--slots", "many"]]
)
def test_unknown_words(arguments: list[str], run: Run, book: Path) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "") and "Traceback" not in err
    assert err.startswith("usage: rhapsode") and "error: " in err.splitlines()[-1]
    assert all(word in err for word in arguments if word in ("--speed", "sing", "many"))


def test_options_are_not_abbreviated(run: Run, book: Path) -> None:
    assert "unrecognized arguments: --over" in run("narrate", "tale.md", "--over")[2]


# ---------------------------------------------------------------------- results


def test_json_ends_stdout(run: Run, checkpoint: Path, book: Path) -> None:
    common = ("narrate", "tale.md", "--checkpoint", checkpoint, "--device", "cpu", "--chapters", "3")
    code, out, err = run(*common, "--json")
    assert (code, err) == (0, "")
    *before, last = out.splitlines()
    figures = json.loads(last)
    assert list(figures) == JSON_KEYS
    assert figures["out"] == "tale.m4b" and figures["lines"] == 2 and figures["audio_s"] > 3
    assert before and not any(line.startswith("{") for line in before)
    assert before[-1].startswith("tale.m4b: 0:0") and " 2 lines in " in before[-1]
    code, out, _ = run(*common, "--overwrite")
    assert code == 0 and "{" not in out


def test_progress_is_plain_lines_without_a_terminal(
    run: Run, checkpoint: Path, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rhapsode.progress.PLAIN_EVERY_S", 0.0)
    common = ("narrate", "tale.md", "--checkpoint", checkpoint, "--device", "cpu", "--overwrite", "--language", "auto")
    code, out, err = run(*common)
    lines = err.splitlines()
    assert code == 0 and len(lines) > 5 and "\x1b" not in err and "\r" not in err
    read = [line for line in lines if line.startswith("reading ")]
    assert read and all(" made, " in line and " x real time, " in line and line.endswith(" left") for line in read)
    assert lines[-1] == "writing 100%: 0:00 left"
    assert "writing" not in out and "left" not in out
    code, quiet_out, quiet_err = run(*common, "--quiet")
    assert (code, quiet_err) == (0, "") and quiet_out.startswith("tale.m4b: ")


def test_bad_lines_are_listed(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = books.write_markdown(here / "tale.md", books.long_tale(chapters=1, lines=24))
    door = fakes.FakeDoor(fakes.FakeNarrator(0.1, problem="silent"))
    monkeypatch.setattr("rhapsode.pipeline.find", lambda name: door)
    code, out, err = run("narrate", book, "--json")
    lines = out.splitlines()
    assert code == 0, "the book is there"
    assert lines[0] == "bad line 1 (chapter 1): silent: 'Chapter 0'"
    assert len([line for line in lines if line.startswith("bad line ")]) == 20
    assert "5 more bad lines" in lines[20] and "record.jsonl" in lines[20]
    assert "25 bad lines" in lines[21] and json.loads(lines[22])["bad_lines"] == 25
    assert "line 25: silent after 1 tries: 'Sentence number 23" in err


def test_say_takes_the_next_free_name(run: Run, checkpoint: Path, here: Path) -> None:
    for name in ("say.wav", "say-2.wav"):
        code, out, _ = run("say", "Good evening to you all.", "--checkpoint", checkpoint, "--device", "cpu", "--json")
        assert code == 0 and json.loads(out.splitlines()[-1])["out"] == name
    assert sorted(os.listdir()) == ["say-2.wav", "say.wav"]
    raw = Path("say.wav").read_bytes()
    assert raw[:44] == wav_header(24_000, (len(raw) - 44) // 2) and any(raw[44:])
    assert raw == Path("say-2.wav").read_bytes()
    refused(run("say", "Good evening to you all.", "--checkpoint", checkpoint, "-o", "say.wav"), "there already")


def test_say_reads_stdin(run: Run, checkpoint: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    common = ("--checkpoint", checkpoint, "--device", "cpu", "--json")
    spoken = {}
    # What is no UTF-8 is read as a sign that means nothing, from a pipe as from the command line.
    texts = {"good": b"One fine day it rained.\n\nAnd then it snowed.\n", "bad": b"It rained \xff all day."}
    for name, raw in texts.items():
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))
        code, out, err = run("say", "-", "-o", f"{name}.wav", *common)
        assert code == 0, err
        spoken[name] = json.loads(out.splitlines()[-1])["lines"]
    assert spoken == {"good": 2, "bad": 1}
    assert run("say", "It rained \udcff all day.", "-o", "argument.wav", *common)[0] == 0
    assert Path("argument.wav").read_bytes() == Path("bad.wav").read_bytes()


@pytest.mark.parametrize("text", ["", "  ", "...", "?! —", "\udcff"])
def test_say_needs_a_letter(text: str, run: Run, checkpoint: Path, here: Path) -> None:
    refused(run("say", text, "--checkpoint", checkpoint), "nothing to say")
    assert not os.listdir()


def test_voices(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    code, out, err = run("voices", "--checkpoint", checkpoint)
    assert (code, err) == (0, "")
    assert out == "voices:    ryan, serena, eric\nlanguages: auto, english, chinese, german\n"
    code, out, _ = run("voices", "--checkpoint", checkpoint, "--json")
    assert json.loads(out) == {
        "voices": ["ryan", "serena", "eric"],
        "languages": ["auto", "english", "chinese", "german"],
    }
    base = tiny_checkpoint.write(tmp_path / "base", kind="base")
    assert "none; " in run("voices", "--checkpoint", base)[1]


# ---------------------------------------------------------------------- verify


class Whisper:
    """Hears the same in every sound."""

    name = "an ear"

    def __init__(self, model: str | None) -> None:
        self.model = model

    def __call__(self, wave: np.ndarray, sample_rate: int) -> str:
        return "Good evening, all of you."


@pytest.fixture
def listed(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("rhapsode.verify.find_model", lambda model: None)
    monkeypatch.setattr("rhapsode.verify.Whisper", Whisper)
    (here / "list.txt").write_text("# short\nGood evening to you.\nIt is late.\n# odd\nNobody came.\n")
    return here / "list.txt"


def test_verify(run: Run, checkpoint: Path, listed: Path) -> None:
    common = ("verify", "--checkpoint", checkpoint, "--sentences", listed, "--device", "cpu", "--limit", 1, "--json")
    code, out, err = run(*common, "--voice", "serena", "--voice", "ryan", "--report", "seen/it.md", "--quiet")
    assert (code, err) == (0, "")
    *table, last = out.splitlines()
    figures = json.loads(last)
    assert table[0].endswith("heard by an ear") and not any(line.startswith("{") for line in table)
    sections = (("short", 1), ("odd", 1), ("all", 2))
    assert [(row["voice"], row["section"], row["lines"]) for row in figures["rows"]] == [
        (voice, section, lines) for voice in ("serena", "ryan") for section, lines in sections
    ]
    assert (figures["rows"][0]["words"], figures["rows"][0]["wer"]) == (4, 0.5)  # to: all of
    report = Path("seen/it.md").read_text(encoding="utf-8")
    assert report.startswith(table[0]) and "| serena | odd | 1 |" in report

    refused(run(*common, "--report", "seen/it.md"), "seen/it.md is there already", "--overwrite")
    assert run(*common, "--voice", "eric", "--report", "seen/it.md", "--overwrite")[0] == 0
    assert "| eric | odd | 1 |" in Path("seen/it.md").read_text(encoding="utf-8")
    every = json.loads(run(*common)[1].splitlines()[-1])["rows"]
    assert list(dict.fromkeys(row["voice"] for row in every)) == ["ryan", "serena", "eric"]


def test_verify_hands_every_option_on(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}

    def verify(**options: object) -> Result:
        given.update(options)
        return Result("a source", "an ear", ())

    monkeypatch.setattr("rhapsode.verify.verify", verify)
    named = {
        "narrator": "other", "checkpoint": "some/where", "revision": "v1", "token": "t", "sentences": "list.txt",
        "recordings": "folder", "asr": "model", "language": "en", "device": "cuda:1", "format": "bfloat16",
    }  # fmt: skip
    counted = {"limit": 3, "slots": 5, "seed": 7, "threads": 2}
    words = [word for name, value in (named | counted).items() for word in (f"--{name}", value)]
    code, out, _ = run("verify", "--voice", "ryan", "--offline", *map(str, words))
    assert (code, "{" in out) == (0, False)
    assert isinstance(given.pop("progress"), Progress)
    assert given == {**named, **counted, "voices": ["ryan"], "offline": True}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--voice", "bob"], "no voice 'bob'"),
        (["--sentences", "none.txt"], "none.txt cannot be read"),
        (["--limit", "0"], "--limit must be 1 or more"),
        (["--recordings", "folder"], "a checkpoint cannot be chosen"),
        (["--slots", "0"], "--slots must be 1 or more"),
        (["--report", ".", "--overwrite"], "is a folder; name a file for the report"),
    ],
)
def test_verify_that_cannot_be(arguments: list[str], said: str, run: Run, checkpoint: Path, listed: Path) -> None:
    before = books.contents(listed.parent)
    refused(run("verify", "--checkpoint", checkpoint, "--report", "it.md", *arguments), said)
    assert books.contents(listed.parent) == before


def test_verify_needs_an_ear(run: Run, checkpoint: Path, here: Path) -> None:
    refused(run("verify", "--checkpoint", checkpoint, "--asr", here), "There is no model.bin in")


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"rhapsode {rhapsode.__version__}\n", "")


def test_say_takes_no_name_that_another_process_took_meanwhile(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(fakes.FakeNarrator):
        def read(self, lines: Iterable[Line]) -> Iterator[Take]:
            (here / "say.wav").write_bytes(b"of another process")
            return super().read(lines)

    monkeypatch.setattr("rhapsode.pipeline.find", lambda name: fakes.FakeDoor(Slow(0.1)))
    assert rhapsode.say("Oh, dear me.").out == "say-2.wav"
    assert (here / "say.wav").read_bytes() == b"of another process"


# ---------------------------------------------------------------------- being stopped


def test_what_is_said_on_ctrl_c(run: Run, monkeypatch: pytest.MonkeyPatch, book: Path) -> None:
    def stop(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rhapsode.pipeline.narrate", stop)
    monkeypatch.setattr("rhapsode.pipeline.say", stop)
    assert run("narrate", "tale.md") == (130, "", "\nrhapsode: stopped; the same command goes on from here.\n")
    assert run("say", "x") == (130, "", "\nrhapsode: stopped.\n")


@pytest.mark.skipif(sys.platform == "win32", reason="terminals as POSIX has them")
def test_a_bar_ctrl_c_and_on_again(checkpoint: Path, here: Path) -> None:
    """Two real processes on a terminal: the first is stopped when some takes are there, the second ends the book."""
    books.write_markdown(here / "tale.md", books.long_tale(chapters=2, lines=20))

    def some_takes() -> bool:
        return any(path.read_bytes().count(b"\n") >= 4 for path in here.glob("*.takes/*/record.jsonl"))

    arguments = ["narrate", "tale.md", "--json", "--checkpoint", str(checkpoint), "--device", "cpu", "--slots", "4"]
    code, out, screen = processes.on_a_terminal(processes.command(*arguments, most=6), stop_when=some_takes)
    assert (code, out) == (130, ""), screen
    assert "reading" in screen and "━" in screen, "a bar"
    assert "Traceback" not in screen and "stopped; the same command goes on from here." in screen
    assert "\x1b[?25l" in screen and screen.rfind("\x1b[?25h") > screen.rfind("\x1b[?25l"), "the cursor is back"
    assert not Path("tale.m4b").exists()

    code, out, screen = processes.on_a_terminal(processes.command(*arguments))
    assert code == 0, screen
    assert "lines were read before and are kept." in screen and "writing" in screen
    assert "\x1b" not in out and "\r" not in out and list(json.loads(out.splitlines()[-1])) == JSON_KEYS
    assert len(out.splitlines()) == 2
