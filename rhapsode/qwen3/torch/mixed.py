"""Half of the bits for the widest part of the codec, where that is not heard: tried on the spot, kept if it holds.

Knows which convolutions may be narrow, what they are tried on, and how far a waveform may be off. The sines of
SnakeBeta and the residual streams stay float32 in any case: each sine has a learned frequency, and a high one makes
much of little. So a checkpoint with high frequencies fails the trial and keeps float32 everywhere.
"""

from __future__ import annotations

import torch
from torch import nn

from rhapsode.qwen3.torch.codec import CodecDecoder, Residual

TOLERANCE = 0.005  # largest difference of a waveform over the peak of the float32 one
LIMIT = 0.8 * TOLERANCE  # in the trial, which is one sound of many
TRIAL_FRAMES = 24
NARROW = torch.bfloat16


def has_fast_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 in one go; without that nothing is gained."""
    known = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(known is not None and known() and torch.backends.mkldnn.is_available())


@torch.inference_mode()
def narrow(codec: CodecDecoder) -> float:
    """Make the dilated convolutions of a float32 codec on the CPU in bfloat16, if its sound stays within `LIMIT`.

    Returns the deviation that was found in the trial; above `LIMIT`, or where it is not finite, the codec is as before.
    """
    config = codec.config
    numbers = torch.Generator().manual_seed(0)
    codes = torch.randint(config.codebook_size, (1, TRIAL_FRAMES, config.codebooks), generator=numbers)
    wanted = codec(codes)
    convolutions = [unit.conv_1 for unit in codec.modules() if isinstance(unit, Residual)]
    wide = [(conv.weight.data, conv.bias.data) for conv in convolutions if conv.bias is not None]
    for conv in convolutions:
        conv.to(NARROW)
    deviation = float((codec(codes) - wanted).abs().max() / wanted.abs().max())
    if not deviation <= LIMIT:  # NaN is above any limit
        for conv, (weight, bias) in zip(convolutions, wide, strict=True):
            conv.weight = nn.Parameter(weight, requires_grad=False)
            conv.bias = nn.Parameter(bias, requires_grad=False)
    return deviation


def is_mixed(codec: nn.Module) -> bool:
    return any(parameter.dtype is NARROW for parameter in codec.parameters())
