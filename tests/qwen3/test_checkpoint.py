"""A checkpoint folder: everything that can be wrong with its files is one sentence, before a weight is read."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from rhapsode.errors import CheckpointError
from rhapsode.qwen3.checkpoint import Checkpoint, open_checkpoint, read_header
from rhapsode.types import Sampling
from tests.qwen3.conftest import GONE, edit

NORM = "talker.model.norm.weight"


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(folder)
    message = str(caught.value)
    assert message.endswith(".") and "\n" not in message
    for word in (str(folder), *words):
        assert word in message, message


def change_tensors(file: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)


def change_header(file: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Rewrite the header; the data stay as they are."""
    content = file.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    header = change(header) or header
    raw = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(raw)) + raw + content[8 + length :])


# ------------------------------------------------------------------ folders and files


def test_a_sound_checkpoint(custom_folder: Path, custom: Checkpoint) -> None:
    assert custom.name == str(custom_folder)
    assert custom.model_header[NORM].shape == (64,)
    assert custom.model_header[NORM].parameters == 64 and custom.model_header[NORM].bytes == 256
    assert open_checkpoint(custom_folder, "called so").name == "called so"


def test_no_folder(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "is not a folder")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "is not a folder")


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "speech_tokenizer/config.json", "speech_tokenizer/model.safetensors"]
)
def test_missing_files(own: Path, name: str) -> None:
    (own / name).unlink()
    refused(own, name, "is missing")


def test_a_missing_codec(own: Path) -> None:
    shutil.rmtree(own / "speech_tokenizer")
    refused(own, "speech_tokenizer/config.json", "is missing")


def test_a_split_file(own: Path) -> None:
    (own / "model.safetensors").rename(own / "model-00001-of-00002.safetensors")
    (own / "model.safetensors.index.json").write_text("{}")
    refused(own, "model.safetensors is missing", "model.safetensors.index.json says it is split", "one file is wanted")


def test_pickles_are_never_read(own: Path) -> None:
    """A checkpoint with nothing but pickles is refused, and a pickle beside the right file is not opened."""

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (own / "sprung",)

    import pickle

    before = open_checkpoint(own).identity()
    for name in ("pytorch_model.bin", "model.pt", "speech_tokenizer/pytorch_model.bin"):
        (own / name).write_bytes(pickle.dumps(Trap()))
    from rhapsode.qwen3.torch.load import load_model

    checkpoint = open_checkpoint(own)
    load_model(checkpoint, "cpu", "float32")
    assert checkpoint.identity() == before
    (own / "model.safetensors").unlink()
    refused(own, "model.safetensors is missing")
    assert not (own / "sprung").exists()


# ------------------------------------------------------------------ the tensors


@pytest.mark.parametrize("file", ["model.safetensors", "speech_tokenizer/model.safetensors"])
def test_missing_misshapen_and_surplus_tensors(own: Path, file: str) -> None:
    tensors = load_file(own / file)
    name = sorted(tensors)[7]
    shape = list(tensors[name].shape)
    save_file({other: value for other, value in tensors.items() if other != name}, own / file)
    refused(own, file, name, "missing", str(shape))
    save_file(tensors | {name: np.zeros([*shape, 2], np.float32)}, own / file)
    refused(own, file, name, str([*shape, 2]), f"{shape} is wanted")
    save_file(tensors | {"extra.weight": np.zeros((3, 4), np.float32)}, own / file)
    refused(own, file, "1 tensor that", "extra.weight [3, 4]")
    save_file(tensors | {"extra.b": np.zeros(3, np.float32), "extra.a": np.zeros(2, np.float32)}, own / file)
    refused(own, file, "2 tensors that", "extra.a [2]")


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.float64, np.bool_])
def test_dtypes_that_are_no_weights(own: Path, dtype: Any) -> None:
    def change(tensors: dict[str, np.ndarray]) -> None:
        tensors[NORM] = tensors[NORM].astype(dtype)

    change_tensors(own / "model.safetensors", change)
    refused(own, NORM, "F32, BF16, F16 can be read")


def test_half_precision_is_a_weight(own: Path) -> None:
    change_tensors(own / "model.safetensors", lambda t: t.update({NORM: t[NORM].astype(np.float16)}))
    assert open_checkpoint(own).model_header[NORM].dtype == "F16"


