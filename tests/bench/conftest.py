"""A tiny model of random weights, and a clock that moves by one whenever it is read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from rhapsode.bench import alone, ceiling
from rhapsode.bench.source import Source, random_source
from rhapsode.bench.stopwatch import Clock
from rhapsode.bench.workload import Script, Workload
from tests import tiny_checkpoint

BOOK = Workload(tuple(Script(tokens, frames) for tokens, frames in ((4, 6), (6, 9), (3, 5), (5, 12), (2, 6), (7, 8))))


@pytest.fixture(scope="session")
def source() -> Source:
    return random_source("tiny", tiny_checkpoint.model_config(), tiny_checkpoint.codec_config())


@pytest.fixture
def ticking() -> Clock:
    ticks = itertools.count()
    return lambda: float(next(ticks))


@pytest.fixture(autouse=True, scope="session")
def short_work() -> Iterator[None]:
    """Copies that are soon made, and lines of eight frames for the one lane."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ceiling, "COPY_BYTES", 1 << 16)
        patch.setattr(alone, "LINE_S", 0.64)
        yield
