"""A tiny random checkpoint in the official layout: it makes noise, ends its lines, and loads everywhere.

Knows the official files. `python tests/tiny_checkpoint.py FOLDER` writes one to try things on.
Lines end by chance, after 25 frames on average: one channel of the residual stream is constant, and only the head of
the end code looks at it.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from rhapsode.qwen3 import shapes
from rhapsode.qwen3.config import read_codec_config, read_model_config

CODES = 64
LOUDNESS = 0.1
CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")
WORDS = ("assistant", " the", " and", "ing", " Old", "Mc", " a", "er", "ed")
SPEAKERS = {"ryan": CODES + 1000, "serena": CODES + 1001, "eric": CODES + 1002}
LANGUAGES = {"english": CODES + 10, "chinese": CODES + 11, "german": CODES + 12, "sichuan_dialect": CODES + 13}


def byte_alphabet() -> dict[int, str]:
    """The printable stand-ins of byte-level BPE: printable bytes are themselves, the others follow from U+0100."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def vocabulary() -> tuple[dict[str, int], list[str]]:
    """256 byte tokens, then the merges that build `WORDS` from left to right."""
    alphabet = byte_alphabet()
    vocab = {alphabet[byte]: byte for byte in range(256)}
    merges: list[str] = []
    for word in WORDS:
        symbols = [alphabet[byte] for byte in word.encode()]
        built = symbols[0]
        for symbol in symbols[1:]:
            merge, built = f"{built} {symbol}", built + symbol
            if merge not in merges:
                merges.append(merge)
                vocab[built] = len(vocab)
    return vocab, merges


def model_config(*, kind: str = "custom_voice", projection: bool = True) -> dict[str, Any]:
    """A root config.json: the structure of 1.7B with `projection`, of 0.6B without."""
    vocab, _ = vocabulary()
    # Added tokens follow the vocabulary without a gap, or the official tokenizer gives them other ids.
    control = {name: len(vocab) + i for i, name in enumerate(CONTROLS)}
    custom = kind == "custom_voice"
    hidden, depth = (64, 32) if projection else (48, 48)
    trunk = {
        "attention_bias": False,
        "attention_dropout": 0,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000,
        "sliding_window": None,
        "use_cache": True,
    }
    predictor = {
        **trunk,
        "hidden_size": depth,
        "intermediate_size": 2 * depth,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "rope_scaling": None,
        "vocab_size": CODES,
        "num_code_groups": 16,
        "max_position_embeddings": 65536,
        "tie_word_embeddings": False,
        "layer_types": ["full_attention"] * 2,
    }
    talker = {
        **trunk,
        "code_predictor_config": predictor,
        "codec_bos_id": CODES + 101,
        "codec_eos_token_id": CODES + 102,
        "codec_think_id": CODES + 106,
        "codec_language_id": LANGUAGES,
        "codec_nothink_id": CODES + 107,
        "codec_pad_id": CODES + 100,
        "codec_think_bos_id": CODES + 108,
        "codec_think_eos_id": CODES + 109,
        "spk_id": SPEAKERS if custom else {},
        "spk_is_dialect": {"ryan": False, "serena": False, "eric": "sichuan_dialect"} if custom else {},
        "head_dim": 16,
        "hidden_size": hidden,
        "intermediate_size": 3 * hidden,
        "max_position_embeddings": 32768,
        "model_type": "qwen3_tts_talker",
        "num_attention_heads": 4,
        "num_code_groups": 16,
        "num_hidden_layers": 3,
        "num_key_value_heads": 2,
        "position_id_per_seconds": 13,
        "rope_scaling": {"interleaved": True, "mrope_section": [4, 2, 2], "rope_type": "default", "type": "default"},
        "text_hidden_size": 40,
        "text_vocab_size": len(vocab) + len(CONTROLS),
        "use_sliding_window": False,
        "vocab_size": CODES + 1024,
        "pad_token_id": CODES + 100,
    }
    config = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "assistant_token_id": vocab["assistant"],
        "im_end_token_id": control["<|im_end|>"],
        "im_start_token_id": control["<|im_start|>"],
        "tts_bos_token_id": control["<tts_text_bos>"],
        "tts_eos_token_id": control["<tts_text_eod>"],
        "tts_pad_token_id": control["<tts_pad>"],
        "model_type": "qwen3_tts",
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_model_size": "1b7" if projection else "0b6",
        "tts_model_type": kind,
        "talker_config": talker,
        "transformers_version": "4.57.3",
    }
    if kind == "base":
        # The official speaker encoder takes the other sizes from its class; these keep its file small.
        config["speaker_encoder_config"] = {
            "enc_dim": hidden, "sample_rate": 24000, "enc_channels": [16, 16, 16, 16, 48],
            "enc_attention_channels": 8, "enc_se_channels": 8,
        }  # fmt: skip
    return config


