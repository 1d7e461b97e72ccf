"""A book's sound on its way to packets while its last lines are still being read.

Knows lines, the store and the encoder. A thread of its own waits for one line after the other; what it has encoded lies
in a file without a name until a container takes it. Knows no container, and not in which order lines are read.
"""

from __future__ import annotations

import pickle
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from types import TracebackType

import av
import numpy as np

from rhapsode.audio.assemble import line_blocks
from rhapsode.audio.encoder import Codec, Encoded, encode_sound
from rhapsode.audio.files import output_error
from rhapsode.audio.takes import TakeStore
from rhapsode.types import Line

_LOOK_S = 0.05  # between two looks whether a line is there


class _NotWanted(Exception):
    """Nobody waits for the sound any more."""


class Ahead:
    """Encodes lines in reading order, each as soon as the store has it and those before it.

    As a context manager it ends on every way out, and its processes with it. Somebody else puts takes into the store
    meanwhile; here they are only read.
    """

    def __init__(self, lines: Sequence[Line], store: TakeStore, codec: Codec, samples: int) -> None:
        """`samples`: about how many there will be. Raises OutputError where no file can be made beside the takes."""
        self._lines, self._store, self._codec, self._about = lines, store, codec, samples
        try:
            self._file = tempfile.TemporaryFile(dir=store.folder)  # noqa: SIM115 - closed in `close`
        except OSError as error:
            raise output_error(store.folder, error) from error
        self._places: list[tuple[int, int]] = []  # of pieces in the file: where and how long
        self._ends: dict[int, Encoded] = {}  # pieces whose packets do not travel
        self._samples = 0  # that went to the encoder
        self._done = False
        self._failure: BaseException | None = None
        self._news, self._left = threading.Condition(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="ahead", daemon=True)
        self._thread.start()

    def encoded(self, samples: int) -> Iterator[Encoded]:
        """The packets of each piece, as they are there. Raises what stopped them, and `RuntimeError` where they are not
        of so many samples, since every chapter mark would be wrong."""
        number = 0
        while (piece := self._piece(number)) is not None:
            yield piece
            number += 1
        if self._samples != samples:
            raise RuntimeError(f"{self._samples} samples were encoded, and {samples} planned")

    def close(self) -> None:
        """End the thread and the processes that encode. Twice does no harm."""
        self._left.set()
        self._thread.join()
        self._file.close()

    def _piece(self, number: int) -> Encoded | None:
        """The packets of a piece, or None after the last one."""
        with self._news:
            self._news.wait_for(lambda: self._done or len(self._places) > number)
            if len(self._places) > number:
                return self._ends[number] if number in self._ends else self._fetched(*self._places[number])
            if self._failure is not None:
                raise self._failure
            return None

    def _fetched(self, place: int, size: int) -> Encoded:
        self._file.seek(place)
        found: Encoded = pickle.loads(self._file.read(size))
        return found

    def _keep(self, piece: Encoded) -> None:
        number = len(self._places)
        with self._news:
            if piece and isinstance(piece[0], av.Packet):
                self._ends[number] = piece
                self._places.append((0, 0))
            else:
                place, data = self._file.seek(0, 2), pickle.dumps(piece)
                self._file.write(data)
                self._places.append((place, len(data)))
            self._news.notify_all()

    def _work(self) -> None:
        try:
            with closing(encode_sound(self._codec, self._blocks(), self._about)) as pieces:
                for piece in pieces:
                    if self._left.is_set():
                        break
                    self._keep(piece)
        except _NotWanted:
            pass
        except OSError as error:
            self._failure = output_error(self._store.folder, error)
        except BaseException as error:
            self._failure = error
        finally:
            with self._news:
                self._done = True
                self._news.notify_all()

    def _blocks(self) -> Iterator[np.ndarray]:
        for line in self._lines:
            while not self._store.has(line):
                if self._left.wait(_LOOK_S):
                    raise _NotWanted
            for block in line_blocks(line, self._store):
                self._samples += len(block)
                yield block

    def __enter__(self) -> Ahead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
