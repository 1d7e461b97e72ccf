"""The nouns that travel through the house: Book > Chapter > Block, Line, Take, Sampling.

Knows no file format, no model and no array library; imports nothing of ours but the errors.
All are frozen: a later stage makes a new value, it never reaches back into an old one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from rhapsode.errors import UserError

if TYPE_CHECKING:
    import numpy as np

BlockKind = Literal["heading", "paragraph", "break"]
Speaker = Literal["narration", "dialogue"]


@dataclass(frozen=True, slots=True)
class Block:
    """A heading, a paragraph, or a section break (whose text is empty)."""

    kind: BlockKind
    text: str


@dataclass(frozen=True, slots=True)
class Chapter:
    """One entry of the book's navigation with the text that belongs to it."""

    number: int  # 1-based, as `--chapters` counts
    title: str
    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.blocks if block.text)


@dataclass(frozen=True, slots=True)
class Book:
    title: str
    author: str
    language: str  # BCP 47 as the book says it, "" where it does not
    chapters: tuple[Chapter, ...]
    cover: bytes | None = None  # JPEG or PNG as it lies in the book
    notes: tuple[str, ...] = ()  # what the reader wants to be told: parts skipped, encoding assumed


@dataclass(frozen=True, slots=True)
class Line:
    """One utterance: what a lane reads in one go."""

    index: int  # 0-based, in reading order over the whole book
    chapter: int  # `Chapter.number`
    text: str
    key: int  # 63 bits, from the text, who says it and how often it came before: stable when other lines change
    pause_s: float = 0.0  # silence after the line
    speaker: Speaker = "narration"  # "dialogue" only where a second voice was asked for


@dataclass(frozen=True, slots=True)
class Take:
    """The sound of one line and what is known of it."""

    line: Line
    audio: np.ndarray  # float32 [samples], within [-1, 1]
    sample_rate: int
    frames: int  # codec frames kept; 0 where no model was asked
    seed: int
    tries: int = 1  # readings that were made to get this one
    problem: str = ""  # why the kept reading is not good; "" when it is

    @property
    def seconds(self) -> float:
        return len(self.audio) / self.sample_rate


@dataclass(frozen=True, slots=True)
class Sampling:
    """How codes are drawn. The defaults are those of the official package."""

    greedy: bool = False  # the likeliest code always; no randomness at all
    temperature: float = 0.9
    top_k: int = 50  # 0: all
    top_p: float = 1.0
    repetition_penalty: float = 1.05  # talker only: on codes this line has used before
    predictor_greedy: bool = False
    predictor_temperature: float = 0.9
    predictor_top_k: int = 50
    predictor_top_p: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value, kind = getattr(self, field.name), type(field.default)
            if type(value) is not kind and not (kind is float and type(value) is int):
                wanted = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
                raise UserError(f"{field.name} must be {wanted}, not {value!r:.60}.")
        for name in ("temperature", "predictor_temperature", "repetition_penalty"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} must be above 0, not {getattr(self, name)}; for no randomness set greedy.")
        for name in ("top_p", "predictor_top_p"):
            if not 0 < getattr(self, name) <= 1:
                raise UserError(f"{name} must be above 0 and at most 1, not {getattr(self, name)}.")
        for name in ("top_k", "predictor_top_k"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} must be 0 (all) or more, not {getattr(self, name)}.")

    def but(self, **changes: Any) -> Sampling:
        """The same with some fields changed; an unknown name is refused with those that exist."""
        known = [f.name for f in fields(self)]
        for name in changes:
            if name not in known:
                raise UserError(f"There is no sampling option {name!r}; there are {', '.join(known)}.")
        return replace(self, **changes)
