"""Takes on disk as they finish, so that a run that was stopped goes on where it was.

`OUT.takes/` beside the output holds one folder for each set of settings, with a WAV for each line and
`record.jsonl`, to which a line of JSON is added after its WAV is in place. Lines are found by their key alone.
Knows files, lines and takes. Knows no model, and does not decide which takes are good.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from rhapsode.audio.files import BINARY, fit_name, output_error, take_lock, write_all, write_atomic
from rhapsode.audio.wave import SAMPLE_BYTES, to_pcm, wav_header
from rhapsode.errors import OutputError
from rhapsode.types import Line, Take

Setting = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class TakeInfo:
    """What the record says of a take; its sound stays on the disk."""

    frames: int  # codec frames
    samples: int
    sample_rate: int  # Hz
    seed: int
    tries: int
    problem: str

    @property
    def seconds(self) -> float:
        return self.samples / self.sample_rate


@dataclass(frozen=True, slots=True)
class _Entry:
    info: TakeInfo
    sound: int  # CRC-32 of the PCM
    text: int  # CRC-32 of the line's text


def takes_folder(output: Path) -> Path:
    """Where the takes of the audiobook `output` are kept: `OUT.takes` beside it."""
    return output.with_name(fit_name(output.name, ".takes"))


def settings_digest(settings: Mapping[str, Setting]) -> str:
    """16 hex digits that differ when any setting does; the order of the settings does not matter."""
    return hashlib.blake2b(_canonical(settings), digest_size=8).hexdigest()


def begun_settings(folder: Path) -> tuple[dict[str, Any], ...]:
    """Settings of the readings in a folder of takes that have sound, those with most of it first."""
    found: list[tuple[int, str, dict[str, Any]]] = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError, ValueError, RecursionError):
                settings = json.loads(Path(entry.path, "settings.json").read_bytes())
                takes = sum(file.name.endswith(".wav") for file in os.scandir(entry.path))
                if takes and isinstance(settings, dict):
                    found.append((-takes, entry.name, settings))
    return tuple(settings for _, _, settings in sorted(found, key=lambda one: one[:2]))


class TakeStore:
    """The takes made with one set of settings. Memory: a small record for each line, never its sound.

    One process at a time has the folder; the lock goes when the store is closed or its process ends.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Setting]) -> None:
        """`folder` is made if it is not there; its parent has to be. Raises OutputError."""
        self.folder = folder / settings_digest(settings)
        self.sample_rate: int | None = None  # Hz, of every take; None before the first
        self._entries: dict[int, _Entry] = {}
        self._sound: set[int] = set()  # keys whose WAV was written or read whole by this process
        self._lock = self._record = -1
        try:
            folder.mkdir(exist_ok=True)
            self._lock = _lock_folder(folder)
            self.folder.mkdir(exist_ok=True)
            self._clean()
            if not (self.folder / "settings.json").exists():
                write_atomic(self.folder / "settings.json", _canonical(settings) + b"\n")
            self._load()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise output_error(folder, error) from error
            raise

    def _clean(self) -> None:
        """Removes what a killed process left half written."""
        for entry in os.scandir(self.folder):
            if entry.name.startswith(".") and entry.name.endswith(".part"):
                os.unlink(entry.path)

    def _load(self) -> None:
        path = self.folder / "record.jsonl"
        self._record = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | BINARY, 0o666)
        torn = False
        with open(path, "rb") as lines:
            for raw in lines:
                torn = not raw.endswith(b"\n")
                found = None if torn else _parse(raw)
                if found is None:
                    continue
                key, entry = found
                self.sample_rate = self.sample_rate or entry.info.sample_rate
                if entry.info.sample_rate == self.sample_rate:
                    self._entries[key] = entry
        if torn:  # closed off, so that the next record starts on a line of its own
            write_all(self._record, b"\n")

    def has(self, line: Line) -> bool:
        """Whether the line's take is recorded and whole; its file is read once to be sure."""
        entry = self._entries.get(_key(line))
        if entry is None or entry.text != _text_crc(line):
            return False
        if _key(line) not in self._sound and self._read(line, entry) is None:
            del self._entries[_key(line)]
            return False
        return True

    def done(self, lines: Iterable[Line]) -> set[int]:
        """The keys of those lines whose takes are there."""
        return {line.key for line in lines if self.has(line)}

    def info(self, line: Line) -> TakeInfo:
        """What is known of the line's take. Raises KeyError where `has(line)` is false."""
        if not self.has(line):
            raise KeyError(f"line {line.index} has no take")
        return self._entries[_key(line)].info

    def pcm(self, line: Line) -> np.ndarray:
        """int16 [samples], read-only. Raises KeyError where there is no take, OutputError where it is damaged."""
        entry = self._entries.get(_key(line))
        if entry is None or entry.text != _text_crc(line):
            raise KeyError(f"line {line.index} has no take")
        sound = self._read(line, entry)
        if sound is None:
            del self._entries[_key(line)]
            raise OutputError(f"{self._path(line)} is damaged; run the same command again to read that line anew.")
        return sound

    def put(self, take: Take) -> TakeInfo:
        """Keeps a take, in place of an earlier one of the same line.

        Raises ValueError for a sound that is not one dimension of finite floats or has another sample rate,
        OutputError where the disk refuses it; the takes that are there stay.
        """
        if take.sample_rate <= 0 or take.sample_rate != (self.sample_rate or take.sample_rate):
            raise ValueError(f"a take at {take.sample_rate} Hz among takes at {self.sample_rate} Hz")
        sound = to_pcm(take.audio).view(np.uint8).data
        samples = len(sound) // SAMPLE_BYTES
        info = TakeInfo(take.frames, samples, take.sample_rate, take.seed, take.tries, take.problem)
        entry = _Entry(info, zlib.crc32(sound), _text_crc(take.line))
        write_atomic(self._path(take.line), wav_header(take.sample_rate, samples), sound)
        self._append(_record(take.line, entry))
        self.sample_rate = take.sample_rate
        self._entries[_key(take.line)] = entry
        self._sound.add(_key(take.line))
        return info

    def _append(self, record: bytes) -> None:
        size = os.fstat(self._record).st_size
        try:
            write_all(self._record, record)
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._record, size)  # no half line for the next record to be glued to
            if isinstance(error, OSError):
                raise output_error(self.folder / "record.jsonl", error) from error
            raise

    def _path(self, line: Line) -> Path:
        return self.folder / f"{_key(line):016x}.wav"

    def _read(self, line: Line, entry: _Entry) -> np.ndarray | None:
        """The take's samples, or None where the file is not the one that the record speaks of."""
        path, info = self._path(line), entry.info
        header = wav_header(info.sample_rate, info.samples)
        try:
            with open(path, "rb") as file:
                if os.fstat(file.fileno()).st_size != len(header) + info.samples * SAMPLE_BYTES:
                    return None
                raw = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise output_error(path, error) from error
        if raw[: len(header)] != header or zlib.crc32(memoryview(raw)[len(header) :]) != entry.sound:
            return None
        self._sound.add(_key(line))
        return np.frombuffer(raw, dtype="<i2", offset=len(header))

    def drop_sound(self) -> None:
        """Removes the sound of all takes; the record and the settings stay. What cannot be removed stays too."""
        for entry in os.scandir(self.folder):
            if entry.name.endswith(".wav"):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
        self._entries.clear()
        self._sound.clear()

    def close(self) -> None:
        """Gives the folder back. Closing twice does no harm."""
        for descriptor in (self._record, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._record = self._lock = -1

    def __enter__(self) -> TakeStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _lock_folder(folder: Path) -> int:
    """The descriptor that holds the lock on `folder`. Raises OutputError where another process has it."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    if not take_lock(descriptor):
        os.close(descriptor)
        raise OutputError(f"Another process is at work in {folder}; wait for it or choose another output.")
    return descriptor


def _canonical(settings: Mapping[str, Setting]) -> bytes:
    return json.dumps(dict(settings), sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _key(line: Line) -> int:
    return line.key & (2**64 - 1)


def _text_crc(line: Line) -> int:
    return zlib.crc32(line.text.encode("utf-8", "surrogatepass"))


def _record(line: Line, entry: _Entry) -> bytes:
    info = entry.info
    values: dict[str, Any] = {
        "key": f"{_key(line):016x}",
        "index": line.index,
        "chapter": line.chapter,
        "text": line.text,
        "frames": info.frames,
        "samples": info.samples,
        "sample_rate": info.sample_rate,
        "seconds": round(info.seconds, 3),
        "seed": info.seed,
        "tries": info.tries,
        "problem": info.problem,
        "crc32": f"{entry.sound:08x}",
    }
    return json.dumps(values).encode() + b"\n"


def _parse(raw: bytes) -> tuple[int, _Entry] | None:
    """A key and its entry from a line of the record; None for a line that is torn or not ours."""
    try:
        values = json.loads(raw)
        frames, samples, rate, seed, tries = (
            int(values[name]) for name in ("frames", "samples", "sample_rate", "seed", "tries")
        )
        entry = _Entry(
            TakeInfo(frames, samples, rate, seed, tries, problem=str(values["problem"])),
            sound=int(values["crc32"], 16),
            text=zlib.crc32(str(values["text"]).encode("utf-8", "surrogatepass")),
        )
        return (int(values["key"], 16), entry) if samples >= 0 and rate > 0 else None
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
