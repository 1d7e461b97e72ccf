"""Recordings of the sentences, one file each: how a teacher, or any other voice, is measured by the same figures.

Knows files named by the number of the sentence, 001.wav or 001.flac, and how PyAV opens them. Knows no text.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import av
import numpy as np

from rhapsode.errors import UserError
from rhapsode.verify.sentences import Sentence

SUFFIXES = (".wav", ".flac")
_LONGEST_S = 180.0  # a sentence is over by then


def find_recordings(folder: str | os.PathLike[str], sentences: Sequence[Sentence]) -> list[Path]:
    """The file of every sentence. Raises UserError naming the first that is missing."""
    place = Path(folder)
    if not place.is_dir():
        raise UserError(f"{folder} is not a folder; --recordings wants one with 001.wav, 002.wav and so on.")
    found = []
    for sentence in sentences:
        names = [f"{sentence.number:03d}{suffix}" for suffix in SUFFIXES]
        files = [place / name for name in names if (place / name).is_file()]
        if not files:
            raise UserError(f"There is no {names[0]} in {folder} for the sentence {sentence.text!r:.60}.")
        found.append(files[0])
    return found


def read_recordings(files: Sequence[Path]) -> Iterator[tuple[np.ndarray, int]]:
    """(float32 [samples], sample rate) of each file, mono. Raises UserError for one that is no sound."""
    for file in files:
        yield _read(file)


def _read(path: Path) -> tuple[np.ndarray, int]:
    parts: list[np.ndarray] = []
    samples = 0
    try:
        with av.open(str(path), metadata_errors="ignore") as container:
            if not container.streams.audio:
                raise UserError(f"{path} holds no sound.")
            stream = container.streams.audio[0]
            rate = int(stream.rate)
            mono = av.AudioResampler(format="flt", layout="mono", rate=rate)
            for frame in container.decode(stream):
                for piece in mono.resample(frame):
                    parts.append(piece.to_ndarray().reshape(-1))
                    samples += len(parts[-1])
                if samples > _LONGEST_S * rate:
                    raise UserError(f"{path} is longer than {_LONGEST_S:.0f} seconds; one sentence a file is wanted.")
            parts += [piece.to_ndarray().reshape(-1) for piece in mono.resample(None)]
    except (av.FFmpegError, ValueError) as error:
        raise UserError(f"{path} is not a sound file that can be read: {error}.") from None
    if not samples:
        raise UserError(f"{path} holds no sound.")
    return np.concatenate(parts).astype(np.float32, copy=False), rate
