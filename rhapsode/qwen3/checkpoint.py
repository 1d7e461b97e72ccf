"""The official checkpoint layout on disk: which files there are and what their headers say.

Knows safetensors headers and checks them against the shapes that the configuration asks for. Holds no weights:
a back end maps them from `Checkpoint.model_file` and `codec_file`. Reads no pickle; there is no other way in.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from rhapsode.errors import CheckpointError, UserError
from rhapsode.qwen3 import shapes
from rhapsode.qwen3.config import CodecConfig, ModelConfig, read_codec_config, read_model_config
from rhapsode.qwen3.strict import read_json
from rhapsode.types import Sampling

WEIGHTS = "model.safetensors"
CODEC_FOLDER = "speech_tokenizer"
CARD = "rhapsode.json"  # what a checkpoint made for us says of itself; official ones have none
_MAX_HEADER_BYTES = 100_000_000  # the bound of the safetensors format itself
_DTYPE_BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
                "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8}  # fmt: skip
_WEIGHT_DTYPES = ("F32", "BF16", "F16")


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor as a safetensors header describes it."""

    dtype: str
    shape: tuple[int, ...]
    start: int  # of its data, in the file
    bytes: int

    @property
    def parameters(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checked checkpoint: the configurations, and headers that have every tensor in its shape."""

    folder: Path
    name: str  # what the user called it
    model: ModelConfig
    codec: CodecConfig
    model_header: Mapping[str, Entry]
    codec_header: Mapping[str, Entry]
    sampling: Sampling  # the official defaults with what generation_config.json changes

    @property
    def model_file(self) -> Path:
        return self.folder / WEIGHTS

    @property
    def codec_file(self) -> Path:
        return self.folder / CODEC_FOLDER / WEIGHTS

    def identity(self) -> str:
        """16 hex digits over everything that the sound depends on: all files' contents, weights by samples.

        Weights are sampled (header, and 64 KiB at 64 places of each file), so that a 4 GB file costs milliseconds.
        """
        digest = hashlib.blake2b(digest_size=8)
        for name in ("config.json", "vocab.json", "merges.txt", f"{CODEC_FOLDER}/config.json"):
            digest.update((self.folder / name).read_bytes())
        for file in (self.model_file, self.codec_file):
            size = file.stat().st_size
            digest.update(size.to_bytes(8, "little"))
            with open(file, "rb") as stream:
                for i in range(64):
                    stream.seek(size * i // 64)
                    digest.update(stream.read(65536))
        return digest.hexdigest()


def embedded_checkpoint() -> Path | None:
    """The checkpoint that is part of the package; None where an installation lacks it."""
    folder = Path(str(files("rhapsode"))) / "demo"
    return folder if (folder / WEIGHTS).is_file() else None


def open_checkpoint(folder: str | os.PathLike[str], name: str | None = None) -> Checkpoint:
    """The checkpoint in a folder, read as far as its headers, and checked.

    Raises `CheckpointError` naming the file and the key or tensor, what was wanted and what was found.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder; a checkpoint is a folder with config.json and {WEIGHTS}.")
    model = read_model_config(folder / "config.json")
    codec = read_codec_config(folder / CODEC_FOLDER / "config.json")
    _check_agreement(model, codec, folder)
    return Checkpoint(
        folder=folder,
        name=name or str(folder),
        model=model,
        codec=codec,
        model_header=_checked(folder / WEIGHTS, shapes.model_tensors(model)),
        codec_header=_checked(folder / CODEC_FOLDER / WEIGHTS, shapes.codec_tensors(codec)),
        sampling=_read_sampling(folder / "generation_config.json"),
    )


def _check_agreement(model: ModelConfig, codec: CodecConfig, folder: Path) -> None:
    """The two configurations describe one pipeline: as many codebooks, and every code in the codec's tables."""
    books = codec.decoder.codebooks
    if books != model.talker.codebooks:
        raise CheckpointError(
            f"{folder}: the talker makes {model.talker.codebooks} codebooks, the codec reads {books}."
        )
    largest = max(model.talker.codes, model.predictor.vocab)
    if largest > codec.decoder.codebook_size:
        raise CheckpointError(
            f"{folder}: the talker and predictor make codes up to {largest - 1}, "
            f"the codec's tables end at {codec.decoder.codebook_size - 1}."
        )
    if model.speaker_encoder is not None and model.speaker_encoder.enc_dim != model.talker.trunk.hidden:
        raise CheckpointError(
            f"{folder}/config.json: speaker_encoder_config.enc_dim is {model.speaker_encoder.enc_dim}; "
            f"{model.talker.trunk.hidden} is wanted, the talker's hidden size."
        )


def _checked(file: Path, wanted: Mapping[str, shapes.Wanted]) -> dict[str, Entry]:
    header = read_header(file)
    for name, want in wanted.items():
        entry = header.get(name)
        if entry is None:
            raise CheckpointError(f"{file}: tensor {name} is missing; shape {list(want.shape)} is wanted.")
        if entry.shape != want.shape:
            raise CheckpointError(
                f"{file}: tensor {name} has shape {list(entry.shape)}; {list(want.shape)} is wanted by config.json."
            )
        if entry.dtype not in _WEIGHT_DTYPES:
            raise CheckpointError(f"{file}: tensor {name} is {entry.dtype}; {', '.join(_WEIGHT_DTYPES)} can be read.")
    unknown = sorted(set(header) - set(wanted))
    if unknown:
        raise CheckpointError(
            f"{file}: {len(unknown)} tensor{'s' * (len(unknown) > 1)} that the architecture has no place for, "
            f"such as {unknown[0]} {list(header[unknown[0]].shape)}."
        )
    return header


def read_header(file: Path) -> dict[str, Entry]:
    """The header of a safetensors file, checked against the file's length; no weights are read."""
    try:
        size = file.stat().st_size
        with open(file, "rb") as stream:
            start = stream.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
            if not 2 <= length <= min(size - 8, _MAX_HEADER_BYTES):
                raise CheckpointError(f"{file} is not a safetensors file, or its header is cut off ({size} bytes).")
            raw = json.loads(stream.read(length))
    except FileNotFoundError:
        index = file.with_name(file.name + ".index.json")
        hint = f"; {index.name} says it is split, and one file is wanted" if index.exists() else ""
        raise CheckpointError(f"{file} is missing{hint}; the official layout has it.") from None
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError):
        raise CheckpointError(f"{file} is not a safetensors file: its header is not JSON.") from None
    return _entries(file, raw, 8 + length, size)


