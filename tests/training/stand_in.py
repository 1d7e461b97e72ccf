"""A work folder with texts and tones in place of speech, so that every training stage can be run for a few steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.tiny_checkpoint import vocabulary
from training.layout import SAMPLE_RATE, begin_checkpoint

LABELS = 12
HELD_OUT = 4
SENTENCES = 40

# Sizes with which a step takes a fraction of a second. As many layers as are watched; the widths that files name twice.
_TRUNK = {"head_dim": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 64}
_TALKER = {**_TRUNK, "hidden_size": 64, "text_hidden_size": 32, "num_hidden_layers": 5}
_PREDICTOR = {**_TRUNK, "hidden_size": 48, "num_hidden_layers": 1, "layer_types": ["full_attention"]}
_HALF = {
    "hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
    "intermediate_size": 64,
}  # fmt: skip
_ENCODER = {**_HALF, "num_filters": 4, "upsample_groups": 48}
_DECODER = {**_HALF, "latent_dim": 48, "decoder_dim": 32}


@dataclass
class Tone:
    samples: Tensor
    durations: np.ndarray


def speak(lines: Sequence[np.ndarray]) -> Iterable[Tone]:
    """A tone for every id, 60 ms long, its pitch the id's."""
    for line in lines:
        duration = round(0.06 * SAMPLE_RATE)
        time = torch.arange(duration) / SAMPLE_RATE
        tones = [0.1 * torch.sin(2 * torch.pi * (150 + 60 * int(number)) * time) for number in line]
        yield Tone(torch.cat(tones), np.full(len(line), duration))


def write_texts(work: Path, *, small: bool = True) -> None:
    """work/data and work/checkpoint, as the stages `prepare` and `layout` leave them; `small`: with tiny networks."""
    chance = np.random.default_rng(0)
    vocab, merges = vocabulary()
    texts = ["".join(chance.choice(list("abcdefg "), chance.integers(3, 40))).strip() + "." for _ in range(SENTENCES)]
    ids = [np.frombuffer(text.encode(), np.uint8) % LABELS for text in texts]
    ends = np.cumsum([len(text) for text in texts])
    label = np.repeat(np.concatenate(ids)[:, None], 2, axis=1)
    at = np.concatenate([np.arange(len(text)) for text in texts]).astype(np.uint16)
    data = work / "data"
    data.mkdir(parents=True, exist_ok=True)
    fields: dict[str, Any] = {
        "text": np.frombuffer("".join(texts).encode(), np.uint8), "text_end": ends,
        "held_out": HELD_OUT, "labels": LABELS,
    }  # fmt: skip
    for teacher in ("joe", "kokoro"):
        fields |= {f"{teacher}_ids": np.concatenate(ids), f"{teacher}_end": ends, f"{teacher}_at": at,
                   f"{teacher}_label": label}  # fmt: skip
    np.savez(data / "utterances.npz", **fields)
    (data / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    (data / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    begin_checkpoint(work)
    if small:
        shrink(work / "checkpoint")


def shrink(checkpoint: Path) -> None:
    """Tiny networks in place of those that are trained."""

    def talker(config: dict[str, Any]) -> None:
        config["talker_config"].update(_TALKER)
        config["talker_config"]["code_predictor_config"].update(_PREDICTOR)

    def codec(config: dict[str, Any]) -> None:
        config["encoder_config"].update(_ENCODER)
        config["decoder_config"].update(_DECODER)

    _edit(checkpoint / "config.json", talker)
    _edit(checkpoint / "speech_tokenizer" / "config.json", codec)


def _edit(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    config = json.loads(file.read_text(encoding="utf-8"))
    change(config)
    file.write_text(json.dumps(config), encoding="utf-8")


class Clock:
    """In the place of the module `time`: every look at it is a tenth of a second later, and nobody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 0.1
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
