"""A book through the whole way, by the Python interface: what comes out, what is refused, what is left alone."""

from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import rhapsode
from rhapsode.audio.ahead import Ahead
from rhapsode.narrator import begin_early
from rhapsode.pipeline import Report
from rhapsode.progress import Progress
from rhapsode.types import Line, Take
from tests.pipeline import books, fakes

RATE = 24_000


def record(report: Report) -> list[dict]:
    return [json.loads(line) for line in Path(report.record).read_text().splitlines()]


def decoded(path: str | Path) -> tuple[np.ndarray, int]:
    """Samples and sample rate of a sound file."""
    with av.open(str(path)) as container:
        frames = [frame.to_ndarray() for frame in container.decode(audio=0)]
        return np.concatenate(frames, axis=1)[0], container.streams.audio[0].rate


@pytest.fixture(scope="module")
def tale(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    """The EPUB and the report on its M4B, takes kept, as the other tests compare with."""
    source = books.write_epub(tmp_path_factory.mktemp("tale") / "tale.epub")
    report = rhapsode.narrate(
        source, source.with_suffix(".m4b"), checkpoint=checkpoint, device="cpu", format="float32", keep_takes=True
    )
    return source, report


def test_chapters_lie_where_their_first_lines_begin(tale: tuple[Path, Report]) -> None:
    source, report = tale
    samples = {entry["index"]: entry["samples"] for entry in record(report)}
    starts: dict[int, int] = {}
    at = 0
    for line in rhapsode.split_lines(rhapsode.read_book(source)):
        starts.setdefault(line.chapter, at)
        at += samples[line.index] + round(line.pause_s * RATE)
    with av.open(report.out) as container:
        marks = container.chapters()
    assert [mark["metadata"]["title"] for mark in marks] == books.TITLES
    assert [mark["start"] * mark["time_base"] * RATE for mark in marks] == list(starts.values())
    assert marks[-1]["end"] * marks[-1]["time_base"] * RATE == at
    assert report.audio_s == round(at / RATE, 3)


def test_the_file_says_what_it_is_and_how_long(tale: tuple[Path, Report]) -> None:
    _, report = tale
    with av.open(report.out) as container:
        tags, stream = dict(container.metadata), container.streams.audio[0]
        length = float(stream.duration * stream.time_base)
    assert (tags["title"], tags["artist"], tags["composer"]) == ("A Tale", "A. N. Author", "ryan")
    assert length == pytest.approx(report.audio_s, abs=1024 / RATE)  # an AAC frame
    sound, rate = decoded(report.out)
    assert len(sound) / rate == pytest.approx(report.audio_s, abs=1024 / RATE)
    assert np.abs(sound).max() > 0.001, "the noise of the checkpoint is heard"


def test_report(tale: tuple[Path, Report]) -> None:
    source, report = tale
    lines = rhapsode.split_lines(rhapsode.read_book(source))
    entries = record(report)
    assert report.out == str(source.with_suffix(".m4b"))
    assert report.lines == len(lines) == len(entries)
    assert sorted(entry["text"] for entry in entries) == sorted(line.text for line in lines)
    assert report.chapters == 3 and report.resumed == 0
    assert 0 < report.useful < 1
    assert report.retakes == sum(max(entry["tries"] - 1, 0) for entry in entries)
    assert report.bad_lines == len(report.bad) == sum(bool(entry["problem"]) for entry in entries)
    made = sum(entry["samples"] for entry in entries) / RATE
    assert report.rtf == pytest.approx(report.wall_s / made, abs=1e-3)
    assert report.peak_rss_mb > 50


def test_punctuation_alone_is_silence_without_the_model(tale: tuple[Path, Report]) -> None:
    _, report = tale
    (entry,) = [entry for entry in record(report) if not any(c.isalnum() for c in entry["text"])]
    assert (entry["text"], entry["frames"], entry["tries"]) == ("?! ...", 0, 0)
    raw = Path(report.record).with_name(f"{entry['key']}.wav").read_bytes()
    assert entry["samples"] > 0 and not any(raw[44:])


def test_one_slot_gives_the_same_file_as_sixteen(tale: tuple[Path, Report], checkpoint: Path, here: Path) -> None:
    source, report = tale
    rhapsode.narrate(source, "one.m4b", checkpoint=checkpoint, device="cpu", format="float32", slots=1)
    assert Path("one.m4b").read_bytes() == Path(report.out).read_bytes()


def test_another_seed_gives_another_file(tale: tuple[Path, Report], checkpoint: Path, here: Path) -> None:
    source, report = tale
    other = rhapsode.narrate(source, "seed.m4b", checkpoint=checkpoint, device="cpu", format="float32", seed=1)
    assert Path("seed.m4b").read_bytes() != Path(report.out).read_bytes()
    assert {entry["seed"] for entry in record(other)} == {1}


def test_every_suffix(checkpoint: Path, book: Path) -> None:
    sounds = {}
    for suffix in (".wav", ".flac", ".m4a", ".mp3", ".opus"):
        out = book.with_suffix(suffix)
        report = rhapsode.narrate(book, out, checkpoint=checkpoint, device="cpu", chapters="2-3")
        with av.open(str(out)) as container:
            # Ogg keeps them with the stream.
            tags = {**container.metadata, **container.streams[0].metadata}
        assert suffix == ".wav" or {key.lower(): value for key, value in tags.items()}["title"] == "tale", suffix
        sounds[suffix], rate = decoded(out)
        # MP3 and AAC fill up whole frames at both ends.
        assert len(sounds[suffix]) / rate == pytest.approx(report.audio_s, abs=3 * 1152 / RATE), suffix
    assert np.array_equal(sounds[".wav"], sounds[".flac"]), "lossless is lossless"


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [("2", {2}), ("1-2", {1, 2}), ("2-", {2, 3}), ("3, 1", {1, 3}), ([3], {3}), (range(1, 3), {1, 2})],
)
def test_chosen_chapters(chosen: str | Iterable[int], numbers: set[int], checkpoint: Path, book: Path) -> None:
    report = rhapsode.narrate(book, "some.m4b", checkpoint=checkpoint, device="cpu", chapters=chosen)
    every = rhapsode.split_lines(rhapsode.read_book(book))
    wanted = {line.index for line in every if line.chapter in numbers}
    assert {entry["index"] for entry in record(report)} == wanted
    assert report.lines == len(wanted) and report.chapters == len(numbers)
    with av.open("some.m4b") as container:
        titles = [mark["metadata"]["title"] for mark in container.chapters()]
    assert titles == [books.TITLES[number - 1] for number in sorted(numbers)]


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ("0", "'0' is no choice"), ("2-1", "'2-1' is no choice"), ("one", "'one' is no choice"),
        ("", "'' is no choice"), ("1,,2", "'' is no choice"), ("-2", "'-2' is no choice"),
        ("4", "no chapter 4; the book has 3"), ("2-9", "no chapter 9; the book has 3"),
        ("9-", "no chapter 9; the book has 3"), ([4], "no chapter 4"), ([], "no text to read"),
        (["1"], "'1' is no number of a chapter"), (1.5, "1.5 is no number"), ([1, None], "None is no number"),
    ],
)  # fmt: skip
def test_wrong_choices(chosen: Any, said: str, checkpoint: Path, book: Path) -> None:
    before = books.contents(book.parent)
    with pytest.raises(rhapsode.UserError, match=said):
        rhapsode.narrate(book, "some.m4b", checkpoint=checkpoint, device="cpu", chapters=chosen)
    assert books.contents(book.parent) == before


