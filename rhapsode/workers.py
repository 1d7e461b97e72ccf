"""Work in processes of their own: what is sent to them, and what they say as they go.

Knows processes, pipes and pickles; arrays travel beside the pickle, straight from their memory into the pipe. Knows
no model, no device and no book. A process is a fresh Python that imports one function by its name, so a caller's main
module is not run again. It ends with whoever started it, however that one ends.
"""

from __future__ import annotations

import contextlib
import heapq
import importlib
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import numpy as np

from rhapsode.errors import UserError

# What a function in a process of its own is given: its argument, what is sent to it, and a way to say something.
Work = Callable[[Any, Iterator[Any], Callable[[Any], None]], None]

Thing = TypeVar("Thing")

QUEUED = 64  # things said that wait for the pipe, or for whoever listens: a few hundred MB of sound at most
PIPE_BYTES = 1 << 20  # where the system lets a pipe be as large
_HEAD = struct.Struct("<QI")  # bytes of the pickle, number of arrays beside it
_SIZE = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Gone:
    """A process ended before it was told to; said in its name."""

    reason: str  # the rest of a sentence that begins with "it"


@dataclass(frozen=True, slots=True)
class _Failed:
    """Its function raised: an error for the user, or the text of any other."""

    error: UserError | None
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Worker:
    """One process to be: a function by its name ("module:function"), its argument, what its environment adds."""

    work: str
    argument: Any
    environment: Mapping[str, str]


class Crew:
    """Processes that work side by side. `end` is due on every way out."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        """Raises OSError where the system does not start them."""
        self._said: queue.Queue[tuple[int, Any]] = queue.Queue(QUEUED * len(workers))
        self._ended = False
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ears: list[threading.Thread] = []
        _fill_standard_numbers()
        try:
            for worker in workers:
                self._processes.append(_start(worker))
        except BaseException:
            self.end()
            raise
        self._ears = [threading.Thread(target=self._listen, args=(n,), daemon=True) for n in range(len(workers))]
        for ear, worker, number in zip(self._ears, workers, range(len(workers)), strict=True):
            self.send(number, (worker.work, worker.argument))
            ear.start()

    def send(self, worker: int, message: Any) -> None:
        """Something for a worker to do. Lost on one that has ended, of which `hear` tells."""
        pipe = self._processes[worker].stdin
        assert pipe is not None
        with contextlib.suppress(OSError, ValueError):
            _write(pipe, message)

    def hear(self) -> tuple[int, Any]:
        """Wait for what a worker says next; `Gone` where it ended.

        An error for the user that was raised over there is raised here; any other as `RuntimeError` with its traceback.
        """
        number, message = self._said.get()
        if isinstance(message, _Failed):
            if message.error is not None:
                raise message.error
            raise RuntimeError(f"a process failed:\n{message.trace}")
        return number, message

    def end(self) -> None:
        """End all of them, whatever they are doing. Twice does no harm."""
        self._ended = True
        for process in self._processes:
            process.kill()
        while any(ear.is_alive() for ear in self._ears):
            with contextlib.suppress(queue.Empty):
                while True:
                    self._said.get_nowait()
            for ear in self._ears:
                ear.join(0.01)
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def _listen(self, number: int) -> None:
        process = self._processes[number]
        assert process.stdout is not None
        last: Any = None
        try:
            while True:
                last = _read(process.stdout)
                self._said.put((number, last))
        except EOFError:
            code = process.wait()
            if not self._ended and not isinstance(last, (Gone, _Failed)):  # it has told why itself
                self._said.put((number, Gone(_why(code))))


def deal(things: Sequence[Thing], shares: int, size: Callable[[Thing], float]) -> list[list[Thing]]:
    """Shares of about equal size: the largest first, each to the share with the least so far.

    Within a share things stand in the order in which they were given.
    """
    heap = [(0.0, share) for share in range(shares)]
    given: dict[int, int] = {}
    sizes = [size(thing) for thing in things]
    for place in sorted(range(len(things)), key=lambda place: -sizes[place]):
        so_far, share = heap[0]
        given[place] = share
        heapq.heapreplace(heap, (so_far + sizes[place], share))
    dealt: list[list[Thing]] = [[] for _ in range(shares)]
    for place, thing in enumerate(things):
        dealt[given[place]].append(thing)
    return dealt


def _fill_standard_numbers() -> None:
    """Of a process that was started without stdin, stdout or stderr: a pipe of ours that gets such a number would be
    taken for one of them."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)


