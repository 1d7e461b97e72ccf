"""PCM and the WAV header."""

from __future__ import annotations

import io
import struct
import wave

import numpy as np
import pytest

from rhapsode.audio.wave import to_pcm, wav_header


def test_rounds_half_to_even_and_clips() -> None:
    levels = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 40_000, -40_000, 32_767], dtype=np.float32) / 32_768
    assert to_pcm(levels).tolist() == [0, 2, 2, 0, -2, 32_767, -32_768, 32_767]


def test_pcm_comes_back_from_floats_unchanged() -> None:
    every = np.arange(-32_768, 32_768).astype(np.int16)
    assert (to_pcm(every.astype(np.float32) / 32_768) == every).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_refuses_what_is_not_finite(bad: float) -> None:
    with pytest.raises(ValueError, match="sample 2 of 4"):
        to_pcm(np.array([0, 0, bad, 0], dtype=np.float32))


@pytest.mark.parametrize("bad", [np.zeros((1, 4), np.float32), np.zeros(4, np.int16), np.float32(0), [0.0, 0.1]])
def test_refuses_what_is_not_one_dimension_of_floats(bad: object) -> None:
    with pytest.raises(ValueError, match="one dimension of floats"):
        to_pcm(bad)  # type: ignore[arg-type]


def test_header_is_read_by_others() -> None:
    pcm = np.arange(100, dtype="<i2")
    with wave.open(io.BytesIO(wav_header(24_000, 100) + pcm.tobytes())) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        assert file.readframes(1000) == pcm.tobytes()


def test_header_says_rf64_just_above_four_gigabytes() -> None:
    most = (2**32 - 1 - 36) // 2
    assert wav_header(24_000, most)[:4] == b"RIFF"
    assert struct.unpack("<I", wav_header(24_000, most)[4:8])[0] == 36 + 2 * most
    wide = wav_header(24_000, most + 1)
    assert (wide[:4], wide[8:16], wide[-8:]) == (b"RF64", b"WAVEds64", b"data\xff\xff\xff\xff")
    riff, data, samples = struct.unpack("<QQQ", wide[20:44])
    assert (riff, data, samples) == (len(wide) - 8 + 2 * (most + 1), 2 * (most + 1), most + 1)
