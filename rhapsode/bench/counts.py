"""Arithmetic and traffic of one frame, counted from a configuration.

Knows the structure of the three networks. Measures nothing. An operation is a multiplication or an addition; only
products and convolutions are counted, which is nearly all.
"""

from __future__ import annotations

from dataclasses import dataclass

from rhapsode.qwen3.config import CodecConfig, DecoderConfig, ModelConfig, TransformerShape

# The structure of the codec's decoder: kernels, and residual units of each stage.
_KERNEL, _FIRST_KERNEL, _UNITS = 7, 3, 3
FRAMES_A_SECOND = 24_000 / 1_920  # samples a second over samples of a frame, of the published codec


@dataclass(frozen=True, slots=True)
class Stage:
    """One network: operations of a lane's frame, and weights that are read whenever it runs."""

    operations: int  # for each lane and frame
    weights: int  # numbers read in a step (prefill, codec: in a call), whatever the lanes


@dataclass(frozen=True, slots=True)
class Counts:
    prefill: Stage  # a frame here is a row of the prompt
    predictor: Stage
    talker: Stage
    codec: Stage
    kv_numbers: int  # of one position of one lane, that the talker reads again in every later step

    def stage(self, name: str) -> Stage | None:
        return getattr(self, name) if name in ("prefill", "predictor", "talker", "codec") else None


def count(model: ModelConfig, codec: CodecConfig) -> Counts:
    talker, predictor = model.talker, model.predictor
    trunk, head = _trunk(talker.trunk), talker.trunk.hidden * talker.vocab
    width, books = predictor.trunk.hidden, talker.codebooks - 1
    project = talker.trunk.hidden * width if width != talker.trunk.hidden else 0
    layers, depth_heads = _trunk(predictor.trunk) + project, books * width * predictor.vocab
    text = talker.text_hidden * (talker.text_hidden + talker.trunk.hidden)
    # The first call of a frame brings two rows, the others one; each call reads the layers anew.
    deeper = Stage(2 * ((books + 1) * layers + depth_heads), books * layers + depth_heads)
    decoder = codec.decoder
    return Counts(
        prefill=Stage(2 * (trunk + text), trunk + text),
        predictor=deeper,
        talker=Stage(2 * (trunk + head), trunk + head),
        codec=Stage(2 * _decoder(decoder, each=True), _decoder(decoder, each=False)),
        kv_numbers=2 * talker.trunk.layers * talker.trunk.kv_heads * talker.trunk.head_dim,
    )


def _trunk(shape: TransformerShape) -> int:
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    block = shape.hidden * (query + 2 * key) + query * shape.hidden + 3 * shape.hidden * shape.intermediate
    return shape.layers * block


def _decoder(config: DecoderConfig, *, each: bool) -> int:
    """Multiplications for one frame, or with `each` false the weights: a weight is used once for each position."""
    latent, whole, hidden = config.latent, config.codebook_dim, config.trunk.hidden
    rate = 1
    total = whole * whole + _FIRST_KERNEL * whole * latent + 2 * latent * hidden + _trunk(config.trunk)
    for factor in config.upsampling_ratios:
        total += rate * latent * latent * factor
        rate *= factor if each else 1
        total += rate * (_KERNEL * latent + 8 * latent * latent)
    channels = config.channels
    total += rate * _KERNEL * latent * channels
    for factor in config.upsample_rates:
        total += rate * channels * (channels // 2) * 2 * factor
        channels, rate = channels // 2, rate * (factor if each else 1)
        total += rate * _UNITS * (_KERNEL + 1) * channels * channels
    return total + rate * _KERNEL * channels


def estimate(counts: Counts, bytes_s: float, operations_s: float, lanes: int, positions: int, width: int = 2) -> float:
    """RTF that no program can beat: of memory and arithmetic the slower one at its published rate, at every moment.

    `positions`: rows that a lane looks back at on average. `width`: bytes of a number of talker and predictor. The
    codec's weights are read so seldom that its arithmetic alone counts.
    """
    read = width * (counts.talker.weights + counts.predictor.weights + lanes * positions * counts.kv_numbers)
    step = max(read / bytes_s, lanes * (counts.talker.operations + counts.predictor.operations) / operations_s)
    return FRAMES_A_SECOND * (step / lanes + counts.codec.operations / operations_s)
