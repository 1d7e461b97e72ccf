"""config.json to frozen values, strictly: an unknown key, a missing one or an unsupported value is an error.

Knows the keys of the official files and what they mean. Knows no tensors and no array library.
Class defaults of the official package differ from the shipped values, so nothing is filled in but what the
official loader derives itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rhapsode.errors import CheckpointError
from rhapsode.qwen3.strict import Section, read_json

MOST_PARTS = 1000  # layers, codebooks: each has tensors of its own, whose names are listed before a file is opened


@dataclass(frozen=True, slots=True)
class TransformerShape:
    """One stack of decoder blocks: RMSNorm, grouped-query attention with rotary positions, SwiGLU."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    rope_theta: float
    qk_norm: bool = True
    layer_scale: bool = False
    window: int | None = None  # positions a query sees, itself included; None: all before it


@dataclass(frozen=True, slots=True)
class TalkerConfig:
    trunk: TransformerShape
    vocab: int  # codes of codebook 0, then 1,024 control ids
    text_vocab: int
    text_hidden: int
    codebooks: int
    pad: int
    bos: int
    eos: int
    think: int
    nothink: int
    think_bos: int
    think_eos: int
    languages: dict[str, int]  # lower-case name -> control id
    speakers: dict[str, int]
    dialects: dict[str, str]  # speaker -> entry of `languages`, only those that have one

    CONTROL_IDS = 1024

    @property
    def codes(self) -> int:
        """Codes of codebook 0 that can be spoken; ids from here on are control ids."""
        return self.vocab - self.CONTROL_IDS


@dataclass(frozen=True, slots=True)
class PredictorConfig:
    trunk: TransformerShape
    vocab: int


