"""The codec encoder against the official one: hidden states and codes, every kind of length, alone and in batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from rhapsode.qwen3.checkpoint import Checkpoint, open_checkpoint
from rhapsode.qwen3.torch.encoder import CodecEncoder
from rhapsode.qwen3.torch.weights import load_encoder
from tests import tiny_checkpoint
from tests.parity import oracle

TOLERANCE = 1e-4  # of the largest hidden state
WINDOW = 20  # positions; 3 s have 75
# What the usual tiny codec has one of, or has equal, or has as the class has it.
OTHERWISE = {
    "num_residual_layers": 2, "num_hidden_layers": 3, "num_key_value_heads": 1, "num_semantic_quantizers": 2,
    "compress": 1, "upsampling_ratios": [4, 10, 4, 6], "kernel_size": 5, "last_kernel_size": 5, "head_dim": 6,
    "residual_kernel_size": 4, "norm_eps": 0.05, "rope_theta": 30.0, "sliding_window": WINDOW,
}  # fmt: skip


class Pair(NamedTuple):
    checkpoint: Checkpoint
    ours: CodecEncoder
    theirs: Any


@pytest.fixture(scope="module", params=["usual", "otherwise"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder: Path = tmp_path_factory.mktemp(request.param)
    config = tiny_checkpoint.codec_config()
    config["encoder_config"].update(OTHERWISE if request.param == "otherwise" else {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny_checkpoint, "codec_config", lambda: config)
        tiny_checkpoint.write(folder, seed=5)
    checkpoint = open_checkpoint(folder)
    theirs = oracle.load(folder).model.speech_tokenizer.model
    return Pair(checkpoint, load_encoder(checkpoint, torch.device("cpu")), theirs)


def noise(samples: int, rows: int = 1) -> Tensor:
    """A recording that swells and fades, so that frames differ."""
    generator = torch.Generator().manual_seed(samples)
    swell = 0.1 + torch.sin(torch.arange(samples) / 7000.0).square()
    return swell * torch.randn(rows, samples, generator=generator)


@torch.inference_mode()
def hidden_officially(theirs: Any, wave: Tensor) -> Tensor:
    mimi = theirs.encoder
    mixed = mimi.encoder_transformer(mimi.encoder(wave.unsqueeze(1)).transpose(1, 2), return_dict=True)
    return mimi.downsample(mixed.last_hidden_state.transpose(1, 2)).transpose(1, 2)


@torch.inference_mode()
def encode_officially(theirs: Any, wave: Tensor, lengths: list[int] | None = None) -> list[Tensor]:
    mask = torch.zeros(wave.shape, dtype=torch.int64)
    for row, length in enumerate(lengths or [wave.shape[1]] * len(wave)):
        mask[row, :length] = 1
    return theirs.encode(wave, mask, return_dict=True).audio_codes


def assert_same(ours: CodecEncoder, theirs: Any, wave: Tensor, **options: int) -> None:
    with torch.inference_mode():
        hidden, codes = ours.hidden(wave, **options), ours(wave, **options)
    wanted = hidden_officially(theirs, wave)
    assert hidden.shape == wanted.shape == (len(wave), -(-wave.shape[1] // 1920), 16)
    worst = (hidden - wanted).abs().max() / wanted.abs().max()
    assert worst <= TOLERANCE, f"{wave.shape[1]} samples: deviation {worst:.2%} of the largest state"
    assert codes.dtype == torch.int64
    assert torch.equal(codes, torch.stack(encode_officially(theirs, wave)))


@pytest.mark.parametrize("samples", [1, 2, 959, 960, 961, 1919, 1920, 1921, 2880, 3841, 5003, 18_777])
def test_lengths(pair: Pair, samples: int) -> None:
    assert_same(pair.ours, pair.theirs, noise(samples, rows=2))


def test_three_seconds(pair: Pair) -> None:
    wave = noise(72_000)
    assert_same(pair.ours, pair.theirs, wave)
    with torch.inference_mode():
        used = pair.ours(wave).flatten(0, 1)
    assert used.shape == (38, 16) and all(len(book.unique()) > 5 for book in used.T), "codes that say something"


def test_in_pieces(pair: Pair) -> None:
    """Beyond the window of the file too: the official attention, as it runs, sees all that came before."""
    assert_same(pair.ours, pair.theirs, noise(13 * 24_000 + 5), piece=7)


def test_with_the_window_of_the_file(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the official code would run if it gave its attention the window that its configuration has."""
    from transformers.masking_utils import create_sliding_window_causal_mask
    from transformers.models.mimi import modeling_mimi

    windowed = load_encoder(pair.checkpoint, torch.device("cpu"), windowed=True)
    wave = noise(13 * 24_000 + 5)
    assert wave.shape[1] / 960 > 1.2 * pair.checkpoint.codec.encoder.window
    with pytest.raises(AssertionError, match="deviation"):
        assert_same(windowed, pair.theirs, wave)
    monkeypatch.setattr(modeling_mimi, "create_causal_mask", create_sliding_window_causal_mask)
    assert_same(windowed, pair.theirs, wave)
    assert_same(windowed, pair.theirs, wave, piece=7)


def test_a_batch_of_mixed_lengths(pair: Pair) -> None:
    """Shorter recordings are filled up with silence; each has the frames that it has alone."""
    lengths = [48_000, 1, 1920, 30_001, 47_999]
    wave = torch.zeros(len(lengths), max(lengths))
    for row, length in enumerate(lengths):
        wave[row, :length] = noise(length)[0]
    with torch.inference_mode():
        codes = pair.ours(wave)
    for row, theirs in enumerate(encode_officially(pair.theirs, wave, lengths)):
        frames = pair.ours.frames(lengths[row])
        assert torch.equal(codes[row, :frames], theirs)
        alone = encode_officially(pair.theirs, wave[row : row + 1, : lengths[row]])[0]
        assert len(alone) == frames and torch.equal(codes[row, : frames - 1], alone[: frames - 1])
