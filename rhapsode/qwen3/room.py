"""Memory that runs out, in whatever words a library says it, as the one exception that the engine understands.

Knows the libraries' sentences. Imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from rhapsode.engine.stepper import OutOfRoom

# CUDA, Metal and the CPU's allocator through PyTorch; CUDA's libraries; MLX.
SENTENCES = ("out of memory", "allocate memory", "not enough memory", "ALLOC_FAILED", "Unable to allocate", "[malloc")

P = ParamSpec("P")
R = TypeVar("R")


def says_no_room(error: BaseException) -> bool:
    """Whether an error is about memory that there is not."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in SENTENCES)


def in_room(work: Callable[P, R]) -> Callable[P, R]:
    """The same work, which raises `OutOfRoom` where its library says in its own way that there is none."""

    @wraps(work)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return work(*args, **kwargs)
        except (RuntimeError, MemoryError) as error:
            if not says_no_room(error):
                raise
            said = (str(error) or type(error).__name__).splitlines()[0]
        # Raised out here, it does not hold on to the library's error, whose traceback holds what took the memory.
        raise OutOfRoom(said)

    return guarded
