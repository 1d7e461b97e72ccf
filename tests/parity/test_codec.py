"""The codec decoder against the official one: whole lines of every length, and pieces against whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.parity.conftest import Pair

TOLERANCE = 1e-3  # of the peak


def decode_officially(pair: Pair, codes: np.ndarray) -> np.ndarray:
    """Codes [rows, frames, books] -> samples [rows, samples], whole."""
    with torch.inference_mode():
        return pair.theirs.model.speech_tokenizer.model.decoder(torch.from_numpy(codes).transpose(1, 2))[:, 0].numpy()


def random_codes(pair: Pair, rows: int, frames: int, seed: int) -> np.ndarray:
    decoder = pair.checkpoint.codec.decoder
    return np.random.default_rng(seed).integers(0, decoder.codebook_size, (rows, frames, decoder.codebooks))


@pytest.mark.parametrize("pair", ["1.7b-custom"], indirect=True)  # the codec is the same in all variants
def test_every_length(pair: Pair) -> None:
    for frames in range(1, 91):
        codes = random_codes(pair, 1, frames, frames)
        with torch.inference_mode():
            ours = pair.ours.codec(torch.from_numpy(codes)).numpy()
        theirs = decode_officially(pair, codes)
        assert ours.shape == theirs.shape == (1, frames * 1920)
        peak = np.abs(theirs).max()
        assert 0.02 < peak < 1.0, "nothing may hide in silence or behind the clamp"
        worst = np.abs(ours - theirs).max() / peak
        assert worst <= TOLERANCE, f"{frames} frames: deviation {worst:.2%} of the peak"


def test_groups_of_mixed_lengths(pair: Pair) -> None:
    """A line that shares its call with longer ones sounds as the official decoder makes it alone."""
    from rhapsode.qwen3.limits import Limits
    from rhapsode.qwen3.torch.stepper import TorchStepper
    from rhapsode.types import Sampling

    stepper = TorchStepper(
        pair.ours.talker, pair.ours.predictor, pair.ours.codec, Sampling(),
        slots=1, limits=Limits(8, 8), sample_rate=24000,
    )  # fmt: skip
    lines = [random_codes(pair, 1, frames, frames)[0] for frames in (3, 40, 17)]
    for line, wave in zip(lines, stepper.vocode(lines).waves(), strict=True):
        theirs = decode_officially(pair, line[None])[0]
        assert np.abs(wave - theirs).max() <= TOLERANCE * np.abs(theirs).max()
