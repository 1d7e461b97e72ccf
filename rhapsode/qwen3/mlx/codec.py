"""The codec decoder on MLX: the codes of whole lines to sound. Time comes before channels here.

Long lines go through in pieces: the transformer carries its window of keys, the convolutions see enough frames before
a piece. Knows no line, lane or file.
"""

from __future__ import annotations

import math

import mlx.core as mx

from rhapsode.qwen3.config import DecoderConfig
from rhapsode.qwen3.mlx import library
from rhapsode.qwen3.mlx.transformer import Linear, Trunk, Weights, arrays, causal_mask

PIECE_FRAMES = 256
DILATIONS = (1, 3, 9)
KERNEL = 7


class CausalConv:
    """[rows, time, into] -> [rows, time, out], from the present and the past only. Weight [out, kernel, into]."""

    def __init__(self, weights: Weights, name: str, *, dilation: int = 1, groups: int = 1) -> None:
        self.weight = mx.contiguous(weights[f"{name}.weight"].transpose(0, 2, 1))
        self.bias, self.dilation, self.groups = weights[f"{name}.bias"], dilation, groups

    def __call__(self, x: mx.array) -> mx.array:
        past = (self.weight.shape[1] - 1) * self.dilation
        x = mx.pad(x, [(0, 0), (past, 0), (0, 0)])
        return library.convolve(x, self.weight, self.dilation, self.groups) + self.bias

    def after(self, snake: SnakeBeta, x: mx.array) -> mx.array:
        """Of what SnakeBeta makes of x; the silence before x stays silence."""
        return library.snaked_convolution(x, snake.alpha, snake.height, self.weight, self.dilation) + self.bias


class CausalUpsample:
    """A transposed convolution cut to `stride` steps for each that came in: one product and a shifted sum."""

    def __init__(self, weights: Weights, name: str, stride: int) -> None:
        weight = weights[f"{name}.weight"]  # [into, out, kernel]
        self.out, self.stride, self.bias = weight.shape[1], stride, weights[f"{name}.bias"]
        self.weight = mx.contiguous(weight.transpose(2, 1, 0)).reshape(-1, weight.shape[0])

    def __call__(self, x: mx.array) -> mx.array:
        rows, time, _ = x.shape
        spread = (x @ self.weight.T).reshape(rows, time, -1, self.out)
        y = spread[:, :, : self.stride] + self.bias
        if spread.shape[2] > self.stride:
            y = y + mx.pad(spread[:, :-1, self.stride :], [(0, 0), (1, 0), (0, 0), (0, 0)])
        return y.reshape(rows, time * self.stride, self.out)


class SnakeBeta:
    """x + sin(a x)^2 / b with a and b learned per channel, kept as logarithms."""

    def __init__(self, weights: Weights, name: str) -> None:
        self.alpha = mx.exp(weights[f"{name}.alpha"])
        self.height = 1.0 / (mx.exp(weights[f"{name}.beta"]) + 1e-9)

    def __call__(self, x: mx.array) -> mx.array:
        return library.snake(x, self.alpha, self.height)


class ConvNeXt:
    """A depthwise causal convolution and a two-layer perceptron per time step, added to the input."""

    def __init__(self, weights: Weights, name: str) -> None:
        self.depthwise = CausalConv(weights, f"{name}.depthwise", groups=weights[f"{name}.gamma"].shape[0])
        self.norm = weights[f"{name}.norm.weight"], weights[f"{name}.norm.bias"]
        self.wide, self.narrow = Linear(weights, f"{name}.wide"), Linear(weights, f"{name}.narrow")
        self.gamma = weights[f"{name}.gamma"]

    def __call__(self, x: mx.array) -> mx.array:
        y = self.wide(library.layer_norm(self.depthwise(x), *self.norm))
        return x + self.narrow(y * (1 + mx.erf(y / math.sqrt(2))) / 2) * self.gamma


class Residual:
    def __init__(self, weights: Weights, name: str, dilation: int) -> None:
        self.snake_1, self.snake_2 = SnakeBeta(weights, f"{name}.snake_1"), SnakeBeta(weights, f"{name}.snake_2")
        self.conv_1 = CausalConv(weights, f"{name}.conv_1", dilation=dilation)
        self.conv_2 = CausalConv(weights, f"{name}.conv_2")

    def __call__(self, x: mx.array) -> mx.array:
        return x + self.conv_2.after(self.snake_2, self.conv_1.after(self.snake_1, x))


