"""A picture of a sound: its waveform above its spectrogram, as one SVG file that needs nothing else.

Knows samples, Fourier transforms, colours and the least of PNG. Knows no take, no voice and no file.
"""

from __future__ import annotations

import base64
import functools
import math
import struct
import zlib
from xml.sax.saxutils import escape

import numpy as np

WIDTH, HEIGHT = 900, 420  # of the picture, in its own units
_LEFT, _RIGHT = 54, 876
_WAVE_TOP, _WAVE_BOTTOM = 62, 142
_BAND_TOP, _BAND_BOTTOM = 152, 376
_SERIF = "Georgia,'Iowan Old Style','Noto Serif',serif"
_SANS = "system-ui,-apple-system,'Segoe UI','Noto Sans',sans-serif"
_BACK, _INK, _QUIET = "#0f1220", "#f3eee3", "#98a0ba"

COLUMNS, ROWS = 600, 168  # of the spectrogram
_TOP_HZ = 12_000.0
_RANGE_DB = 80.0
_WINDOW_S = 0.032  # long enough to part the harmonics of most voices, short enough for the puffs of a "t"
_MOST_FRAMES = 24  # transforms for one column: a long sound is looked at here and there
_BATCH = 60  # columns that are computed at a time
_LEVELS = 72  # colours: more are not seen and make the file larger
_TICKS_KHZ = (0, 0.5, 1, 2, 4, 6, 8, 12)
_STEPS_S = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
_MOST_TICKS = 12
_TITLE_CELLS = 92  # letters that fit on the line; wide ones count twice


def draw(sound: np.ndarray, sample_rate: int, title: str) -> str:
    """An SVG of 900 x 420: int16 or float (within [-1, 1]) samples [samples] under the words that they say.

    Raises ValueError for a sound that is not one dimension or has no samples.
    """
    wave = np.asarray(sound)
    if wave.ndim != 1 or not len(wave):
        raise ValueError(f"a picture needs one dimension of samples, not {wave.shape}")
    wave = wave.astype(np.float32) / (32768 if wave.dtype.kind == "i" else 1)
    seconds, top = len(wave) / sample_rate, min(_TOP_HZ, sample_rate / 2)
    image = base64.b64encode(_png(_levels(wave, sample_rate, top), palette(_LEVELS))).decode()
    said = escape(_fit(title))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        f' role="img" aria-label="Waveform and spectrogram">',
        f"<title>{said}</title>",
        _definitions(),
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="14" fill="{_BACK}"/>',
        f'<text x="{_LEFT}" y="38" font-family="{_SERIF}" font-size="18" fill="{_INK}">{said}</text>',
        f'<path d="M{_LEFT} {_middle()}H{_RIGHT}" stroke="{_QUIET}" stroke-opacity=".35"/>',
        *_waveform(wave),
        f'<image x="{_LEFT}" y="{_BAND_TOP}" width="{_RIGHT - _LEFT}" height="{_BAND_BOTTOM - _BAND_TOP}"'
        f' preserveAspectRatio="none" clip-path="url(#band)" href="data:image/png;base64,{image}"/>',
        f'<g font-family="{_SANS}" font-size="11.5" fill="{_QUIET}">',
        *_time_axis(seconds),
        *_pitch_axis(top),
        "</g>",
        "</svg>\n",
    ])  # fmt: skip


# ---------------------------------------------------------------------- sound to numbers


