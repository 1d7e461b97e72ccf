"""Lines and their takes, in reading order, as chapter tracks: how long each is, and its samples.

Knows lines, pauses and the store. Knows no container; what it yields goes into any.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from rhapsode.audio.takes import TakeStore
from rhapsode.types import Line

FADE_S = 0.005  # at both edges of a take: long enough for no click, too short to hear
_BLOCK = 1 << 16  # samples of silence that are yielded at a time


@dataclass(frozen=True, slots=True)
class Track:
    """One chapter of the audiobook."""

    title: str
    chapter: int  # `Chapter.number`
    lines: tuple[Line, ...]
    samples: int  # takes and the pauses after them


def plan_tracks(lines: Sequence[Line], titles: Mapping[int, str], store: TakeStore) -> list[Track]:
    """One track for each chapter that has lines, in the order of the lines.

    `titles` maps a chapter's number to its title; a chapter without one is called by its number.
    Raises KeyError where a line has no take, ValueError where a chapter comes back after another.
    """
    tracks: list[Track] = []
    seen: set[int] = set()
    for chapter, group in groupby(lines, key=lambda line: line.chapter):
        if chapter in seen:
            raise ValueError(f"chapter {chapter} comes back after another; lines go in reading order")
        seen.add(chapter)
        members = tuple(group)
        samples = sum(_samples(line, store) for line in members)
        tracks.append(Track(titles.get(chapter, "").strip() or str(chapter), chapter, members, samples))
    return tracks


def stream(tracks: Track | Iterable[Track], store: TakeStore) -> Iterator[np.ndarray]:
    """int16 blocks of the tracks, one after the other; never more than one take in memory.

    Raises RuntimeError where a track does not come out as long as it was planned, because every chapter
    mark after it would be wrong, and OutputError where a take is damaged.
    """
    for track in (tracks,) if isinstance(tracks, Track) else tracks:
        left = track.samples
        for line in track.lines:
            for block in line_blocks(line, store):
                left -= len(block)
                yield block
        if left:
            raise RuntimeError(f"chapter {track.chapter} is {-left:+d} samples longer than the {track.samples} planned")


def line_blocks(line: Line, store: TakeStore) -> Iterator[np.ndarray]:
    """int16 blocks of a line and the pause after it. Raises as `TakeStore.pcm` does."""
    sound = store.pcm(line)
    rate = store.info(line).sample_rate
    yield soften(sound, round(FADE_S * rate))
    yield from _silence(_pause(line, rate))


def soften(sound: np.ndarray, fade: int) -> np.ndarray:
    """int16 [samples] with a straight fade of `fade` samples at both edges; in integers, so alike everywhere."""
    fade = min(fade, len(sound) // 2)
    if not fade:
        return sound
    soft = sound.copy()
    ramp = np.arange(fade, dtype=np.int32)
    soft[:fade] = sound[:fade] * ramp // fade
    soft[-fade:] = sound[-fade:] * ramp[::-1] // fade
    return soft


def soften_stream(pieces: Iterable[np.ndarray], fade: int) -> Iterator[np.ndarray]:
    """As `soften` for int16 pieces of one sound; what may be its end is kept back until it is known whether it is."""
    kept = np.zeros(0, np.int16)
    begun = False
    for piece in pieces:
        kept = np.concatenate((kept, piece))
        if len(kept) <= 2 * fade:  # less than both edges: how long they are is not known yet
            continue
        if not begun:
            kept, begun = _risen(kept, fade), True
        yield kept[: len(kept) - fade]
        kept = kept[len(kept) - fade :]
    yield _risen(kept[::-1], fade)[::-1] if begun else soften(kept, fade)


def _risen(sound: np.ndarray, fade: int) -> np.ndarray:
    """int16 [samples] with a straight fade of its first `fade` samples."""
    risen = sound.copy()
    risen[:fade] = sound[:fade] * np.arange(fade, dtype=np.int32) // max(fade, 1)
    return risen


def _samples(line: Line, store: TakeStore) -> int:
    info = store.info(line)
    return info.samples + _pause(line, info.sample_rate)


def _pause(line: Line, sample_rate: int) -> int:
    if not (math.isfinite(line.pause_s) and line.pause_s >= 0):
        raise ValueError(f"line {line.index} has a pause of {line.pause_s} s")
    return round(line.pause_s * sample_rate)


def _silence(samples: int) -> Iterator[np.ndarray]:
    for start in range(0, samples, _BLOCK):
        yield np.zeros(min(_BLOCK, samples - start), dtype=np.int16)
