"""Files that are whole or not there, names and disks that say no: what all share that write files.

Knows the operating system's files, locks and errors. Knows nothing of sound.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
from pathlib import Path
from types import TracebackType

from rhapsode.errors import OutputError

try:
    import fcntl
except ImportError:  # Windows: two processes on one output are then not noticed
    fcntl = None  # type: ignore[assignment]

NAME_BYTES = 255  # what common file systems allow for one name
_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}  # some network disks
BINARY = getattr(os, "O_BINARY", 0)


def output_error(path: Path, error: OSError) -> OutputError:
    """The sentence for an operating system error at `path`, which could not be read or written."""
    if error.errno in _FULL:
        return OutputError(
            f"There is no room left to write {path} ({byte_count(free_bytes(path))} free); "
            "free some space and run the same command again: what is finished is kept."
        )
    if error.errno in _REFUSED:
        return OutputError(f"{path} cannot be opened ({error.strerror}); choose a folder that you may read and write.")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return OutputError(f"{path} cannot be written, because {path.parent} is not a folder; make the folder first.")
    return OutputError(f"{path} cannot be read or written ({error.strerror or error}).")


def check_free(path: Path, what: str, overwrite: bool) -> None:
    """Raises OutputError where `what` cannot be a file called `path`: no file can have the name, a folder has it, or
    a file is there and not to be replaced."""
    try:
        there, folder = path.exists(), path.is_dir()
    except (OSError, ValueError) as error:  # a name that is too long, a folder that cannot be entered
        raise OutputError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}.") from None
    if folder:
        raise OutputError(f"{path} is a folder; name a file for the {what}.")
    if there and not overwrite:
        raise OutputError(f"{path} is there already; choose another name, or replace it with --overwrite.")


def make_folder(folder: Path) -> None:
    """The folder and those above it, where they are missing. Raises OutputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"The folder {folder} cannot be made: {error.strerror or error}.") from None


def byte_count(number: int) -> str:
    """`number` of bytes for people: "1.5 GB", "12 MB"; 1 MB is a million."""
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if number >= size:
            return f"{number / size:.1f} {unit}" if number < 10 * size else f"{number // size} {unit}"
    return f"{number // 1000} kB"


def free_bytes(path: Path) -> int:
    """Bytes that may still be written on the disk where `path` is or would be; 0 where that is unknown."""
    for place in (path, *path.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return 0


def require_space(path: Path, needed: int) -> None:
    """Raises OutputError with both figures where fewer than `needed` bytes are free for `path`."""
    free = free_bytes(path)
    if free < needed:
        raise OutputError(
            f"{path} needs about {byte_count(needed)} and only {byte_count(free)} are free there; "
            "free some space or choose another folder."
        )


def fit_name(name: str, suffix: str) -> str:
    """`name + suffix`, with the end of `name` replaced by its digest where a file system would refuse the length."""
    if len(os.fsencode(name + suffix)) <= NAME_BYTES:
        return name + suffix
    digest = hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()
    return clip_text(name, NAME_BYTES - len(suffix) - len(digest) - 1) + f"-{digest}{suffix}"


def clip_text(text: str, limit: int) -> str:
    """The beginning of `text` that takes at most `limit` bytes of UTF-8; no character is cut in two."""
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= limit else raw[:limit].decode("utf-8", "ignore")


def safe_name(title: str, limit: int = 100) -> str:
    """A file name without suffix made of a title: no separators, nothing that a system reserves, `limit` bytes."""
    name = re.sub(r'[\x00-\x1f\x7f<>:"/\\|?*\ud800-\udfff]+', " ", title)
    name = clip_text(re.sub(r"\s+", " ", name).strip(" .-"), limit).rstrip(" .")
    if re.fullmatch(r"(?i)con|prn|aux|nul|com\d|lpt\d", name):
        name += "_"
    return name or "audiobook"


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Every byte of `data`, however few the system takes at a time."""
    view = memoryview(data)
    while len(view):
        view = view[os.write(descriptor, view) :]


def write_atomic(path: Path, *parts: bytes | memoryview) -> None:
    """`path` holds the parts, one after the other, or what it held before; OutputError where it cannot be.

    There is no fsync: what reads these files knows their checksum, and a book has thousands of them.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o666)
        try:
            for data in parts:
                write_all(descriptor, data)
        finally:
            os.close(descriptor)
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            raise output_error(path, error) from error
        raise


def take_lock(descriptor: int) -> bool:
    """Locks an open file until it is closed or its process ends; False where another holds the lock."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return True
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


class PartFile:
    """A file written beside `path` as `.NAME.part`, which gets the name `path` only when `commit` is called.

    Has what an encoder asks of a file object: write, seek, tell, closed. As a context manager it removes
    the part on every way out but `commit`. Whatever stopped a write is kept and raised by `check`, because
    an encoder may call `write` from where no exception gets through.
    """

    def __init__(self, path: Path) -> None:
        """Raises OutputError where the part cannot be made or another process is writing it."""
        self.path = path
        self.origin = 0  # byte of the file that `seek(0)` means
        self._failure: BaseException | None = None
        self._part = path.with_name(fit_name(f".{path.name}", ".part"))
        self._descriptor = -1
        try:
            if path.is_dir():
                raise OutputError(f"{path} is a folder; name a file.")
            self._descriptor = os.open(self._part, os.O_RDWR | os.O_CREAT | BINARY, 0o666)
            if not self._is_mine():
                raise OutputError(f"Another process is writing {path}; wait for it or choose another name.")
            os.ftruncate(self._descriptor, 0)
        except BaseException as error:
            self._close()
            if isinstance(error, OSError):
                raise output_error(path, error) from error
            raise

    def _is_mine(self) -> bool:
        """Whether we hold the lock and the name still means the file that we opened, which may have been renamed."""
        if not take_lock(self._descriptor):
            return False
        try:
            named = os.stat(self._part)
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(self._descriptor))

    def write(self, data: bytes | memoryview) -> int:
        try:
            if self._failure is None:
                write_all(self._descriptor, data)
        except OSError as error:
            self._failure = output_error(self.path, error)
        except BaseException as error:  # an interrupt too would be swallowed inside the encoder's callback
            self._failure = error
        if self._failure is not None:
            raise RuntimeError("an earlier write failed") from self._failure
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = self.origin if whence == os.SEEK_SET else 0
        return os.lseek(self._descriptor, start + offset, whence) - self.origin

    def tell(self) -> int:
        return self.seek(0, os.SEEK_CUR)

    @property
    def closed(self) -> bool:
        return self._descriptor < 0

    def check(self) -> None:
        """Raises what stopped a write, if anything did."""
        if self._failure is not None:
            raise self._failure

    def commit(self) -> None:
        """The part becomes `path`, with its bytes on the disk first. Raises OutputError."""
        self.check()
        try:
            os.fsync(self._descriptor)
            if fcntl is None:  # Windows renames no open file; elsewhere the lock has to last until the rename
                self._close()
            os.replace(self._part, self.path)
        except OSError as error:
            raise output_error(self.path, error) from error
        self._close()
        _sync_folder(self.path.parent)

    def __enter__(self) -> PartFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.closed:
            with contextlib.suppress(OSError):
                self._part.unlink()
            self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Puts a rename on the disk where the system can; not being able to is no reason to lose the file."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