def _entries(file: Path, raw: object, data_start: int, size: int) -> dict[str, Entry]:
    data_bytes = size - data_start
    if not isinstance(raw, dict):
        raise CheckpointError(f"{file} is not a safetensors file: its header is not a JSON object.")
    entries, spans = {}, []
    for name, value in raw.items():
        if name == "__metadata__":
            continue
        try:
            dtype, shape, (begin, end) = value["dtype"], tuple(value["shape"]), value["data_offsets"]
            fits = (
                all(isinstance(n, int) and n >= 0 for n in (*shape, begin, end))
                and end - begin == math.prod(shape) * _DTYPE_BYTES[dtype]
            )
        except (KeyError, TypeError, ValueError):
            fits = False
        if not fits:
            raise CheckpointError(f"{file}: the header's entry for tensor {name!r:.80} is damaged.")
        if end > data_bytes:
            raise CheckpointError(
                f"{file} is cut off: tensor {name} needs {end} bytes of data, the file has {data_bytes}."
            )
        entries[name] = Entry(dtype, shape, data_start + begin, end - begin)
        spans.append((begin, end, name))
    reached = 0
    for begin, end, name in sorted(spans):
        if begin != reached:
            raise CheckpointError(f"{file}: tensor {name} does not begin where the one before it ends.")
        reached = end
    if reached != data_bytes:
        raise CheckpointError(f"{file} has {data_bytes} bytes of data; its header describes {reached}.")
    return entries


_SAMPLING_KEYS = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "repetition_penalty": "repetition_penalty",
    "subtalker_temperature": "predictor_temperature",
    "subtalker_top_k": "predictor_top_k",
    "subtalker_top_p": "predictor_top_p",
}


def _read_sampling(file: Path) -> Sampling:
    """generation_config.json over the official defaults. The file is optional, as it is for the official loader."""
    if not file.exists():
        return Sampling()
    values = read_json(file)
    if not isinstance(values, dict):
        raise CheckpointError(f"{file} should hold a JSON object.")
    changes = {ours: values[theirs] for theirs, ours in _SAMPLING_KEYS.items() if values.get(theirs) is not None}
    for theirs, ours in (("do_sample", "greedy"), ("subtalker_dosample", "predictor_greedy")):
        if values.get(theirs) is not None:
            if not isinstance(values[theirs], bool):
                raise CheckpointError(f"{file}: {theirs} should be true or false, not {values[theirs]!r:.60}.")
            changes[ours] = not values[theirs]
    known = {*_SAMPLING_KEYS, "do_sample", "subtalker_dosample", "max_new_tokens", "transformers_version"}
    unknown = sorted(set(values) - known - {"_from_model_config", "eos_token_id", "pad_token_id", "bos_token_id"})
    if unknown:
        raise CheckpointError(f"{file}: unknown keys {', '.join(unknown)}; known are {', '.join(sorted(known))}.")
    try:
        return Sampling().but(**changes)
    except (UserError, TypeError) as error:
        raise CheckpointError(f"{file}: {error}") from None
