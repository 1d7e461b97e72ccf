"""Half of the bits for the widest parts of the codec, where that is not heard: tried on the spot, kept if it holds.

Knows which layers may be narrow, in which order they are tried, what they are tried on, and how far a waveform may be
off. The sines of SnakeBeta and the residual streams stay float32 in any case: each sine has a learned frequency, and a
high one makes much of little. So a checkpoint with high frequencies fails the trial and keeps float32 everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rhapsode.qwen3.config import DecoderConfig
from rhapsode.qwen3.torch.codec import CausalConv, CodecDecoder, Residual, Stage

TOLERANCE = 0.005  # largest difference of a waveform over the peak of the float32 one
LIMIT = 0.8 * TOLERANCE  # in the trial, which is one sound of many
TRIAL_FRAMES = 24
NARROW = torch.bfloat16


def has_fast_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 in one go; without that nothing is gained."""
    known = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(known is not None and known() and torch.backends.mkldnn.is_available())


class NarrowPointwise(nn.Module):
    """A convolution over one step as a product of narrow numbers; what is added to it is not narrow."""

    def __init__(self, wide: nn.Module) -> None:
        super().__init__()
        assert isinstance(wide, CausalConv) and wide.kernel_size == (1,) and wide.bias is not None
        self.weight = nn.Parameter(wide.weight.to(NARROW), requires_grad=False)
        self.bias = wide.bias

    def forward(self, x: Tensor) -> Tensor:
        return torch.matmul(self.weight.squeeze(-1), x.to(NARROW)).to(x.dtype).add_(self.bias.unsqueeze(-1))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a layer stands, and what makes a narrow one of it."""

    owner: nn.Module
    name: str
    make: Callable[[nn.Module], nn.Module]

    def swap(self) -> Callable[[], None]:
        """Put the narrow one there; returns what puts the old one back."""
        wide = self.owner.get_submodule(self.name)
        setattr(self.owner, self.name, self.make(wide))
        return lambda: setattr(self.owner, self.name, wide)


def steps(codec: CodecDecoder) -> Iterator[list[Place]]:
    """What becomes narrow together: first all that is dilated, then the others of a stage."""
    stages = [part for part in codec.stages if isinstance(part, Stage)]
    units = [[part for part in stage if isinstance(part, Residual)] for stage in stages]
    yield [Place(unit, "conv_1", _narrow_conv) for stage in units for unit in stage]
    yield from ([Place(unit, "conv_2", NarrowPointwise) for unit in stage] for stage in units)


def _narrow_conv(wide: nn.Module) -> nn.Module:
    assert isinstance(wide, CausalConv) and wide.bias is not None
    conv = CausalConv(wide.in_channels, wide.out_channels, wide.kernel_size[0], dilation=wide.dilation[0])
    conv.weight = nn.Parameter(wide.weight.to(NARROW), requires_grad=False)
    conv.bias = nn.Parameter(wide.bias.to(NARROW), requires_grad=False)
    return conv.eval()


def trial_codes(config: DecoderConfig, sounds: int = 1) -> Tensor:
    """What a codec is tried on: [sounds, TRIAL_FRAMES, codebooks]."""
    numbers = torch.Generator().manual_seed(0)
    return torch.randint(config.codebook_size, (sounds, TRIAL_FRAMES, config.codebooks), generator=numbers)


def deviation(found: Tensor, wanted: Tensor) -> float:
    """The largest difference of any sound [sounds, samples] over the peak of the one that is wanted."""
    return float(((found - wanted).abs().amax(1) / wanted.abs().amax(1)).max())


@torch.inference_mode()
def narrow(codec: CodecDecoder) -> float:
    """Make layers of a float32 codec on the CPU bfloat16, step by step, as far as its sound stays within `LIMIT`.

    Returns the deviation of the codec as it is left. Where the first step alone is too much, it is as before.
    """
    codes = trial_codes(codec.config)
    wanted, kept = codec(codes), 0.0
    for number, step in enumerate(steps(codec)):
        undo = [place.swap() for place in step]
        found = deviation(codec(codes), wanted)
        if found <= LIMIT:  # NaN is above any limit
            kept = found
            continue
        for back in undo:
            back()
        if number == 0:
            return found
    return kept


def is_mixed(codec: nn.Module) -> bool:
    return any(parameter.dtype is NARROW for parameter in codec.parameters())
