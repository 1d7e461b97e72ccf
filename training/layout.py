"""The embedded checkpoint's sizes and its small files, in the official layout.

`python -m training.layout --work W` writes them to W/checkpoint, with the tokens that `prepare` learned. Knows
config.json, the codec's config.json, the tokenizer's and the sampling defaults. Knows no weights and no training.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rhapsode.qwen3.config import CodecConfig, ModelConfig, read_codec_config, read_model_config

NAME = "Phemius"
CODES = 384  # of codebook 0; the others use the first DEEP_CODES rows of their tables
DEEP_CODES = 256
BOOKS = 16
ENCODER_CODES = 512  # rows of the encoder's tables: the official one wants a power of two, and finds none beyond CODES
NARROW = 144  # units of the encoder's perceptrons that the package has room for
SPEAKERS = {"ion": CODES + 1000, "corinna": CODES + 1001}  # the first is the default voice
TEACHERS = {"ion": "joe", "corinna": "kokoro"}
LANGUAGES = {"english": CODES + 2}
CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")

SAMPLE_RATE = 24_000
FRAME = 1920  # samples; 12.5 frames a second
_WINDOW = 12  # frames that the codec's transformer sees: a second; long enough for speech, short enough for one segment


def write_layout(folder: Path, vocab: dict[str, int], merges: list[str]) -> tuple[ModelConfig, CodecConfig]:
    """Every file of the checkpoint but the weights; the configurations as the product reads them back."""
    codec = folder / "speech_tokenizer"
    codec.mkdir(parents=True, exist_ok=True)
    _json(folder / "config.json", _model(vocab))
    _json(folder / "generation_config.json", _GENERATION)
    _json(folder / "preprocessor_config.json", {"processor_class": "Qwen3TTSProcessor"})
    _json(folder / "tokenizer_config.json", _tokenizer(len(vocab)))
    _json(folder / "vocab.json", vocab)
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    _json(codec / "config.json", _CODEC)
    _json(codec / "preprocessor_config.json", _FEATURES)
    return read_configs(folder)


def begin_checkpoint(work: Path) -> tuple[ModelConfig, CodecConfig]:
    """W/checkpoint without its weights, from the tokens in W/data."""
    vocab = json.loads((work / "data" / "vocab.json").read_text(encoding="utf-8"))
    lines = (work / "data" / "merges.txt").read_text(encoding="utf-8").splitlines()
    merges = lines[1:] if lines[0].startswith("#version") else lines
    return write_layout(work / "checkpoint", vocab, merges)


def read_configs(folder: Path) -> tuple[ModelConfig, CodecConfig]:
    """The configurations in a checkpoint's folder, as the product reads them."""
    return read_model_config(folder / "config.json"), read_codec_config(folder / "speech_tokenizer" / "config.json")


def write_encoder_width(folder: Path, units: int) -> None:
    """Change the width of the encoder's perceptrons in the configuration of a checkpoint's folder."""
    file = folder / "speech_tokenizer" / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config["encoder_config"]["intermediate_size"] = units
    _json(file, config)


def _json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")


_TRUNK = {
    "attention_bias": False,
    "attention_dropout": 0,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000,
    "sliding_window": None,
    "use_cache": True,
    "head_dim": 64,
    "num_code_groups": BOOKS,
    "max_position_embeddings": 32768,
}

_PREDICTOR = {
    **_TRUNK,
    "hidden_size": 192,
    "intermediate_size": 336,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "rope_scaling": None,
    "vocab_size": DEEP_CODES,
    "tie_word_embeddings": False,
    "layer_types": ["full_attention"] * 3,
}