def test_the_book_is_left_as_it_was(checkpoint: Path, book: Path) -> None:
    os.utime(book, ns=(10**18, 10**18))
    before = book.read_bytes()
    rhapsode.narrate(book, checkpoint=checkpoint, device="cpu", chapters="3")
    assert book.read_bytes() == before and book.stat().st_mtime_ns == 10**18
    assert Path("tale.m4b").is_file(), "the name of the audiobook where none is given"


def test_what_is_there_is_replaced_only_when_asked(checkpoint: Path, book: Path) -> None:
    out = book.with_suffix(".wav")
    out.write_bytes(b"precious")
    before = books.contents(book.parent)
    with pytest.raises(rhapsode.OutputError, match="there already"):
        rhapsode.narrate(book, out, checkpoint=checkpoint, device="cpu", chapters="3")
    assert books.contents(book.parent) == before
    rhapsode.narrate(book, out, checkpoint=checkpoint, device="cpu", chapters="3", overwrite=True)
    assert out.read_bytes().startswith(b"RIFF")


def test_never_over_the_book_itself(checkpoint: Path, here: Path) -> None:
    source = books.write_markdown(here / "tale.wav")
    link = here / "link.wav"
    link.symlink_to(source)
    (here / "hard.wav").hardlink_to(source)
    before = books.contents(here)
    for out in (source, link, here / "hard.wav", here / "." / "tale.wav"):
        with pytest.raises(rhapsode.OutputError, match="is the book itself"):
            rhapsode.narrate(source, out, checkpoint=checkpoint, device="cpu", overwrite=True)
    assert books.contents(here) == before


