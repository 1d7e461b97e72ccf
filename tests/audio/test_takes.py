"""The store: what is put is there, what is damaged is not, and nobody else's takes are touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tracemalloc
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import rhapsode
from rhapsode.audio.takes import Setting, TakeStore, settings_digest, takes_folder
from rhapsode.audio.wave import to_pcm
from rhapsode.errors import OutputError
from rhapsode.types import Line, Take

SETTINGS: dict[str, Setting] = {"voice": "ryan", "seed": 1, "temperature": 0.9, "greedy": False, "language": None}
Takes = Callable[..., Take]
Lines = Callable[..., Line]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return takes_folder(tmp_path / "book.m4b")


def wav_of(store: TakeStore, line: Line) -> Path:
    return store.folder / f"{line.key:016x}.wav"


def test_puts_and_gives_back(folder: Path, make_take: Takes, rate: int) -> None:
    take = make_take(3, samples=5_000, tries=2, problem="too long")
    with TakeStore(folder, SETTINGS) as store:
        assert not store.has(take.line)
        store.put(take)
        for _ in range(2):
            info = store.info(take.line)
            assert (info.frames, info.samples, info.seconds) == (take.frames, 5_000, take.seconds)
            assert (info.seed, info.tries, info.problem) == (7, 2, "too long")
            assert (store.pcm(take.line) == to_pcm(take.audio)).all()
            store.close()
            store = TakeStore(folder, SETTINGS)  # and once more from the disk
        with wave.open(str(wav_of(store, take.line))) as file:
            assert (file.getframerate(), file.getnframes()) == (rate, 5_000)
        store.close()
    assert folder.name == "book.m4b.takes"


def test_a_line_is_known_by_its_key(folder: Path, make_take: Takes, make_line: Lines) -> None:
    with TakeStore(folder, SETTINGS) as store:
        store.put(make_take(make_line(5, key=42, text="Same.")))
        moved = make_line(9, chapter=3, key=42, text="Same.", pause_s=1.0)
        assert store.has(moved)
        assert not store.has(make_line(5, key=43, text="Same."))
        assert not store.has(make_line(5, key=42, text="Other."))
        assert store.done([moved, make_line(1)]) == {42}
        with pytest.raises(KeyError):
            store.info(make_line(1))
        with pytest.raises(KeyError):
            store.pcm(make_line(1))


def test_a_later_take_of_a_line_wins(folder: Path, make_take: Takes) -> None:
    with TakeStore(folder, SETTINGS) as store:
        line = make_take(0).line
        store.put(make_take(line, samples=100))
        store.put(make_take(line, samples=200, seed=8))
        assert store.info(line).samples == 200
    with TakeStore(folder, SETTINGS) as store:
        assert (store.info(line).samples, store.info(line).seed, len(store.pcm(line))) == (200, 8, 200)


def test_settings_have_folders_of_their_own(folder: Path, make_take: Takes) -> None:
    take = make_take(0)
    with TakeStore(folder, SETTINGS) as store:
        store.put(take)
        first = store.folder
    with TakeStore(folder, SETTINGS | {"seed": 2}) as store:
        assert not store.has(take.line)
        store.put(make_take(0, samples=77))
    with TakeStore(folder, dict(reversed(SETTINGS.items()))) as store:
        assert store.folder == first
        assert store.info(take.line).samples == 2_400
    assert json.loads((first / "settings.json").read_text()) == SETTINGS
    assert len({settings_digest({"a": value}) for value in (1, True, 1.0, "1", None)}) == 5


def test_a_torn_record_costs_one_take(folder: Path, make_take: Takes) -> None:
    takes = [make_take(index) for index in range(3)]
    with TakeStore(folder, SETTINGS) as store:
        for take in takes:
            store.put(take)
        record = store.folder / "record.jsonl"
    whole = record.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for cut in (last + 1, last + 40, len(whole) - 2, len(whole) - 1):
        record.write_bytes(whole[:cut])
        with TakeStore(folder, SETTINGS) as store:
            assert store.done(take.line for take in takes) == {take.line.key for take in takes[:2]}
            store.put(takes[2])
        with TakeStore(folder, SETTINGS) as store:
            assert len(store.done(take.line for take in takes)) == 3


@pytest.mark.parametrize("bad", [b"null", b"[1]", b"{}", b"\xff\xfe", b'{"key": "zz"}', b"", b'{"samples": 1e999}'])
def test_strange_lines_in_the_record_are_passed_over(folder: Path, make_take: Takes, bad: bytes) -> None:
    with TakeStore(folder, SETTINGS) as store:
        store.put(make_take(0))
        record = store.folder / "record.jsonl"
    good = json.loads(record.read_bytes())
    strange = json.dumps(good | {"samples": float("inf")}).encode()
    record.write_bytes(bad + b"\n" + strange + b"\n" + record.read_bytes())
    with TakeStore(folder, SETTINGS) as store:
        assert store.has(make_take(0).line)


def damage_truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def damage_lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0\0")


def damage_sample(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)


def damage_header(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[24] ^= 1  # the sample rate
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [Path.unlink, damage_truncate, damage_lengthen, damage_sample, damage_header])
def test_a_damaged_take_is_not_done(folder: Path, make_take: Takes, damage: Callable[[Path], None]) -> None:
    good, bad = make_take(0), make_take(1)
    with TakeStore(folder, SETTINGS) as store:
        store.put(good)
        store.put(bad)
        damage(wav_of(store, bad.line))
    with TakeStore(folder, SETTINGS) as store:
        assert store.done([good.line, bad.line]) == {good.line.key}
        store.put(bad)
        assert store.has(bad.line)
        damage(wav_of(store, bad.line))  # behind our back
        with pytest.raises(OutputError, match="is damaged; run the same command again"):
            store.pcm(bad.line)
        assert not store.has(bad.line)
        assert store.has(good.line)


def test_half_written_files_are_cleaned_up(folder: Path, make_take: Takes) -> None:
    with TakeStore(folder, SETTINGS) as store:
        store.put(make_take(0))
        stale = store.folder / ".00000000000000ff.wav.part"
        stale.write_bytes(b"RIFF")
    other = folder / "notes.txt"
    other.write_text("mine")
    with TakeStore(folder, SETTINGS) as store:
        assert not stale.exists()
        assert store.has(make_take(0).line)
    assert other.exists()


def test_a_wav_without_its_record_is_not_done(folder: Path, make_take: Takes) -> None:
    take = make_take(0)
    with TakeStore(folder, SETTINGS) as store:
        store.put(take)
        (store.folder / "record.jsonl").unlink()  # as when killed between the two
    with TakeStore(folder, SETTINGS) as store:
        assert not store.has(take.line)


def test_one_process_at_a_time(folder: Path) -> None:
    pytest.importorskip("fcntl")
    with TakeStore(folder, SETTINGS):
        for settings in (SETTINGS, SETTINGS | {"seed": 2}):
            with pytest.raises(OutputError, match="Another process is at work in .*book.m4b.takes"):
                TakeStore(folder, settings)
    TakeStore(folder, SETTINGS).close()


def test_a_killed_process_leaves_its_takes_and_no_lock(folder: Path, make_take: Takes, make_line: Lines) -> None:
    pytest.importorskip("fcntl")
    program = f"""
