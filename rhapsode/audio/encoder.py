"""Sound to packets, in pieces that need nothing of each other, on as many cores as there are.

Knows encoders, through PyAV. Knows no container and no file. A long sound is cut where it is silent; a piece is encoded
with a little of what is before and after it, whose packets are dropped, so that pieces follow each other as if one
encoder had made them. Where it is cut depends on the sound alone: the packets are the same on any number of cores.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.codec.context import Flags as CodecFlags

from rhapsode.machine import cores
from rhapsode.workers import Crew, Gone, Worker

PIECE_S = 30.0  # seconds of a piece at least, twice as many at most
LEAD_S = 0.7  # before a piece: the encoder's bit rate and choice of windows have found their way by then
_TAIL = 4  # frames after a piece: what an encoder looks ahead
_QUIET = 2  # silent frames on both sides of a cut: no window reaches from sound to sound
_BLOCK = 1 << 14  # samples that an encoder gets at a time
_WORTH_S = 240.0  # seconds of sound for which a process is worth its start
_MOST = 16  # processes; more would wait for the one that reads the sound and writes the file
_NICE = 5  # who feeds a card that reads meanwhile goes first
_AHEAD = 4  # pieces for each that are begun before the first of them is done


@dataclass(frozen=True, slots=True)
class Codec:
    """An encoder, and all that it is told."""

    name: str  # FFmpeg's
    sample_format: str
    rate: int  # Hz
    bit_rate: int = 0  # bits per second; 0: lossless
    options: tuple[tuple[str, str], ...] = ()

    def tell(self, context: av.AudioCodecContext) -> None:
        """Set up an encoder that is not open yet."""
        context.sample_rate = self.rate
        context.layout = "mono"
        context.format = self.sample_format
        context.time_base = Fraction(1, self.rate)
        context.flags |= int(CodecFlags.bitexact)
        context.options = dict(self.options)
        if self.bit_rate:
            context.bit_rate = self.bit_rate


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A part of a sound; times in samples of the whole."""

    sound: np.ndarray  # int16 [samples]: from a little before `first` to a little after `end`
    start: int  # of `sound`
    first: int  # where that begins what the piece stands for, at a frame
    end: int | None  # and where it ends; None for the last piece, which has no other after it


# ---------------------------------------------------------------------- cutting


def cut(blocks: Iterable[np.ndarray], rate: int, frame: int) -> Iterator[Piece]:
    """Pieces of one sound of int16 blocks, cut at multiples of `frame` samples; never more than two in memory.

    A cut is made at the first silence after `PIECE_S`, or after twice as long where there is none.
    """
    least, lead = (max(_QUIET, round(seconds * rate / frame)) for seconds in (PIECE_S, LEAD_S))
    held: list[np.ndarray] = []
    start = first = have = 0  # of what is held; of the next piece; how far the sound has come
    for block in blocks:
        held.append(block)
        have += len(block)
        while have >= first + (2 * least + _TAIL) * frame:
            sound = np.concatenate(held)
            end = first + frame * _place(sound[first - start :], least, frame)
            yield Piece(sound[: end + _TAIL * frame - start], start, first, end)
            begin = max(start, end - lead * frame)
            held, start, first = [sound[begin - start :]], begin, end
    yield Piece(np.concatenate(held) if held else np.zeros(0, np.int16), start, first, None)


def _place(sound: np.ndarray, least: int, frame: int) -> int:
    """Frames of `sound` up to the first silence after `least`; twice as many where there is none."""
    frames = sound[(least - _QUIET) * frame : (2 * least + _QUIET) * frame].reshape(-1, frame)
    loud = np.count_nonzero(frames, axis=1)
    for place in range(least):
        if not loud[place : place + 2 * _QUIET].any():
            return least + place
    return 2 * least


# ---------------------------------------------------------------------- encoding

# A packet on its way between processes: its bytes, its time and its duration in samples.
_Plain = tuple[bytes, int, int]
Encoded = Sequence[av.Packet] | Sequence[_Plain]  # a piece


def encode_whole(
    context: av.AudioCodecContext, blocks: Iterable[np.ndarray], rate: int, at: int = 0
) -> Iterator[av.Packet]:
    """The packets of a sound of int16 blocks at `rate` that begins at sample `at`, by one encoder, which may have
    another rate."""
    for block in blocks:
        for begin in range(0, len(block), _BLOCK):
            part = block[np.newaxis, begin : begin + _BLOCK]
            frame = av.AudioFrame.from_ndarray(part, format="s16", layout="mono")
            frame.sample_rate = rate
            frame.time_base = Fraction(1, rate)
            frame.pts = at
            at += part.shape[1]
            yield from context.encode(frame)
    yield from context.encode(None)


