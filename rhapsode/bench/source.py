"""Where the networks of a measurement come from: random ones of published shapes, or a checkpoint.

Knows both by the names that users type. Measures nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rhapsode.bench.gauge import Model, gauge_of
from rhapsode.bench.shapes import SHAPES
from rhapsode.errors import UserError
from rhapsode.qwen3.checkpoint import CODEC_FOLDER, embedded_checkpoint, open_checkpoint
from rhapsode.qwen3.config import CodecConfig, ModelConfig, codec_config, model_config
from rhapsode.qwen3.strict import read_json

DEMO = "demo"  # the shapes of the embedded voice


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    model: ModelConfig
    codec: CodecConfig
    build: Callable[[str, str], Model]  # (device, format)
    read_json: Callable[[], tuple[Any, Any]]  # the two config.json as they were read


def random_source(name: str, model_json: Any, codec_json: Any) -> Source:
    """Random weights of the shapes that two config.json ask for."""
    model, codec = model_config(model_json, Path("config.json")), codec_config(codec_json, Path("codec/config.json"))
    return Source(
        name,
        model,
        codec,
        lambda device, format: gauge_of(device).random_model(model, codec, device, format),
        lambda: copy.deepcopy((model_json, codec_json)),
    )


def find_source(shapes: str | None, checkpoint: str | None) -> Source:
    """Raises `UserError` for shapes that there are not, or for a checkpoint that cannot be used."""
    if checkpoint is not None:
        folder = Path(checkpoint)
        opened = open_checkpoint(folder)
        return Source(
            opened.name,
            opened.model,
            opened.codec,
            lambda device, format: gauge_of(device).load_model(opened, device, format),
            lambda: (read_json(folder / "config.json"), read_json(folder / CODEC_FOLDER / "config.json")),
        )
    name = shapes or next(iter(SHAPES))
    if name == DEMO:
        embedded = embedded_checkpoint()
        if embedded is None:
            raise UserError("This installation has no embedded voice, so there are no shapes demo; try 1.7b or 0.6b.")
        model, codec = (read_json(folder / "config.json") for folder in (embedded, embedded / CODEC_FOLDER))
        return random_source("demo, random weights", model, codec)
    if name not in SHAPES:
        raise UserError(f"There are no shapes {name!r}; there are {', '.join((*SHAPES, DEMO))}.")
    model_json, codec_json = (make() for make in SHAPES[name])
    return random_source(f"{name}, random weights", model_json, codec_json)