def _model(vocab: dict[str, int]) -> dict[str, Any]:
    # Added tokens follow the vocabulary without a gap, or the official tokenizer gives them other ids.
    control = {name: len(vocab) + i for i, name in enumerate(CONTROLS)}
    talker = {
        **_TRUNK,
        "model_type": "qwen3_tts_talker",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 8,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": CODES + 1024,
        "text_vocab_size": len(vocab) + len(CONTROLS),
        "text_hidden_size": 128,
        "rope_scaling": {"interleaved": True, "mrope_section": [12, 10, 10], "rope_type": "default", "type": "default"},
        "position_id_per_seconds": 13,
        "code_predictor_config": _PREDICTOR,
        "codec_pad_id": CODES + 100,
        "codec_bos_id": CODES + 101,
        "codec_eos_token_id": CODES + 102,
        "codec_think_id": CODES + 106,
        "codec_nothink_id": CODES + 107,
        "codec_think_bos_id": CODES + 108,
        "codec_think_eos_id": CODES + 109,
        "codec_language_id": LANGUAGES,
        "spk_id": SPEAKERS,
        "spk_is_dialect": dict.fromkeys(SPEAKERS, False),
        "pad_token_id": CODES + 100,
    }
    return {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": "0b6",
        "tts_model_type": "custom_voice",
        "assistant_token_id": vocab["assistant"],
        "im_start_token_id": control["<|im_start|>"],
        "im_end_token_id": control["<|im_end|>"],
        "tts_pad_token_id": control["<tts_pad>"],
        "tts_bos_token_id": control["<tts_text_bos>"],
        "tts_eos_token_id": control["<tts_text_eod>"],
        "talker_config": talker,
        "transformers_version": "4.57.3",
    }


def _tokenizer(first_control: int) -> dict[str, Any]:
    added = {
        str(first_control + i): {
            "content": name, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
            "special": True,
        }
        for i, name in enumerate(CONTROLS)
    }  # fmt: skip
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": added,
        "additional_special_tokens": list(CONTROLS),
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 131072,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "unk_token": None,
    }


# Chosen by listening to what came out: at 0.7, 0.6 and 1.05 one word in a hundred more was misheard. A penalty
# on what was said before hits the phonemes that come again in every line.
_GENERATION = {
    "do_sample": True,
    "repetition_penalty": 1.0,
    "temperature": 0.6,
    "top_p": 1.0,
    "top_k": 50,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.2,
    "subtalker_top_p": 1.0,
    "subtalker_top_k": 50,
    "max_new_tokens": 1024,
}

_FEATURES = {
    "feature_extractor_type": "EncodecFeatureExtractor",
    "feature_size": 1,
    "sampling_rate": SAMPLE_RATE,
    "padding_side": "right",
    "padding_value": 0.0,
    "return_attention_mask": True,
    "chunk_length_s": None,
    "overlap": None,
}

_VECTOR = 48  # width of a row of a codebook

_CODEC = {
    "architectures": ["Qwen3TTSTokenizerV2Model"],
    "model_type": "qwen3_tts_tokenizer_12hz",
    "encoder_valid_num_quantizers": BOOKS,
    "input_sample_rate": SAMPLE_RATE,
    "output_sample_rate": SAMPLE_RATE,
    "decode_upsample_rate": FRAME,
    "encode_downsample_rate": FRAME,
    "encoder_config": {
        "_frame_rate": 12.5,
        "attention_bias": False,
        "audio_channels": 1,
        "codebook_dim": _VECTOR,
        "codebook_size": ENCODER_CODES,
        "compress": 2,
        "dilation_growth_rate": 2,
        "head_dim": 48,
        "hidden_act": "gelu",
        "hidden_size": 192,
        "intermediate_size": 448,  # while it learns; NARROW in the package
        "kernel_size": 7,
        "last_kernel_size": 3,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "norm_eps": 1e-05,
        "num_attention_heads": 4,
        "num_filters": 24,
        "num_hidden_layers": 2,
        "num_key_value_heads": 4,
        "num_quantizers": 32,
        "num_residual_layers": 1,
        "num_semantic_quantizers": 1,
        "pad_mode": "constant",
        "residual_kernel_size": 3,
        "rope_theta": 10000.0,
        "sampling_rate": SAMPLE_RATE,
        "sliding_window": 250,
        "upsampling_ratios": [8, 6, 5, 4],
        "upsample_groups": 192,
        "use_causal_conv": True,
        "use_conv_shortcut": False,
        "vector_quantization_hidden_dimension": _VECTOR,
    },
    "decoder_config": {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "latent_dim": 192,
        "codebook_dim": 2 * _VECTOR,
        "codebook_size": CODES,
        "decoder_dim": 256,
        "hidden_act": "silu",
        "hidden_size": 192,
        "intermediate_size": 384,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "head_dim": 48,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 4,
        "num_quantizers": BOOKS,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000,
        "semantic_codebook_size": 4096,
        "sliding_window": _WINDOW,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
        "vector_quantization_hidden_dimension": 2 * _VECTOR,
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    begin_checkpoint(parser.parse_args().work)


if __name__ == "__main__":
    main()
