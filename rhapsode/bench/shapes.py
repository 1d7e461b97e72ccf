"""Configurations as data: the published 0.6B CustomVoice, the codec, and what other sizes change of them.

Knows keys and numbers of the released config.json files. Reads no file and knows no weights.
"""

from __future__ import annotations

import copy
from typing import Any

_TRUNK: dict[str, Any] = {
    "attention_bias": False, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3072,
    "num_attention_heads": 16, "num_key_value_heads": 8, "num_code_groups": 16, "rms_norm_eps": 1e-06,
    "rope_theta": 1000000, "sliding_window": None,
}  # fmt: skip
_PREDICTOR: dict[str, Any] = {
    **_TRUNK, "num_hidden_layers": 5, "rope_scaling": None, "vocab_size": 2048, "max_position_embeddings": 65536,
    "tie_word_embeddings": False, "layer_types": ["full_attention"] * 5,
}  # fmt: skip
_LANGUAGES = {
    "chinese": 2055, "english": 2050, "german": 2053, "italian": 2070, "portuguese": 2071, "spanish": 2054,
    "japanese": 2058, "korean": 2064, "french": 2061, "russian": 2069, "beijing_dialect": 2074, "sichuan_dialect": 2062,
}  # fmt: skip
_SPEAKERS = {
    "serena": 3066, "vivian": 3065, "uncle_fu": 3010, "ryan": 3061, "aiden": 2861, "ono_anna": 2873, "sohee": 2864,
    "eric": 2875, "dylan": 2878,
}  # fmt: skip
_DIALECTS = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}

CUSTOM_06B: dict[str, Any] = {
    "architectures": ["Qwen3TTSForConditionalGeneration"], "assistant_token_id": 77091, "im_end_token_id": 151645,
    "im_start_token_id": 151644, "tts_bos_token_id": 151672, "tts_eos_token_id": 151673, "tts_pad_token_id": 151671,
    "model_type": "qwen3_tts", "tokenizer_type": "qwen3_tts_tokenizer_12hz", "tts_model_size": "0b6",
    "tts_model_type": "custom_voice", "transformers_version": "4.57.3",
    "talker_config": {
        **_TRUNK, "attention_dropout": 0, "code_predictor_config": _PREDICTOR, "codec_bos_id": 2149,
        "codec_eos_token_id": 2150, "codec_think_id": 2154, "codec_language_id": _LANGUAGES, "codec_nothink_id": 2155,
        "codec_pad_id": 2148, "codec_think_bos_id": 2156, "codec_think_eos_id": 2157, "spk_id": _SPEAKERS,
        "spk_is_dialect": {name: _DIALECTS.get(name, False) for name in _SPEAKERS}, "initializer_range": 0.02,
        "max_position_embeddings": 32768, "model_type": "qwen3_tts_talker", "num_hidden_layers": 28,
        "position_id_per_seconds": 13, "text_hidden_size": 2048, "text_vocab_size": 151936, "use_cache": True,
        "use_sliding_window": False, "vocab_size": 3072, "pad_token_id": 2148,
        "rope_scaling": {"interleaved": True, "mrope_section": [24, 20, 20], "rope_type": "default", "type": "default"},
    },
}  # fmt: skip

