"""The members of a ZIP file that nobody vouches for.

Knows ZIP and how names in it go wrong; does not know what an EPUB is. Every read is bounded by what comes out,
never by what the header promises; a member that cannot be read is None, and the reader of books says so.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import struct
import unicodedata
import zipfile
import zlib
from types import TracebackType
from urllib.parse import unquote

from rhapsode.errors import BookError

MAX_MEMBER = 32 << 20  # bytes of one document, unpacked; the largest real ones are about 5 MB
MAX_TOTAL = 384 << 20  # bytes of all members that are read, unpacked
_MAX_MEMBERS = 100_000
_MAX_DIRECTORY = 32 << 20  # bytes of the list of members: zipfile holds about ten times that
_END_RECORD = b"PK\x05\x06"

# All that zipfile raises on bytes that only look like a ZIP file.
BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError, NotImplementedError,
    RuntimeError, KeyError, IndexError, OverflowError, AttributeError, AssertionError,
)  # fmt: skip


class Archive:
    """A ZIP file open for reading, its members found by the names that books use for them."""

    def __init__(self, path: os.PathLike[str], name: str) -> None:
        """Open `path`; `name` is what errors call it. Raises BookError where it is not a ZIP file or too large."""
        self.name = name
        self.read_so_far = 0
        whole = f"{name} is not a whole EPUB: it is cut short or no ZIP file; fetch or export it again."
        try:
            if _directory_size(path) > _MAX_DIRECTORY:
                raise BookError(f"{name} lists more files than any book has; it is refused.")
            self._zip = zipfile.ZipFile(path)
        except BROKEN as error:
            raise BookError(whole) from error
        infos = self._zip.infolist()
        if len(infos) > _MAX_MEMBERS:
            self._zip.close()
            raise BookError(f"{name} holds {len(infos)} files, more than the {_MAX_MEMBERS} that are accepted.")
        self._members = {_tidy(info.filename): info for info in infos}
        self._loose: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            for key in _loose_names(info.filename):
                self._loose.setdefault(key, info)

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def names(self) -> list[str]:
        return list(self._members)

    def find(self, name: str) -> str | None:
        """The member that a reference means: by its name, else percent-decoded, else whatever its case and encoding."""
        for candidate in (name, unquote(name)):
            if candidate in self._members:
                return candidate
        for candidate in (name, unquote(name)):
            info = self._loose.get(_loose(candidate))
            if info is not None:
                return _tidy(info.filename)
        return None

    def is_locked(self, name: str) -> bool:
        """Whether the member is encrypted with a ZIP password."""
        info = self._members.get(name)
        return info is not None and bool(info.flag_bits & 1)

    def read(self, name: str | None, limit: int = MAX_MEMBER) -> bytes | None:
        """The bytes of a member, None where it is missing or broken. Raises BookError past `limit` bytes."""
        info = self._members.get(name or "")
        if info is None:
            return None
        try:
            with self._zip.open(info) as stream:
                raw = stream.read(limit + 1)
        except BROKEN:
            return None
        self.read_so_far += len(raw)
        if len(raw) > limit or self.read_so_far > MAX_TOTAL:
            raise BookError(
                f"{self.name} is refused: {name} unpacks to more than any book needs; split it into smaller documents."
            )
        return raw


def _directory_size(path: os.PathLike[str]) -> int:
    """Bytes of the central directory as the end record says; zipfile reads them all at once."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - (1 << 16) - 22))
        tail = file.read()
    at = tail.rfind(_END_RECORD)
    return struct.unpack_from("<L", tail, at + 12)[0] if 0 <= at <= len(tail) - 16 else 0


def _tidy(name: str) -> str:
    return name.replace("\\", "/").removeprefix("./")


def _loose(name: str) -> str:
    return unicodedata.normalize("NFC", _tidy(name)).casefold()


def _loose_names(stored: str) -> list[str]:
    """What a stored name may be called: zipfile reads a name without the UTF-8 flag as cp437."""
    names = [_loose(stored), _loose(unquote(stored))]
    for encoding in ("utf-8", "cp1252"):
        with contextlib.suppress(UnicodeError):
            names.append(_loose(stored.encode("cp437").decode(encoding)))
    return names