def _start(worker: Worker) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(part for part in sys.path if part)
    # In a session of its own: Ctrl-C in a terminal is for whoever started it, who ends it then.
    process = subprocess.Popen(
        [sys.executable, "-c", "from rhapsode.workers import _main; _main()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True,
        env={**os.environ, "PYTHONPATH": path, **worker.environment},
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    try:
        import fcntl

        for pipe in (process.stdin, process.stdout):
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except (ImportError, AttributeError, OSError):  # not Linux, or too many pipes: slower, no more
        pass
    return process


def _why(code: int) -> str:
    if code < 0:
        return f"was ended by signal {-code}" + (", perhaps for want of memory" if code == -9 else "")
    return f"ended with code {code}"


# ---------------------------------------------------------------------- messages


def _write(pipe: Any, message: Any) -> None:
    """A pickle, then every contiguous array in it as it lies in memory."""
    arrays: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=arrays.append)
    views = [array.raw() for array in arrays]
    head = _HEAD.pack(len(body), len(views)) + b"".join(_SIZE.pack(view.nbytes) for view in views)
    for part in (memoryview(head + body), *views):
        while part.nbytes:
            part = part[pipe.write(part) :]


def _read(pipe: Any) -> Any:
    """Raises `EOFError` where the other side has ended, in the middle of a message too."""
    length, count = _HEAD.unpack(_exactly(pipe, _HEAD.size))
    sizes = [_SIZE.unpack(_exactly(pipe, _SIZE.size))[0] for _ in range(count)]
    body = _exactly(pipe, length)
    return pickle.loads(body, buffers=[_exactly(pipe, size) for size in sizes])


def _exactly(pipe: Any, size: int) -> memoryview:
    found = np.empty(size, np.uint8).data  # not zeroed first, as a bytearray is
    left = found
    while left.nbytes:
        count = pipe.readinto(left)
        if not count:
            raise EOFError
        left = left[count:]
    return found


# ---------------------------------------------------------------------- on the other side


def _main() -> NoReturn:
    """What a process runs. Its stdout belongs to the messages; what libraries print goes to stderr."""
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    given: queue.Queue[Any] = queue.Queue()
    said: queue.Queue[Any] = queue.Queue(QUEUED)
    threading.Thread(target=_take, args=(os.fdopen(os.dup(0), "rb", buffering=0), given), daemon=True).start()
    speaker = threading.Thread(target=_speak, args=(out, said), daemon=True)
    speaker.start()
    try:
        name, argument = given.get()
        module, _, function = name.partition(":")
        getattr(importlib.import_module(module), function)(argument, iter(given.get, None), said.put)
    except UserError as error:
        said.put(_Failed(error))
    except BaseException as error:
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
            said.put(Gone("ran out of memory"))
        else:
            said.put(_Failed(None, traceback.format_exc()))
    said.put(_LAST)
    speaker.join()
    os._exit(0)  # what was allocated goes with the process; nothing is gained by taking it apart


_LAST = object()


def _take(pipe: Any, given: queue.Queue[Any]) -> None:
    """Always listening, so that whoever sends never waits for work that is being done."""
    try:
        while True:
            given.put(_read(pipe))
    except EOFError:
        os._exit(1)  # nobody is left to work for


def _speak(pipe: Any, said: queue.Queue[Any]) -> None:
    """Beside the work, which does not wait for the pipe."""
    while (message := said.get()) is not _LAST:
        try:
            _write(pipe, message)
        except OSError:  # nobody listens any more
            os._exit(1)
        except Exception:  # what cannot be pickled is a fault of ours
            traceback.print_exc()
            os._exit(1)
