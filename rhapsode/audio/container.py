"""The file that a player opens: PCM in, an audiobook with chapters, tags and cover out.

Knows formats and containers, through PyAV. Knows no lines and no store; the blocks may come from anywhere.
The same input gives the same bytes, however it is cut into blocks and on however many cores it is encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.container import OutputContainer
from av.stream import Disposition

from rhapsode.audio.encoder import Codec, Encoded, encode_sound, encode_whole, packets_of
from rhapsode.audio.files import PartFile
from rhapsode.audio.marks import Mark, Tags, chapter_marks, id3_tag, vorbis_comments, vorbis_picture
from rhapsode.audio.picture import Picture, read_picture
from rhapsode.audio.wave import SAMPLE_BYTES, to_pcm, wav_header
from rhapsode.errors import OutputError, UserError

Progress = Callable[[int, int], None]  # samples taken so far, samples in all

_BLOCK = 1 << 14  # samples that are checked and written at a time
_CHPL_MOST = 255  # marks, and bytes of a title, that Nero's list of chapters can count


@dataclass(frozen=True, slots=True)
class _Format:
    muxer: str  # FFmpeg's name; "" for the one we write ourselves
    codec: str = ""
    sample_format: str = "s16"
    bit_rate: int = 0  # bits per second for speech up to 32 kHz; 0: lossless
    share: float = 1.0  # of the PCM's size, where lossless
    options: tuple[tuple[str, str], ...] = ()  # for the encoder
    pieces: bool = True  # whether packets may come from several encoders


# On voice-like sound the other coder, the default, took five times as long and up to a fifth more bytes than asked
# for, at the same distance from the original.
_M4B = _Format("mp4", "aac", "fltp", 64_000, options=(("aac_coder", "fast"),))
FORMATS = {
    ".m4b": _M4B,
    ".m4a": _M4B,
    # No frame lends bits to the next, so that each stands alone. On speech of 101 s that cost nothing: 1.4% less noise.
    ".mp3": _Format("mp3", "libmp3lame", "s16p", 64_000, options=(("reservoir", "0"),)),
    ".opus": _Format("opus", "libopus", "s16", 32_000),
    ".flac": _Format("flac", "flac", share=0.8, pieces=False),  # its frames are numbered, and it is fast
    ".wav": _Format(""),
}


def check_suffix(path: Path) -> str:
    """The suffix of `path` in lower case. Raises UserError with those that exist where it is not one of them."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        said = f"ends in {path.suffix!r}" if suffix else "has no suffix"
        raise UserError(f"{path} {said}; an audiobook ends in one of {', '.join(FORMATS)}.")
    return suffix


def estimate_bytes(suffix: str, seconds: float, sample_rate: int = 24_000) -> int:
    """About how many bytes a file of `seconds` takes, a little more rather than less; its cover not counted."""
    form = FORMATS[suffix.lower()]
    if form.bit_rate:
        return round(_bit_rate(form, sample_rate) / 8 * seconds * 1.05) + 100_000
    return round(sample_rate * SAMPLE_BYTES * seconds * form.share) + 100_000


def codec_in_pieces(path: Path, sample_rate: int) -> Codec | None:
    """The encoder of a file whose sound may be encoded in pieces, before anything else of it is known."""
    form = FORMATS[check_suffix(path)]
    codec = _codec(form, sample_rate) if form.muxer and form.pieces else None
    return codec if codec is not None and codec.rate == sample_rate else None  # resampling knows no pieces


