"""What is written is read back with PyAV: chapters, tags, cover, length, and the same bytes twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
import pytest

import rhapsode
from rhapsode.audio import encoder
from rhapsode.audio.container import (
    FORMATS,
    check_suffix,
    estimate_bytes,
    rechunk,
    write_audiobook,
    write_sound,
)
from rhapsode.audio.marks import Tags
from rhapsode.errors import OutputError, UserError

TAGS = Tags('A "Title"; = # \\ / é 😀', "Author; Other", "Narrator", comment="Two\nlines")
TITLES = [
    "Plain",
    "What / Why: \"quotes\" and 'more'",
    ";=#\\ [CHAPTER] title=no",
    "one\ntwo",
    "😀 Ünï 漢字",
    "x" * 300,
    "é" * 200,
    "<b>&amp;</b> %s {0}",
]
LOSSY = [".m4b", ".m4a", ".mp3", ".opus"]
MARKED = [*LOSSY, ".flac"]
Tone = Callable[[int], np.ndarray]


@dataclass
class Found:
    codec: str
    rate: int
    samples: int  # decoded
    seconds: float  # as the container says
    chapters: list[tuple[str, float, float]]  # title, start and end in seconds
    tags: dict[str, str]
    cover: bytes | None


def read(path: Path) -> Found:
    with av.open(str(path)) as file:
        stream = file.streams.audio[0]
        chapters = [
            (c["metadata"]["title"], float(c["start"] * (c["time_base"] or 0)), float(c["end"] * (c["time_base"] or 0)))
            for c in file.chapters()
        ]
        tags = {k.lower(): v for k, v in (file.metadata | stream.metadata).items()}
        pictures = [s for s in file.streams.video if s.disposition & av.stream.Disposition.attached_pic]
        rate, codec = stream.rate, stream.codec_context.name
        seconds = (file.duration or 0) / av.time_base
        samples = sum(frame.samples for frame in file.decode(stream))
    cover = None
    if pictures:
        with av.open(str(path)) as file:
            cover = next(bytes(p) for p in file.demux(file.streams.video[0]) if p.size)
    return Found(codec, rate, samples, seconds, chapters, tags, cover)


def write(path: Path, pcm: np.ndarray, lengths: list[int], size: int = 5_000, **more: object) -> None:
    titles = (TITLES * (1 + len(lengths) // len(TITLES)))[: len(lengths)]
    write_audiobook(
        path,
        tracks=list(zip(titles, lengths, strict=True)),
        blocks=(pcm[at : at + size] for at in range(0, len(pcm), size)),
        **({"sample_rate": 24_000, "tags": TAGS} | more),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("suffix", MARKED)
def test_chapters_tags_cover_and_length(tmp_path: Path, tone: Tone, cover: bytes, rate: int, suffix: str) -> None:
    path = tmp_path / f"book{suffix}"
    lengths = [20_000 + 3_331 * index for index in range(len(TITLES))]
    pcm = tone(sum(lengths))
    write(path, pcm, lengths, cover=cover)
    found = read(path)
    assert found.codec == {".m4b": "aac", ".m4a": "aac", ".mp3": "mp3float", ".opus": "opus", ".flac": "flac"}[suffix]
    assert [title for title, _, _ in found.chapters] == TITLES
    starts = np.cumsum([0, *lengths]) / rate
    within = 1 / (2 * rate) if suffix in (".m4b", ".m4a") else 0.0006  # the others count in milliseconds
    assert [start for _, start, _ in found.chapters] == pytest.approx(starts[:-1], abs=within)
    assert found.tags["title"] == TAGS.title
    assert found.tags["album"] == TAGS.title
    assert found.tags["artist"] == found.tags["album_artist"] == TAGS.author
    assert found.tags["composer"] == TAGS.narrator
    assert found.tags["genre"] == "Audiobook"
    assert found.tags["comment"] == TAGS.comment
    assert found.cover == cover
    frame = 1024 / rate
    assert found.seconds == pytest.approx(len(pcm) / rate, abs=0.0001 if suffix != ".opus" else 0.007)
    assert found.samples / found.rate == pytest.approx(len(pcm) / rate, abs=frame)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", [".m4b", ".mp3", ".opus"])
def test_sound_starts_where_it_should(tmp_path: Path, rate: int, suffix: str) -> None:
    pcm = np.zeros(3 * rate, dtype=np.int16)
    burst = slice(rate, rate + 2_400)
    pcm[burst] = 16_000 * np.sin(np.arange(2_400) * 0.2)
    path = tmp_path / f"book{suffix}"
    write(path, pcm, [len(pcm)])
    with av.open(str(path)) as file:
        sound = np.concatenate([f.to_ndarray().astype(np.float32).ravel() for f in file.decode(audio=0)])
        scale = file.streams.audio[0].rate / rate
    loud = np.flatnonzero(np.abs(sound) > np.abs(sound).max() / 4) / scale
    assert loud[0] == pytest.approx(burst.start, abs=60)
    assert loud[-1] == pytest.approx(burst.stop, abs=60)


@pytest.mark.parametrize("suffix", MARKED)
def test_three_hundred_chapters(tmp_path: Path, tone: Tone, rate: int, suffix: str) -> None:
    path = tmp_path / f"book{suffix}"
    lengths = [600 + index for index in range(300)]
    write(path, tone(sum(lengths)), lengths)
    found = read(path)
    assert len(found.chapters) == 300
    assert found.chapters[299][0] == TITLES[299 % len(TITLES)]
    assert [start for _, start, _ in found.chapters] == pytest.approx(np.cumsum([0, *lengths])[:-1] / rate, abs=0.0006)
    assert found.chapters[299][2] == pytest.approx(sum(lengths) / rate, abs=0.01)


def test_nero_list_is_there_only_where_it_holds_all(tmp_path: Path, tone: Tone) -> None:
    for count, title, there in ((255, "x" * 255, True), (256, "x", False), (2, "é" * 128, False)):
        path = tmp_path / f"{count}.m4b"
        tracks = [(title, 100)] * count
        write_audiobook(path, sample_rate=24_000, tracks=tracks, blocks=[tone(100 * count)], tags=TAGS)
        assert (b"chpl" in path.read_bytes()) == there
        assert [name for name, _, _ in read(path).chapters] == [title] * count


@pytest.mark.parametrize("suffix", list(FORMATS))
@pytest.mark.parametrize("sample_rate", [24_000, 26_000])  # the second is resampled by most
def test_same_bytes_twice_however_it_is_cut(
    tmp_path: Path, tone: Tone, cover: bytes, suffix: str, sample_rate: int
) -> None:
    pcm = tone(60_001)
    written = []
    for size in (997, 60_001):
        path = tmp_path / f"{size}{suffix}"
        write(path, pcm, [20_000, 40_001], size=size, cover=cover, sample_rate=sample_rate)
        written.append(path.read_bytes())
    assert written[0] == written[1]
    assert b"Lavc" not in written[0]  # an encoder's version would change the bytes with every update


@pytest.mark.parametrize("suffix", [".flac", ".wav"])
def test_lossless_formats_keep_every_sample(tmp_path: Path, tone: Tone, suffix: str) -> None:
    pcm = tone(50_007)
    path = tmp_path / f"book{suffix}"
    write(path, pcm, [50_007])
    with av.open(str(path)) as file:
        assert file.streams.audio[0].rate == 24_000
        back = np.concatenate([frame.to_ndarray().ravel() for frame in file.decode(audio=0)])
    assert (back == pcm).all()


@pytest.mark.parametrize("suffix", LOSSY)
@pytest.mark.parametrize("sample_rate", [16_000, 22_050, 44_100, 48_000, 26_000])
def test_other_sample_rates(tmp_path: Path, tone: Tone, suffix: str, sample_rate: int) -> None:
    path = tmp_path / f"book{suffix}"
    write(path, tone(2 * sample_rate), [sample_rate, sample_rate], sample_rate=sample_rate)
    found = read(path)
    assert found.seconds == pytest.approx(2, abs=0.05)
    assert [start for _, start, _ in found.chapters] == pytest.approx([0, 1], abs=0.001)


def test_m4b_is_small_and_says_what_it_is(tmp_path: Path, tone: Tone) -> None:
    seconds = 20
    path = tmp_path / "book.m4b"
    write(path, tone(24_000 * seconds), [24_000 * seconds])
    assert path.stat().st_size < 24_000 * seconds * 2 / 5
    tags = read(path).tags
    assert tags["major_brand"] == "M4B "
    assert tags["media_type"] == "2"


def test_empty_tracks_get_no_mark_and_a_sound_has_none(tmp_path: Path, tone: Tone) -> None:
    path = tmp_path / "book.m4b"
    tracks = [("Cover", 0), ("One", 24_000), ("", 0), ("Two", 12_000)]
    write_audiobook(path, sample_rate=24_000, tracks=tracks, blocks=[tone(36_000)], tags=TAGS)
    assert [(title, start) for title, start, _ in read(path).chapters] == [("One", 0.0), ("Two", 1.0)]
    write_sound(path, tone(24_000).astype(np.float32) / 32_768, 24_000)
    found = read(path)
    assert (found.chapters, found.tags["title"]) == ([], "book")


def test_no_marks_in_upper_case_suffixes_are_lost(tmp_path: Path, tone: Tone) -> None:
    path = tmp_path / "BOOK.M4B"
    write(path, tone(30_000), [10_000, 20_000])
    found = read(path)
    assert (found.codec, len(found.chapters)) == ("aac", 2)


def test_mp3_has_one_tag_and_then_sound(tmp_path: Path, tone: Tone) -> None:
    path = tmp_path / "book.mp3"
    write(path, tone(30_000), [10_000, 20_000])
    data = path.read_bytes()
    size = sum(byte << shift for byte, shift in zip(data[6:10], (21, 14, 7, 0), strict=True))
    assert data[10 + size] == 0xFF
    assert data[10 + size + 1] & 0xE0 == 0xE0


def test_suffixes() -> None:
    assert check_suffix(Path("a/Book.OPUS")) == ".opus"
    every = r"one of \.m4b, \.m4a, \.mp3, \.opus, \.flac, \.wav\.$"
    with pytest.raises(UserError, match=rf"a/book\.ogg ends in '\.ogg'; an audiobook ends in {every}"):
        check_suffix(Path("a/book.ogg"))
    with pytest.raises(UserError, match=rf"book has no suffix; .* {every}"):
        check_suffix(Path("book"))


def test_a_cover_of_another_kind_does_not_cost_the_book(tmp_path: Path, tone: Tone) -> None:
    write(tmp_path / "book.m4b", tone(24_000), [24_000], cover=b"GIF89a and so on")
    assert read(tmp_path / "book.m4b").cover is None


@pytest.mark.parametrize("suffix", list(FORMATS))
def test_progress_is_told(tmp_path: Path, tone: Tone, suffix: str) -> None:
    told: list[tuple[int, int]] = []
    write(tmp_path / f"a{suffix}", tone(60_000), [60_000], progress=lambda *now: told.append(now))
    done = [samples for samples, _ in told]
    assert {total for _, total in told} == {60_000} and done[-1] == 60_000
    steps = np.diff([0, *done])
    assert len(told) > 3 and (steps >= 0).all() and steps.max() < 20_000


@pytest.mark.parametrize("suffix", [".m4b", ".wav"])
@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([np.zeros(9, np.int16)], "have 9 samples, the tracks 10"),
        ([np.zeros(9, np.int16)] * 2, "more than the 10 samples"),
        ([np.zeros(10, np.float32)], "one dimension of int16"),
        ([np.zeros((1, 10), np.int16)], "one dimension of int16"),
    ],
)
def test_blocks_that_are_not_as_described(tmp_path: Path, suffix: str, blocks: list[np.ndarray], message: str) -> None:
    path = tmp_path / f"book{suffix}"
    path.write_bytes(b"before")
    with pytest.raises(ValueError, match=message):
        write_audiobook(path, sample_rate=24_000, tracks=[("One", 10)], blocks=blocks, tags=TAGS)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == b"before"


def test_nothing_to_hear(tmp_path: Path) -> None:
    for tracks in ([], [("One", 0)]):
        with pytest.raises(OutputError, match="nothing to hear"):
            write_audiobook(tmp_path / "a.m4b", sample_rate=24_000, tracks=tracks, blocks=[], tags=TAGS)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", list(FORMATS))
def test_an_error_of_the_blocks_comes_through(tmp_path: Path, tone: Tone, cover: bytes, suffix: str) -> None:
    def blocks() -> Iterator[np.ndarray]:
        yield tone(50_000)
        raise OutputError("take 12 is damaged")

    with pytest.raises(OutputError, match=r"^take 12 is damaged$"):
        write_audiobook(
            tmp_path / f"book{suffix}",
            sample_rate=24_000,
            tracks=[("One", 100_000)],
            blocks=blocks(),
            tags=TAGS,
            cover=cover,
        )
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("suffix", list(FORMATS))
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_full_disk_is_said_in_one_sentence(
    tmp_path: Path,
    tone: Tone,
    full_disk: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    share: float,
) -> None:
    path = tmp_path / f"book{suffix}"
    pcm = tone(100_000)
    write(path, pcm, [100_000])
    before = path.read_bytes()
    full_disk(int(share * len(before)))
    with pytest.raises(OutputError, match=r"^There is no room left to write .*book\.\w+ \(.* free\); free some space"):
        write(path, pcm, [100_000])
    monkeypatch.undo()
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == before
    write(path, pcm, [100_000])
    assert path.read_bytes() == before


def test_a_folder_that_refuses(tmp_path: Path, tone: Tone, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **more: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("rhapsode.audio.files.os.open", refuse)
    with pytest.raises(OutputError, match=r"book\.m4b cannot be opened \(Permission denied\); choose a folder"):
        write(tmp_path / "book.m4b", tone(1_000), [1_000])


def test_a_killed_run_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "book.m4b"
    path.write_bytes(b"before")
    program = """
