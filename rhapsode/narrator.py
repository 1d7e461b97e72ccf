"""The first seam: lines in, takes out. What a model must do to read books, and how it is found.

Knows the protocol, the entry points, and how a narrator that cannot read digits is given words. Knows no model: Qwen3
comes through the same door as any other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal, Protocol

from rhapsode.errors import UserError
from rhapsode.types import Line, Sampling, Take

if TYPE_CHECKING:
    import numpy as np

GROUP = "rhapsode.narrators"
DEFAULT = "qwen3"

# What a narrator wants to be given: a line as it is written, or with numbers, signs and the like as words.
TextForm = Literal["written", "spoken"]


# What a field of the options may hold, by the first word of its annotation, and how that is called.
_KINDS: dict[str, tuple[type, str]] = {
    "str": (str, "a text"),
    "int": (int, "a whole number"),
    "bool": (bool, "true or false"),
    "Mapping": (Mapping, "names with their values, as in {'temperature': 0.8}"),
    "tuple": (tuple, "a tuple"),
}


@dataclass(frozen=True, slots=True)
class Options:
    """How a narrator is to be loaded. Every field is honoured or refused, never ignored."""

    narrator: str = DEFAULT  # an entry point of the group above
    checkpoint: str | None = None  # folder or Hub id; None: the embedded one
    voice: str | None = None  # None: the checkpoint's first
    dialogue_voice: str | None = None  # reads what is inside quotation marks; None: the same voice as all else
    language: str | None = None  # name or BCP 47 tag; "auto": the model finds it itself; None: `likely_language`
    likely_language: str = ""  # what the book says of itself; taken if the model speaks it
    device: str = "auto"  # cpu, cuda, cuda:1, several as cuda:0,1 or cuda:all, mps, mlx
    format: str = "auto"  # float32, bfloat16, int8
    begun: tuple[Mapping[str, Any], ...] = ()  # settings of readings of the same book that have takes; auto goes on so
    threads: int | None = None  # of the processor; None: what suits it
    slots: int | None = None  # lanes side by side; None: what suits the device
    seed: int = 0
    sampling: Mapping[str, Any] | None = None  # fields of `Sampling` to change
    tries: int = 3  # readings of a line that comes out bad
    revision: str | None = None  # of a Hub id
    offline: bool = False
    token: str | None = None

    def __post_init__(self) -> None:
        """Raises `UserError` for a value that is not of its kind: far from here it would be a riddle, or be taken."""
        if isinstance(self.checkpoint, os.PathLike):
            object.__setattr__(self, "checkpoint", os.fspath(self.checkpoint))
        for field in fields(self):
            value, (first, _, rest) = getattr(self, field.name), str(field.type).partition(" | ")
            kind, called = _KINDS[first.partition("[")[0]]
            fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
            if not fits and not (value is None and rest):
                raise UserError(f"{field.name} must be {called}, not {value!r:.60}.")


@dataclass(frozen=True, slots=True)
class Voices:
    """What a narrator can be asked for."""

    voices: tuple[str, ...]
    languages: tuple[str, ...]


class Narrator(Protocol):
    sample_rate: int
    sampling: Sampling
    # A narrator may also have `stream(line) -> Iterator[np.ndarray]`: the line's float32 samples by pieces, as they are
    # made. And it may have `text_form: TextForm`; where there is none, it reads what is written. One that finds
    # something out while it reads may have `tell: Callable[[str], None]`, where whoever listens puts a function. One
    # may have `begin_early() -> bool`, asked before `read` by who makes something of the book's first lines on the
    # processor as soon as they are there: whether they will be read first, and the processor is not needed for reading.

    def settings(self) -> dict[str, Any]:
        """All that the sound of a line depends on, as JSON values; takes are kept apart by it."""

    def notes(self) -> list[str]:
        """What the user should be told before it begins."""

    def expected_seconds(self, line: Line) -> float:
        """A guess at how long a line will be, for progress and for disk space."""

    def read(self, lines: Iterable[Line]) -> Iterator[Take]:
        """Read all lines, in the order that is fastest; each take as soon as it is finished."""

    def useful(self) -> float:
        """Frames kept over frames computed, so far."""

    def retakes(self) -> int:
        """Readings made again so far."""


class SpokenForms:
    """A narrator that wants spoken forms, behind one that takes what is written: its takes are of the written lines.

    What is spoken decides how long a line is expected to be; the key of a line stays, and so does what is recorded.
    """

    def __init__(self, narrator: Narrator, spoken: Callable[[str], str]) -> None:
        self._narrator, self._spoken = narrator, spoken
        self.sample_rate, self.sampling = narrator.sample_rate, narrator.sampling

    @property
    def tell(self) -> Callable[[str], None]:
        return getattr(self._narrator, "tell", _nobody)

    @tell.setter
    def tell(self, hear: Callable[[str], None]) -> None:
        if hasattr(self._narrator, "tell"):
            self._narrator.tell = hear

    def begin_early(self) -> bool:
        return begin_early(self._narrator)

    def settings(self) -> dict[str, Any]:
        return self._narrator.settings()

    def notes(self) -> list[str]:
        return self._narrator.notes()

    def expected_seconds(self, line: Line) -> float:
        return self._narrator.expected_seconds(self._turned(line))

    def read(self, lines: Iterable[Line]) -> Iterator[Take]:
        written = list(lines)
        # Numbered anew: lines of two texts read together have the same indices.
        turned = (replace(self._turned(line), index=number) for number, line in enumerate(written))
        for take in self._narrator.read(turned):
            yield replace(take, line=written[take.line.index])

    def stream(self, line: Line) -> Iterator[np.ndarray]:
        return stream(self._narrator, self._turned(line))

    def useful(self) -> float:
        return self._narrator.useful()

    def retakes(self) -> int:
        return self._narrator.retakes()

    def _turned(self, line: Line) -> Line:
        return replace(line, text=self._spoken(line.text))


def stream(narrator: Narrator, line: Line) -> Iterator[np.ndarray]:
    """The sound of a line by pieces, of a narrator that cannot do that in one."""
    pieces: Callable[[Line], Iterator[np.ndarray]] | None = getattr(narrator, "stream", None)
    return pieces(line) if pieces is not None else (take.audio for take in narrator.read([line]))


def begin_early(narrator: Narrator) -> bool:
    """Whether the first lines of a book come first, of a narrator that may never have heard of it."""
    ask: Callable[[], bool] | None = getattr(narrator, "begin_early", None)
    return ask is not None and ask()


def _nobody(text: str) -> None:
    pass


class Door(Protocol):
    """What an entry point of group `rhapsode.narrators` leads to."""

    def load(self, options: Options) -> Narrator: ...

    def voices(self, options: Options) -> Voices: ...


def find(name: str = DEFAULT) -> Door:
    """The narrator of that name among the installed ones. Raises `UserError` naming those that exist.

    An installed one that cannot be imported, for want of a library perhaps, is a `UserError` too.
    """
    known = {point.name: point for point in entry_points(group=GROUP)}
    if name not in known and name == DEFAULT:
        # A bare checkout has no entry points; the built-in one is where it always is.
        from rhapsode.qwen3 import narrator

        return narrator
    if name not in known:
        raise UserError(f"There is no narrator {name!r}; installed are {', '.join(sorted({*known, DEFAULT}))}.")
    try:
        return known[name].load()
    except (ImportError, AttributeError) as error:
        raise UserError(f"The narrator {name!r} is installed but cannot be loaded: {error}.") from error