def codec_config() -> dict[str, Any]:
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "model_type": "qwen3_tts_tokenizer_12hz",
        "encoder_valid_num_quantizers": 16,
        "input_sample_rate": 24000,
        "output_sample_rate": 24000,
        "decode_upsample_rate": 1920,
        "encode_downsample_rate": 1920,
        "encoder_config": {
            "_frame_rate": 12.5,
            "attention_bias": False,
            "audio_channels": 1,
            "codebook_dim": 8,
            "codebook_size": CODES,
            "compress": 2,
            "dilation_growth_rate": 2,
            "head_dim": 8,
            "hidden_act": "gelu",
            "hidden_size": 16,
            "intermediate_size": 16,
            "kernel_size": 7,
            "last_kernel_size": 3,
            "layer_scale_initial_scale": 0.01,
            "max_position_embeddings": 8000,
            "norm_eps": 1e-05,
            "num_attention_heads": 2,
            "num_filters": 2,
            "num_hidden_layers": 1,
            "num_key_value_heads": 2,
            "num_quantizers": 32,
            "num_residual_layers": 1,
            "num_semantic_quantizers": 1,
            "pad_mode": "constant",
            "residual_kernel_size": 3,
            "rope_theta": 10000.0,
            "sampling_rate": 24000,
            "sliding_window": 250,
            "upsampling_ratios": [8, 6, 5, 4],
            "use_causal_conv": True,
            "use_conv_shortcut": False,
            "vector_quantization_hidden_dimension": 8,
            "upsample_groups": 16,
        },
        "decoder_config": {
            "attention_bias": False,
            "attention_dropout": 0.0,
            "latent_dim": 32,
            "codebook_dim": 32,
            "codebook_size": CODES,
            "decoder_dim": 32,
            "hidden_act": "silu",
            "hidden_size": 24,
            "intermediate_size": 48,
            "layer_scale_initial_scale": 0.01,
            "max_position_embeddings": 8000,
            "head_dim": 12,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "num_key_value_heads": 4,
            "num_quantizers": 16,
            "num_semantic_quantizers": 1,
            "rms_norm_eps": 1e-05,
            "rope_theta": 10000,
            "semantic_codebook_size": 4096,
            "sliding_window": 12,
            "upsample_rates": [8, 5, 4, 3],
            "upsampling_ratios": [2, 2],
            "vector_quantization_hidden_dimension": 32,
        },
    }


def write(folder: Path, *, kind: str = "custom_voice", projection: bool = True, seed: int = 0,
          config_changes: dict[str, Any] | None = None, mean_frames: float | None = 25.0) -> Path:  # fmt: skip
    """Write a checkpoint folder. `mean_frames`: how long lines get; None leaves their ends to the random head."""
    (folder / "speech_tokenizer").mkdir(parents=True, exist_ok=True)
    config = {**model_config(kind=kind, projection=projection), **(config_changes or {})}
    _json(folder / "config.json", config)
    _json(folder / "speech_tokenizer" / "config.json", codec_config())
    _json(folder / "preprocessor_config.json", {"processor_class": "Qwen3TTSProcessor"})
    _json(folder / "speech_tokenizer" / "preprocessor_config.json", _feature_extractor())
    _json(folder / "generation_config.json", {
        "do_sample": True, "repetition_penalty": 1.05, "temperature": 0.9, "top_p": 1.0, "top_k": 50,
        "subtalker_dosample": True, "subtalker_temperature": 0.9, "subtalker_top_p": 1.0, "subtalker_top_k": 50,
        "max_new_tokens": 8192,
    })  # fmt: skip
    vocab, merges = vocabulary()
    _json(folder / "vocab.json", vocab)
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    _json(folder / "tokenizer_config.json", _tokenizer_config())
    rng = np.random.default_rng(seed)
    model = read_model_config(folder / "config.json")
    weights = {name: _random(name, want.shape, rng) for name, want in shapes.model_tensors(model).items()}
    if mean_frames is not None:
        _end_by_chance(weights, model.talker.eos, mean_frames)
    save_file(weights, folder / "model.safetensors")
    codec = read_codec_config(folder / "speech_tokenizer" / "config.json")
    weights = {name: _random(name, want.shape, rng) for name, want in shapes.codec_tensors(codec).items()}
    # Loud enough to hear and far from the clamp, which would hide what the codec does.
    last = f"decoder.decoder.{len(codec.decoder.upsample_rates) + 2}.conv"
    weights[f"{last}.weight"] *= LOUDNESS
    weights[f"{last}.bias"] *= LOUDNESS
    save_file(weights, folder / "speech_tokenizer" / "model.safetensors")
    return folder


