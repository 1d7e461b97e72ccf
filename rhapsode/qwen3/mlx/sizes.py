"""Which sizes of each task a configuration uses. Knows shapes; computes nothing."""

from __future__ import annotations

from rhapsode.qwen3.config import DecoderConfig, ModelConfig
from rhapsode.qwen3.mlx.codec import DILATIONS, KERNEL
from rhapsode.qwen3.mlx.library import GROUP

FIRST_KERNEL = 3


def quantised_sizes(model: ModelConfig) -> list[tuple[int, int]]:
    """(into, out) of every matrix whose weights may have fewer bits."""
    found = []
    for trunk in (model.talker.trunk, model.predictor.trunk):
        query, key = trunk.heads * trunk.head_dim, trunk.kv_heads * trunk.head_dim
        found += [(trunk.hidden, query + 2 * key), (query, trunk.hidden)]
        found += [(trunk.hidden, 2 * trunk.intermediate), (trunk.intermediate, trunk.hidden)]
    found.append((model.predictor.trunk.hidden, model.predictor.vocab))
    return [size for size in dict.fromkeys(found) if size[0] % GROUP == 0]


def convolution_sizes(config: DecoderConfig) -> list[tuple[int, int, int, int, int]]:
    """(out, kernel, into of a group, dilation, groups) of every convolution of the codec."""
    latent, channels = config.latent, config.channels
    found = [(latent, FIRST_KERNEL, config.codebook_dim, 1, 1), (latent, KERNEL, 1, 1, latent)]
    found.append((channels, KERNEL, latent, 1, 1))
    for _ in config.upsample_rates:
        channels //= 2
        found += [(channels, KERNEL, channels, dilation, 1) for dilation in DILATIONS]
        found.append((channels, 1, channels, 1, 1))
    found.append((1, KERNEL, channels, 1, 1))
    return list(dict.fromkeys(found))


def snake_sizes(config: DecoderConfig) -> list[int]:
    """Channels of every SnakeBeta of the codec."""
    return [config.channels >> stage for stage in range(len(config.upsample_rates) + 1)]


def snaked_sizes(config: DecoderConfig) -> list[tuple[int, int, int, int]]:
    """(out, kernel, into, dilation) of every convolution that follows a SnakeBeta of as many channels."""
    channels = snake_sizes(config)[1:]
    return [(n, kernel, n, d) for n in channels for kernel, d in (*((KERNEL, d) for d in DILATIONS), (1, 1))]