class CodecDecoder:
    def __init__(self, config: DecoderConfig, weights: Weights, piece: int = PIECE_FRAMES) -> None:
        """`weights`: by our names in float32, `quantiser.tables` [books, size, dim] among them.

        `piece`: frames that are made sound of at once.
        """
        self.config, self.piece = config, piece
        # One by one: to take a table out of all would be a gather of its own kind.
        self.tables = [mx.contiguous(table) for table in weights["quantiser.tables"]]
        # Convolutions over one step are plain products.
        plain = {f"quantiser.{part}.weight": weights[f"quantiser.{part}.weight"] for part in ("first", "rest")}
        plain = {name: weight.reshape(weight.shape[:2]) for name, weight in plain.items()}
        self.first, self.rest = Linear(plain, "quantiser.first"), Linear(plain, "quantiser.rest")
        self.conv_in = CausalConv(weights, "conv_in")
        self.project_in, self.project_out = Linear(weights, "project_in"), Linear(weights, "project_out")
        self.trunk = Trunk(config.trunk, weights)
        self.chain: list[CausalConv | CausalUpsample | SnakeBeta | ConvNeXt | Residual] = []
        for i, factor in enumerate(config.upsampling_ratios):
            name = f"upsample.{i}"
            self.chain += [CausalUpsample(weights, f"{name}.0", factor), ConvNeXt(weights, f"{name}.1")]
        self.chain.append(CausalConv(weights, "stages.0"))
        for i, rate in enumerate(config.upsample_rates, 1):
            self.chain += [SnakeBeta(weights, f"stages.{i}.0"), CausalUpsample(weights, f"stages.{i}.1", rate)]
            self.chain += [Residual(weights, f"stages.{i}.{j}", dilation) for j, dilation in enumerate(DILATIONS, 2)]
        last = len(config.upsample_rates) + 1
        self.chain += [SnakeBeta(weights, f"stages.{last}"), CausalConv(weights, f"stages.{last + 1}")]

    def __call__(self, codes: mx.array, piece: int | None = None) -> mx.array:
        """Codes [rows, frames, books] -> samples [rows, frames * samples_per_frame] within [-1, 1]."""
        config, frames, piece = self.config, codes.shape[1], piece or self.piece
        vectors = [self.tables[book][codes[..., book]] for book in range(config.codebooks)]
        hidden = self.conv_in(self.first(vectors[0]) + self.rest(mx.stack(vectors[1:]).sum(0)))
        window, context = _Window(config.trunk.window), context_frames(config)
        recent, waves = hidden[:, :0], []
        for start in range(0, frames, piece):
            stop = min(start + piece, frames)
            seen = min(start, context)
            recent = mx.concatenate([recent, self._mix(hidden[:, start:stop], start, window)], axis=1)
            recent = x = recent[:, recent.shape[1] - seen - (stop - start) :]
            for part in self.chain:
                x = part(x)
                if isinstance(part, (ConvNeXt, Residual)):
                    mx.eval(x)  # queued as a whole, a piece would hold everything that it goes through
            waves.append(x[:, seen * config.samples_per_frame :, 0])
            mx.eval(waves[-1], recent)  # one piece's memory at a time
        return mx.clip(mx.concatenate(waves, axis=1), -1.0, 1.0)

    def arrays(self) -> list[mx.array]:
        return arrays(self)

    def _mix(self, hidden: mx.array, start: int, window: _Window) -> mx.array:
        """The transformer over one piece that begins at frame `start`."""
        positions = mx.arange(start, start + hidden.shape[1])[None]
        turn, kept = self.trunk.turning(positions), window.kept(start)
        mask = causal_mask(positions - (start - kept), kept + hidden.shape[1], hidden.dtype, self.config.trunk.window)
        return self.project_out(self.trunk(self.project_in(hidden), turn, mask, window.remember))


class _Window:
    """Keys and values of the last frames of the pieces so far, as far back as the window sees."""

    def __init__(self, window: int | None) -> None:
        self._reach = None if window is None else window - 1
        self._layers: dict[int, mx.array] = {}

    def kept(self, start: int) -> int:
        return start if self._reach is None else min(start, self._reach)

    def remember(self, layer: int, new: mx.array) -> tuple[mx.array, mx.array]:
        if layer in self._layers:
            new = mx.concatenate([self._layers[layer], new], axis=3)
        length = new.shape[3]
        self._layers[layer] = new[:, :, :, length - self.kept(length) :]
        keys, values = mx.split(new, 2, axis=1)
        return keys.squeeze(1), values.squeeze(1)


def context_frames(config: DecoderConfig) -> int:
    """Frames before a piece that its samples depend on through the convolutions after the transformer."""
    reach = KERNEL - 1
    for rate in reversed(config.upsample_rates):
        reach = -(-(reach + (KERNEL - 1) * sum(DILATIONS)) // rate) + 1
    reach += KERNEL - 1
    for factor in reversed(config.upsampling_ratios):
        reach = -(-(reach + KERNEL - 1) // factor)
    return reach