def test_a_folder_is_no_target(checkpoint: Path, book: Path) -> None:
    (book.parent / "dir.m4b").mkdir()
    before = books.contents(book.parent)
    with pytest.raises(rhapsode.OutputError, match="is a folder"):
        rhapsode.narrate(book, "dir.m4b", checkpoint=checkpoint, device="cpu", overwrite=True)
    with pytest.raises(rhapsode.OutputError, match="cannot be made"):
        rhapsode.narrate(book, "tale.md/x.m4b", checkpoint=checkpoint, device="cpu")
    assert books.contents(book.parent) == before


def test_a_new_folder_is_made_for_the_target(checkpoint: Path, book: Path) -> None:
    report = rhapsode.narrate(book, "new/er/x.wav", checkpoint=checkpoint, device="cpu", chapters="3")
    assert Path("new/er/x.wav").is_file() and report.out == os.path.join("new", "er", "x.wav")


@pytest.mark.parametrize(
    ("said", "asked", "spoken", "noted"),
    [("en-GB", None, "english", False), ("cy", None, "auto", True), ("cy", "german", "german", False)],
)
def test_language(said: str, asked: str | None, spoken: str, noted: bool, checkpoint: Path, here: Path) -> None:
    source = books.write_epub(here / "tale.epub", language=said)
    heard = io.StringIO()
    report = rhapsode.narrate(
        source, checkpoint=checkpoint, device="cpu", chapters="3", language=asked, progress=Progress(heard)
    )
    settings = json.loads(Path(report.record).with_name("settings.json").read_text())
    assert settings["language"] == spoken
    assert (f"its language is {said!r}" in heard.getvalue()) == noted


def test_an_unknown_option_is_refused_with_those_that_exist(checkpoint: Path, book: Path) -> None:
    for call in (rhapsode.narrate, rhapsode.say):
        with pytest.raises(rhapsode.UserError, match="no option 'speed'; there are narrator, checkpoint, voice"):
            call(str(book), checkpoint=checkpoint, speed=2)
    with pytest.raises(rhapsode.UserError, match="no option 'speed'"):
        rhapsode.load(checkpoint, speed=2)
    with pytest.raises(rhapsode.UserError, match="no sampling option 'heat'; there are greedy, temperature"):
        rhapsode.load(checkpoint, device="cpu", sampling={"heat": 1})


def test_load_gives_a_narrator_of_lines(checkpoint: Path) -> None:
    narrator = rhapsode.load(checkpoint, device="cpu", voice="serena")
    lines = rhapsode.lines("Good evening to you all. Sit down, please.\n\nThe story begins.")
    takes = {take.line.index: take for take in narrator.read(lines)}
    assert sorted(takes) == [0, 1, 2] and narrator.settings()["voice"] == "serena"
    assert all(len(take.audio) == take.frames * 1920 for take in takes.values())