# ------------------------------------------------------------------ damaged files


@pytest.mark.parametrize("left", [0, 5, 8, 9, 200])
def test_a_header_that_is_cut_off(own: Path, left: int) -> None:
    file = own / "model.safetensors"
    file.write_bytes(file.read_bytes()[:left])
    refused(own, "model.safetensors", "header is cut off", f"({left} bytes)")


@pytest.mark.parametrize("missing", [1, 5000])
def test_data_that_are_cut_off(own: Path, missing: int) -> None:
    file = own / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-missing])
    refused(own, "model.safetensors", "is cut off: tensor ", "bytes of data")


def test_data_that_nobody_describes(own: Path) -> None:
    file = own / "model.safetensors"
    size = sum(entry.bytes for entry in read_header(file).values())
    file.write_bytes(file.read_bytes() + b"more")
    refused(own, "model.safetensors", f"has {size + 4} bytes of data; its header describes {size}")


@pytest.mark.parametrize("length", [0, 1, 100_000_001, 1 << 40, (1 << 64) - 1])
def test_absurd_header_lengths(tmp_path: Path, length: int) -> None:
    file = tmp_path / "model.safetensors"
    with open(file, "wb") as stream:
        stream.write(struct.pack("<Q", length) + b"{}")
        stream.truncate(200_000_000)  # sparse: the length is absurd although the file is as long
    with pytest.raises(CheckpointError, match="its header is cut off .200000000 bytes"):
        read_header(file)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"nonsense", "its header is not JSON"),
        (b"\xff\xfe\xfd", "its header is not JSON"),
        (b"[" * 100_000, "its header is not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "its header is not JSON"),
        (b"[]", "its header is not a JSON object"),
        (b'"text"', "its header is not a JSON object"),
    ],
)
def test_headers_that_are_no_json_object(tmp_path: Path, header: bytes, words: str) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(CheckpointError, match=words) as caught:
        read_header(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        "F32",
        {},
        {"dtype": "F32", "shape": [64]},
        {"dtype": "F32", "data_offsets": [0, 256]},
        {"dtype": "F99", "shape": [64], "data_offsets": [0, 256]},
        {"dtype": ["F32"], "shape": [64], "data_offsets": [0, 256]},
        {"dtype": "F32", "shape": 64, "data_offsets": [0, 256]},
        {"dtype": "F32", "shape": "ab", "data_offsets": [0, 256]},
        {"dtype": "F32", "shape": [64.0], "data_offsets": [0, 256]},
        {"dtype": "F32", "shape": [-64], "data_offsets": [0, 256]},
        {"dtype": "F32", "shape": [-8, -8], "data_offsets": [0, 256]},
        {"dtype": "F32", "shape": [64], "data_offsets": [0, 128, 256]},
        {"dtype": "F32", "shape": [64], "data_offsets": [0, 255]},
        {"dtype": "F32", "shape": [64], "data_offsets": [256, 0]},
        {"dtype": "F32", "shape": [64], "data_offsets": ["0", "256"]},
        {"dtype": "F32", "shape": [64], "data_offsets": [-256, 0]},
        {"dtype": "F16", "shape": [64], "data_offsets": [0, 256]},
    ],
)
def test_damaged_entries(own: Path, entry: Any) -> None:
    change_header(own / "model.safetensors", lambda header: header.update({NORM: entry}))
    refused(own, "model.safetensors", f"tensor '{NORM}' is damaged")


def test_overlaps_and_gaps(own: Path) -> None:
    def shift(by: int) -> Callable[[dict[str, Any]], None]:
        def change(header: dict[str, Any]) -> None:
            header[NORM]["data_offsets"] = [at + by for at in header[NORM]["data_offsets"]]

        return change

    file = own / "model.safetensors"
    for by in (-4, 4, -256):
        change_header(file, shift(by))
        refused(own, "does not begin where the one before it ends")
        change_header(file, shift(-by))
    open_checkpoint(own)
    sound = file.read_bytes()
    change_header(file, lambda header: {name: entry for name, entry in header.items() if name != NORM})
    with pytest.raises(CheckpointError, match="does not begin where the one before it ends"):
        read_header(file)
    file.write_bytes(sound)
    # Two names for the same bytes.
    change_header(file, lambda header: header.update({"extra": header[NORM]}))
    refused(own, "does not begin where the one before it ends")


