"""The codec decoder for a GPU: its convolutions as products of half-precision numbers, fused with what follows them.

Knows the order of the layers, which of them compute as in float32, and how many frames go through at once. Residual
streams and sines are float32 throughout. What is wrong early is amplified by all that follows, so that the parts before
the stages, a twentieth of the work, compute as in float32 in any case; of the stages, as many as a trial asks for.
"""

from __future__ import annotations

import copy
import math
import warnings
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
)
from rhapsode.qwen3.torch.mixed import LIMIT, deviation, trial_codes

MOST_FRAMES = 4096  # at once: with more, nothing gets faster
FREE_SHARE = 0.5  # of the free memory, for one call
TRIAL_SOUNDS = 4


# ------------------------------------------------------------------ what computes as in float32, by products of halves


class SplitLinear(nn.Module):
    """A linear layer: [..., into] -> [..., out] in float32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.product = pack_linear(linear, split=True)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(1, -1, x.shape[-1]).contiguous()
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


def split(module: nn.Module) -> nn.Module:
    """The same module with products in the place of its layers. What is none of these is shared."""
    if isinstance(module, nn.Linear):
        return SplitLinear(module)
    if isinstance(module, CausalUpsample):
        return SplitUpsample(module)
    if isinstance(module, CausalConv) and module.groups == 1:
        return SplitConv(module)
    twin = copy.copy(module)
    twin._modules = {name: split(part) for name, part in module._modules.items() if part is not None}
    return twin


# ------------------------------------------------------------------ the stages


@dataclass(frozen=True, slots=True)
class Layer:
    """One product and what is made of its sum."""

    product: Product
    sine: Sine
    narrow: torch.dtype  # of what the next one takes
    stride: int = 1  # steps that it makes of one
    adds: bool = False  # to the stream
    keeps: bool = False  # its sum as the stream


class FastTower(nn.Module):
    """`Tower` as a row of products: latent steps [rows, latent, time] in float32 -> sound [rows, 1, samples].

    The first convolution, and then each stage, up to `exact` of them compute as in float32.
    """

    def __init__(self, tower: Tower, exact: int) -> None:
        super().__init__()
        first, *stages, snake, last = tower
        assert isinstance(first, CausalConv) and isinstance(snake, SnakeBeta) and isinstance(last, CausalConv)
        snakes = [*(stage[0] for stage in stages), snake]
        types = [torch.float32 if number < exact else HALF for number in range(len(stages) + 1)] + [HALF]
        product = pack_conv(first, split=exact > 0)
        self.layers = [Layer(product, Sine.of(snakes[0]), types[1])]
        for number, stage in enumerate(stages, 1):
            assert isinstance(stage, Stage)
            self.layers += _stage(stage, snakes[number], number < exact, types[number + 1])
        assert last.bias is not None
        self.weight, self.bias = last.weight.detach()[0].t().float().contiguous(), last.bias.detach().float()

    @property
    def takes(self) -> torch.dtype:
        return self.layers[0].product.dtype

    def forward(self, latent: Tensor) -> Tensor:
        x = latent.transpose(1, 2).to(self.takes).contiguous()
        stream: Tensor | None = None
        for layer in self.layers:
            total, after = convolve(
                x, layer.product, stream=stream if layer.adds else None, keep=layer.keeps, sine=layer.sine,
                narrow=layer.narrow,
            )  # fmt: skip
            assert after is not None
            shape = (len(x), x.shape[1] * layer.stride, -1)
            x = after.view(shape)
            if layer.adds or layer.keeps:
                stream = None if total is None else total.view(shape)
        sound = to_one(x, self.weight, self.bias)
        # Beyond what half precision holds is infinity. It makes NaN of all that follows, and here too: not full scale.
        return torch.add(sound, sound, alpha=0.0).unsqueeze(1)


def _stage(stage: Stage, after: SnakeBeta, exact: bool, narrow: torch.dtype) -> list[Layer]:
    """The layers of a stage behind its first sine. `after`: the sine that comes next, for what takes `narrow`."""
    _, upsample, *units = stage
    assert isinstance(upsample, CausalUpsample)
    own, stride = torch.float32 if exact else HALF, upsample.stride
    snakes: list[SnakeBeta] = []
    for unit in units:
        assert isinstance(unit, Residual)
        snakes += [unit.snake_1, unit.snake_2]
    layers = [Layer(pack_upsample(upsample, split=exact), Sine.of(snakes[0], stride), own, stride, keeps=True)]
    for number, unit in enumerate(units):
        assert isinstance(unit, Residual)
        is_last = number == len(units) - 1
        layers += [
            Layer(pack_conv(unit.conv_1, split=exact), Sine.of(unit.snake_2), own),
            Layer(
                pack_conv(unit.conv_2, split=exact),
                Sine.of(after if is_last else snakes[2 * number + 2]),
                narrow if is_last else own,
                adds=True,
                keeps=not is_last,
            ),
        ]
    return layers


# ------------------------------------------------------------------ the whole


class FastCodec(CodecDecoder):
    """A decoder that sounds as `plain` within a tolerance, and takes its place. For inference alone."""

    def __init__(self, plain: CodecDecoder, exact: int) -> None:
        """`exact`: how many parts of the tower compute as in float32, from its beginning."""
        nn.Module.__init__(self)
        self.config, self.plain, self.exact = plain.config, plain, exact
        for name in ("conv_in", "project_in", "trunk", "project_out", "upsample"):
            setattr(self, name, split(getattr(plain, name)))
        self.quantiser = OneLookup(plain.quantiser)
        self.stages = FastTower(plain.stages, exact)
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
        self.first, self.rest = split(quantiser.first), split(quantiser.rest)

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
    for exact in range(len(codec.config.upsample_rates) + 2):
        try:
            fast = FastCodec(codec, exact)
            found = deviation(fast.unchecked(codes), wanted)
        except Exception as error:  # a compiler that is not there, a card that it does not know: whatever it raises
            warnings.warn(f"The codec stays in float32, which is slow; its kernels failed: {error}", stacklevel=2)
            return codec
        if found <= LIMIT:  # NaN is above any limit
            return fast
    return codec
