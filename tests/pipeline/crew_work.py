"""Functions that run in processes of their own, for tests of `rhapsode.workers`. Knows arrays and ways to fail."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rhapsode.errors import CheckpointError

Say = Callable[[Any], None]


def echo(argument: Any, inbox: Iterator[Any], say: Say) -> None:
    print("what a library prints is no message")
    say(("argument", argument, os.environ.get("CREW_TEST")))
    for message in inbox:
        say(message)


def fill(size: int, inbox: Iterator[Any], say: Say) -> None:
    """Says large arrays without end."""
    while True:
        say(np.ones(size, np.float32))


def refuse(argument: str, inbox: Iterator[Any], say: Say) -> None:
    raise CheckpointError(argument)


def break_down(argument: str, inbox: Iterator[Any], say: Say) -> None:
    raise ValueError(argument)


def run_out(argument: Any, inbox: Iterator[Any], say: Say) -> None:
    raise MemoryError


def say_nonsense(argument: Any, inbox: Iterator[Any], say: Say) -> None:
    say(lambda: None)  # no pickle of that