def test_metadata_are_no_tensor(own: Path) -> None:
    change_header(own / "model.safetensors", lambda header: {"__metadata__": {"format": "pt"}} | header)
    open_checkpoint(own)


# ------------------------------------------------------------------ talker and codec


def test_codebooks_that_disagree(own: Path) -> None:
    edit(own / "speech_tokenizer" / "config.json", "decoder_config.num_quantizers", 8)
    refused(own, "the talker makes 16 codebooks, the codec reads 8")


@pytest.mark.parametrize("of", ["talker_config.vocab_size", "talker_config.code_predictor_config.vocab_size"])
def test_codes_beyond_the_codec_s_tables(own: Path, of: str) -> None:
    edit(own / "config.json", of, 65 if "predictor" in of else 65 + 1024)
    refused(own, "codes up to 64", "tables end at 63")


def test_a_speaker_encoder_of_another_width(own_base: Path) -> None:
    edit(own_base / "config.json", "speaker_encoder_config.enc_dim", 64)
    refused(own_base, "speaker_encoder_config.enc_dim is 64", "48 is wanted")


# ------------------------------------------------------------------ sampling


def generation(own: Path, **changes: Any) -> Path:
    file = own / "generation_config.json"
    for key, value in changes.items():
        edit(file, key, value)
    return own


def test_generation_config_is_taken_over(own: Path) -> None:
    assert open_checkpoint(own).sampling == Sampling()
    generation(own, temperature=0.5, top_k=7, top_p=0.8, repetition_penalty=1.3, subtalker_temperature=0.6,
               subtalker_top_k=9, subtalker_top_p=0.7, do_sample=False, subtalker_dosample=False)  # fmt: skip
    assert open_checkpoint(own).sampling == Sampling(
        greedy=True, temperature=0.5, top_k=7, top_p=0.8, repetition_penalty=1.3, predictor_greedy=True,
        predictor_temperature=0.6, predictor_top_k=9, predictor_top_p=0.7,
    )  # fmt: skip


def test_generation_config_is_optional(own: Path) -> None:
    generation(own, temperature=None, top_k=GONE)
    assert open_checkpoint(own).sampling == Sampling()
    (own / "generation_config.json").unlink()
    assert open_checkpoint(own).sampling == Sampling()


def test_unknown_sampling_is_refused(own: Path) -> None:
    refused(generation(own, num_beams=4, min_p=0.1), "generation_config.json", "min_p, num_beams", "known are", "top_k")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temperature", 0), ("temperature", "hot"), ("temperature", True), ("top_k", -1), ("top_k", 5.5),
        ("top_k", "9"), ("top_p", 0), ("top_p", 1.5), ("top_p", [1]), ("repetition_penalty", -1.0),
        ("repetition_penalty", {}), ("subtalker_top_p", 2), ("subtalker_top_k", 1e9), ("do_sample", "false"),
        ("do_sample", 0),
        ("subtalker_dosample", "no"),
    ],
)  # fmt: skip
def test_sampling_that_means_nothing(own: Path, key: str, value: Any) -> None:
    refused(generation(own, **{key: value}), "generation_config.json")


def test_generation_config_that_is_no_object(own: Path) -> None:
    (own / "generation_config.json").write_text("[1]")
    refused(own, "generation_config.json", "JSON object")


# ------------------------------------------------------------------ identity


def test_identity_is_what_the_sound_depends_on(own: Path, custom: Checkpoint) -> None:
    first = open_checkpoint(own).identity()
    assert first == custom.identity(), "the place does not matter"
    assert len(first) == 16 and int(first, 16) >= 0
    seen = {first}
    for name in ("config.json", "vocab.json", "merges.txt", "speech_tokenizer/config.json"):
        file = own / name
        file.write_bytes(file.read_bytes() + b"\n")
        seen.add(open_checkpoint(own).identity())
    for name in ("model.safetensors", "speech_tokenizer/model.safetensors"):
        content = bytearray((own / name).read_bytes())
        content[-1] ^= 1
        (own / name).write_bytes(content)
        seen.add(open_checkpoint(own).identity())
    assert len(seen) == 7
