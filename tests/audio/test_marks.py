"""Titles, chapter marks, tags and covers as containers hold them."""

from __future__ import annotations

import struct

import pytest

from rhapsode.audio.marks import Mark, Tags, chapter_marks, clean_text, id3_tag, vorbis_comments
from rhapsode.audio.picture import MOST_BYTES, cover_problem, read_picture


def test_marks_follow_one_another() -> None:
    assert chapter_marks([("One", 10), ("Empty", 0), (" \x00", 5), ("Three", 1)]) == [
        Mark("One", 0, 10),
        Mark("3", 10, 15),
        Mark("Three", 15, 16),
    ]
    assert chapter_marks([("", 10)]) == []
    assert chapter_marks([("Only", 10)]) == [Mark("Only", 0, 10)]
    with pytest.raises(ValueError, match="-1 samples"):
        chapter_marks([("One", -1)])


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("\";=#\\/'", "\";=#\\/'"),
        ("a\x00b\x1fc\x7fd", "abcd"),
        ("one\r\ntwo\rthree\tfour", "one\ntwo\nthree\tfour"),
        ("\ud83d alone, \U0001f600 whole", "\ufffd alone, \U0001f600 whole"),
        ("é" * 5_000, "é" * 2_048),
    ],
)
def test_clean_text(text: str, clean: str) -> None:
    assert clean_text(text) == clean


def test_empty_tags_are_left_out() -> None:
    assert Tags("T").clean() == {"title": "T", "album": "T", "genre": "Audiobook"}


def test_vorbis_times_carry() -> None:
    rate = 24_000
    starts = [0, rate * 3600 - 1, rate * 119 + rate * 6 // 10, rate * 36_000]
    comments = vorbis_comments([Mark(f"m{i}", start, start + 1) for i, start in enumerate(starts)], rate)
    assert [comments[f"CHAPTER00{number}"] for number in (1, 2, 3, 4)] == [
        "00:00:00.000",
        "01:00:00.000",
        "00:01:59.600",
        "10:00:00.000",
    ]
    assert comments["CHAPTER004NAME"] == "m3"


def frames(data: bytes) -> list[tuple[bytes, bytes]]:
    found = []
    at = 0
    while at < len(data):
        size = struct.unpack(">I", data[at + 4 : at + 8])[0]
        found.append((data[at : at + 4], data[at + 10 : at + 10 + size]))
        at += 10 + size
    return found


@pytest.mark.parametrize("count", [1, 255, 256, 300, 255 * 255 + 1])
def test_id3_tables_name_every_chapter_once_in_order(count: int) -> None:
    tag = id3_tag(Tags("T"), [Mark("x", i, i + 1) for i in range(count)], 1_000, None)
    assert tag[:6] == b"ID3\x03\x00\x00"
    assert len(tag) - 10 == sum(byte << shift for byte, shift in zip(tag[6:10], (21, 14, 7, 0), strict=True))
    inside = frames(tag[10:])
    chapters = [body.split(b"\0")[0] for name, body in inside if name == b"CHAP"]
    tables = {}
    for name, body in inside:
        if name == b"CTOC":
            own, rest = body.split(b"\0", 1)
            entries = rest[2:].split(b"\0")[:-1]
            assert rest[1] == len(entries)
            assert rest[0] == (3 if own == b"toc" else 1)
            tables[own] = entries

    def leaves(name: bytes) -> list[bytes]:
        return [leaf for entry in tables[name] for leaf in leaves(entry)] if name in tables else [name]

    assert leaves(b"toc") == chapters
    assert len(set(chapters)) == count


def test_pictures_are_measured(cover: bytes) -> None:
    picture = read_picture(cover)
    assert picture is not None
    assert (picture.mime, picture.width, picture.height) in [("image/png", 5, 3), ("image/jpeg", 8, 8)]
    assert cover_problem(cover) == ""


@pytest.mark.parametrize("data", [b"GIF89a", b"RIFF....WEBP", b"\xff\xd8\xff", b"\xff\xd8\xff\xe0\xff\xff", b"<svg/>"])
def test_other_pictures_are_said_to_be_left_out(data: bytes) -> None:
    assert read_picture(data) is None
    assert cover_problem(data) == "The cover is left out, because it is neither JPEG nor PNG."


def test_no_cover_is_no_problem_and_a_huge_one_is(cover: bytes) -> None:
    assert cover_problem(None) == cover_problem(b"") == ""
    huge = cover + bytes(MOST_BYTES)
    assert "players take" in cover_problem(huge)
    assert read_picture(huge) is None
    assert read_picture(cover[:20]) is None
