"""The codec decoder: the codes of whole lines to 24 kHz sound, on PyTorch.

Knows the quantiser's tables, the causal transformer and the causal convolutions. Long lines go through in pieces:
the transformer carries its window of keys, the convolutions see enough frames before a piece, so that the sound is
that of whole decoding. Knows no line, lane or file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.qwen3.config import DecoderConfig
from rhapsode.qwen3.torch.transformer import Remember, Trunk, causal_mask

PIECE_FRAMES = 256  # 20 s: bounds memory for any length; sentences stay whole
DILATIONS = (1, 3, 9)
KERNEL = 7
STRETCH = 8192  # time steps that go through a chain of layers at once on the CPU: what lies between stays in its cache
STRETCH_UP = 1024  # the same before they become more


class CausalConv(nn.Conv1d):
    """A convolution that sees the present and the past only; [rows, channels, time] keeps its time and its type.

    It computes in the type of its weight, which may be narrower than that of what comes in.
    """

    def forward(self, x: Tensor) -> Tensor:
        past = self.past
        if x.dtype == self.weight.dtype:
            return self.over(F.pad(x, (past, 0)))
        padded = x.new_empty((*x.shape[:-1], past + x.shape[-1]), dtype=self.weight.dtype)
        padded[..., :past] = 0
        padded[..., past:] = x  # rounded on the way: one pass, not two
        return self.over(padded).to(x.dtype)

    @property
    def past(self) -> int:
        """Steps before the present one that it sees."""
        return (self.kernel_size[0] - 1) * self.dilation[0]

    def over(self, seen: Tensor) -> Tensor:
        """Input with its past before it, in the type of the weight -> what comes out of the present."""
        if self.out_channels > 1 or self.bias is None or torch.is_grad_enabled() or seen.device.type != "cpu":
            return super().forward(seen)
        # The library computes sixteen channels for one; a product for each place of the kernel, shifted, does not.
        places = torch.matmul(self.weight[0].t(), seen)
        step, time = self.dilation[0], seen.shape[-1] - self.past
        sound = places[:, :1, :time] + self.bias
        for place in range(1, places.shape[1]):
            sound += places[:, place : place + 1, place * step : place * step + time]
        return sound


class CausalUpsample(nn.Module):
    """A transposed convolution, cut to `stride` steps for each that came in.

    [rows, into, time] -> [rows, out, time * stride]. Written as one product over time and a shifted sum: the library's
    transposed convolution builds a kernel anew for every length, which takes longer than the arithmetic of a sentence.
    """

    def __init__(self, into: int, out: int, kernel: int, stride: int) -> None:
        super().__init__()
        if kernel not in (stride, 2 * stride):
            raise ValueError(f"a kernel of {kernel} over a stride of {stride} is not built; 1 or 2 strides are")
        self.out, self.stride = out, stride
        self.weight = nn.Parameter(torch.zeros(kernel * out, into))
        self.bias = nn.Parameter(torch.zeros(out))

    @staticmethod
    def adopt(weight: Tensor) -> Tensor:
        """The official [into, out, kernel] as rows of the product: [kernel * out, into]."""
        return weight.permute(2, 1, 0).reshape(-1, weight.shape[0]).contiguous()

    def forward(self, x: Tensor) -> Tensor:
        rows, _, time = x.shape
        spread = F.linear(x.transpose(1, 2), self.weight).view(rows, time, -1, self.out)
        y = spread[:, :, : self.stride] + self.bias
        if spread.shape[2] > self.stride:
            y[:, 1:] += spread[:, :-1, self.stride :]
        return y.reshape(rows, time * self.stride, self.out).transpose(1, 2)


class SnakeBeta(nn.Module):
    """x + sin(a x)^2 / b with a and b learned per channel, kept as logarithms."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        wave = x * self.alpha.exp().unsqueeze(-1)
        height = 1.0 / (self.beta.exp() + 1e-9).unsqueeze(-1)
        if torch.is_grad_enabled():
            return x + wave.sin().square() * height
        # In place: on a CPU this takes two fifths of the time that temporaries take.
        return wave.sin_().square_().mul_(height).add_(x)


