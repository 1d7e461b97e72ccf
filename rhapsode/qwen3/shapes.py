"""Every tensor that the architecture wants: official name -> shape and the component it belongs to.

Knows the official names. Reads no file and holds no weights; the checkpoint is checked against these tables,
the modules are filled from them, and `inspect` counts with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rhapsode.qwen3.config import CodecConfig, DecoderConfig, EncoderConfig, ModelConfig, TransformerShape

Shape = tuple[int, ...]

TRUNK = "talker trunk"
TEXT = "text embedding"
PREDICTOR = "depth predictor"
HEADS = "codec embedding, codec head, text projection"
SPEAKER = "speaker encoder"
ENCODER = "codec encoder"
DECODER = "codec decoder"
CODEBOOKS = "codec codebooks"

# What reading with a named voice has no use for: checked with the rest of the file, never loaded.
NOT_LOADED = (SPEAKER, ENCODER)


@dataclass(frozen=True, slots=True)
class Wanted:
    shape: Shape
    component: str


def model_tensors(config: ModelConfig) -> dict[str, Wanted]:
    """The tensors of the root model.safetensors."""
    talker, predictor = config.talker, config.predictor
    hidden, text = talker.trunk.hidden, talker.text_hidden
    wanted: dict[str, Wanted] = {}

    def add(component: str, named: Iterator[tuple[str, Shape]]) -> None:
        wanted.update((name, Wanted(shape, component)) for name, shape in named)

    add(TRUNK, _trunk("talker.model", talker.trunk))
    add(TEXT, iter([("talker.model.text_embedding.weight", (talker.text_vocab, text))]))
    add(HEADS, iter([
        ("talker.model.codec_embedding.weight", (talker.vocab, hidden)),
        ("talker.codec_head.weight", (talker.vocab, hidden)),
        ("talker.text_projection.linear_fc1.weight", (text, text)),
        ("talker.text_projection.linear_fc1.bias", (text,)),
        ("talker.text_projection.linear_fc2.weight", (hidden, text)),
        ("talker.text_projection.linear_fc2.bias", (hidden,)),
    ]))  # fmt: skip
    prefix, width = "talker.code_predictor", predictor.trunk.hidden
    add(PREDICTOR, _trunk(f"{prefix}.model", predictor.trunk))
    for i in range(talker.codebooks - 1):
        add(PREDICTOR, iter([
            (f"{prefix}.model.codec_embedding.{i}.weight", (predictor.vocab, hidden)),
            (f"{prefix}.lm_head.{i}.weight", (predictor.vocab, width)),
        ]))  # fmt: skip
    if width != hidden:
        add(PREDICTOR, _linear(f"{prefix}.small_to_mtp_projection", hidden, width))
    if config.speaker_encoder is not None:
        add(SPEAKER, _speaker_encoder(config))
    return wanted


def codec_tensors(config: CodecConfig) -> dict[str, Wanted]:
    """The tensors of speech_tokenizer/model.safetensors."""
    named = [*_decoder(config.decoder), *_encoder(config.encoder)]
    return {name: Wanted(shape, _codec_component(name)) for name, shape in named}


def _codec_component(name: str) -> str:
    if "codebook." in name:
        return CODEBOOKS
    return ENCODER if name.startswith("encoder.") else DECODER


def _linear(name: str, wide: int, narrow: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (narrow, wide)
    yield f"{name}.bias", (narrow,)


def _conv(name: str, out: int, into: int, kernel: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (out, into, kernel)
    yield f"{name}.bias", (out,)


def _trunk(prefix: str, shape: TransformerShape) -> Iterator[tuple[str, Shape]]:
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    for i in range(shape.layers):
        layer = f"{prefix}.layers.{i}"
        yield f"{layer}.self_attn.q_proj.weight", (query, shape.hidden)
        yield f"{layer}.self_attn.k_proj.weight", (key, shape.hidden)
        yield f"{layer}.self_attn.v_proj.weight", (key, shape.hidden)
        yield f"{layer}.self_attn.o_proj.weight", (shape.hidden, query)
        yield f"{layer}.mlp.gate_proj.weight", (shape.intermediate, shape.hidden)
        yield f"{layer}.mlp.up_proj.weight", (shape.intermediate, shape.hidden)
        yield f"{layer}.mlp.down_proj.weight", (shape.hidden, shape.intermediate)
        yield f"{layer}.input_layernorm.weight", (shape.hidden,)
        yield f"{layer}.post_attention_layernorm.weight", (shape.hidden,)
        if shape.qk_norm:
            yield f"{layer}.self_attn.q_norm.weight", (shape.head_dim,)
            yield f"{layer}.self_attn.k_norm.weight", (shape.head_dim,)
        if shape.layer_scale:
            yield f"{layer}.self_attn_layer_scale.scale", (shape.hidden,)
            yield f"{layer}.mlp_layer_scale.scale", (shape.hidden,)
    yield f"{prefix}.norm.weight", (shape.hidden,)


def _speaker_encoder(config: ModelConfig) -> Iterator[tuple[str, Shape]]:
    """ECAPA-TDNN: a convolution, squeeze-excitation Res2Net blocks, their sum, attentive pooling, a projection."""
    encoder = config.speaker_encoder
    assert encoder is not None
    channels, kernels = encoder.channels, encoder.kernels
    yield from _conv("speaker_encoder.blocks.0.conv", channels[0], encoder.mel_dim, kernels[0])
    for i in range(1, len(channels) - 1):
        block, part = f"speaker_encoder.blocks.{i}", channels[i] // encoder.res2net_scale
        yield from _conv(f"{block}.tdnn1.conv", channels[i], channels[i - 1], 1)
        for j in range(encoder.res2net_scale - 1):
            yield from _conv(f"{block}.res2net_block.blocks.{j}.conv", part, part, kernels[i])
        yield from _conv(f"{block}.tdnn2.conv", channels[i], channels[i], 1)
        yield from _conv(f"{block}.se_block.conv1", encoder.se_channels, channels[i], 1)
        yield from _conv(f"{block}.se_block.conv2", channels[i], encoder.se_channels, 1)
    last = channels[-1]
    yield from _conv("speaker_encoder.mfa.conv", last, sum(channels[1:-1]), kernels[-1])
    yield from _conv("speaker_encoder.asp.tdnn.conv", encoder.attention, last * 3, 1)
    yield from _conv("speaker_encoder.asp.conv", last, encoder.attention, 1)
    yield from _conv("speaker_encoder.fc", encoder.enc_dim, last * 2, 1)


def _decoder(config: DecoderConfig) -> Iterator[tuple[str, Shape]]:
    half, whole, latent = config.codebook_dim // 2, config.codebook_dim, config.latent
    for group, books in (("rvq_first", 1), ("rvq_rest", config.codebooks - 1)):
        prefix = f"decoder.quantizer.{group}"
        yield f"{prefix}.input_proj.weight", (half, whole, 1)
        yield f"{prefix}.output_proj.weight", (whole, half, 1)
        for i in range(books):
            yield f"{prefix}.vq.layers.{i}._codebook.cluster_usage", (config.codebook_size,)
            yield f"{prefix}.vq.layers.{i}._codebook.embedding_sum", (config.codebook_size, half)
    yield from _conv("decoder.pre_conv.conv", latent, whole, 3)
    yield from _trunk("decoder.pre_transformer", config.trunk)
    yield from _linear("decoder.pre_transformer.input_proj", latent, config.trunk.hidden)
    yield from _linear("decoder.pre_transformer.output_proj", config.trunk.hidden, latent)
    for i, factor in enumerate(config.upsampling_ratios):
        block = f"decoder.upsample.{i}"
        yield f"{block}.0.conv.weight", (latent, latent, factor)
        yield f"{block}.0.conv.bias", (latent,)
        yield from _conv(f"{block}.1.dwconv.conv", latent, 1, 7)
        yield f"{block}.1.norm.weight", (latent,)
        yield f"{block}.1.norm.bias", (latent,)
        yield from _linear(f"{block}.1.pwconv1", latent, 4 * latent)
        yield from _linear(f"{block}.1.pwconv2", 4 * latent, latent)
        yield f"{block}.1.gamma", (latent,)
    yield from _conv("decoder.decoder.0.conv", config.channels, latent, 7)
    channels = config.channels
    for i, rate in enumerate(config.upsample_rates, start=1):
        block = f"decoder.decoder.{i}.block"
        yield from _snake(f"{block}.0", channels)
        yield f"{block}.1.conv.weight", (channels, channels // 2, 2 * rate)
        channels //= 2
        yield f"{block}.1.conv.bias", (channels,)
        for j in (2, 3, 4):
            yield from _snake(f"{block}.{j}.act1", channels)
            yield from _conv(f"{block}.{j}.conv1.conv", channels, channels, 7)
            yield from _snake(f"{block}.{j}.act2", channels)
            yield from _conv(f"{block}.{j}.conv2.conv", channels, channels, 1)
    last = len(config.upsample_rates) + 1
    yield from _snake(f"decoder.decoder.{last}", channels)
    yield from _conv(f"decoder.decoder.{last + 1}.conv", 1, channels, 7)


def _snake(name: str, channels: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.alpha", (channels,)
    yield f"{name}.beta", (channels,)


def _encoder(config: EncoderConfig) -> Iterator[tuple[str, Shape]]:
    """Mimi's encoder. Layers are numbered as its list counts them: activations take numbers, not tensors."""
    prefix, channels = "encoder.encoder.layers", config.filters
    yield from _conv(f"{prefix}.0.conv", channels, 1, config.kernel)
    layer = 1
    for ratio in reversed(config.ratios):
        narrow = channels // config.compress
        for _ in range(config.residual_layers):
            yield from _conv(f"{prefix}.{layer}.block.1.conv", narrow, channels, config.residual_kernel)
            yield from _conv(f"{prefix}.{layer}.block.3.conv", channels, narrow, 1)
            layer += 1
        layer += 1
        yield from _conv(f"{prefix}.{layer}.conv", channels * 2, channels, ratio * 2)
        channels *= 2
        layer += 1
    yield from _conv(f"{prefix}.{layer + 1}.conv", config.hidden, channels, config.last_kernel)
    yield from _encoder_transformer(config)
    stride = config.downsample
    yield "encoder.downsample.conv.weight", (config.hidden, config.hidden, 2 * stride)
    semantic = config.semantic_codebooks
    for kind, books in (("semantic", semantic), ("acoustic", config.codebooks - semantic)):
        quantizer = f"encoder.quantizer.{kind}_residual_vector_quantizer"
        yield f"{quantizer}.input_proj.weight", (config.quantizer_dim, config.hidden, 1)
        yield f"{quantizer}.output_proj.weight", (config.hidden, config.quantizer_dim, 1)
        for i in range(books):
            yield f"{quantizer}.layers.{i}.codebook.initialized", (1,)
            yield f"{quantizer}.layers.{i}.codebook.cluster_usage", (config.codebook_size,)
            yield f"{quantizer}.layers.{i}.codebook.embed_sum", (config.codebook_size, config.codebook_dim)


def _encoder_transformer(config: EncoderConfig) -> Iterator[tuple[str, Shape]]:
    query, key = config.heads * config.head_dim, config.kv_heads * config.head_dim
    for i in range(config.layers):
        layer = f"encoder.encoder_transformer.layers.{i}"
        yield f"{layer}.self_attn.q_proj.weight", (query, config.hidden)
        yield f"{layer}.self_attn.k_proj.weight", (key, config.hidden)
        yield f"{layer}.self_attn.v_proj.weight", (key, config.hidden)
        yield f"{layer}.self_attn.o_proj.weight", (config.hidden, query)
        yield f"{layer}.mlp.fc1.weight", (config.intermediate, config.hidden)
        yield f"{layer}.mlp.fc2.weight", (config.hidden, config.intermediate)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{layer}.{norm}.weight", (config.hidden,)
            yield f"{layer}.{norm}.bias", (config.hidden,)
        yield f"{layer}.self_attn_layer_scale.scale", (config.hidden,)
        yield f"{layer}.mlp_layer_scale.scale", (config.hidden,)
