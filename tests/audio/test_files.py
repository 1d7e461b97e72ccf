"""Whole files or none, names that fit, and sentences for disks that say no."""

from __future__ import annotations

import errno
import os
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest

from rhapsode.audio import files
from rhapsode.audio.files import (
    PartFile,
    check_free,
    fit_name,
    make_folder,
    output_error,
    require_space,
    safe_name,
    write_atomic,
)
from rhapsode.errors import OutputError


def test_part_becomes_the_file_at_commit_only(tmp_path: Path) -> None:
    path = tmp_path / "book.m4b"
    path.write_bytes(b"before")
    with PartFile(path) as part:
        part.write(b"after")
        assert path.read_bytes() == b"before"
        part.commit()
    assert path.read_bytes() == b"after"
    assert os.listdir(tmp_path) == ["book.m4b"]


def test_part_goes_away_and_the_error_stays(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="the reason"), PartFile(tmp_path / "book.m4b") as part:
        part.write(b"half")
        raise OutputError("the reason")
    assert os.listdir(tmp_path) == []


def test_part_left_by_a_killed_run_is_written_over(tmp_path: Path) -> None:
    (tmp_path / ".book.wav.part").write_bytes(b"much longer than what comes now")
    with PartFile(tmp_path / "book.wav") as part:
        part.write(b"now")
        part.commit()
    assert (tmp_path / "book.wav").read_bytes() == b"now"


def test_two_writers_of_one_file(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "book.wav"
    with PartFile(path) as first:
        first.write(b"first")
        with pytest.raises(OutputError, match="Another process is writing"):
            PartFile(path)
        first.commit()
    assert path.read_bytes() == b"first"


def test_a_part_that_was_renamed_before_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "book.wav"
    first = PartFile(path)
    first.write(b"first")
    others: list[PartFile] = []
    real = files.take_lock

    def late(descriptor: int) -> bool:
        """Between opening the part and locking it, the first writer finishes and a third one starts."""
        monkeypatch.setattr(files, "take_lock", real)
        first.commit()
        others.append(PartFile(path))
        return real(descriptor)

    monkeypatch.setattr(files, "take_lock", late)
    with pytest.raises(OutputError, match="Another process is writing"):
        PartFile(path)
    assert path.read_bytes() == b"first"
    others[0].write(b"third")
    others[0].commit()
    assert path.read_bytes() == b"third"


def test_origin_moves_the_beginning(tmp_path: Path) -> None:
    with PartFile(tmp_path / "book.mp3") as part:
        part.write(b"tag")
        part.origin = part.tell()
        part.write(b"sound")
        assert part.seek(0) == 0
        part.write(b"S")
        assert part.seek(0, os.SEEK_END) == 5
        part.commit()
    assert (tmp_path / "book.mp3").read_bytes() == b"tagSound"


def test_an_interrupt_inside_a_write_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(descriptor: int, data: bytes) -> None:
        raise KeyboardInterrupt

    with PartFile(tmp_path / "book.mp3") as part:
        monkeypatch.setattr(files, "write_all", interrupted)
        with pytest.raises(RuntimeError):
            part.write(b"x")
        with pytest.raises(KeyboardInterrupt):
            part.commit()
    assert os.listdir(tmp_path) == []


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="is a folder"):
        PartFile(tmp_path)
    with pytest.raises(OutputError, match="make the folder first"):
        PartFile(tmp_path / "no" / "book.m4b")


def test_atomic_write_keeps_the_old_file_when_the_disk_is_full(
    tmp_path: Path, full_disk: Callable[[int], None]
) -> None:
    path = tmp_path / "take.wav"
    write_atomic(path, b"old")
    full_disk(10)
    with pytest.raises(OutputError, match="no room left"):
        write_atomic(path, b"n" * 100)
    assert os.listdir(tmp_path) == ["take.wav"]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EPERM])
def test_sentence_for_a_folder_that_refuses(code: int) -> None:
    sentence = str(output_error(Path("/books/out.m4b"), OSError(code, os.strerror(code))))
    assert sentence == (
        f"/books/out.m4b cannot be opened ({os.strerror(code)}); choose a folder that you may read and write."
    )


def test_require_space_says_both_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("rhapsode.audio.files.shutil.disk_usage", lambda place: usage(0, 0, 12_300_000))
    require_space(tmp_path / "book.m4b", 12_300_000)
    with pytest.raises(OutputError, match=r"needs about 2\.8 GB and only 12 MB are free"):
        require_space(tmp_path / "not there" / "book.m4b", 2_764_800_000)


def test_space_is_asked_of_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert files.free_bytes(tmp_path / "a" / "b" / "c.m4b") > 0


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ('What / Why: a "title"?', "What Why a title"),
        ("../../etc/passwd", "etc passwd"),
        ("a\\b\x00c\nd", "a b c d"),
        ("CON", "CON_"),
        (" .hidden. ", "hidden"),
        ("///", "audiobook"),
        ("", "audiobook"),
        ("e\ud800", "e"),
        ("x" * 300, "x" * 100),
        ("é" * 300, "é" * 50),
        ("a" + "é" * 300, "a" + "é" * 49),
    ],
)
def test_safe_name(title: str, name: str) -> None:
    assert safe_name(title) == name


def test_names_fit_the_file_system() -> None:
    assert fit_name(".book.m4b", ".part") == ".book.m4b.part"
    one, two = (fit_name("é" * 125 + end, ".takes") for end in ("a.m4b", "b.m4b"))
    assert one != two
    assert max(len(os.fsencode(name)) for name in (one, two)) <= 255
    assert one.endswith(".takes")


def test_where_a_file_may_be_written(tmp_path: Path) -> None:
    there, folder = tmp_path / "there.md", tmp_path / "a" / "b"
    check_free(there, "report", overwrite=False)
    there.write_text("kept")
    check_free(there, "report", overwrite=True)
    make_folder(folder)
    make_folder(folder)
    for path, overwrite, said in (
        (there, False, "there.md is there already"),
        (folder, True, "is a folder; name a file for the report"),
        (tmp_path / ("x" * 300), True, "cannot be written: "),
    ):
        with pytest.raises(OutputError, match=said):
            check_free(path, "report", overwrite)
    with pytest.raises(OutputError, match="cannot be made"):
        make_folder(there / "below")
    assert there.read_text() == "kept"
