"""The codec's kernels against their plain twins, statement by statement on the CPU."""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is there


import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")
if os.environ["TRITON_INTERPRET"] != "1":
    pytest.skip("Triton is not interpreted in this run", allow_module_level=True)

from rhapsode.qwen3.torch import codec_products  # noqa: E402
from rhapsode.qwen3.torch.codec import CausalConv, CausalUpsample, SnakeBeta  # noqa: E402
from rhapsode.qwen3.torch.codec_products import (  # noqa: E402
    HALF,
    Product,
    Sine,
    convolve,
    pack,
    pack_upsample,
    to_one,
    unit,
)
from rhapsode.qwen3.torch.kernels import conv  # noqa: E402

SMALL = conv.Tile(steps=16, columns=32, rest=0, depth=16, warps=4, stages=1)  # so that small tensors have edges
NARROW = conv.Tile(steps=16, columns=32, rest=16, depth=16, warps=4, stages=1)
# Whether there is a stream, whether the sum is kept, the type of what comes next, whether that goes through a sine.
ASKED = [
    (False, False, HALF, True), (False, True, HALF, True), (True, True, HALF, True), (True, False, torch.float32, True),
    (True, True, None, False), (False, True, None, False), (False, False, torch.float32, False),
]  # fmt: skip


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel does not write is NaN."""
    new = codec_products._new
    monkeypatch.setattr(codec_products, "_new", lambda *args: new(*args).fill_(torch.nan))


def plainly(x: Tensor, product: Product, **asked: object) -> tuple[Tensor | None, Tensor | None]:
    order = {"stream": None, "keep": False, "sine": None, "narrow": None, **asked}
    return codec_products._plainly(x, product, *order.values())  # type: ignore[arg-type]


def close(found: Tensor | None, wanted: Tensor | None, rough: float = 2e-5) -> None:
    if wanted is None:
        assert found is None
        return
    assert found is not None and found.dtype == wanted.dtype
    rough = 4e-3 if wanted.dtype is HALF else rough  # halves may be rounded to a neighbour
    torch.testing.assert_close(found, wanted, rtol=rough, atol=rough)


def sine(channels: int) -> Sine:
    return Sine(random(channels, seed=7), random(channels, seed=8).abs())


def use(monkeypatch: pytest.MonkeyPatch, tile: conv.Tile) -> None:
    monkeypatch.setattr(conv, "tile_for", lambda *_: tile)


@pytest.mark.parametrize("tile", [SMALL, NARROW], ids=["one width", "two widths"])
@pytest.mark.parametrize("fetch", [True, False], ids=["fetched", "pointers"])
@pytest.mark.parametrize("split", [False, True], ids=["halves", "split"])
@pytest.mark.parametrize(("rows", "time", "into", "out", "taps", "dilation"), [
    (1, 1, 16, 16, 7, 9), (2, 15, 16, 47, 3, 3), (2, 16, 32, 48, 1, 1), (2, 17, 48, 33, 1, 1), (1, 40, 16, 49, 7, 9),
])  # fmt: skip
def test_a_convolution_is_its_twin(
    monkeypatch: pytest.MonkeyPatch, tile: conv.Tile, fetch: bool, split: bool,
    rows: int, time: int, into: int, out: int, taps: int, dilation: int,
) -> None:  # fmt: skip
    use(monkeypatch, tile)
    monkeypatch.setattr(conv, "_card", lambda _: (conv.LEAST_SHARED, fetch))
    weight = random(out, into, taps, seed=1) * (into * taps) ** -0.5
    product = pack(weight, random(out, seed=2), dilation, split=split)
    x = random(rows, time, into, seed=3, dtype=product.dtype)
    for adds, keep, narrow, waves in ASKED:
        streams = [random(rows, time, out, seed=4) if adds else None for _ in range(2)]
        asked = {"keep": keep, "sine": sine(out) if waves else None, "narrow": narrow}
        found = convolve(x, product, stream=streams[0], **asked)
        wanted = plainly(x, product, stream=streams[1], **asked)
        for ours, theirs in zip(found, wanted, strict=True):
            close(ours, theirs)
        if adds:
            assert streams[0] is not None and streams[1] is not None
            close(streams[0], streams[1])
            assert not keep or found[0] is streams[0], "the sum takes the place of the stream"


@pytest.mark.parametrize(("into", "out", "taps"), [(16, 16, 1), (32, 24, 3), (96, 96, 1), (192, 192, 1), (64, 256, 1)])
def test_the_tiles_that_are_chosen_give_what_the_twin_gives(into: int, out: int, taps: int) -> None:
    product = pack(random(out, into, taps, seed=1) * (into * taps) ** -0.5, None, 1, split=False)
    x = random(2, 130, into, seed=3, dtype=HALF)
    for stream in (None, random(2, 130, out, seed=4)):
        asked = {"keep": True, "sine": sine(out), "narrow": HALF}
        twice = None if stream is None else stream.clone()
        for ours, theirs in zip(
            convolve(x, product, stream=stream, **asked), plainly(x, product, stream=twice, **asked), strict=True
        ):
            close(ours, theirs)


def halves(out: int, into: int, taps: int, dilation: int, seed: int) -> Product:
    weight = random(out, into, taps, seed=seed) * (into * taps) ** -0.5
    return pack(weight, random(out, seed=seed + 1), dilation, split=False)


@pytest.mark.parametrize("fetch", [True, False], ids=["fetched", "pointers"])
@pytest.mark.parametrize("keep", [True, False], ids=["kept", "not kept"])
@pytest.mark.parametrize(("rows", "time", "channels", "taps", "dilation"), [
    (2, 15, 16, 7, 9), (1, 17, 32, 7, 1), (2, 130, 96, 1, 1), (1, 40, 96, 2, 3), (1, 3, 192, 2, 1), (1, 129, 64, 1, 1),
])  # fmt: skip
def test_a_unit_is_two_convolutions(
    monkeypatch: pytest.MonkeyPatch, fetch: bool, keep: bool, rows: int, time: int, channels: int, taps: int,
    dilation: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(conv, "_card", lambda _: (conv.LEAST_SHARED, fetch))
    x, stream = random(rows, time, channels, dtype=HALF), random(rows, time, channels, seed=1)
    first, second = halves(channels, channels, taps, dilation, 2), halves(channels, channels, 1, 1, 4)
    waves, twice = (sine(channels), Sine(sine(channels).height, sine(channels).turn.abs())), stream.clone()
    launched = list[int]()
    kernel = conv.unit
    monkeypatch.setattr(conv, "unit", lambda *given: launched.append(1) or kernel(*given))
    total, found = unit(x, first, waves[0], second, waves[1], stream, keep=keep, narrow=HALF)
    _, inner = plainly(x, first, sine=waves[0], narrow=HALF)
    assert inner is not None and launched
    wanted = plainly(inner, second, stream=twice, keep=keep, sine=waves[1], narrow=HALF)
    close(total, wanted[0], 2e-3)  # what goes in between may be rounded to a neighbour
    close(found, wanted[1])
    close(stream, twice, 2e-3 if keep else 0.0)


def test_a_unit_of_other_sizes_is_two_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv, "unit", lambda *_: pytest.fail("not for these"))
    for channels, split, narrow in ((48, False, HALF), (16, True, HALF), (16, False, torch.float32)):
        first, second = (pack(random(channels, channels, taps), None, 1, split=split) for taps in (7, 1))
        x, stream = random(1, 5, channels, dtype=first.dtype), random(1, 5, channels, seed=1)
        total, found = unit(x, first, sine(channels), second, sine(channels), stream, keep=True, narrow=narrow)
        assert total is stream and found.dtype is narrow


@pytest.mark.parametrize("dtype", [HALF, torch.float32])
@pytest.mark.parametrize(("rows", "time", "into"), [(1, 1, 2), (2, 63, 5), (1, 64, 96), (3, 65, 16), (2, 130, 33)])
def test_one_channel_is_its_twin(rows: int, time: int, into: int, dtype: torch.dtype) -> None:
    x, weight, bias = random(rows, time, into, dtype=dtype), random(7, into, seed=1), random(1, seed=2)
    wanted = codec_products._taps(x.float(), weight.unsqueeze(1).unbind(0), 1).squeeze(-1) + bias
    torch.testing.assert_close(to_one(x, weight, bias), wanted, rtol=1e-5, atol=1e-5)


def test_the_square_of_a_sine() -> None:
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(x, y, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.arange(0, SIZE)
        tl.store(y + at, conv.sine_square(tl.load(x + at)))

    x = torch.cat((torch.linspace(-3, 3, 1000), torch.tensor([0.0, 0.5, -0.5, 1.0, 1e4 + 0.25, -12345.5]), random(18)))
    y = torch.full_like(x, torch.nan)
    kernel[(1,)](x, y, SIZE=1024)
    wanted = (x.double() * torch.pi).sin().square().float()
    assert float((y - wanted).abs().max()) < 5e-7


# ------------------------------------------------------------------ how weights are packed


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 1), (7, 9)])
def test_a_packed_convolution_is_the_layer(kernel: int, dilation: int, split: bool) -> None:
    layer = CausalConv(16, 24, kernel, dilation=dilation)
    product = codec_products.pack_conv(layer, split=split)
    x = random(2, 40, 16)
    found, _ = convolve(x.to(product.dtype), product, keep=True)
    with torch.no_grad():
        wanted = layer(x.transpose(1, 2)).transpose(1, 2)
    rough = 1e-6 if split else 3e-3
    torch.testing.assert_close(found, wanted, rtol=rough, atol=rough)


@pytest.mark.parametrize("kernel", [3, 6])
def test_a_packed_upsampling_is_the_layer(kernel: int) -> None:
    layer = CausalUpsample(16, 8, kernel, 3)
    with torch.no_grad():
        layer.weight.copy_(random(*layer.weight.shape) * 0.2)
        layer.bias.copy_(random(8, seed=1))
    product, x = pack_upsample(layer, split=True), random(2, 9, 16, seed=2)
    found, _ = convolve(x, product, keep=True)
    assert found is not None
    with torch.no_grad():
        wanted = layer(x.transpose(1, 2)).transpose(1, 2)
    torch.testing.assert_close(found.view(2, 27, 8), wanted, rtol=1e-5, atol=1e-5)


def test_a_sine_is_that_of_the_layer() -> None:
    snake = SnakeBeta(5)
    with torch.no_grad():
        snake.alpha.copy_(random(5, seed=1))
        snake.beta.copy_(random(5, seed=2))
    x, waves = random(1, 9, 5, seed=3), Sine.of(snake, times=2)
    with torch.no_grad():
        wanted = snake(x.transpose(1, 2)).transpose(1, 2)
    for part in (slice(0, 5), slice(5, 10)):
        found = x + (x * waves.turn[part] * torch.pi).sin().square() * waves.height[part]
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1.0, 3e5])
def test_weights_of_any_size_keep_their_bits(size: float) -> None:
    """Half precision alone has neither 3e5 nor the bits of 1e-9."""
    weight = random(8, 16, 3) * size
    weight[3] = 0.0
    for split, bits in ((False, 2**-11), (True, 2**-20)):
        product = pack(weight, None, 1, split=split)
        kept = product.high.float() + (0.0 if product.low is None else product.low.float())
        off = (kept * product.scale.unsqueeze(1)).view(8, 3, 16).transpose(1, 2) - weight
        assert float(off.abs().max()) <= bits * float(weight.abs().max())


def test_nothing_is_multiplied_for_weights_that_halves_hold() -> None:
    assert pack(random(4, 16, 3).half().float(), None, 1, split=True).low is None
    assert pack(random(4, 16, 3), None, 1, split=True).low is not None


# ------------------------------------------------------------------ what is refused


def test_what_does_not_fit_is_refused() -> None:
    product, x = pack(random(24, 16, 3), None, 1, split=False), random(2, 9, 16, dtype=HALF)
    right = sine(24)
    with pytest.raises(ValueError, match="x has shape"):
        convolve(x[..., :8], product, keep=True)
    with pytest.raises(ValueError, match="x is torch.float32"):
        convolve(x.float(), product, keep=True)
    with pytest.raises(ValueError, match="contiguous"):
        convolve(random(2, 18, 16, dtype=HALF)[:, ::2], product, keep=True)
    with pytest.raises(ValueError, match="stream has shape"):
        convolve(x, product, stream=random(2, 8, 24), keep=True)
    with pytest.raises(ValueError, match="stream is torch.float16"):
        convolve(x, product, stream=random(2, 9, 24, dtype=HALF), keep=True)
    with pytest.raises(ValueError, match="turn has shape"):
        convolve(x, product, sine=Sine(right.turn[:23], right.height), narrow=HALF)
    with pytest.raises(ValueError, match="height has shape"):
        convolve(x, product, sine=Sine(right.turn, right.height[:1]), narrow=HALF)
    with pytest.raises(ValueError, match="nothing is asked for"):
        convolve(x, product)
    square, stream = halves(16, 16, 7, 1, 0), random(2, 9, 16)
    with pytest.raises(ValueError, match="stream has shape"):
        unit(x, square, sine(16), halves(16, 16, 1, 1, 1), sine(16), stream[:, :8], keep=True, narrow=HALF)
    with pytest.raises(ValueError, match="turn has shape"):
        unit(x, square, sine(15), halves(16, 16, 1, 1, 1), sine(16), stream, keep=True, narrow=HALF)
    with pytest.raises(ValueError, match="x is torch.float32"):
        unit(x.float(), square, sine(16), halves(16, 16, 1, 1, 1), sine(16), stream, keep=True, narrow=HALF)
    with pytest.raises(ValueError, match="weight has shape"):
        to_one(x, random(7, 15), random(1))
    with pytest.raises(ValueError, match="bias has shape"):
        to_one(x, random(7, 16), random(2))
    with pytest.raises(ValueError, match="16 or 32 bits"):
        to_one(x.double(), random(7, 16), random(1))
