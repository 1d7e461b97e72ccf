"""What kind of picture a cover is, and its size, read from its first bytes.

Knows the outside of JPEG and PNG. Decodes nothing, so a damaged cover is passed on as it is.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

MOST_BYTES = 2**24 - 1024  # a FLAC metadata block, the narrowest of the containers, counts in 24 bits


@dataclass(frozen=True, slots=True)
class Picture:
    data: bytes
    mime: str
    codec: str  # as FFmpeg calls it
    width: int  # pixels
    height: int

    def flac_block(self) -> bytes:
        """The picture as FLAC and Ogg comments hold it: a front cover with no description."""
        mime = self.mime.encode()
        sizes = struct.pack(">IIIII", self.width, self.height, 24, 0, len(self.data))
        return struct.pack(">II", 3, len(mime)) + mime + struct.pack(">I", 0) + sizes + self.data


def read_picture(data: bytes | None) -> Picture | None:
    """The cover as a Picture, or None where `cover_problem` has something to say of it or there is none."""
    if not data or len(data) > MOST_BYTES:
        return None
    for mime, codec, measure in (("image/png", "png", _png_size), ("image/jpeg", "mjpeg", _jpeg_size)):
        size = measure(data)
        if size and min(size) > 0:
            return Picture(data, mime, codec, *size)
    return None


def cover_problem(data: bytes | None) -> str:
    """A sentence on why `write_audiobook` will leave the cover out; "" where it will not or there is none."""
    if not data or read_picture(data):
        return ""
    if len(data) > MOST_BYTES:
        return f"The cover is left out, because it has {len(data)} bytes and players take {MOST_BYTES} at most."
    return "The cover is left out, because it is neither JPEG nor PNG."


def _png_size(data: bytes) -> tuple[int, int] | None:
    if data[:8] != b"\x89PNG\r\n\x1a\n" or data[12:16] != b"IHDR" or len(data) < 24:
        return None
    width, height = struct.unpack(">II", data[16:24])
    return (width, height) if max(width, height) < 2**31 else None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """From the first start-of-frame segment."""
    if data[:3] != b"\xff\xd8\xff":
        return None
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        elif marker == 0xDA:
            return None
        else:
            at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return None
