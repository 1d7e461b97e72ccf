"""Small sounds, lines and covers for the tests of `rhapsode.audio`."""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Callable
from fractions import Fraction

import av
import numpy as np
import pytest
from av.codec.context import Flags

from rhapsode.types import Line, Take

RATE = 24_000


@pytest.fixture
def rate() -> int:
    return RATE


@pytest.fixture
def make_line() -> Callable[..., Line]:
    def make(index: int, chapter: int = 1, text: str = "", key: int | None = None, pause_s: float = 0.0) -> Line:
        text = text or f"Line {index}."
        return Line(index, chapter, text, 0xF000_0000_0000_0000 + index if key is None else key, pause_s)

    return make


@pytest.fixture
def make_take(make_line: Callable[..., Line]) -> Callable[..., Take]:
    def make(line: Line | int, samples: int = 2_400, level: float = 0.25, **more: object) -> Take:
        line = make_line(line) if isinstance(line, int) else line
        rng = np.random.default_rng(line.index)
        audio = (level * rng.uniform(-1, 1, samples)).astype(np.float32)
        values: dict[str, object] = {"sample_rate": RATE, "frames": 1 + samples // 1920, "seed": 7, **more}
        return Take(line, audio, **values)  # type: ignore[arg-type]

    return make


@pytest.fixture
def tone() -> Callable[[int], np.ndarray]:
    """int16 [samples] of something that an encoder has to work for."""

    def make(samples: int) -> np.ndarray:
        at = np.arange(samples) / RATE
        voice = 9000 * np.sin(2 * np.pi * 180 * at) * np.sin(2 * np.pi * 1.3 * at)
        return np.rint(voice + np.random.default_rng(1).normal(0, 200, samples)).astype(np.int16)

    return make


@pytest.fixture(params=["png", "jpeg"])
def cover(request: pytest.FixtureRequest) -> bytes:
    if request.param == "jpeg":
        encoder = av.CodecContext.create("mjpeg", "w")
        encoder.width = encoder.height = 8
        encoder.pix_fmt = "yuvj420p"
        encoder.time_base = Fraction(1, 25)
        encoder.flags |= int(Flags.bitexact)
        grey = av.VideoFrame(8, 8, "yuvj420p")
        for plane in grey.planes:
            plane.update(b"\x80" * plane.buffer_size)
        return bytes(encoder.encode(grey)[0])

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", 5, 3, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * 15) * 3)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Call it with the number of bytes that still go onto the disk."""

    def fill(left: int) -> None:
        real = os.write

        def write(descriptor: int, data: bytes) -> int:
            nonlocal left
            if left <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = real(descriptor, bytes(data)[:left])
            left -= written
            return written

        monkeypatch.setattr("rhapsode.audio.files.os.write", write)

    return fill
