"""The codec encoder: 24 kHz sound to the codes of its frames, on PyTorch.

Knows the strided convolutions, the causal transformer and the search in the quantiser's tables. Long recordings go
through in pieces, as in the decoder: the transformer carries its window of keys, the convolutions see enough samples
before a piece, and what grows with the length is 25 hidden states for every second. Knows no file, and no line.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.qwen3.config import EncoderConfig
from rhapsode.qwen3.torch.codec import PIECE_FRAMES, CausalConv, Window
from rhapsode.qwen3.torch.transformer import Remember, Rotary, attend, causal_mask, rotate

SEARCH_ROWS = 4096  # vectors compared with a table at a time: bounds the distances that are held


class StridedConv(nn.Conv1d):
    """A causal convolution that takes one step for each whole or begun `stride`.

    [rows, into, time] -> [rows, out, ceil(time / stride)]. `padding`: what stands before the beginning and after the
    end, "constant" for silence or "replicate" for the outermost step.
    """

    def __init__(self, into: int, out: int, stride: int, *, bias: bool = True, padding: str = "constant") -> None:
        super().__init__(into, out, 2 * stride, stride, bias=bias)
        self.outside = padding

    def forward(self, x: Tensor) -> Tensor:
        stride = self.stride[0]
        return super().forward(F.pad(x, (self.kernel_size[0] - stride, -x.shape[-1] % stride), self.outside))


class ResidualUnit(nn.Module):
    def __init__(self, channels: int, narrow: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.conv_1 = CausalConv(channels, narrow, kernel, dilation=dilation)
        self.conv_2 = CausalConv(narrow, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv_2(F.elu(self.conv_1(F.elu(x))))


class EncoderStage(nn.Sequential):
    """Residual units, then twice the channels at one step for `ratio`."""

    def __init__(self, config: EncoderConfig, channels: int, ratio: int) -> None:
        narrow = channels // config.compress
        super().__init__(
            *(
                ResidualUnit(channels, narrow, config.residual_kernel, _dilation(layer))
                for layer in range(config.residual_layers)
            ),
            nn.ELU(),
            StridedConv(channels, 2 * channels, ratio),
        )


class EncoderBlock(nn.Module):
    """One pre-norm block with LayerNorm and a plain perceptron; both branches are scaled per channel."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        query, key = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.norm_in = nn.LayerNorm(config.hidden, config.eps)
        self.qkv = nn.Linear(config.hidden, query + 2 * key, bias=False)
        self.out = nn.Linear(query, config.hidden, bias=False)
        self.norm_mid = nn.LayerNorm(config.hidden, config.eps)
        self.up = nn.Linear(config.hidden, config.intermediate, bias=False)
        self.down = nn.Linear(config.intermediate, config.hidden, bias=False)
        self.scale_attention = nn.Parameter(torch.ones(config.hidden))
        self.scale_mlp = nn.Parameter(torch.ones(config.hidden))

    def forward(self, x: Tensor, layer: int, turn: tuple[Tensor, Tensor], mask: Tensor, remember: Remember) -> Tensor:
        """x [rows, new, hidden] -> the same shape."""
        rows, new, _ = x.shape
        heads = self.qkv(self.norm_in(x)).view(rows, new, self.heads + 2 * self.kv_heads, self.head_dim)
        query, key, value = heads.transpose(1, 2).split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        # Under autocast the products come out narrower than the angles and the mask.
        query, key = rotate(query, *turn).to(value.dtype), rotate(key, *turn).to(value.dtype)
        keys, values = remember(layer, key, value)
        x = x + self.out(attend(query, keys, values, mask.to(value.dtype))) * self.scale_attention
        return x + self.down(F.gelu(self.up(self.norm_mid(x)))) * self.scale_mlp


class EncoderQuantiser(nn.Module):
    """Vectors to the codes of their nearest entries, each book coding what the one before it left over.

    `tables` [quantisers, size, dim] holds all that the file has; the first `kept` are searched. The semantic books
    code the vector as `first` projects it, the others as `rest` does.
    """

    def __init__(self, config: EncoderConfig, kept: int) -> None:
        super().__init__()
        self.semantic, self.kept = config.semantic_codebooks, kept
        self.first = nn.Linear(config.hidden, config.quantizer_dim, bias=False)
        self.rest = nn.Linear(config.hidden, config.quantizer_dim, bias=False)
        self.tables = nn.Parameter(torch.zeros(config.codebooks, config.codebook_size, config.codebook_dim))

    @torch.no_grad()
    def forward(self, hidden: Tensor) -> Tensor:
        """Hidden states [rows, frames, hidden] -> codes [rows, frames, kept]. In float32 whatever comes in."""
        with torch.autocast(hidden.device.type, enabled=False):
            flat, tables = hidden.float().flatten(0, 1), self.tables.float()
            books = [
                *_search(F.linear(flat, self.first.weight.float()), tables[: self.semantic]),
                *_search(F.linear(flat, self.rest.weight.float()), tables[self.semantic : self.kept]),
            ]
        return torch.stack(books, -1).unflatten(0, hidden.shape[:2])


