"""What a file says of itself: title, author, chapter marks, cover, and how ID3 and Vorbis comments hold them.

Knows metadata. Knows no sound and no encoder. ID3 is written here because FFmpeg counts the chapters of a
table of contents in one byte, and Vorbis chapters because it rounds their seconds and milliseconds apart.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from rhapsode.audio.files import clip_text
from rhapsode.audio.picture import Picture

TITLE_BYTES = 4096  # a QuickTime chapter title could have 65535; no player shows that much
_TOC_ENTRIES = 255  # one byte in ID3
_NO_OFFSET = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Tags:
    """What players show; an empty field is left out."""

    title: str
    author: str = ""
    narrator: str = ""  # kept as the composer, where audiobook players look for it
    genre: str = "Audiobook"
    comment: str = ""

    def clean(self) -> dict[str, str]:
        """The tags under FFmpeg's names, fit for any container."""
        named = {
            "title": self.title,
            "album": self.title,
            "artist": self.author,
            "album_artist": self.author,
            "composer": self.narrator,
            "genre": self.genre,
            "comment": self.comment,
        }
        texts = {name: clean_text(text) for name, text in named.items()}
        return {name: text for name, text in texts.items() if text}


@dataclass(frozen=True, slots=True)
class Mark:
    """A chapter of the finished file, from sample `start` to before sample `end`."""

    title: str
    start: int
    end: int


def clean_text(text: str) -> str:
    """`text` without what breaks containers: NUL and other controls, lone surrogates, excessive length."""
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", text.replace("\r\n", "\n").replace("\r", "\n"))
    return clip_text(re.sub(r"[\ud800-\udfff]", "\ufffd", text), TITLE_BYTES).strip()


def chapter_marks(tracks: Sequence[tuple[str, int]]) -> list[Mark]:
    """Marks for tracks of (title, samples); none for an empty track, nor for a single one without a title."""
    marks: list[Mark] = []
    start = 0
    for number, (title, samples) in enumerate(tracks, 1):
        if samples < 0:
            raise ValueError(f"track {number} has {samples} samples")
        if samples and (len(tracks) > 1 or clean_text(title)):
            marks.append(Mark(clean_text(title) or str(number), start, start + samples))
        start += samples
    return marks


def _milliseconds(samples: int, sample_rate: int) -> int:
    return (2000 * samples + sample_rate) // (2 * sample_rate)


def vorbis_comments(marks: Sequence[Mark], sample_rate: int) -> dict[str, str]:
    """The chapter marks as `CHAPTER001=00:00:00.000` and `CHAPTER001NAME`, for Ogg and FLAC."""
    comments: dict[str, str] = {}
    for number, mark in enumerate(marks, 1):
        seconds, thousandths = divmod(_milliseconds(mark.start, sample_rate), 1000)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        comments[f"CHAPTER{number:03d}"] = f"{hours:02d}:{minutes:02d}:{seconds:02d}.{thousandths:03d}"
        comments[f"CHAPTER{number:03d}NAME"] = mark.title
    return comments


def vorbis_picture(picture: Picture) -> dict[str, str]:
    """The cover as Ogg holds it."""
    return {"METADATA_BLOCK_PICTURE": base64.b64encode(picture.flac_block()).decode()}


def id3_tag(tags: Tags, marks: Sequence[Mark], sample_rate: int, picture: Picture | None) -> bytes:
    """An ID3v2.3 tag with the chapter frames addendum: CHAP for each mark and CTOC over them.

    2.3 because readers disagree on how 2.4 counts the bytes of a frame within a frame.
    """
    names = {
        "title": b"TIT2",
        "album": b"TALB",
        "artist": b"TPE1",
        "album_artist": b"TPE2",
        "composer": b"TCOM",
        "genre": b"TCON",
    }
    texts = tags.clean()
    frames = [_frame(name, _text(texts[key])) for key, name in names.items() if key in texts]
    if "comment" in texts:
        frames.append(_frame(b"COMM", b"\x01und" + _utf16("") + b"\x00\x00" + _utf16(texts["comment"])))
    if picture:
        frames.append(_frame(b"APIC", b"\x00" + picture.mime.encode() + b"\x00\x03\x00" + picture.data))
    chapters = [b"chp%d" % number for number in range(len(marks))]
    frames += _tables(chapters)
    for name, mark in zip(chapters, marks, strict=True):
        times = [_milliseconds(place, sample_rate) for place in (mark.start, mark.end)]
        where = struct.pack(">IIII", *times, _NO_OFFSET, _NO_OFFSET)
        frames.append(_frame(b"CHAP", name + b"\x00" + where + _frame(b"TIT2", _text(mark.title))))
    body = b"".join(frames)
    return b"ID3\x03\x00\x00" + _synchsafe(len(body)) + body


def _tables(names: list[bytes]) -> list[bytes]:
    """The table of contents; more entries than a table can count go into tables of their own below it."""
    if not names:
        return []
    tables: list[bytes] = []
    depth = 0
    while len(names) > _TOC_ENTRIES:
        depth += 1
        groups = [names[at : at + _TOC_ENTRIES] for at in range(0, len(names), _TOC_ENTRIES)]
        names = [b"toc%d.%d" % (depth, number) for number in range(len(groups))]
        tables += [_table(name, 0b01, group) for name, group in zip(names, groups, strict=True)]
    return [_table(b"toc", 0b11, names), *tables]


def _table(name: bytes, flags: int, names: list[bytes]) -> bytes:
    """CTOC: bit 0 of `flags` says ordered, bit 1 top level."""
    return _frame(b"CTOC", name + b"\x00" + bytes([flags, len(names)]) + b"".join(entry + b"\x00" for entry in names))


def _text(text: str) -> bytes:
    return b"\x01" + _utf16(text)


def _utf16(text: str) -> bytes:
    return b"\xff\xfe" + text.encode("utf-16-le")


def _frame(name: bytes, body: bytes) -> bytes:
    return name + struct.pack(">I", len(body)) + b"\x00\x00" + body


def _synchsafe(number: int) -> bytes:
    """Four bytes of seven bits, as ID3 counts a whole tag. Raises ValueError from 256 MB."""
    if number >= 1 << 28:
        raise ValueError(f"an ID3 tag of {number} bytes is longer than the format can say")
    return bytes((number >> shift) & 0x7F for shift in (21, 14, 7, 0))
