"""The codec's kernels on a card: each against its twin, and the whole against float32.

    python -m pytest tests/gpu

on a machine with CUDA; elsewhere nothing of it runs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rhapsode.bench.shapes import CODEC
from rhapsode.bench.weights import Deck, fill
from rhapsode.qwen3.checkpoint import Checkpoint, embedded_checkpoint, open_checkpoint
from rhapsode.qwen3.config import codec_config
from rhapsode.qwen3.torch import codec_products
from rhapsode.qwen3.torch.codec import CodecDecoder, SnakeBeta
from rhapsode.qwen3.torch.codec_fast import FastCodec, quicken
from rhapsode.qwen3.torch.codec_products import HALF, Sine, convolve, pack, to_one, unit
from rhapsode.qwen3.torch.kernels import conv, interpreted
from rhapsode.qwen3.torch.load import load_model
from rhapsode.qwen3.torch.mixed import TOLERANCE, deviation
from rhapsode.qwen3.torch.weights import load_codec

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or interpreted(), reason="needs a CUDA device, and kernels that run on it"
)


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to("cuda", dtype)


def sine(channels: int, seed: int = 7) -> Sine:
    return Sine(random(channels, seed=seed), random(channels, seed=seed + 1).abs())


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    new = codec_products._new
    monkeypatch.setattr(codec_products, "_new", lambda *args: new(*args).fill_(torch.nan))


def close(found: Tensor | None, wanted: Tensor | None) -> None:
    assert (found is None) == (wanted is None)
    if found is not None and wanted is not None:
        torch.testing.assert_close(found.float(), wanted.float(), rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("fetch", [True, False], ids=["fetched", "pointers"])
@pytest.mark.parametrize("split", [False, True], ids=["halves", "split"])
@pytest.mark.parametrize("time", [1, 127, 129, 1000])
@pytest.mark.parametrize(("into", "out", "taps", "dilation"), [
    (768, 768, 7, 3), (768, 768, 1, 1), (1536, 512, 2, 1), (384, 384, 7, 9), (192, 288, 2, 1), (96, 96, 7, 9),
    (96, 96, 1, 1), (16, 16, 7, 1), (48, 40, 3, 1),
])  # fmt: skip
def test_a_convolution_is_its_twin(
    monkeypatch: pytest.MonkeyPatch, fetch: bool, split: bool, time: int, into: int, out: int, taps: int, dilation: int
) -> None:
    shared, engine = conv._card(torch.device("cuda"))
    if fetch and not engine:
        pytest.skip("this card has no copy engine")
    monkeypatch.setattr(conv, "_card", lambda _: (shared, fetch))
    weight = random(out, into, taps, seed=1) * (into * taps) ** -0.5
    product = pack(weight, random(out, seed=2), dilation, split=split)
    x = random(3, time, into, seed=3, dtype=product.dtype)
    for adds, keep, narrow in ((False, False, HALF), (False, True, HALF), (True, True, HALF), (True, False, HALF),
                               (True, True, None), (False, False, torch.float32)):  # fmt: skip
        streams = [random(3, time, out, seed=4) if adds else None for _ in range(2)]
        found = convolve(x, product, stream=streams[0], keep=keep, sine=sine(out), narrow=narrow)
        wanted = codec_products._plainly(x, product, streams[1], keep, sine(out), narrow)
        close(found[0], wanted[0])
        close(found[1], wanted[1])
        if split and narrow is not HALF and found[0] is not None:
            torch.testing.assert_close(found[0], wanted[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("fetch", [True, False], ids=["fetched", "pointers"])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("time", [1, 127, 129, 3000])
@pytest.mark.parametrize("channels", codec_products.FUSED)
def test_a_unit_is_its_twin(monkeypatch: pytest.MonkeyPatch, fetch: bool, keep: bool, time: int, channels: int) -> None:
    shared, engine = conv._card(torch.device("cuda"))
    if fetch and not engine:
        pytest.skip("this card has no copy engine")
    monkeypatch.setattr(conv, "_card", lambda _: (shared, fetch))
    first, second = (
        pack(random(channels, channels, taps, seed=taps) * (channels * taps) ** -0.5, None, 9, split=False)
        for taps in (7, 1)
    )
    x, stream = random(3, time, channels, dtype=HALF), random(3, time, channels, seed=1)
    twice, between, after = stream.clone(), sine(channels), sine(channels, 9)
    found = unit(x, first, between, second, after, stream, keep=keep, narrow=HALF)
    _, inner = codec_products._plainly(x, first, None, False, between, HALF)
    assert inner is not None
    total, wanted = codec_products._plainly(inner, second, twice, True, after, HALF)
    assert total is not None and wanted is not None
    close(found[0], total if keep else None)
    close(stream, total if keep else random(3, time, channels, seed=1))
    # What goes in between is rounded to half: sums that are off by that are off by more behind a steep sine.
    steep = (2 * math.pi * after.turn * total).sin() * math.pi * after.turn * after.height
    allowed = 4e-3 * (1 + wanted.float().abs()) + 2e-3 * steep.abs()
    assert ((found[1].float() - wanted.float()).abs() <= allowed).all()


@pytest.mark.parametrize("time", [1, 63, 65, 1000])
def test_one_channel_is_its_twin(time: int) -> None:
    x, weight, bias = random(3, time, 96, dtype=HALF), random(7, 96, seed=1), random(1, seed=2)
    wanted = codec_products._taps(x.float(), weight.unsqueeze(1).unbind(0), 1).squeeze(-1) + bias
    torch.testing.assert_close(to_one(x, weight, bias), wanted, rtol=1e-3, atol=1e-3)


def test_more_elements_than_32_bits_count() -> None:
    """The last row of 2^31 elements and more is what it is alone."""
    rows, time = 24, 1_000_000
    if torch.cuda.mem_get_info()[0] < 25e9:
        pytest.skip("needs 25 GB")
    product = pack(random(96, 96, 1, seed=1) * 0.1, None, 1, split=False)
    x = torch.zeros((rows, time, 96), dtype=HALF, device="cuda")
    x[-1, -500:] = random(500, 96, dtype=HALF)
    assert x.numel() > 2**31
    total, _ = convolve(x, product, keep=True)
    assert total is not None
    alone, _ = convolve(x[-1:, -512:].contiguous(), product, keep=True)
    assert alone is not None and torch.equal(total[-1, -500:], alone[0, -500:]) and not total[:-1].any()


def trained() -> Checkpoint:
    folder = embedded_checkpoint()
    assert folder is not None
    return open_checkpoint(folder)


@pytest.fixture(scope="module")
def embedded() -> CodecDecoder:
    return load_codec(trained(), torch.device("cuda"))


def codes(decoder: CodecDecoder, rows: int, frames: int, seed: int) -> Tensor:
    numbers = torch.Generator().manual_seed(seed)
    return torch.randint(
        decoder.config.codebook_size, (rows, frames, decoder.config.codebooks), generator=numbers
    ).cuda()


@torch.inference_mode()
def off(decoder: CodecDecoder, fast: CodecDecoder, rows: int = 4, frames: int = 60) -> float:
    return max(deviation(fast(of), decoder(of)) for of in (codes(decoder, rows, frames, seed) for seed in range(3)))


def test_trained_weights_sound_the_same(embedded: CodecDecoder) -> None:
    fast = quicken(embedded)
    assert isinstance(fast, FastCodec)
    assert 0.0 < off(embedded, fast) <= TOLERANCE


def test_the_released_structure_sounds_the_same() -> None:
    with torch.device("meta"):
        decoder = CodecDecoder(codec_config(CODEC, Path("config.json")).decoder)
    fill(decoder, Deck(0), torch.float32, torch.device("cuda"))
    fast = quicken(decoder)
    assert isinstance(fast, FastCodec) and fast.exact == 0
    assert 0.0 < off(decoder, fast) <= TOLERANCE
    of = codes(decoder, 2, 300, 5)  # more than a piece
    with torch.inference_mode():
        assert deviation(fast(of), decoder(of)) <= TOLERANCE


def test_under_stress_it_is_exact_or_not_used(embedded: CodecDecoder) -> None:
    decoder = load_codec(trained(), torch.device("cuda"))
    numbers = torch.Generator().manual_seed(1)
    for part in decoder.modules():
        if isinstance(part, SnakeBeta):
            exponents = (torch.rand(part.alpha.shape, generator=numbers) * math.log(10.0)).cuda()
            part.alpha.data, part.beta.data = exponents, exponents / 2
    fast = quicken(decoder)
    assert fast is decoder or (isinstance(fast, FastCodec) and fast.exact > 0 and off(decoder, fast) <= TOLERANCE)


def test_every_level_gets_closer(embedded: CodecDecoder) -> None:
    found = [off(embedded, FastCodec(embedded, exact)) for exact in (0, 3, 6)]
    assert found[0] > found[1] > found[2] and found[2] < 1e-3


def test_formats_say_what_they_are() -> None:
    assert load_model(trained(), "cuda", "bfloat16").codec_format.startswith("float16")
    assert load_model(trained(), "cuda", "float32").codec_format == "float32"


def test_channels_that_are_no_tiles(embedded: CodecDecoder) -> None:
    config = replace(embedded.config, channels=32, upsampling_ratios=(2,), upsample_rates=(3, 2))
    with torch.device("meta"):
        decoder = CodecDecoder(config)
    fill(decoder, Deck(0), torch.float32, torch.device("cuda"))
    assert 0.0 < off(decoder, FastCodec(decoder, 0)) <= TOLERANCE