CODEC: dict[str, Any] = {
    "architectures": ["Qwen3TTSTokenizerV2Model"], "model_type": "qwen3_tts_tokenizer_12hz",
    "encoder_valid_num_quantizers": 16, "input_sample_rate": 24000, "output_sample_rate": 24000,
    "decode_upsample_rate": 1920, "encode_downsample_rate": 1920,
    "encoder_config": {
        "_frame_rate": 12.5, "attention_bias": False, "audio_channels": 1, "codebook_dim": 256, "codebook_size": 2048,
        "compress": 2, "dilation_growth_rate": 2, "head_dim": 64, "hidden_act": "gelu", "hidden_size": 512,
        "intermediate_size": 2048, "kernel_size": 7, "last_kernel_size": 3, "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000, "norm_eps": 1e-05, "num_attention_heads": 8, "num_filters": 64,
        "num_hidden_layers": 8, "num_key_value_heads": 8, "num_quantizers": 32, "num_residual_layers": 1,
        "num_semantic_quantizers": 1, "pad_mode": "constant", "residual_kernel_size": 3, "rope_theta": 10000.0,
        "sampling_rate": 24000, "sliding_window": 250, "upsampling_ratios": [8, 6, 5, 4], "use_causal_conv": True,
        "use_conv_shortcut": False, "vector_quantization_hidden_dimension": 256,
    },
    "decoder_config": {
        "attention_bias": False, "attention_dropout": 0.0, "latent_dim": 1024, "codebook_dim": 512,
        "codebook_size": 2048, "decoder_dim": 1536, "hidden_act": "silu", "hidden_size": 512,
        "intermediate_size": 1024, "layer_scale_initial_scale": 0.01, "max_position_embeddings": 8000, "head_dim": 64,
        "num_attention_heads": 16, "num_hidden_layers": 8, "num_key_value_heads": 16, "num_quantizers": 16,
        "num_semantic_quantizers": 1, "rms_norm_eps": 1e-05, "rope_theta": 10000, "semantic_codebook_size": 4096,
        "sliding_window": 72, "upsample_rates": [8, 5, 4, 3], "upsampling_ratios": [2, 2],
        "vector_quantization_hidden_dimension": 512,
    },
}  # fmt: skip


def base_06b() -> dict[str, Any]:
    """0.6B Base: no named speakers, and an encoder for the voice that is to be cloned."""
    config = copy.deepcopy(CUSTOM_06B)
    config["tts_model_type"] = "base"
    config["talker_config"].update(spk_id={}, spk_is_dialect={})
    config["speaker_encoder_config"] = {"enc_dim": 1024, "sample_rate": 24000}
    return config


def base_17b() -> dict[str, Any]:
    """1.7B Base: a wider talker over the same depth predictor."""
    config = base_06b()
    config["tts_model_size"] = "1b7"
    config["talker_config"].update(hidden_size=2048, intermediate_size=6144)
    config["speaker_encoder_config"]["enc_dim"] = 2048
    return config


def custom_17b() -> dict[str, Any]:
    """1.7B CustomVoice: the named speakers over the wider talker."""
    config = copy.deepcopy(CUSTOM_06B)
    config["tts_model_size"] = "1b7"
    config["talker_config"].update(hidden_size=2048, intermediate_size=6144)
    return config


def small() -> dict[str, Any]:
    """The same structure, a talker of 8 x 256 and a predictor of 3 x 192: for machines too slow for the others."""
    config = copy.deepcopy(CUSTOM_06B)
    heads = {"head_dim": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    talker = config["talker_config"]
    talker.update(heads, hidden_size=256, intermediate_size=768, num_hidden_layers=8, text_hidden_size=64)
    talker["rope_scaling"]["mrope_section"] = [12, 10, 10]
    talker["code_predictor_config"].update(
        heads, hidden_size=192, intermediate_size=576, num_hidden_layers=3, layer_types=["full_attention"] * 3
    )
    return config


def small_codec() -> dict[str, Any]:
    """A codec of four million parameters to go with it."""
    config = copy.deepcopy(CODEC)
    config["decoder_config"].update(
        latent_dim=256, codebook_dim=128, vector_quantization_hidden_dimension=128, decoder_dim=256, hidden_size=128,
        intermediate_size=256, num_attention_heads=4, num_key_value_heads=4, head_dim=32, num_hidden_layers=4,
    )  # fmt: skip
    return config


# Name -> what makes the config.json of the model, and of its codec.
SHAPES = {
    "1.7b": (custom_17b, lambda: copy.deepcopy(CODEC)),
    "0.6b": (lambda: copy.deepcopy(CUSTOM_06B), lambda: copy.deepcopy(CODEC)),
    "small": (small, small_codec),
}
PUBLISHED = {name: SHAPES[name][0] for name in ("1.7b", "0.6b")}
