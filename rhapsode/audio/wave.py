"""Sound as 16-bit mono PCM and the WAV header before it.

Knows samples and RIFF. Knows no encoder and no lines.
"""

from __future__ import annotations

import struct

import numpy as np

SAMPLE_BYTES = 2
_FULL_SCALE = 32768.0
_RIFF_LIMIT = 2**32 - 1
_ENDLESS = (_RIFF_LIMIT - 36) // SAMPLE_BYTES  # 36: what the header says besides


def to_pcm(audio: np.ndarray) -> np.ndarray:
    """float [samples], full scale 1, as int16 [samples].

    Clips, rounds half to even and adds no dither, so that the same sound gives the same bytes everywhere.
    Raises ValueError for anything but one dimension of finite floats.
    """
    if not isinstance(audio, np.ndarray) or audio.ndim != 1 or audio.dtype.kind != "f":
        shape = f"{audio.dtype} {audio.shape}" if isinstance(audio, np.ndarray) else type(audio).__name__
        raise ValueError(f"a sound is one dimension of floats, not {shape}")
    # The extremes say whether all is finite, without a flag for every sample.
    if len(audio) and not (np.isfinite(audio.min()) and np.isfinite(audio.max())):
        where = int(np.flatnonzero(~np.isfinite(audio))[0])
        raise ValueError(f"sample {where} of {len(audio)} is {audio[where]}, not a finite number")
    # Full scale is a power of two: single precision loses nothing by it.
    scaled = np.multiply(audio, _FULL_SCALE, dtype=np.result_type(audio.dtype, np.float32))
    np.clip(scaled, -_FULL_SCALE, _FULL_SCALE - 1, out=scaled)
    return np.rint(scaled, out=scaled).astype("<i2")


def wav_header(sample_rate: int, samples: int | None) -> bytes:
    """The bytes before `samples` mono 16-bit samples: RIFF, or RF64 (EBU Tech 3306) above 4 GB.

    None: nobody knows yet how many; the header says as many as there can be, which players take for "to the end".
    """
    if samples is None:
        samples = _ENDLESS
    data = samples * SAMPLE_BYTES
    layout = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate, sample_rate * SAMPLE_BYTES, SAMPLE_BYTES, 16)
    size = 4 + len(layout) + 8 + data  # what follows the size field itself
    if size <= _RIFF_LIMIT:
        return struct.pack("<4sI4s", b"RIFF", size, b"WAVE") + layout + struct.pack("<4sI", b"data", data)
    wide = struct.pack("<4sIQQQI", b"ds64", 28, size + 36, data, samples, 0)  # 36: this chunk
    head = struct.pack("<4sI4s", b"RF64", _RIFF_LIMIT, b"WAVE")
    return head + wide + layout + struct.pack("<4sI", b"data", _RIFF_LIMIT)