@dataclass(frozen=True, slots=True)
class SpeakerEncoderConfig:
    enc_dim: int
    sample_rate: int
    mel_dim: int
    channels: tuple[int, ...]
    kernels: tuple[int, ...]
    dilations: tuple[int, ...]
    attention: int
    res2net_scale: int
    se_channels: int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The root config.json: talker, depth predictor and the control tokens of the text."""

    size: str  # "0b6", "1b7"
    kind: str  # "base", "custom_voice", "voice_design"
    im_start: int
    im_end: int
    assistant: int
    tts_pad: int
    tts_bos: int
    tts_eos: int
    talker: TalkerConfig
    predictor: PredictorConfig
    speaker_encoder: SpeakerEncoderConfig | None  # Base only

    @property
    def first_control_token(self) -> int:
        """The smallest id that is a control token of the text: what text itself is made of lies below."""
        return min(self.im_start, self.im_end, self.tts_pad, self.tts_bos, self.tts_eos)


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """The codec decoder: codes [frames, codebooks] to samples [frames * samples_per_frame]."""

    trunk: TransformerShape
    latent: int
    codebook_dim: int  # of a code's vector after projection; the table itself is half as wide
    codebook_size: int
    codebooks: int
    channels: int  # of the first convolution; halved by every stage
    upsampling_ratios: tuple[int, ...]  # before the convolutions, each followed by a ConvNeXt block
    upsample_rates: tuple[int, ...]  # one convolution stage each

    @property
    def samples_per_frame(self) -> int:
        return math.prod(self.upsampling_ratios) * math.prod(self.upsample_rates)


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """The codec encoder (Mimi's): samples [samples] to codes [frames, codebooks kept]."""

    filters: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    kernel: int
    last_kernel: int
    residual_kernel: int
    residual_layers: int
    compress: int
    ratios: tuple[int, ...]
    codebook_dim: int
    codebook_size: int
    codebooks: int
    semantic_codebooks: int
    quantizer_dim: int
    downsample: int  # stride of the convolution after the transformer, down to the codec's frame rate
    eps: float
    rope_theta: float
    window: int | None  # positions that the transformer sees, itself included; None: all before it

    @property
    def samples_per_position(self) -> int:
        """Samples behind one position of the transformer."""
        return math.prod(self.ratios)

    @property
    def samples_per_frame(self) -> int:
        return self.samples_per_position * self.downsample


@dataclass(frozen=True, slots=True)
class CodecConfig:
    decoder: DecoderConfig
    encoder: EncoderConfig
    codebooks_kept: int
    sample_rate: int

    @property
    def frame_rate(self) -> float:
        return self.sample_rate / self.decoder.samples_per_frame


def read_model_config(file: Path) -> ModelConfig:
    """The root config.json of a Qwen3-TTS-12Hz checkpoint."""
    return model_config(read_json(file), file)


def model_config(values: Any, file: Path) -> ModelConfig:
    """What a root config.json holds; `file` is what errors call it."""
    root = Section(values, file)
    root.only("model_type", "qwen3_tts")
    root.only("tokenizer_type", "qwen3_tts_tokenizer_12hz")
    kind = root.text("tts_model_type")
    if kind not in ("base", "custom_voice", "voice_design"):
        raise CheckpointError(f"{file}: tts_model_type is {kind!r}; there are base, custom_voice and voice_design.")
    encoder = root.section("speaker_encoder_config", optional=kind != "base")
    talker = root.section("talker_config")
    assert talker is not None
    predictor = talker.section("code_predictor_config")
    assert predictor is not None
    speaker_encoder = _read_speaker_encoder(encoder) if encoder else None
    config = ModelConfig(
        size=root.text("tts_model_size"),
        kind=kind,
        im_start=root.id("im_start_token_id"),
        im_end=root.id("im_end_token_id"),
        assistant=root.id("assistant_token_id"),
        tts_pad=root.id("tts_pad_token_id"),
        tts_bos=root.id("tts_bos_token_id"),
        tts_eos=root.id("tts_eos_token_id"),
        talker=_read_talker(talker),
        predictor=PredictorConfig(trunk=_read_trunk(predictor), vocab=predictor.count("vocab_size")),
        speaker_encoder=speaker_encoder if kind == "base" else None,
    )
    predictor.only("num_code_groups", config.talker.codebooks)
    for section in (predictor, talker, root):
        section.close()
    _check_ids(config, file)
    return config


def _read_trunk(section: Section) -> TransformerShape:
    section.only("tie_word_embeddings", False)
    section.only("use_sliding_window", False)
    scaling = section.section("rope_scaling", optional=True)
    if scaling is not None:  # three equal positions make the sectioned rotary embedding an ordinary one
        scaling.only("rope_type", "default")
        scaling.only("type", "default")
        scaling.unread("interleaved", "mrope_section")
        scaling.close()
    section.unread("sliding_window", "max_position_embeddings")
    kinds = section.items("layer_types")
    if any(kind != "full_attention" for kind in kinds):
        raise CheckpointError(f"{section.file}: {section.path}.layer_types should all be full_attention.")
    return _read_shape(section)


def _read_shape(
    section: Section, *, qk_norm: bool = True, layer_scale: bool = False, window: int | None = None
) -> TransformerShape:
    section.only("hidden_act", "silu")
    section.only("attention_bias", False)
    hidden, heads = section.count("hidden_size"), section.count("num_attention_heads")
    shape = TransformerShape(
        hidden=hidden,
        intermediate=section.count("intermediate_size"),
        layers=section.count("num_hidden_layers", most=MOST_PARTS),
        heads=heads,
        kv_heads=section.count("num_key_value_heads"),
        head_dim=section.count("head_dim", hidden // heads),
        eps=section.number("rms_norm_eps"),
        rope_theta=section.number("rope_theta"),
        qk_norm=qk_norm,
        layer_scale=layer_scale,
        window=window,
    )
    if shape.heads % shape.kv_heads or shape.head_dim % 2:
        raise CheckpointError(
            f"{section.file}: {section.path} has {shape.heads} heads over {shape.kv_heads} key-value heads of width "
            f"{shape.head_dim}; heads must divide evenly and the width be even."
        )
    return shape


def _read_talker(section: Section) -> TalkerConfig:
    dialects = section.table("spk_is_dialect")
    talker = TalkerConfig(
        trunk=_read_trunk(section),
        vocab=section.count("vocab_size"),
        text_vocab=section.count("text_vocab_size"),
        text_hidden=section.count("text_hidden_size"),
        codebooks=section.count("num_code_groups", most=MOST_PARTS),
        pad=section.id("codec_pad_id"),
        bos=section.id("codec_bos_id"),
        eos=section.id("codec_eos_token_id"),
        think=section.id("codec_think_id"),
        nothink=section.id("codec_nothink_id"),
        think_bos=section.id("codec_think_bos_id"),
        think_eos=section.id("codec_think_eos_id"),
        languages={name.lower(): value for name, value in section.table("codec_language_id").items()},
        speakers={name.lower(): value for name, value in section.table("spk_id").items()},
        dialects={name.lower(): value for name, value in dialects.items() if value is not False},
    )
    for speaker, dialect in talker.dialects.items():
        known = isinstance(dialect, str) and dialect in talker.languages
        if speaker not in talker.speakers or not known:
            raise CheckpointError(
                f"{section.file}: talker_config.spk_is_dialect gives {speaker!r} the dialect {dialect!r}, "
                f"but spk_id and codec_language_id do not have both."
            )
    return talker


def _read_speaker_encoder(section: Section) -> SpeakerEncoderConfig:
    config = SpeakerEncoderConfig(
        enc_dim=section.count("enc_dim"),
        sample_rate=section.count("sample_rate"),
        mel_dim=section.count("mel_dim", 128),
        channels=section.counts("enc_channels", [512, 512, 512, 512, 1536]),
        kernels=section.counts("enc_kernel_sizes", [5, 3, 3, 3, 1]),
        dilations=section.counts("enc_dilations", [1, 2, 3, 4, 1]),
        attention=section.count("enc_attention_channels", 128),
        res2net_scale=section.count("enc_res2net_scale", 8),
        se_channels=section.count("enc_se_channels", 128),
    )
    if not len(config.channels) == len(config.kernels) == len(config.dilations):
        raise CheckpointError(
            f"{section.file}: {section.path}.enc_channels, enc_kernel_sizes and enc_dilations should be equally long, "
            f"not {len(config.channels)}, {len(config.kernels)} and {len(config.dilations)}."
        )
    section.close()
    return config


def _check_ids(config: ModelConfig, file: Path) -> None:
    talker = config.talker
    if talker.codes < 1:
        raise CheckpointError(
            f"{file}: talker_config.vocab_size must be above {talker.CONTROL_IDS}, not {talker.vocab}."
        )
    if talker.codebooks < 2:
        raise CheckpointError(f"{file}: talker_config.num_code_groups must be 2 or more, not {talker.codebooks}.")
    codec = {
        **{f"codec_{n}_id": getattr(talker, n) for n in ("pad", "bos", "think", "nothink", "think_bos", "think_eos")},
        "codec_eos_token_id": talker.eos,
        **{f"codec_language_id.{name}": value for name, value in talker.languages.items()},
        **{f"spk_id.{name}": value for name, value in talker.speakers.items()},
    }
    for name, value in codec.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < talker.vocab:
            raise CheckpointError(f"{file}: talker_config.{name} is {value!r}, outside the {talker.vocab} codec ids.")
    for name in ("im_start", "im_end", "assistant", "tts_pad", "tts_bos", "tts_eos"):
        if getattr(config, name) >= talker.text_vocab:
            raise CheckpointError(
                f"{file}: {name}_token_id is {getattr(config, name)}, outside the {talker.text_vocab} text ids."
            )


def read_codec_config(file: Path) -> CodecConfig:
    """speech_tokenizer/config.json."""
    return codec_config(read_json(file), file)


def codec_config(values: Any, file: Path) -> CodecConfig:
    """What a speech_tokenizer/config.json holds; `file` is what errors call it."""
    root = Section(values, file)
    root.only("model_type", "qwen3_tts_tokenizer_12hz")
    decoder, encoder = root.section("decoder_config"), root.section("encoder_config")
    assert decoder is not None and encoder is not None
    config = CodecConfig(
        decoder=_read_decoder(decoder),
        encoder=_read_encoder(encoder, root.count("encode_downsample_rate")),
        codebooks_kept=root.count("encoder_valid_num_quantizers"),
        sample_rate=root.count("output_sample_rate"),
    )
    root.only("decode_upsample_rate", config.decoder.samples_per_frame)
    semantic, books = config.encoder.semantic_codebooks, config.encoder.codebooks
    if not semantic <= config.codebooks_kept <= books or semantic == books:
        raise CheckpointError(
            f"{file}: the encoder has {books} codebooks, {semantic} of them semantic, which must be fewer, and cannot "
            f"keep {config.codebooks_kept} of them."
        )
    root.unread("input_sample_rate")
    for section in (decoder, encoder, root):
        section.close()
    return config


def _read_decoder(section: Section) -> DecoderConfig:
    section.only("num_semantic_quantizers", 1)
    # The official decoder does not read these two.
    section.unread("semantic_codebook_size", "vector_quantization_hidden_dimension")
    section.unread("layer_scale_initial_scale", "max_position_embeddings")
    trunk = _read_shape(section, qk_norm=False, layer_scale=True, window=section.count("sliding_window"))
    config = DecoderConfig(
        trunk=trunk,
        latent=section.count("latent_dim"),
        codebook_dim=section.count("codebook_dim"),
        codebook_size=section.count("codebook_size"),
        codebooks=section.count("num_quantizers", most=MOST_PARTS),
        channels=section.count("decoder_dim"),
        upsampling_ratios=section.counts("upsampling_ratios"),
        upsample_rates=section.counts("upsample_rates"),
    )
    if config.codebook_dim % 2 or config.channels % 2 ** len(config.upsample_rates):
        raise CheckpointError(
            f"{section.file}: codebook_dim must be even and decoder_dim divisible by 2 for each of the "
            f"{len(config.upsample_rates)} stages, not {config.codebook_dim} and {config.channels}."
        )
    return config


def _read_encoder(section: Section, samples_per_frame: int) -> EncoderConfig:
    for key, value in {
        "hidden_act": "gelu",
        "attention_bias": False,
        "audio_channels": 1,
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "pad_mode": "constant",
        "dilation_growth_rate": 2,
        "trim_right_ratio": 1.0,
        "use_streaming": False,
    }.items():
        section.only(key, value)
    section.unread("layer_scale_initial_scale", "max_position_embeddings", "sampling_rate", "upsample_groups")
    hidden, heads = section.count("hidden_size"), section.count("num_attention_heads")
    ratios = section.counts("upsampling_ratios")
    config = EncoderConfig(
        filters=section.count("num_filters"),
        hidden=hidden,
        intermediate=section.count("intermediate_size"),
        layers=section.count("num_hidden_layers", most=MOST_PARTS),
        heads=heads,
        kv_heads=section.count("num_key_value_heads"),
        head_dim=section.count("head_dim", hidden // heads),
        kernel=section.count("kernel_size"),
        last_kernel=section.count("last_kernel_size"),
        residual_kernel=section.count("residual_kernel_size"),
        residual_layers=section.count("num_residual_layers", most=MOST_PARTS),
        compress=section.count("compress"),
        ratios=ratios,
        codebook_dim=section.count("codebook_dim"),
        codebook_size=section.count("codebook_size"),
        codebooks=section.count("num_quantizers", most=MOST_PARTS),
        semantic_codebooks=section.count("num_semantic_quantizers"),
        quantizer_dim=section.count("vector_quantization_hidden_dimension"),
        downsample=max(1, samples_per_frame // math.prod(ratios)),
        eps=section.number("norm_eps"),
        rope_theta=section.number("rope_theta"),
        window=section.count("sliding_window"),
    )
    if config.heads % config.kv_heads or config.head_dim % 2:
        raise CheckpointError(
            f"{section.file}: {section.path} has {config.heads} heads over {config.kv_heads} key-value heads of width "
            f"{config.head_dim}; heads must divide evenly and the width be even."
        )
    if config.codebook_dim != config.quantizer_dim:
        raise CheckpointError(
            f"{section.file}: {section.path}.codebook_dim is {config.codebook_dim}, but what is looked up has the "
            f"width {config.quantizer_dim} (vector_quantization_hidden_dimension); both must be the same."
        )
    return config
