"""What a checkpoint holds: components, parameters, dtypes and bytes, from file headers alone.

Knows which tensors belong to which component. Reads no weights, so a 4 GB file costs a moment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rhapsode.qwen3 import shapes
from rhapsode.qwen3.checkpoint import Checkpoint, Entry, open_checkpoint
from rhapsode.qwen3.hub import locate


@dataclass(frozen=True, slots=True)
class Row:
    component: str
    parameters: int
    bytes: int
    dtypes: tuple[str, ...]
    tensors: int

    def __add__(self, other: Row) -> Row:
        dtypes = tuple(dict.fromkeys((*self.dtypes, *other.dtypes)))
        return Row(
            self.component,
            self.parameters + other.parameters,
            self.bytes + other.bytes,
            dtypes,
            self.tensors + other.tensors,
        )


@dataclass(frozen=True, slots=True)
class Inspection:
    name: str
    size: str
    kind: str
    rows: tuple[Row, ...]  # the whole, part by part
    total: Row
    codec: tuple[Row, ...]  # the codec file once more, split
    not_loaded: tuple[str, ...]  # components that reading aloud has no use for

    def as_json(self) -> dict[str, Any]:
        def plain(row: Row) -> dict[str, Any]:
            return {
                "component": row.component, "parameters": row.parameters, "bytes": row.bytes,
                "dtypes": list(row.dtypes), "tensors": row.tensors,
            }  # fmt: skip

        return {
            "checkpoint": self.name,
            "size": self.size,
            "kind": self.kind,
            "components": [plain(row) for row in self.rows],
            "total": plain(self.total),
            "codec": [plain(row) for row in self.codec],
            "not_loaded": list(self.not_loaded),
        }

    def table(self) -> str:
        head = f"{self.name}: Qwen3-TTS-12Hz, size {self.size}, {self.kind}"
        lines = [*_lines((*self.rows, self.total)), "", "of the codec file:", *_lines(self.codec)]
        unused = f"Reading aloud does not load: {', '.join(self.not_loaded)}."
        return "\n".join([head, "", *lines, "", unused])


def inspect(
    where: str | os.PathLike[str], *, revision: str | None = None, offline: bool = False, token: str | None = None
) -> Inspection:
    """Count a checkpoint. Raises `CheckpointError` as opening it does."""
    folder = locate(where, revision=revision, offline=offline, token=token)
    return count(open_checkpoint(folder, str(where)))


def count(checkpoint: Checkpoint) -> Inspection:
    model = shapes.model_tensors(checkpoint.model)
    codec = shapes.codec_tensors(checkpoint.codec)
    talker = _by_component(model, checkpoint.model_header)
    sound = _by_component(codec, checkpoint.codec_header)
    config = checkpoint.model
    books = config.talker.codebooks - 1
    projected = ", projection" if config.predictor.trunk.hidden != config.talker.trunk.hidden else ""
    rest = [shapes.HEADS, *([shapes.SPEAKER] if shapes.SPEAKER in talker else [])]
    rows = (
        _named("talker trunk (layers and final norm)", [talker[shapes.TRUNK]]),
        talker[shapes.TEXT],
        _named(f"depth predictor (layers, {books} embeddings, {books} heads{projected})", [talker[shapes.PREDICTOR]]),
        _named("codec file, every tensor", sound.values()),
        _named(f"rest: {', '.join(_rest_name(name, talker[name]) for name in rest)}", [talker[name] for name in rest]),
    )
    return Inspection(
        checkpoint.name,
        config.size,
        config.kind,
        rows,
        _named("total", rows),
        tuple(sound[name] for name in (shapes.ENCODER, shapes.DECODER, shapes.CODEBOOKS)),
        tuple(name for name in shapes.NOT_LOADED if name in talker or name in sound),
    )


def _rest_name(name: str, row: Row) -> str:
    return f"{name} {row.parameters:,}" if name == shapes.SPEAKER else name


def _by_component(wanted: Mapping[str, shapes.Wanted], header: Mapping[str, Entry]) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for name, want in wanted.items():
        entry = header[name]
        row = Row(want.component, entry.parameters, entry.bytes, (entry.dtype,), 1)
        rows[want.component] = rows[want.component] + row if want.component in rows else row
    return rows


def _named(name: str, rows: Iterable[Row]) -> Row:
    total = Row(name, 0, 0, (), 0)
    for row in rows:
        total = total + row
    return total


def _lines(rows: Iterable[Row]) -> list[str]:
    rows = list(rows)
    width = max(len(row.component) for row in rows)
    return [
        f"{row.component:<{width}}  {row.parameters:>15,}  {row.bytes:>15,} bytes  {'+'.join(row.dtypes):<8} "
        f"{row.tensors:>4} tensors"
        for row in rows
    ]