def in_stretches(x: Tensor, snake: SnakeBeta, conv: CausalConv) -> Iterator[tuple[Tensor, Tensor]]:
    """conv(snake(x)) by stretches of time: views of x, which may be written to, and what comes out for them."""
    past, time = conv.past, x.shape[-1]
    seen = x.new_empty((*x.shape[:-1], past + min(STRETCH, time)), dtype=conv.weight.dtype)
    seen[..., :past] = 0
    for start in range(0, time, STRETCH):
        if start:
            seen[..., :past] = seen[..., STRETCH : STRETCH + past]
        part = x[..., start : start + STRETCH]
        until = past + part.shape[-1]
        seen[..., past:until] = snake(part)
        yield part, conv.over(seen[..., :until]).to(x.dtype)


class ConvNeXt(nn.Module):
    """A depthwise causal convolution and a two-layer perceptron per time step, added to the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = CausalConv(width, width, KERNEL, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.narrow(F.gelu(self.wide(self.norm(self.depthwise(x).transpose(1, 2)))))
        return x + (inner * self.gamma).transpose(1, 2)


class Residual(nn.Module):
    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.snake_1 = SnakeBeta(channels)
        self.conv_1 = CausalConv(channels, channels, KERNEL, dilation=dilation)
        self.snake_2 = SnakeBeta(channels)
        self.conv_2 = CausalConv(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        step = self.conv_2(self.snake_2(self.conv_1(self.snake_1(x))))
        return x + step if torch.is_grad_enabled() else step.add_(x)

    def add_to(self, x: Tensor) -> None:
        """Make x what `forward` returns."""
        for part, step in in_stretches(x, self.snake_1, self.conv_1):
            part.add_(self.conv_2(self.snake_2(step)))


class Stage(nn.Sequential):
    """`rate` times the samples at half the channels, then three residual units."""

    def __init__(self, channels: int, rate: int) -> None:
        super().__init__(
            SnakeBeta(channels),
            CausalUpsample(channels, channels // 2, 2 * rate, rate),
            *(Residual(channels // 2, dilation) for dilation in DILATIONS),
        )

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() or x.device.type != "cpu":
            return super().forward(x)
        snake, upsample, *units = self
        assert isinstance(upsample, CausalUpsample)
        rate, time = upsample.stride, x.shape[-1]
        y = x.new_empty((x.shape[0], upsample.out, time * rate))
        for start in range(0, time, STRETCH_UP):
            stop, seen = min(start + STRETCH_UP, time), min(start, 1)
            y[..., start * rate : stop * rate] = upsample(snake(x[..., start - seen : stop]))[..., seen * rate :]
        for unit in units:
            assert isinstance(unit, Residual)
            unit.add_to(y)
        return y


class Tower(nn.Sequential):
    """Latent steps to sound: a convolution, the stages, a sine and a convolution to one channel."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() or x.device.type != "cpu":
            return super().forward(x)
        *parts, snake, last = self
        assert isinstance(snake, SnakeBeta) and isinstance(last, CausalConv)
        for part in parts:
            x = part(x)
        return torch.cat([sound for _, sound in in_stretches(x, snake, last)], -1)