import sys, numpy as np
from pathlib import Path
from rhapsode.audio.container import write_audiobook
from rhapsode.audio.marks import Tags
def blocks():
    yield np.arange(500_000).astype(np.int16)
    print("half", flush=True)
    sys.stdin.read()
write_audiobook(Path(sys.argv[1]), sample_rate=24_000, tracks=[("One", 1_000_000)], blocks=blocks(), tags=Tags("T"))
"""
    root = str(Path(rhapsode.__path__[0]).parent)
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": root},
    )
    assert child.stdout and child.stdin
    try:
        assert child.stdout.readline().strip() == b"half"
        assert sorted(os.listdir(tmp_path)) == [".book.m4b.part", "book.m4b"]
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdin.close()
        child.stdout.close()
    assert path.read_bytes() == b"before"
    write(path, np.zeros(24_000, np.int16), [24_000])
    assert read(path).seconds == pytest.approx(1)
    assert os.listdir(tmp_path) == ["book.m4b"]


@pytest.mark.parametrize("suffix", list(FORMATS))
def test_estimates_are_a_little_high(tmp_path: Path, tone: Tone, suffix: str) -> None:
    path = tmp_path / f"book{suffix}"
    write(path, tone(24_000 * 30), [24_000 * 30])
    size = path.stat().st_size
    assert size <= estimate_bytes(suffix, 30)
    assert estimate_bytes(suffix.upper(), 3_600) > estimate_bytes(suffix, 1_800) > 1_000_000
    assert estimate_bytes(".wav", 16 * 3600) == pytest.approx(2_764_800_000, rel=0.001)


def test_rechunk_bounds_what_it_holds() -> None:
    blocks = [np.arange(at, at + size, dtype=np.int16) for at, size in ((0, 5), (5, 0), (5, 1), (6, 20), (26, 3))]
    pieces = list(rechunk(blocks, 8))
    assert [len(piece) for piece in pieces] == [8, 8, 8, 5]
    assert (np.concatenate(pieces) == np.arange(29)).all()


@pytest.mark.parametrize("suffix", list(FORMATS))
def test_python_memory_is_bounded(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "cores", lambda: 2)
    block = np.zeros(24_000, dtype=np.int16)
    tracemalloc.start()
    try:
        write_audiobook(
            tmp_path / f"book{suffix}",
            sample_rate=24_000,
            tracks=[("One", 1200 * 24_000)],
            blocks=(block for _ in range(1200)),
            tags=TAGS,
        )
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    longest = 2 * encoder.PIECE_S * 24_000 * 2  # bytes of a piece; the sound is twenty of them
    assert most < (3 + 2 * 2) * longest, "what is held, put together and handed on; two for each of two processes"