def spectrogram(wave: np.ndarray, sample_rate: int, top: float) -> np.ndarray:
    """Power [ROWS, COLUMNS]: rows from 0 Hz to `top` at even steps of mel, columns over the whole of float `wave`."""
    size = 1 << round(math.log2(_WINDOW_S * sample_rate))
    window = np.hanning(size + 2)[1:-1].astype(np.float32)
    weights = _mel_weights(sample_rate, 2 * size, top)
    span = len(wave) / COLUMNS
    frames = min(_MOST_FRAMES, max(1, math.ceil(span / (size / 4))))
    centres = (np.arange(COLUMNS)[:, None] + (np.arange(frames) + 0.5) / frames) * span
    padded = np.concatenate([np.zeros(size // 2, np.float32), wave, np.zeros(size, np.float32)])
    power = np.empty((ROWS, COLUMNS), np.float32)
    for first in range(0, COLUMNS, _BATCH):
        starts = centres[first : first + _BATCH].astype(np.int64)
        pieces = padded[starts[:, :, None] + np.arange(size)]
        # An offset is no sound, and would be a bright line at 0 Hz.
        pieces -= (pieces @ (window / window.sum()))[:, :, None]
        spectrum = np.abs(np.fft.rfft(pieces * window, 2 * size)) ** 2
        power[:, first : first + _BATCH] = weights @ spectrum.mean(axis=1).T
    return power


def _mel(hertz: float | np.ndarray) -> np.ndarray:
    return 2595 * np.log10(1 + np.asarray(hertz) / 700)


def _mel_weights(sample_rate: int, size: int, top: float) -> np.ndarray:
    """[ROWS, size / 2 + 1]: each row a triangle of bins around its frequency that sums to 1."""
    hertz = 700 * (10 ** (np.linspace(0, _mel(top), ROWS) / 2595) - 1)
    bins = np.arange(size // 2 + 1) * sample_rate / size
    reach = np.maximum(np.gradient(hertz), sample_rate / size)[:, None]
    weights = np.maximum(0, 1 - np.abs(bins - hertz[:, None]) / reach)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def _levels(wave: np.ndarray, sample_rate: int, top: float) -> np.ndarray:
    """uint8 [ROWS, COLUMNS], the highest frequency first: 0 for 80 dB below the loudest place or less."""
    power = spectrogram(wave, sample_rate, top)
    decibels = 10 * np.log10(np.maximum(power / max(float(power.max()), 1e-9), 10 ** (-_RANGE_DB / 10)))
    return np.rint((decibels / _RANGE_DB + 1) * (_LEVELS - 1)).astype(np.uint8)[::-1]


# ---------------------------------------------------------------------- numbers to colours


@functools.cache
def palette(count: int) -> np.ndarray:
    """uint8 [count, 3]: night blue over violet and orange to pale yellow, in steps that look equally large.

    Lightness rises in a straight line in Oklab (B. Ottosson, 2020); the path is then cut into equal lengths.
    """
    t = np.linspace(0, 1, 1024)
    lightness = 0.17 + 0.78 * t
    hue = np.radians(np.interp(t, [0, 0.28, 0.5, 0.72, 1], [275, 308, 368, 412, 464]))
    chroma = np.interp(t, [0, 0.25, 0.5, 0.75, 1], [0.05, 0.16, 0.19, 0.16, 0.10])
    low, high = np.zeros_like(t), chroma
    for _ in range(12):  # as colourful as a screen can show
        middle = (low + high) / 2
        linear = _oklab_to_linear(lightness, middle, hue)
        fits = ((linear >= 0) & (linear <= 1)).all(axis=1)
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    path = np.stack([lightness, low * np.cos(hue), low * np.sin(hue)], axis=1)
    length = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    even = np.interp(np.linspace(0, length[-1], count), length, t)
    linear = np.clip(_oklab_to_linear(*(np.interp(even, t, part) for part in (lightness, low, hue))), 0, 1)
    shown = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.rint(shown * 255).astype(np.uint8)


def _oklab_to_linear(lightness: np.ndarray, chroma: np.ndarray, hue: np.ndarray) -> np.ndarray:
    """Linear sRGB [n, 3]; outside [0, 1] where no screen can show the colour."""
    a, b = chroma * np.cos(hue), chroma * np.sin(hue)
    cones = np.stack([
        lightness + 0.3963377774 * a + 0.2158037573 * b,
        lightness - 0.1055613458 * a - 0.0638541728 * b,
        lightness - 0.0894841775 * a - 1.2914855480 * b,
    ], axis=1) ** 3  # fmt: skip
    return cones @ np.array([
        [4.0767416621, -1.2684380046, -0.0041960863],
        [-3.3077115913, 2.6097574011, -0.7034186147],
        [0.2309699292, -0.3413193965, 1.7076147010],
    ])  # fmt: skip


def _png(levels: np.ndarray, colours: np.ndarray) -> bytes:
    """A PNG of indices [rows, columns] into colours [n, 3]."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows, columns = levels.shape
    raw = np.concatenate([np.zeros((rows, 1), np.uint8), levels], axis=1).tobytes()  # 0: no filter
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0))
        + chunk(b"PLTE", colours.tobytes())
        + chunk(b"IDAT", zlib.compress(raw, 9))
        + chunk(b"IEND", b"")
    )


# ---------------------------------------------------------------------- the drawing


def _definitions() -> str:
    colours = ["#" + bytes(colour).hex() for colour in palette(_LEVELS)]
    picked = [colours[round(share * (_LEVELS - 1))] for share in (0.88, 0.66, 0.46)]
    stops = "".join(
        f'<stop offset="{offset}" stop-color="{colour}"/>'
        for offset, colour in zip((0, 0.3, 0.5, 0.7, 1), [*picked[:0:-1], picked[0], *picked[1:]], strict=True)
    )
    return (
        f'<defs><linearGradient id="wave" gradientUnits="userSpaceOnUse" x1="0" x2="0" y1="{_WAVE_TOP}"'
        f' y2="{_WAVE_BOTTOM}">{stops}</linearGradient><clipPath id="band"><rect x="{_LEFT}" y="{_BAND_TOP}"'
        f' width="{_RIGHT - _LEFT}" height="{_BAND_BOTTOM - _BAND_TOP}" rx="6"/></clipPath></defs>'
    )


def _middle() -> float:
    return (_WAVE_TOP + _WAVE_BOTTOM) / 2


def _waveform(wave: np.ndarray) -> list[str]:
    """The outline of the samples, and inside it that of their power."""
    count = min(len(wave), (_RIGHT - _LEFT) // 2)
    edges = np.linspace(0, len(wave), count + 1).astype(np.int64)[:-1]
    loudest = max(float(np.abs(wave).max()), 1e-4)
    scale = (_WAVE_BOTTOM - _WAVE_TOP) / 2 / loudest
    x = _LEFT + (np.arange(count) + 0.5) / count * (_RIGHT - _LEFT)
    highest, lowest = np.maximum.reduceat(wave, edges), np.minimum.reduceat(wave, edges)
    power = np.sqrt(np.add.reduceat(wave.astype(np.float64) ** 2, edges) / np.diff(np.append(edges, len(wave))))
    outlines = ((highest, lowest, 'fill="url(#wave)" fill-opacity=".55"'), (power, -power, 'fill="url(#wave)"'))
    out = []
    for upper, lower, fill in outlines:
        there, back = _points(x, _middle() - upper * scale), _points(x[::-1], _middle() - lower[::-1] * scale)
        out.append(f'<path d="M{there}L{back}Z" {fill}/>')
    return out


def _points(x: np.ndarray, y: np.ndarray) -> str:
    return " ".join(f"{across:.0f} {down:.1f}" for across, down in zip(x, y, strict=True))


def _time_axis(seconds: float) -> list[str]:
    step = next((step for step in _STEPS_S if seconds / step <= _MOST_TICKS), seconds / _MOST_TICKS)
    out = []
    for number in range(math.floor(seconds / step + 1e-9) + 1):
        x = _LEFT + number * step / seconds * (_RIGHT - _LEFT)
        anchor = "end" if x > _RIGHT - 8 else "middle"
        out.append(f'<path d="M{x:.1f} {_BAND_BOTTOM}v5" stroke="{_QUIET}"/>')
        out.append(f'<text x="{x:.1f}" y="{_BAND_BOTTOM + 19}" text-anchor="{anchor}">{number * step:g} s</text>')
    return out


def _pitch_axis(top: float) -> list[str]:
    out = []
    for tick in _TICKS_KHZ:
        if tick * 1000 > top:
            break
        share = float(_mel(tick * 1000.0) / _mel(top))
        y = _BAND_BOTTOM - share * (_BAND_BOTTOM - _BAND_TOP)
        label = f"{tick:g}" + (" kHz" if tick == 0 else "")
        out.append(f'<path d="M{_LEFT} {y:.1f}h-5" stroke="{_QUIET}"/>')
        out.append(f'<text x="{_LEFT - 9}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
        if 0 < share < 1:
            out.append(f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#fff" stroke-opacity=".13"/>')
    return out


def _fit(title: str) -> str:
    """As much of the title as fits on its line."""
    text = " ".join("".join(char if char.isprintable() else " " for char in title).split())
    cells = 0
    for at, char in enumerate(text):
        cells += 2 if ord(char) >= 0x1100 else 1
        if cells > _TITLE_CELLS and at + 1 < len(text):
            return text[:at].rstrip() + "…"
    return text