class Quantiser(nn.Module):
    """Code vectors of all codebooks, summed: the first through a projection of its own."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        half, whole = config.codebook_dim // 2, config.codebook_dim
        self.tables = nn.Parameter(torch.zeros(config.codebooks, config.codebook_size, half))
        self.first = nn.Linear(half, whole, bias=False)
        self.rest = nn.Linear(half, whole, bias=False)

    def forward(self, codes: Tensor) -> Tensor:
        """Codes [rows, frames, books] -> [rows, frames, codebook_dim]."""
        vectors = [F.embedding(codes[..., book], table) for book, table in enumerate(self.tables)]
        return self.first(vectors[0]) + self.rest(torch.stack(vectors[1:]).sum(0))


class CodecDecoder(nn.Module):
    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.quantiser = Quantiser(config)
        self.conv_in = CausalConv(config.codebook_dim, config.latent, 3)
        self.project_in = nn.Linear(config.latent, config.trunk.hidden)
        self.trunk = Trunk(config.trunk)
        self.project_out = nn.Linear(config.trunk.hidden, config.latent)
        self.upsample = nn.Sequential(
            *(
                nn.Sequential(CausalUpsample(config.latent, config.latent, factor, factor), ConvNeXt(config.latent))
                for factor in config.upsampling_ratios
            )
        )
        widths = [config.channels >> stage for stage in range(len(config.upsample_rates) + 1)]
        self.stages = Tower(
            CausalConv(config.latent, config.channels, KERNEL),
            *(Stage(width, rate) for width, rate in zip(widths, config.upsample_rates, strict=False)),
            SnakeBeta(widths[-1]),
            CausalConv(widths[-1], 1, KERNEL),
        )

    def forward(self, codes: Tensor, piece: int = PIECE_FRAMES) -> Tensor:
        """Codes [rows, frames, books] -> samples [rows, frames * samples_per_frame] within [-1, 1].

        All is causal: codes that fill up a shorter row do not reach the samples before them.
        """
        return self.sound(self.quantiser(codes), piece)

    def sound(self, vectors: Tensor, piece: int = PIECE_FRAMES) -> Tensor:
        """Code vectors [rows, frames, codebook_dim] -> samples, as `forward`."""
        with whole_float32():
            return self._sound(vectors, piece)

    def _sound(self, vectors: Tensor, piece: int) -> Tensor:
        config, frames = self.config, vectors.shape[1]
        hidden = self.conv_in(vectors.transpose(1, 2)).transpose(1, 2)
        window, context = Window(config.trunk.window), context_frames(config)
        recent = hidden.new_zeros(vectors.shape[0], 0, config.latent)
        waves: list[Tensor] = []
        for start in range(0, frames, piece):
            stop = min(start + piece, frames)
            seen = min(start, context)
            recent = torch.cat((recent, self._mix(hidden[:, start:stop], start, window)), 1)[:, start - seen - stop :]
            wave = self.stages(self.upsample(recent.transpose(1, 2)))
            waves.append(wave[:, 0, seen * config.samples_per_frame :])
        return torch.cat(waves, 1).clamp(-1.0, 1.0)

    def _mix(self, hidden: Tensor, start: int, window: Window) -> Tensor:
        """The transformer over one piece that begins at frame `start`."""
        positions = torch.arange(start, start + hidden.shape[1], device=hidden.device).unsqueeze(0)
        kept = window.kept(start)
        mask = causal_mask(positions - (start - kept), kept + hidden.shape[1], hidden.dtype, self.config.trunk.window)
        return self.project_out(self.trunk(self.project_in(hidden), positions, mask, window.remember))


@contextmanager
def whole_float32() -> Iterator[None]:
    """cuDNN rounds the inputs of a float32 convolution to ten bits unless it is told not to."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


class Window:
    """Keys and values of the last frames of the pieces so far, as far back as the window sees."""

    def __init__(self, window: int | None) -> None:
        self._reach = None if window is None else window - 1
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def kept(self, start: int) -> int:
        return start if self._reach is None else min(start, self._reach)

    @property
    def remember(self) -> Remember:
        def remember(layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
            if layer in self._layers:
                before = self._layers[layer]
                key, value = torch.cat((before[0], key), 2), torch.cat((before[1], value), 2)
            keep = key.shape[2] if self._reach is None else min(self._reach, key.shape[2])
            first = key.shape[2] - keep
            self._layers[layer] = key[:, :, first:], value[:, :, first:]
            return key, value

        return remember


def context_frames(config: DecoderConfig) -> int:
    """Frames before a piece that its samples depend on through the convolutions after the transformer."""
    reach = KERNEL - 1
    for rate in reversed(config.upsample_rates):
        reach += (KERNEL - 1) * sum(DILATIONS)
        reach = -(-reach // rate) + 1
    reach += KERNEL - 1
    for factor in reversed(config.upsampling_ratios):
        reach = -(-(reach + KERNEL - 1) // factor)
    return reach