def write_audiobook(
    path: Path,
    *,
    sample_rate: int,
    tracks: Sequence[tuple[str, int]],
    blocks: Iterable[np.ndarray],
    encoded: Iterable[Encoded] | None = None,
    tags: Tags,
    cover: bytes | None = None,
    progress: Progress | None = None,
) -> None:
    """Writes `blocks` of int16 [samples] to `path` in the format of its suffix, with a chapter for each track.

    `tracks` are (title, samples); their samples are those of all blocks together. An empty track gets no
    mark. A WAV holds neither tags, marks nor cover. `path` appears when it is whole, in place of what was there.
    A cover of which `cover_problem` has something to say is left out. Blocks are left alone where
    there is what the encoder of `codec_in_pieces` has `encoded` of them.
    Raises UserError for the suffix, OutputError for the disk, ValueError for blocks that are not as described.
    """
    form = FORMATS[check_suffix(path)]
    total = sum(samples for _, samples in tracks)
    marks = chapter_marks(tracks)
    if not total:
        raise OutputError(f"{path} is not written, because there is nothing to hear in it.")
    sound = _checked(blocks, total)
    with PartFile(path) as part:
        try:
            if form.muxer:
                written = _Encoding(part, form, sample_rate, marks, tags, read_picture(cover)).run(
                    sound, total, encoded
                )
            else:
                written = _plain(part, sample_rate, sound, total)
            with closing(written):  # processes that encode end on every way out
                for done in written:
                    if progress:
                        progress(done, total)
        except Exception:
            part.check()  # where the disk was the reason, the encoder's own complaint is only a consequence
            raise
        part.commit()


def write_sound(path: Path, audio: np.ndarray, sample_rate: int, tags: Tags | None = None) -> None:
    """Writes float [samples], full scale 1, to `path` without chapters. Raises as `write_audiobook` does."""
    pcm = to_pcm(audio)
    write_audiobook(path, sample_rate=sample_rate, tracks=[("", len(pcm))], blocks=[pcm], tags=tags or Tags(path.stem))


