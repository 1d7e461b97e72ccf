"""Work on a CUDA device as one recorded graph, replayed without the thousands of launches that it is made of.

Knows streams and graphs. Whoever hands over work promises that it reads and writes the same tensors each time, asks the
host for nothing, and depends on nothing but its key.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any

import torch

Work = Callable[[], None]


class Recorder:
    """Runs work: the first time of a key as it is, the second time recorded, from then on replayed.

    The first run is a real one, and brings the libraries what they allocate at first use. Where a recording fails,
    work runs as it is from then on; `trouble` and a warning say why.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.trouble = "" if device.type == "cuda" else f"nothing is recorded on {device.type}"
        self._seen: set[Hashable] = set()
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._pool: Any = None

    def __call__(self, key: Hashable, work: Work) -> None:
        graph = self._graphs.get(key)
        if graph is not None:
            graph.replay()
        elif self.trouble or key not in self._seen:
            self._seen.add(key)
            work()
        else:
            self._record(key, work)

    def _record(self, key: Hashable, work: Work) -> None:
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._pool):
                work()
        except RuntimeError as error:  # out of memory too
            self.trouble = f"a step could not be recorded and stays slow: {str(error).splitlines()[0]}"
            warnings.warn(self.trouble, stacklevel=3)
            torch.cuda.synchronize(self.device)
            work()
            return
        self._pool = graph.pool()
        self._graphs[key] = graph
        graph.replay()