import sys, numpy as np
from pathlib import Path
from rhapsode.audio.takes import TakeStore
from rhapsode.types import Line, Take
store = TakeStore(Path(sys.argv[1]), {SETTINGS!r})
for index in range(3):
    line = Line(index, 1, f"Line {{index}}.", 0xF000000000000000 + index)
    store.put(Take(line, np.zeros(100, np.float32), 24000, 1, 7))
print("ready", flush=True)
sys.stdin.read()
"""
    root = str(Path(rhapsode.__path__[0]).parent)
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": root},
    )
    assert child.stdout and child.stdin
    try:
        assert child.stdout.readline().strip() == b"ready"
        with pytest.raises(OutputError, match="Another process"):
            TakeStore(folder, SETTINGS)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdin.close()
        child.stdout.close()
    with TakeStore(folder, SETTINGS) as store:
        assert len(store.done(make_line(index) for index in range(5))) == 3


@pytest.mark.parametrize("audio", [np.array([0, np.nan], np.float32), np.zeros((2, 8), np.float32), np.zeros(4, "i2")])
def test_refuses_a_bad_sound_and_keeps_nothing_of_it(folder: Path, make_line: Lines, audio: np.ndarray) -> None:
    with TakeStore(folder, SETTINGS) as store:
        with pytest.raises(ValueError):
            store.put(Take(make_line(0), audio, 24_000, 1, 7))
        assert not store.has(make_line(0))
        assert sorted(os.listdir(store.folder)) == ["record.jsonl", "settings.json"]


def test_refuses_another_sample_rate(folder: Path, make_take: Takes) -> None:
    with TakeStore(folder, SETTINGS) as store:
        store.put(make_take(0))
    with TakeStore(folder, SETTINGS) as store:
        assert store.sample_rate == 24_000
        with pytest.raises(ValueError, match="48000 Hz among takes at 24000 Hz"):
            store.put(make_take(1, sample_rate=48_000))


@pytest.mark.parametrize("left", [0, 100, 4_844, 4_900])  # nothing, half a WAV, all of the WAV, half a record
def test_a_full_disk_loses_nothing(
    folder: Path, make_take: Takes, full_disk: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    store = TakeStore(folder, SETTINGS)
    store.put(make_take(0))
    record = (store.folder / "record.jsonl").read_bytes()
    full_disk(left)
    with pytest.raises(OutputError, match=r"no room left to write .*\d [kMG]B free\); free some space"):
        store.put(make_take(1))
    monkeypatch.undo()
    assert not store.has(make_take(1).line)
    assert (store.folder / "record.jsonl").read_bytes() == record
    assert not list(store.folder.glob(".*"))
    store.put(make_take(2))
    store.close()
    with TakeStore(folder, SETTINGS) as store:
        assert store.done(make_take(index).line for index in range(3)) == {make_take(i).line.key for i in (0, 2)}


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OutputError, match=r"because .*/no is not a folder; make the folder first\.$"):
        TakeStore(tmp_path / "no" / "book.m4b.takes", SETTINGS)

    def refuse(*args: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(OutputError, match="Permission denied.; choose a folder that you may read and write"):
        TakeStore(tmp_path / "book.m4b.takes", SETTINGS)


def test_memory_does_not_grow_with_the_sound(folder: Path, make_take: Takes) -> None:
    tracemalloc.start()
    try:
        with TakeStore(folder, SETTINGS) as store:
            for index in range(100):
                store.put(make_take(index, samples=24_000))
            kept = [store.has(make_take(index, samples=1).line) for index in range(100)]
            now, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(kept)
    assert now < 500_000  # the sound is 4.8 MB
