"""The picture of a sound: whole, small, and true to the sound."""

from __future__ import annotations

import base64
import io
import re
from xml.etree import ElementTree

import av
import numpy as np
import pytest

from rhapsode.audio import draw as module
from rhapsode.audio.draw import COLUMNS, ROWS, draw, palette

RATE = 24_000
SVG = "{http://www.w3.org/2000/svg}"


def tone(hertz: float, seconds: float = 1.0, rate: int = RATE, level: float = 0.5) -> np.ndarray:
    return (level * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def colours(picture: str) -> np.ndarray:
    """The embedded spectrogram, uint8 [rows, columns, 3]."""
    raw = base64.b64decode(re.search('data:image/png;base64,([^"]+)"', picture)[1])  # type: ignore[index]
    with av.open(io.BytesIO(raw)) as container:
        return next(container.decode(video=0)).to_ndarray(format="rgb24")


def words(picture: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def loudest_row(picture: str, column: int = COLUMNS // 2) -> int:
    return int(colours(picture)[:, column].astype(int).sum(axis=1).argmax())


def row_of(hertz: float, top: float = 12_000) -> int:
    def mel(value: float) -> float:
        return 2595 * np.log10(1 + value / 700)

    return round((ROWS - 1) * (1 - mel(hertz) / mel(top)))


@pytest.mark.parametrize("hertz", [200, 440, 1000, 3000, 9000])
@pytest.mark.parametrize("rate", [24_000, 48_000])
def test_a_tone_is_bright_where_it_is(hertz: float, rate: int) -> None:
    assert abs(loudest_row(draw(tone(hertz, rate=rate), rate, "")) - row_of(hertz)) <= 1


def test_a_slow_rate_ends_the_axis_at_its_half() -> None:
    picture = draw(tone(3000, rate=16_000), 16_000, "")
    assert abs(loudest_row(picture) - row_of(3000, 8_000)) <= 1
    assert "8" in words(picture) and "12" not in words(picture)


def test_time_goes_from_left_to_right() -> None:
    sound = np.concatenate([np.zeros(RATE, np.float32), tone(1000), np.zeros(2 * RATE, np.float32)])
    brightness = colours(draw(sound, RATE, "")).astype(int).sum(axis=2).max(axis=0)
    lit = np.flatnonzero(brightness > brightness.min() + 200)
    assert abs(lit[0] - COLUMNS / 4) < 6 and abs(lit[-1] - COLUMNS / 2) < 6
    assert [word for word in words(draw(sound, RATE, "")) if word.endswith(" s")] == [
        "0 s", "0.5 s", "1 s", "1.5 s", "2 s", "2.5 s", "3 s", "3.5 s", "4 s",
    ]  # fmt: skip


def test_decibels_below_the_loudest() -> None:
    """80 dB from black to white: a tone 40 dB below another has the colour in the middle."""
    sound = np.concatenate([tone(1000, level=0.9), tone(1000, level=0.009)])
    found, shades = colours(draw(sound, RATE, "")), palette(module._LEVELS).astype(int)
    for column, share in ((COLUMNS // 4, 1.0), (3 * COLUMNS // 4, 0.5)):
        peak = found[row_of(1000) - 1 : row_of(1000) + 2, column].astype(int)
        levels = [int(np.abs(shades - colour).sum(axis=1).argmin()) for colour in peak]
        assert abs(max(levels) / (len(shades) - 1) - share) < 0.04


def test_an_offset_is_not_drawn() -> None:
    found = colours(draw(np.full(RATE, 0.3, np.float32) + tone(1000, level=0.3), RATE, ""))
    assert found[-1, COLUMNS // 2].astype(int).sum() < 100


def test_int16_is_the_same_as_floats() -> None:
    sound = tone(440)
    assert draw(np.rint(sound * 32768).astype(np.int16), RATE, "x") == draw(
        np.rint(sound * 32768).astype(np.float32) / 32768, RATE, "x"
    )


@pytest.mark.parametrize("seconds", [1 / RATE, 0.001, 0.3, 4.0, 90.0])
@pytest.mark.parametrize("level", [0.0, 0.5])
def test_any_sound_gives_a_small_file(seconds: float, level: float) -> None:
    rng = np.random.default_rng(1)
    picture = draw((level * rng.uniform(-1, 1, round(seconds * RATE))).astype(np.float32), RATE, "Noise.")
    assert len(picture.encode()) < 150_000
    drawn = re.sub('"data:image/png;base64,[^"]+"', "data", picture)
    assert "nan" not in drawn and "inf" not in drawn
    assert drawn.count("href") == 1 and "href=data" in drawn, "nothing is fetched"
    root = ElementTree.fromstring(picture)
    assert root.get("viewBox") == "0 0 900 420"
    assert [rect.get("width") for rect in root.findall(f"{SVG}rect")] == ["900"], "a background of its own"
    assert colours(picture).shape == (ROWS, COLUMNS, 3)


def test_the_waveform_reaches_its_edges_and_is_symmetrical() -> None:
    paths = re.findall(r'<path d="M([^"]+)Z" fill="url', draw(tone(440), RATE, ""))
    heights = [float(pair.split()[1]) for pair in re.findall(r"[\d.]+ [\d.]+", paths[0])]
    assert (min(heights), max(heights)) == pytest.approx((module._WAVE_TOP, module._WAVE_BOTTOM), abs=0.2)
    inner = [float(pair.split()[1]) for pair in re.findall(r"[\d.]+ [\d.]+", paths[1])]
    assert max(inner) - min(inner) == pytest.approx(80 / np.sqrt(2), rel=0.05), "its power"


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("A < B & C", "A < B & C"), ("Two\nlines\x00\x1b", "Two lines"), ("", ""), ("word " * 40, "…"),
        ("語" * 80, "…"), ("\ud800x", "x"),
    ],
)  # fmt: skip
def test_titles(title: str, shown: str) -> None:
    said = ElementTree.fromstring(draw(tone(440), RATE, title)).find(f"{SVG}text").text or ""  # type: ignore[union-attr]
    if shown == "…":
        assert said.endswith("…") and title.startswith(said[:-1]) and 40 < len(said) <= 93
    else:
        assert said == shown


def test_colours_rise_evenly() -> None:
    shades = palette(64).astype(float) / 255
    linear = np.where(shades <= 0.04045, shades / 12.92, ((shades + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(luminance) > 0).all(), "in grey it is still a scale"
    lightness = 116 * np.cbrt(luminance) - 16
    steps = np.diff(lightness[6:])
    assert steps.max() < 2.2 * steps.min()
    first, last = palette(64)[0], palette(64)[-1]
    assert first.max() < 70 and last.min() > 120


@pytest.mark.parametrize("shape", [(0,), (2, 100), ()])
def test_what_is_no_sound(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="one dimension of samples"):
        draw(np.zeros(shape, np.float32), RATE, "")