def _search(left: Tensor, tables: Tensor) -> list[Tensor]:
    """Vectors [n, dim] through tables [books, size, dim] one after the other -> codes [n] of each book."""
    books: list[Tensor] = []
    for table in tables:
        nearest = [torch.cdist(some, table).argmin(-1) for some in left.split(SEARCH_ROWS)]
        books.append(torch.cat(nearest))
        left = left - F.embedding(books[-1], table)
    return books


class CodecEncoder(nn.Module):
    """`kept`: how many codebooks `forward` gives; the file has more."""

    def __init__(self, config: EncoderConfig, kept: int) -> None:
        super().__init__()
        self.config = config
        widths = [config.filters << stage for stage in range(len(config.ratios) + 1)]
        self.stages = nn.Sequential(
            CausalConv(1, widths[0], config.kernel),
            *(EncoderStage(config, *stage) for stage in zip(widths, reversed(config.ratios), strict=False)),
            nn.ELU(),
            CausalConv(widths[-1], config.hidden, config.last_kernel),
        )
        self.rotary = Rotary(config.head_dim, config.rope_theta)
        self.blocks = nn.ModuleList(EncoderBlock(config) for _ in range(config.layers))
        self.downsample = StridedConv(config.hidden, config.hidden, config.downsample, bias=False, padding="replicate")
        self.quantiser = EncoderQuantiser(config, kept)

    def forward(self, wave: Tensor, piece: int = PIECE_FRAMES) -> Tensor:
        """Samples [rows, samples] -> codes [rows, frames, kept], int64; frames as `frames` counts them.

        All is causal, but for the last frame: of a row that is filled up with silence it is another one than of the
        row alone. Codes of frames that are all filling are to be dropped by the caller.
        """
        return self.quantiser(self.hidden(wave, piece))

    def frames(self, samples: int) -> int:
        """Frames that a recording takes: a begun one counts."""
        return -(-samples // self.config.samples_per_frame)

    def hidden(self, wave: Tensor, piece: int = PIECE_FRAMES) -> Tensor:
        """Samples [rows, samples] -> what is quantised, [rows, frames, hidden]. `piece`: frames done at a time."""
        config, samples = self.config, wave.shape[1]
        if not samples:
            raise ValueError("a recording without samples has no frames")
        step, window = piece * config.samples_per_frame, Window(config.window)
        context = context_positions(config)
        mixed: list[Tensor] = []
        for start in range(0, samples, step):
            first = start // config.samples_per_position
            seen = min(first, context)
            heard = wave[:, start - seen * config.samples_per_position : start + step]
            new = self.stages(heard.unsqueeze(1))[:, :, seen:].transpose(1, 2)
            mixed.append(self._mix(new, first, window))
        return self.downsample(torch.cat(mixed, 1).transpose(1, 2)).transpose(1, 2)

    def _mix(self, x: Tensor, start: int, window: Window) -> Tensor:
        """The transformer over one piece [rows, new, hidden] that begins at position `start`."""
        positions = torch.arange(start, start + x.shape[1], device=x.device).unsqueeze(0)
        kept = window.kept(start)
        mask = causal_mask(positions - (start - kept), kept + x.shape[1], x.dtype, self.config.window)
        turn, remember = self.rotary(positions, x.dtype), window.remember
        for layer, block in enumerate(self.blocks):
            x = block(x, layer, turn, mask, remember)
        return x


def context_positions(config: EncoderConfig) -> int:
    """Positions before a piece whose samples its first position depends on through the convolutions."""
    reach, rate = config.kernel - 1, 1
    for ratio in reversed(config.ratios):
        reach += rate * (config.residual_kernel - 1) * sum(map(_dilation, range(config.residual_layers)))
        reach += rate * ratio
        rate *= ratio
    reach += rate * (config.last_kernel - 1)
    return -(-reach // rate)


def _dilation(layer: int) -> int:
    """The dilation of a stage's residual units, the first one being 0."""
    return 2**layer