@pytest.mark.parametrize("embedded", [False, True], ids=["checkpoint", "embedded"])
def test_what_is_found_out_on_the_way_is_said(
    book: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, embedded: bool
) -> None:
    """A narrator with spoken forms before it is heard as well."""
    from rhapsode.qwen3.torch.stepper import TorchStepper

    allocate = TorchStepper._allocate
    tight = [True]

    def refuse(stepper: TorchStepper) -> None:
        allocate(stepper)
        if tight.pop() if tight else False:
            from rhapsode.engine.stepper import OutOfRoom

            raise OutOfRoom("no")

    monkeypatch.setattr(TorchStepper, "_allocate", refuse)
    said = io.StringIO()
    chosen = {} if embedded else {"checkpoint": checkpoint}
    rhapsode.narrate(
        book, "out.wav", device="cpu", slots=2, chapters=1, progress=Progress(said), format="float32", **chosen
    )
    assert said.getvalue().count("Memory ran out with 2 lines side by side; it goes on with 1.") == 1


def test_a_line_is_turned_into_words_once_and_its_length_is_asked_once(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room on the disk, the bar and the order of reading all want to know, before the device has anything to do."""

    class Curious(fakes.FakeNarrator):
        text_form = "spoken"

        def __init__(self) -> None:
            super().__init__(0.1)
            self.asked: Counter[int] = Counter()

        def expected_seconds(self, line: Line) -> float:
            self.asked[line.index] += 1
            return self.seconds

    turned: Counter[str] = Counter()
    narrator = Curious()

    def spoken(text: str) -> str:
        turned[text] += 1
        return text

    monkeypatch.setattr("rhapsode.book.spoken.spoken", spoken)
    monkeypatch.setattr("rhapsode.pipeline.find", lambda _: fakes.FakeDoor(narrator))
    report = rhapsode.narrate(book, "out.wav")
    assert set(narrator.asked) == set(range(report.lines)) and set(narrator.asked.values()) == {1}
    assert turned and set(turned.values()) == {1}


def test_a_file_that_is_encoded_while_its_lines_are_read_is_the_same(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a narrator that leaves the processor alone and says so; also one that wants spoken forms, and a second run."""

    class Early(fakes.FakeNarrator):
        text_form = "spoken"
        asked = 0

        def begin_early(self) -> bool:
            self.asked += 1
            return True

        def read(self, lines: Iterable[Line]) -> Iterator[Take]:
            for take in super().read(reversed(list(lines))):
                yield replace(take, audio=take.audio * np.float32(np.sin(take.line.index)))

    class Late(Early):
        def begin_early(self) -> bool:
            return False

    made: list[Ahead] = []
    encoded = Ahead.encoded
    monkeypatch.setattr(Ahead, "encoded", lambda self, samples: (made.append(self), encoded(self, samples))[1])
    book = books.write_markdown(here / "tale.md", books.long_tale(chapters=3, lines=9))
    early = Early(1.0)
    for name, narrator, ahead in (("late", Late(1.0), 0), ("early", early, 1), ("early", early, 1)):
        monkeypatch.setattr("rhapsode.pipeline.find", lambda _, found=narrator: fakes.FakeDoor(found))
        rhapsode.narrate(book, f"{name}.m4b", keep_takes=True, overwrite=True)
        assert len(made) == ahead, "what was read before is not waited for"
        assert Path(f"{name}.m4b").read_bytes() == Path("late.m4b").read_bytes()
    rhapsode.narrate(book, "early.wav")
    assert len(made) == 1 and early.asked == 2, "whoever encodes nothing meanwhile has no use for the order"


def test_only_a_card_is_asked_to_read_a_book_from_its_beginning(checkpoint: Path) -> None:
    narrator = rhapsode.load(checkpoint, device="cpu", format="float32")
    assert not begin_early(narrator) and not begin_early(fakes.FakeNarrator(0.1))
    narrator.model = replace(narrator.model, device="cuda:0")  # type: ignore[attr-defined]
    assert begin_early(narrator)