def _random(name: str, shape: Iterable[int], rng: np.random.Generator) -> np.ndarray:
    """Weights under which signals neither die nor explode, and greedy choices are far apart."""
    shape = tuple(shape)
    noise = rng.standard_normal(shape).astype(np.float32)
    leaf = name.rsplit(".", 1)[-1]
    if leaf in ("cluster_usage", "initialized"):
        return np.abs(noise) + 0.5
    if leaf == "alpha" or leaf == "beta":
        return 0.3 * noise
    if leaf == "gamma" or leaf == "scale":
        return 0.3 + 0.1 * noise
    if "norm" in name and leaf == "weight":
        return 1.0 + 0.2 * noise
    if leaf == "bias":
        return 0.1 * noise
    if "embedding" in name or "embed_sum" in name:
        return 0.7 * noise
    if "lm_head" in name or "codec_head" in name:
        return noise * (3.0 / math.sqrt(shape[-1]))
    # What is added to a residual stream is made small, or every layer would double it.
    gain = 0.3 if ".conv2." in name or "pwconv2" in name else 1.0
    return noise * (gain / math.sqrt(math.prod(shape[1:])))


def _end_by_chance(weights: dict[str, np.ndarray], eos: int, mean_frames: float) -> None:
    """One residual channel is the same everywhere; the head of the end code reads nothing else."""
    channel, level = 0, 4.0
    for name in ("talker.model.codec_embedding.weight", "talker.text_projection.linear_fc2.weight"):
        if name.endswith("fc2.weight"):
            weights[name][channel] = 0
        else:
            weights[name][:, channel] = 0
    weights["talker.text_projection.linear_fc2.bias"][channel] = level
    for name, value in weights.items():
        if name.startswith("talker.model.layers.") and name.endswith(("o_proj.weight", "down_proj.weight")):
            value[channel] = 0
        elif name.startswith("talker.code_predictor.model.codec_embedding."):
            value[:, channel] = 0
    head = weights["talker.codec_head.weight"]
    head[:, channel] = 0
    head[:CODES] *= 0.5
    head[eos] = 0
    # The others' logits over temperature are spread by about 1.7 and the likeliest 50 are drawn from.
    spread = float(np.linalg.norm(head[:CODES], axis=1).mean()) / 0.9
    others = CODES * math.exp(spread**2 / 2) * 0.97
    normed = level / math.sqrt(float(np.mean([15.0, level**2 / head.shape[1] * 4])))
    norm = weights["talker.model.norm.weight"]
    norm[channel] = 1.0
    head[eos, channel] = 0.9 * math.log(others / mean_frames) / max(normed, 1e-3)


def _tokenizer_config() -> dict[str, Any]:
    first = len(vocabulary()[0])
    added = {
        str(first + i): {"content": name, "lstrip": False, "normalized": False, "rstrip": False,
                         "single_word": False, "special": True}
        for i, name in enumerate(CONTROLS)
    }  # fmt: skip
    return {
        "tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False, "add_prefix_space": False, "bos_token": None,
        "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None, "errors": "replace",
        "model_max_length": 131072, "clean_up_tokenization_spaces": False, "split_special_tokens": False,
        "added_tokens_decoder": added, "additional_special_tokens": list(CONTROLS),
    }  # fmt: skip


def _feature_extractor() -> dict[str, Any]:
    return {
        "feature_extractor_type": "EncodecFeatureExtractor", "feature_size": 1, "sampling_rate": 24000,
        "padding_side": "right", "padding_value": 0.0, "return_attention_mask": True, "chunk_length_s": None,
        "overlap": None,
    }  # fmt: skip


def _json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=1), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", choices=("base", "custom_voice"), default="custom_voice")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    write(arguments.folder, kind=arguments.kind, seed=arguments.seed)
    print(f"Wrote a random checkpoint to {arguments.folder}: it makes noise, not speech.")


if __name__ == "__main__":
    main()
