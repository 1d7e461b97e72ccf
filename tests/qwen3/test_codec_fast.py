"""The codec of half-precision products: it sounds as the plain one, and where it does not, it is not used."""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is there; without Triton the twins are tested

import copy
import math
import warnings
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from rhapsode.bench.weights import Deck, fill
from rhapsode.qwen3.config import DecoderConfig
from rhapsode.qwen3.torch import codec_fast, load
from rhapsode.qwen3.torch.codec import CodecDecoder, ConvNeXt, SnakeBeta
from rhapsode.qwen3.torch.codec_fast import FastCodec, bytes_per_frame, frames_at_once, quicken
from rhapsode.qwen3.torch.load import Model, assemble
from rhapsode.qwen3.torch.mixed import LIMIT, TOLERANCE, deviation

FRAMES = 9
PARTS = 4  # what is before the tower, its first convolution, two stages
GB = 2**30


@pytest.fixture(scope="module")
def config(custom_model: Model) -> DecoderConfig:
    """Channels of 64, 32 and 16: the sizes of tiles. Few samples, as each tile takes long here."""
    tiny = custom_model.codec.config
    return replace(tiny, channels=64, upsampling_ratios=(2,), upsample_rates=(3, 2))


@pytest.fixture(autouse=True)
def few_sounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two to be tried on, as each takes long here."""
    monkeypatch.setattr(codec_fast, "TRIAL_SOUNDS", 2)


@pytest.fixture
def plain(config: DecoderConfig) -> CodecDecoder:
    with torch.device("meta"):
        decoder = CodecDecoder(config)
    fill(decoder, Deck(0), torch.float32, torch.device("cpu"))
    numbers = torch.Generator().manual_seed(3)
    for name, value in decoder.named_parameters():
        if name.endswith("bias"):
            value.copy_(torch.randn(value.shape, generator=numbers) * 0.1)
    decoder.stages[-1].bias.data.fill_(0.1)
    return decoder


@pytest.fixture
def steep(plain: CodecDecoder) -> CodecDecoder:
    """The same with sines of high frequency: what is rounded early is heard."""
    numbers = torch.Generator().manual_seed(1)
    for part in plain.modules():
        if isinstance(part, SnakeBeta):
            exponents = torch.rand(part.alpha.shape, generator=numbers) * math.log(50.0)
            part.alpha.data, part.beta.data = exponents, exponents / 2
    return plain


def codes(rows: int = 2, frames: int = FRAMES, seed: int = 0) -> Tensor:
    return torch.randint(64, (rows, frames, 16), generator=torch.Generator().manual_seed(seed))


@torch.inference_mode()
def sound(decoder: CodecDecoder, of: Tensor, *piece: int) -> Tensor:
    wave = decoder(of, *piece)
    assert 0.02 < float(wave.abs().max()) < 1.0, "nothing may hide in silence or behind the clamp"
    return wave


@pytest.mark.parametrize("exact", [0, 1, 3, PARTS])
def test_it_sounds_as_the_plain_one(plain: CodecDecoder, exact: int) -> None:
    found, wanted = sound(FastCodec(plain, exact), codes()), sound(plain, codes())
    assert found.shape == wanted.shape == (2, FRAMES * 12)
    assert 0.0 < deviation(found, wanted) <= TOLERANCE


def test_parts_that_are_exact_are(steep: CodecDecoder) -> None:
    """All but the last convolution, which takes halves, compute as in float32: each part gets it closer."""
    wanted = sound(steep, codes())
    off = [deviation(sound(FastCodec(steep, exact), codes()), wanted) for exact in (0, 3, PARTS)]
    assert off[0] > TOLERANCE
    assert off[0] > off[1] > off[2] and off[2] < 0.001


@pytest.mark.parametrize("piece", [2, 4])
def test_pieces_and_lines_apart_sound_as_the_whole(
    plain: CodecDecoder, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    fast, of = FastCodec(plain, 1), codes(3)
    whole = sound(fast, of)
    assert deviation(sound(fast, of, piece), whole) <= 1e-3
    monkeypatch.setattr(FastCodec, "rows_at_once", lambda *_: 2)
    assert deviation(sound(fast, of), whole) <= 1e-5


def test_a_line_that_fills_up_does_not_reach_back(plain: CodecDecoder) -> None:
    fast, of = FastCodec(plain, 0), codes()
    whole = sound(fast, of)
    of[:, 5:] = 0
    assert torch.equal(sound(fast, of)[:, : 5 * 12], whole[:, : 5 * 12])


@pytest.mark.parametrize("place", ["stages.1.0", "stages.2.2.snake_1", "stages.3"])
def test_numbers_beyond_half_precision_are_decoded_in_float32(plain: CodecDecoder, place: str) -> None:
    """A sine of 1e5 of height, by itself or behind one: what follows is not full scale, but as it should be."""
    snake = plain.get_submodule(place)
    assert isinstance(snake, SnakeBeta)
    snake.beta.data[3] = -math.log(1e5)
    plain.stages[-1].weight.data.abs_()  # infinities of one sign, which do not make NaN by themselves
    of = codes()
    of[1] = of[0]
    fast = FastCodec(plain, 0)
    assert fast.unchecked(of).isnan().any(1).all()
    with torch.inference_mode():
        assert torch.equal(fast(of), plain(of))


def test_only_the_line_with_large_numbers_is_decoded_again(
    plain: CodecDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast, seen = FastCodec(plain, 0), list[int]()
    bad = codes().new_zeros(2, FRAMES * 12, dtype=torch.float32)
    bad[1, 7] = math.nan
    monkeypatch.setattr(fast, "unchecked", lambda of, piece: bad.clone())
    monkeypatch.setattr(plain, "forward", lambda of, piece: seen.append(len(of)) or torch.ones(len(of), FRAMES * 12))
    assert fast(codes())[:, 0].tolist() == [0.0, 1.0] and seen == [1]


# ------------------------------------------------------------------ the trial


def test_a_mild_codec_is_quickened_whole(plain: CodecDecoder) -> None:
    fast = quicken(plain)
    assert isinstance(fast, FastCodec) and fast.exact == 0 and fast.format == "float16-0"


def test_under_stress_parts_stay_exact(steep: CodecDecoder) -> None:
    fast = quicken(steep)
    assert isinstance(fast, FastCodec) and 0 < fast.exact <= PARTS
    assert deviation(sound(fast, codes()), sound(steep, codes())) <= TOLERANCE
    with torch.inference_mode():
        of = codec_fast.trial_codes(steep.config, codec_fast.TRIAL_SOUNDS)
        assert deviation(FastCodec(steep, fast.exact - 1).unchecked(of), steep(of)) > LIMIT


def test_where_nothing_holds_all_stays_as_it_was(plain: CodecDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec_fast, "LIMIT", 0.0)
    assert quicken(plain) is plain
    monkeypatch.setattr(codec_fast, "LIMIT", 1.0)
    monkeypatch.setattr(FastCodec, "unchecked", lambda *_: torch.full((1, 1), math.nan))
    assert quicken(plain) is plain


def test_kernels_that_fail_are_said_and_not_used(plain: CodecDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Tensor:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(FastCodec, "unchecked", fail)
    with pytest.warns(UserWarning, match="stays in float32.*no compiler"):
        assert quicken(plain) is plain


@pytest.mark.parametrize(
    ("device", "format", "there", "expected"),
    [
        ("cuda", "bfloat16", True, "float16-0"),
        ("cuda:1", "bfloat16", True, "float16-0"),
        ("cuda", "bfloat16", False, "float32"),
        ("cuda", "float32", True, "float32"),
        ("mps", "bfloat16", True, "float32"),
    ],
)
def test_who_asks_for_fewer_bits_on_a_card_gets_them(
    custom_model: Model, plain: CodecDecoder, monkeypatch: pytest.MonkeyPatch,
    device: str, format: str, there: bool, expected: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(load, "runs_on", lambda _: there)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = assemble(custom_model.talker, custom_model.predictor, plain, device, format)
    assert any("Triton" in str(one.message) for one in told) == (device != "cpu" and not there)
    assert model.codec_format == expected
    assert (model.codec is plain) == (expected == "float32")


def test_float32_is_not_rounded_by_the_library(plain: CodecDecoder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[bool]()
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    monkeypatch.setattr(plain.conv_in, "forward", lambda x: seen.append(torch.backends.cudnn.allow_tf32) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plain(codes())
    assert seen == [False] and torch.backends.cudnn.allow_tf32


# ------------------------------------------------------------------ memory


def test_more_memory_more_frames(config: DecoderConfig) -> None:
    released = replace(config, channels=1536, latent=1024, upsampling_ratios=(2, 2), upsample_rates=(8, 5, 4, 3))
    assert bytes_per_frame(released) == pytest.approx(1920 * 96 * 12, rel=0.1)
    found = [frames_at_once(released, free) for free in (0, GB // 2, GB, 4 * GB, 100 * GB)]
    assert found[0] == 1 and found[-1] == codec_fast.MOST_FRAMES and found == sorted(set(found))
    assert found[2] * bytes_per_frame(released) <= GB / 2


def test_what_is_not_a_product_is_shared(plain: CodecDecoder) -> None:
    fast = FastCodec(plain, 0)
    before = copy.deepcopy(plain.state_dict())
    blocks = [part for part in fast.upsample.modules() if isinstance(part, ConvNeXt)]
    assert blocks and blocks[0].gamma is plain.upsample[0][1].gamma
    assert not any(type(part) is nn.Linear for part in blocks[0].modules())
    assert all(torch.equal(value, before[name]) for name, value in plain.state_dict().items())
