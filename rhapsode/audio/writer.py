"""Takes on their way to the disk while the next ones are read: one thread, a queue, errors where they are seen.

Knows the store and threads. Whoever reads waits only where the disk is slower than the reading.
"""

from __future__ import annotations

import queue
import threading
from types import TracebackType

from rhapsode.audio.takes import TakeStore
from rhapsode.types import Take

WAITING = 32  # takes: a group of the widest codec, which finishes all of them at once


class TakeWriter:
    """Puts takes into a store, from which others may read meanwhile.

    As a context manager it ends, on every way out, with all on the disk that it was given.
    """

    def __init__(self, store: TakeStore) -> None:
        self._store = store
        self._queue: queue.Queue[Take | None] = queue.Queue(WAITING)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="takes", daemon=True)
        self._thread.start()

    def put(self, take: Take) -> None:
        """Raises what stopped an earlier take from being kept; nothing is kept after that."""
        self._check()
        self._queue.put(take)

    def close(self) -> None:
        """Wait for what is on its way. Raises what stopped it."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        while (take := self._queue.get()) is not None:
            if self._failure is None:  # else the queue is only emptied, so that nobody waits for a place in it
                try:
                    self._store.put(take)
                except BaseException as error:
                    self._failure = error

    def __enter__(self) -> TakeWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except BaseException as failure:
            if failure is not error:
                error.add_note(f"a take could not be kept either: {failure}")