def encode_sound(codec: Codec, blocks: Iterable[np.ndarray], samples: int) -> Generator[Encoded]:
    """The packets of a sound of int16 blocks at the encoder's rate, piece by piece; it has about so many samples."""
    context = _encoder(codec)
    context.open()  # which tells how long a frame is
    yield from encode_pieces(codec, cut(blocks, codec.rate, context.frame_size), samples)


def encode_pieces(codec: Codec, pieces: Iterator[Piece], samples: int) -> Generator[Encoded]:
    """The packets of each piece of a sound of about so many samples.

    What says where a sound begins and ends is beside the bytes of its first and of its last packet, and does not
    travel: those two pieces are encoded here.
    """
    first = next(pieces)
    yield list(_kept(_encoder(codec), first))
    if first.end is None:
        return
    last: list[Piece] = []
    between = _but_last(pieces, last)
    workers = min(cores(), _MOST, int(samples / codec.rate / _WORTH_S))
    yield from _side_by_side(codec, between, workers) if workers > 1 else (_encoded(codec, one) for one in between)
    yield list(_kept(_encoder(codec), last[0]))


def packets_of(encoded: Iterable[Encoded], rate: int) -> Iterator[av.Packet]:
    """Pieces that were encoded, one after the other, as a container takes them."""
    base = Fraction(1, rate)
    for piece in encoded:
        for packet in piece:
            yield packet if isinstance(packet, av.Packet) else _packet(*packet, base)


def _but_last(pieces: Iterable[Piece], last: list[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        if piece.end is None:
            last.append(piece)
        else:
            yield piece


def _encoder(codec: Codec) -> av.AudioCodecContext:
    context = av.CodecContext.create(codec.name, "w")
    assert isinstance(context, av.AudioCodecContext)
    codec.tell(context)
    return context


def _encoded(codec: Codec, piece: Piece) -> list[_Plain]:
    return [(bytes(packet), packet.pts or 0, packet.duration or 0) for packet in _kept(_encoder(codec), piece)]


def _kept(context: av.AudioCodecContext, piece: Piece) -> Iterator[av.Packet]:
    """Packets of what a piece stands for."""
    padding: int | None = None
    for packet in encode_whole(context, [piece.sound], context.sample_rate, piece.start):
        if packet.pts is None:
            raise RuntimeError(f"{context.name} made a packet without a time")
        if padding is None:
            padding = piece.start - packet.pts  # what an encoder puts before its first sample
        begin = packet.pts + padding
        if piece.first <= begin and (piece.end is None or begin < piece.end):
            yield packet


def _packet(data: bytes, pts: int, duration: int, base: Fraction) -> av.Packet:
    packet = av.Packet(data)
    packet.pts = packet.dts = pts
    packet.duration = duration
    packet.time_base = base
    packet.is_keyframe = True
    return packet


# ---------------------------------------------------------------------- in processes


def _side_by_side(codec: Codec, pieces: Iterator[Piece], workers: int) -> Iterator[list[_Plain]]:
    """Packets of each piece, in order. What a process that dies had to do is done here, and all the rest."""
    try:
        crew = Crew([Worker("rhapsode.audio.encoder:_work", codec, {})] * workers)
    except OSError:  # no more processes here
        yield from (_encoded(codec, piece) for piece in pieces)
        return
    free = deque(range(workers))
    given: dict[int, Piece] = {}
    ready: dict[int, list[_Plain]] = {}
    sent = due = 0
    try:
        piece = next(pieces, None)
        while piece or due < sent:
            # One that is slow does not make the others pile up what they have done.
            while free and piece and sent - due < _AHEAD * workers:
                given[sent] = piece
                crew.send(free.popleft(), (sent, piece))
                sent, piece = sent + 1, next(pieces, None)  # so that one is at hand when somebody is free
            if due in ready:
                yield ready.pop(due)
                due += 1
                continue
            worker, said = crew.hear()
            if isinstance(said, Gone):
                break
            number, ready[number] = said
            del given[number]
            free.append(worker)
    finally:
        crew.end()
    for number in range(due, sent):
        yield ready[number] if number in ready else _encoded(codec, given[number])
    while piece:
        yield _encoded(codec, piece)
        piece = next(pieces, None)


def _work(codec: Codec, pieces: Iterable[tuple[int, Piece]], say: Callable[[Any], None]) -> None:
    with contextlib.suppress(AttributeError, OSError):
        os.nice(_NICE)
    for number, piece in pieces:
        say((number, _encoded(codec, piece)))
