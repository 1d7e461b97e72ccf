"""The codec decoder for a GPU: its convolutions as products of half-precision numbers, fused with what follows them.

Knows the order of the layers, which of them compute as in float32, and how many frames go through at once. Residual
streams and sines are float32 throughout. What is wrong early is amplified by all that follows, so that most of what is
before the stages computes as in float32 in any case; the rest, in the order of the layers, as far as a trial asks for.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.qwen3.config import DecoderConfig
from rhapsode.qwen3.torch.codec import (
    PIECE_FRAMES,
    CausalConv,
    CausalUpsample,
    CodecDecoder,
    ConvNeXt,
    Quantiser,
    Residual,
    SnakeBeta,
    Stage,
    Tower,
    context_frames,
)
from rhapsode.qwen3.torch.codec_products import (
    HALF,
    Product,
    Sine,
    convolve,
    pack_conv,
    pack_linear,
    pack_upsample,
    to_one,
    unit,
)
from rhapsode.qwen3.torch.mixed import LIMIT, deviation, trial_codes
from rhapsode.qwen3.torch.transformer import Block

MOST_FRAMES = 4096  # at once: with more, nothing gets faster
FREE_SHARE = 0.5  # of the free memory, for one call
TRIAL_SOUNDS = 4


# ------------------------------------------------------------------ what computes as in float32, by products of halves


class ProductLinear(nn.Module):
    """A linear layer: [..., into] -> [..., out] in float32, exact or of halves."""

    def __init__(self, linear: nn.Linear, *, exact: bool) -> None:
        super().__init__()
        self.product = pack_linear(linear, split=exact)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.to(self.product.dtype).reshape(1, -1, x.shape[-1]).contiguous()
        return _sum(flat, self.product).view(*x.shape[:-1], self.product.out)


class SplitConv(nn.Module):
    """A causal convolution: [rows, into, time] -> [rows, out, time] in float32; channels lie last in memory."""

    def __init__(self, conv: CausalConv) -> None:
        super().__init__()
        self.product = pack_conv(conv, split=True)

    def forward(self, x: Tensor) -> Tensor:
        return _sum(x.transpose(1, 2).contiguous(), self.product).transpose(1, 2)


class SplitUpsample(nn.Module):
    """An upsampling: [rows, into, time] -> [rows, out, time * stride] in float32; channels lie last in memory."""

    def __init__(self, upsample: CausalUpsample) -> None:
        super().__init__()
        self.product, self.stride = pack_upsample(upsample, split=True), upsample.stride

    def forward(self, x: Tensor) -> Tensor:
        rows, _, time = x.shape
        y = _sum(x.transpose(1, 2).contiguous(), self.product)
        return y.view(rows, time * self.stride, -1).transpose(1, 2)


def _sum(x: Tensor, product: Product) -> Tensor:
    total, _ = convolve(x, product, keep=True)
    assert total is not None
    return total


def by_products(module: nn.Module, *, exact: bool = True) -> nn.Module:
    """The same module with products in the place of its layers. What is none of these is shared.

    `exact`: also what is added, times something small, to what goes on beside it: the blocks of the transformer and
    the perceptrons. That is most of the work before the stages, and little of what is heard of its rounding.
    """
    if isinstance(module, nn.Linear):
        return ProductLinear(module, exact=True)
    if isinstance(module, CausalUpsample):
        return SplitUpsample(module)
    if isinstance(module, CausalConv) and module.groups == 1:
        return SplitConv(module)
    adds_little = isinstance(module, (Block, ConvNeXt))
    twin = copy.copy(module)
    twin._modules = dict(module._modules)
    for name, part in module.named_children():
        if adds_little and isinstance(part, nn.Linear):
            twin._modules[name] = ProductLinear(part, exact=exact)
        else:
            twin._modules[name] = by_products(part, exact=exact)
    return twin


# ------------------------------------------------------------------ the stages


@dataclass(frozen=True, slots=True)
class Layer:
    """One product and the sine after it."""

    product: Product
    sine: Sine
    narrow: torch.dtype  # of what the next one takes
    stride: int = 1  # steps that it makes of one
    keeps: bool = False  # its sum is the stream that what follows adds to


@dataclass(frozen=True, slots=True)
class Unit:
    """A residual unit behind its first sine, and the sine after it."""

    first: Product
    between: Sine
    second: Product
    after: Sine
    narrow: torch.dtype  # of what the next one takes
    keeps: bool  # the stream, for another unit

    def __call__(self, x: Tensor, stream: Tensor) -> tuple[Tensor | None, Tensor]:
        return unit(x, self.first, self.between, self.second, self.after, stream, keep=self.keeps, narrow=self.narrow)


class FastTower(nn.Module):
    """`Tower` as a row of products: latent steps [rows, latent, time] in float32 -> sound [rows, 1, samples].

    The first convolution, and then each stage, up to `exact` of them compute as in float32.
    """

    def __init__(self, tower: Tower, exact: int) -> None:
        super().__init__()
        first, *middle, snake, last = tower
        stages = [part for part in middle if isinstance(part, Stage)]
        assert isinstance(first, CausalConv) and isinstance(snake, SnakeBeta) and isinstance(last, CausalConv)
        snakes = [*(part for stage in stages for part in stage if isinstance(part, SnakeBeta)), snake]
        types = [torch.float32 if number < exact else HALF for number in range(len(stages) + 1)] + [HALF]
        product, self.takes = pack_conv(first, split=exact > 0), types[0]
        self.parts: list[Layer | Unit] = [Layer(product, Sine.of(snakes[0]), types[1])]
        for number, stage in enumerate(stages, 1):
            self.parts += _stage(stage, snakes[number], number < exact, types[number + 1])
        assert last.bias is not None
        self.weight, self.bias = last.weight.detach()[0].t().float().contiguous(), last.bias.detach().float()

    def forward(self, latent: Tensor) -> Tensor:
        x = latent.transpose(1, 2).to(self.takes).contiguous()
        stream: Tensor | None = None
        for part in self.parts:
            if isinstance(part, Unit):
                assert stream is not None
                stream, x = part(x, stream)
                continue
            total, after = convolve(x, part.product, keep=part.keeps, sine=part.sine, narrow=part.narrow)
            assert after is not None
            shape = (len(x), x.shape[1] * part.stride, -1)
            stream, x = None if total is None else total.view(shape), after.view(shape)
        sound = to_one(x, self.weight, self.bias)
        # Beyond what half precision holds is infinity. It makes NaN of all that follows, and here too: not full scale.
        return torch.add(sound, sound, alpha=0.0).unsqueeze(1)


def _stage(stage: Stage, after: SnakeBeta, exact: bool, narrow: torch.dtype) -> Iterator[Layer | Unit]:
    """A stage behind its first sine. `after`: the sine that comes next, for what takes `narrow`."""
    _, upsample, *units = stage
    assert isinstance(upsample, CausalUpsample)
    own, stride, snakes = torch.float32 if exact else HALF, upsample.stride, list[SnakeBeta]()
    for part in units:
        assert isinstance(part, Residual)
        snakes.append(part.snake_1)
    yield Layer(pack_upsample(upsample, split=exact), Sine.of(snakes[0], stride), own, stride, keeps=True)
    for number, part in enumerate(units, 1):
        assert isinstance(part, Residual)
        is_last = number == len(units)
        yield Unit(
            pack_conv(part.conv_1, split=exact),
            Sine.of(part.snake_2),
            pack_conv(part.conv_2, split=exact),
            Sine.of(after if is_last else snakes[number]),
            narrow if is_last else own,
            keeps=not is_last,
        )


# ------------------------------------------------------------------ the whole


class FastCodec(CodecDecoder):
    """A decoder that sounds as `plain` within a tolerance, and takes its place. For inference alone."""

    def __init__(self, plain: CodecDecoder, exact: int) -> None:
        """`exact`: how many parts compute as in float32 throughout: what is before the tower, its first convolution,
        its stages."""
        nn.Module.__init__(self)
        self.config, self.plain, self.exact = plain.config, plain, exact
        parts: dict[str, nn.Module] = {
            name: by_products(getattr(plain, name), exact=exact > 0)
            for name in ("conv_in", "project_in", "trunk", "project_out", "upsample")
        }
        parts |= {"quantiser": OneLookup(plain.quantiser), "stages": FastTower(plain.stages, exact - 1)}
        for name, part in parts.items():
            setattr(self, name, part)
        self.eval()

    @property
    def format(self) -> str:
        """What it computes in, for the settings of a reading."""
        return f"float16-{self.exact}"

    @torch.inference_mode()
    def forward(self, codes: Tensor, piece: int = PIECE_FRAMES) -> Tensor:
        """As `CodecDecoder`; a line whose numbers are too large for half precision is decoded in float32.

        Waits for the device, as whoever wants the sound does anyway.
        """
        wave = self.unchecked(codes, piece)
        bad = ~torch.isfinite(wave).all(1)
        if bool(bad.any()):
            wave[bad] = self.plain(codes[bad], piece)
        return wave

    @torch.inference_mode()
    def unchecked(self, codes: Tensor, piece: int = PIECE_FRAMES) -> Tensor:
        """The same without waiting: samples of a line may be NaN where half precision does not hold its numbers."""
        rows = self.rows_at_once(min(codes.shape[1], piece + context_frames(self.config)), codes.device)
        parts = [CodecDecoder.forward(self, part, piece) for part in codes.split(rows)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def rows_at_once(self, frames: int, device: torch.device) -> int:
        """Lines of so many frames that fit into the memory that is free now."""
        if device.type != "cuda":
            return max(1, MOST_FRAMES // max(frames, 1))
        free = torch.cuda.mem_get_info(device)[0]
        free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return max(1, frames_at_once(self.config, free) // max(frames, 1))


class OneLookup(nn.Module):
    """`Quantiser` with all its tables as one."""

    def __init__(self, quantiser: Quantiser) -> None:
        super().__init__()
        books, size, half = quantiser.tables.shape
        self.table = quantiser.tables.detach().view(books * size, half)
        self.starts = torch.arange(0, books * size, size, device=self.table.device)
        self.first, self.rest = by_products(quantiser.first), by_products(quantiser.rest)

    def forward(self, codes: Tensor) -> Tensor:
        vectors = F.embedding(codes + self.starts, self.table)
        found: Tensor = self.first(vectors[..., 0, :]) + self.rest(vectors[..., 1:, :].sum(-2))
        return found


def bytes_per_frame(config: DecoderConfig) -> int:
    """What a padded frame takes while it is decoded: its widest stage, as a stream and two inputs, and all before."""
    steps, most = math.prod(config.upsampling_ratios), 0
    for number, rate in enumerate(config.upsample_rates, 1):
        steps *= rate
        most = max(most, steps * (config.channels >> number))
    return most * (4 + 4 + 4) + 64 * config.latent


def frames_at_once(config: DecoderConfig, free_bytes: int) -> int:
    """Padded frames, of all lines together, that one call should have where so many bytes are free."""
    return max(1, min(MOST_FRAMES, int(free_bytes * FREE_SHARE) // bytes_per_frame(config)))


@torch.inference_mode()
def quicken(codec: CodecDecoder) -> CodecDecoder:
    """The fastest that sounds as `codec` does, within `LIMIT` on a few sounds; `codec` itself where none does."""
    codes = trial_codes(codec.config, TRIAL_SOUNDS).to(next(codec.parameters()).device)
    wanted = codec(codes)
    for exact in range(len(codec.config.upsample_rates) + 3):
        try:
            fast = FastCodec(codec, exact)
            found = deviation(fast.unchecked(codes), wanted)
        except Exception as error:  # a compiler that is not there, a card that it does not know: whatever it raises
            warnings.warn(f"The codec stays in float32, which is slow; its kernels failed: {error}", stacklevel=2)
            return codec
        if found <= LIMIT:  # NaN is above any limit
            return fast
    return codec