def rechunk(blocks: Iterable[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """The same samples in blocks of `size`, the last one shorter."""
    kept: list[np.ndarray] = []
    have = 0
    for block in blocks:
        while len(block):
            piece, block = block[: size - have], block[size - have :]
            kept.append(piece)
            have += len(piece)
            if have == size:
                yield np.concatenate(kept)
                kept, have = [], 0
    if kept:
        yield np.concatenate(kept)


def _plain(part: PartFile, rate: int, sound: Iterable[np.ndarray], total: int) -> Generator[int]:
    """Writes a WAV; yields how many samples are written, time and again."""
    part.write(wav_header(rate, total))
    done = 0
    for block in rechunk(sound, _BLOCK):
        part.write(np.ascontiguousarray(block, "<i2").view(np.uint8).data)
        yield (done := done + len(block))


def _checked(blocks: Iterable[np.ndarray], total: int) -> Iterator[np.ndarray]:
    """The blocks, found to be int16 and `total` samples together: otherwise the chapter marks would be wrong."""
    seen = 0
    for block in blocks:
        if block.ndim != 1 or block.dtype != np.int16:
            raise ValueError(f"a block is one dimension of int16, not {block.dtype} {block.shape}")
        if seen + len(block) > total:
            raise ValueError(f"the blocks have more than the {total} samples of the tracks")
        seen += len(block)
        yield block
    if seen != total:
        raise ValueError(f"the blocks have {seen} samples, the tracks {total}")


def _codec(form: _Format, sample_rate: int) -> Codec:
    """An encoder at a sample rate, or at 48 kHz where it knows only some and this is none of them."""
    known = av.Codec(form.codec, "w").audio_rates
    rate = sample_rate if not known or sample_rate in known else 48_000
    bit_rate = _bit_rate(form, sample_rate) if form.bit_rate else 0
    return Codec(form.codec, form.sample_format, rate, bit_rate, form.options)


def _bit_rate(form: _Format, sample_rate: int) -> int:
    return form.bit_rate if sample_rate <= 32_000 else form.bit_rate * 3 // 2


class _Encoding:
    """One encoder and one container over a part file."""

    def __init__(
        self, part: PartFile, form: _Format, rate: int, marks: list[Mark], tags: Tags, picture: Picture | None
    ) -> None:
        self._path = part.path
        self._rate = rate
        self._picture = picture
        # No dates, versions or random serials; and a packet is no reason to write.
        options = {"fflags": "+bitexact", "flush_packets": "0"}
        if form.muxer == "mp3":
            options["id3v2_version"] = "0"
            part.write(id3_tag(tags, marks, rate, picture))
            part.origin = part.tell()
        elif form.muxer == "mp4":
            options |= _mp4_options(part.path, rate, marks)
        self._container: OutputContainer = av.open(part, "w", format=form.muxer, container_options=options)
        self._stream = self._add_stream(form)
        self._describe(form, marks, tags)

    def _add_stream(self, form: _Format) -> av.AudioStream:
        self._codec = _codec(form, self._rate)
        stream = self._container.add_stream(form.codec, rate=self._codec.rate)
        assert isinstance(stream, av.AudioStream)
        self._codec.tell(stream.codec_context)
        return stream

    def _describe(self, form: _Format, marks: list[Mark], tags: Tags) -> None:
        """Tags, marks and cover, each in the way of the container."""
        metadata = self._container.metadata
        if form.muxer != "mp3":
            metadata.update(tags.clean())
        if form.muxer == "mp4":
            metadata["media_type"] = "2"  # audiobook, to iTunes and its heirs
            base = Fraction(1, self._rate)
            self._container.set_chapters(
                [
                    {"id": i, "start": m.start, "end": m.end, "time_base": base, "metadata": {"title": m.title}}
                    for i, m in enumerate(marks)
                ]
            )
        if form.muxer in ("opus", "flac"):
            metadata.update(vorbis_comments(marks, self._rate))
        if form.muxer == "opus" and self._picture:
            metadata.update(vorbis_picture(self._picture))
        if form.muxer in ("mp4", "flac") and self._picture:
            self._attach(self._picture)

    def _attach(self, picture: Picture) -> None:
        """The cover as a second stream of one packet, which both muxers want before the sound."""
        stream = self._container.add_mux_stream(picture.codec, width=picture.width, height=picture.height)
        stream.disposition = Disposition.attached_pic
        stream.time_base = Fraction(1, 90_000)
        packet = av.Packet(picture.data)
        packet.stream = stream
        packet.pts = packet.dts = 0
        packet.time_base = Fraction(1, 90_000)
        packet.is_keyframe = True
        self._container.mux(packet)

    def run(self, blocks: Iterable[np.ndarray], samples: int, encoded: Iterable[Encoded] | None) -> Generator[int]:
        """Encodes all blocks and closes the container; yields how many of the samples are written, time and again.

        `encoded`: what is there of them already, or will be.

        After an error the container is left as it is, because closing it would write to the part again.
        """
        self._container.start_encoding()
        if encoded is None and codec_in_pieces(self._path, self._rate) is not None:
            encoded = encode_sound(self._codec, blocks, samples)
        if encoded is not None:
            packets = packets_of(encoded, self._codec.rate)
        else:
            packets = encode_whole(self._stream.codec_context, rechunk(blocks, _BLOCK), self._rate)
        tell = step = self._codec.rate // 2  # the encoder's samples
        for packet in packets:
            reached = packet.pts or 0
            packet.stream = self._stream
            self._container.mux(packet)
            if reached >= tell:
                tell = reached + step
                yield min(samples, reached * self._rate // self._codec.rate)
        self._container.close()
        yield samples


def _mp4_options(path: Path, rate: int, marks: list[Mark]) -> dict[str, str]:
    """Chapter times in samples rather than milliseconds, and Nero's list only where it can hold every mark."""
    options = {"movie_timescale": str(rate), "brand": "M4B " if path.suffix.lower() == ".m4b" else "M4A "}
    if len(marks) > _CHPL_MOST or any(len(mark.title.encode()) > _CHPL_MOST for mark in marks):
        options["movflags"] = "disable_chpl"
    return options
