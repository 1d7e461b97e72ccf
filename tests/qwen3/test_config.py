"""config.json, read strictly: whatever is wrong is refused by file, key, what was wanted and what was found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rhapsode.errors import CheckpointError
from rhapsode.qwen3.config import read_codec_config, read_json, read_model_config
from tests.qwen3.conftest import GONE, edit

TALKER, PREDICTOR = "talker_config", "talker_config.code_predictor_config"
DECODER, ENCODER = "decoder_config", "encoder_config"


def refusal(read: Any, file: Path) -> str:
    """The sentence that a file is refused with; it names the file."""
    with pytest.raises(CheckpointError) as caught:
        read(file)
    message = str(caught.value)
    assert str(file) in message and "\n" not in message and message.endswith(".")
    return message


def refuse_model(folder: Path, key: str, value: Any, *words: str) -> None:
    message = refusal(read_model_config, edit(folder / "config.json", key, value))
    for word in (key, *words):
        assert word in message, message


def refuse_codec(folder: Path, key: str, value: Any, *words: str) -> None:
    message = refusal(read_codec_config, edit(folder / "speech_tokenizer" / "config.json", key, value))
    for word in (key, *words):
        assert word in message, message


# ------------------------------------------------------------------ the root


MODEL_KEYS = [
    "tts_model_type", "tts_model_size", "im_start_token_id", "im_end_token_id", "assistant_token_id",
    "tts_pad_token_id", "tts_bos_token_id", "tts_eos_token_id", "talker_config",
]  # fmt: skip
TALKER_KEYS = [
    "vocab_size", "text_vocab_size", "text_hidden_size", "num_code_groups", "codec_pad_id", "codec_bos_id",
    "codec_eos_token_id", "codec_think_id", "codec_nothink_id", "codec_think_bos_id", "codec_think_eos_id",
    "code_predictor_config",
]  # fmt: skip
TRUNK_KEYS = [
    "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "rms_norm_eps", "rope_theta",
]  # fmt: skip


@pytest.mark.parametrize(
    "key",
    [
        *MODEL_KEYS,
        *(f"{TALKER}.{key}" for key in (*TALKER_KEYS, *TRUNK_KEYS)),
        *(f"{PREDICTOR}.{key}" for key in (*TRUNK_KEYS, "vocab_size")),
    ],
)
def test_missing_keys(own: Path, key: str) -> None:
    refuse_model(own, key, GONE, "missing", "wanted")


@pytest.mark.parametrize(
    "key", ["surprise", f"{TALKER}.surprise", f"{PREDICTOR}.surprise", f"{TALKER}.rope_scaling.factor"]
)
def test_unknown_keys(own: Path, key: str) -> None:
    refuse_model(own, key, 3, "unknown key")


def test_all_unknown_keys_are_named(own: Path) -> None:
    edit(own / "config.json", "one_more", 1)
    refuse_model(own, "another", 1, "unknown keys", "another, one_more")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("im_start_token_id", "151644", ("an id", "'151644'")),
        ("im_start_token_id", True, ("an id", "True")),
        ("im_start_token_id", 1.0, ("an id", "1.0")),
        ("im_start_token_id", None, ("missing",)),
        ("tts_model_size", 17, ("a string", "17")),
        (TALKER, [], ("a JSON object", "[]")),
        (PREDICTOR, "none", ("a JSON object", "'none'")),
        (f"{TALKER}.hidden_size", 64.0, ("a whole number above 0", "64.0")),
        (f"{TALKER}.hidden_size", True, ("a whole number above 0", "True")),
        (f"{TALKER}.hidden_size", 0, ("a whole number above 0", "not 0")),
        (f"{TALKER}.hidden_size", -64, ("a whole number above 0", "-64")),
        (f"{TALKER}.hidden_size", 1 << 40, ("a whole number above 0",)),
        (f"{TALKER}.num_hidden_layers", 1 << 30, ("1000 at most", str(1 << 30))),
        (f"{TALKER}.num_code_groups", 1001, ("1000 at most", "1001")),
        (f"{TALKER}.rms_norm_eps", "tiny", ("a number", "'tiny'")),
        (f"{TALKER}.rms_norm_eps", float("nan"), ("a number above 0", "nan")),
        (f"{TALKER}.rope_theta", 0, ("a number above 0", "0")),
        (f"{TALKER}.rope_theta", -1e6, ("a number above 0",)),
        (f"{TALKER}.rope_theta", float("inf"), ("a number above 0", "inf")),
        (f"{PREDICTOR}.rope_theta", [1], ("a number", "[1]")),
        (f"{TALKER}.spk_id", ["ryan"], ("a JSON object", "['ryan']")),
        (f"{TALKER}.codec_language_id", 5, ("a JSON object", "5")),
        (f"{TALKER}.rope_scaling", "default", ("a JSON object", "'default'")),
        (f"{PREDICTOR}.layer_types", "full_attention", ("a list",)),
    ],
)
def test_wrong_types(own: Path, key: str, value: Any, words: tuple[str, ...]) -> None:
    refuse_model(own, key, value, *words)


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("model_type", "qwen2", "'qwen3_tts'"),
        ("tokenizer_type", "qwen3_tts_tokenizer_25hz", "'qwen3_tts_tokenizer_12hz'"),
        ("tts_model_type", "singing", "base, custom_voice and voice_design"),
        (f"{TALKER}.hidden_act", "gelu", "'silu'"),
        (f"{TALKER}.attention_bias", True, "False"),
        (f"{TALKER}.use_sliding_window", True, "False"),
        (f"{TALKER}.tie_word_embeddings", True, "False"),
        (f"{TALKER}.rope_scaling.rope_type", "yarn", "'default'"),
        (f"{TALKER}.rope_scaling.type", "linear", "'default'"),
        (f"{PREDICTOR}.hidden_act", "relu", "'silu'"),
        (f"{PREDICTOR}.attention_bias", True, "False"),
        (f"{PREDICTOR}.num_code_groups", 8, "only 16"),
        (f"{PREDICTOR}.layer_types", ["full_attention", "sliding_attention"], "full_attention"),
    ],
)
def test_unsupported_values(own: Path, key: str, value: Any, wanted: str) -> None:
    refuse_model(own, key, value, wanted)


def test_heads_that_do_not_divide(own: Path) -> None:
    edit(own / "config.json", f"{TALKER}.num_key_value_heads", 3)
    message = refusal(read_model_config, own / "config.json")
    assert TALKER in message and "4 heads over 3 key-value heads" in message
    edit(own / "config.json", f"{TALKER}.num_key_value_heads", 2)
    edit(own / "config.json", f"{PREDICTOR}.head_dim", 15)
    message = refusal(read_model_config, own / "config.json")
    assert PREDICTOR in message and "width 15" in message


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (f"{TALKER}.codec_pad_id", 1088, ("1088", "codec ids")),
        (f"{TALKER}.codec_eos_token_id", 9999, ("9999", "1088 codec ids")),
        (f"{TALKER}.codec_think_id", -1, ("0 or more", "-1")),
        (f"{TALKER}.codec_language_id.english", 2000, ("2000",)),
        (f"{TALKER}.codec_language_id.english", "74", ("'74'",)),
        (f"{TALKER}.spk_id.ryan", 1088, ("1088",)),
        (f"{TALKER}.spk_id.ryan", True, ("True",)),
        (f"{TALKER}.spk_id.ryan", -3, ("-3",)),
        (f"{TALKER}.spk_id.ryan", [1], ("[1]",)),
        ("tts_eos_token_id", 999, ("999", "text ids")),
        ("assistant_token_id", 285, ("285", "text ids")),
        (f"{TALKER}.vocab_size", 1024, ("above 1024",)),
        (f"{TALKER}.num_code_groups", 1, ("2 or more",)),
    ],
)
def test_ids_out_of_range(own: Path, key: str, value: Any, words: tuple[str, ...]) -> None:
    if key.endswith("num_code_groups"):
        edit(own / "config.json", f"{PREDICTOR}.num_code_groups", value)
    refuse_model(own, key, value, *words)


@pytest.mark.parametrize("dialect", ["klingon_dialect", True, 7, ["sichuan_dialect"], {}])
def test_dialects_that_there_are_not(own: Path, dialect: Any) -> None:
    edit(own / "config.json", f"{TALKER}.spk_is_dialect.ryan", dialect)
    message = refusal(read_model_config, own / "config.json")
    assert "spk_is_dialect" in message and "'ryan'" in message and repr(dialect) in message


def test_a_dialect_of_nobody(own: Path) -> None:
    edit(own / "config.json", f"{TALKER}.spk_is_dialect.nobody", "sichuan_dialect")
    assert "'nobody'" in refusal(read_model_config, own / "config.json")


def test_names_are_lower_case_and_optional(own: Path) -> None:
    edit(own / "config.json", f"{TALKER}.spk_id.Ono_Anna", 70)
    config = read_model_config(own / "config.json")
    assert config.talker.speakers["ono_anna"] == 70
    for key in ("spk_id", "spk_is_dialect", "codec_language_id"):
        edit(own / "config.json", f"{TALKER}.{key}", GONE)
    config = read_model_config(own / "config.json")
    assert config.talker.speakers == config.talker.dialects == config.talker.languages == {}


def test_values_are_taken_over(own: Path) -> None:
    config = read_model_config(own / "config.json")
    assert (config.size, config.kind, config.speaker_encoder) == ("1b7", "custom_voice", None)
    talker = config.talker
    assert (talker.trunk.hidden, talker.trunk.heads, talker.trunk.kv_heads, talker.trunk.head_dim) == (64, 4, 2, 16)
    assert (talker.codes, talker.codebooks, talker.eos, config.predictor.vocab) == (64, 16, 166, 64)
    assert (talker.trunk.eps, talker.trunk.rope_theta, talker.trunk.window) == (1e-6, 1e6, None)
    assert talker.dialects == {"eric": "sichuan_dialect"}
    assert config.first_control_token == min(config.im_start, config.tts_pad)
    edit(own / "config.json", f"{TALKER}.head_dim", GONE)
    assert read_model_config(own / "config.json").talker.trunk.head_dim == 64 // 4


# ------------------------------------------------------------------ the speaker encoder


def test_speaker_encoder(own_base: Path) -> None:
    encoder = read_model_config(own_base / "config.json").speaker_encoder
    assert encoder is not None
    assert (encoder.enc_dim, encoder.mel_dim, encoder.kernels, encoder.res2net_scale) == (48, 128, (5, 3, 3, 3, 1), 8)
    refuse_model(own_base, "speaker_encoder_config.surprise", 1, "unknown key")
    edit(own_base / "config.json", "speaker_encoder_config.surprise", GONE)
    refuse_model(own_base, "speaker_encoder_config.enc_channels", [16, 0], "whole numbers above 0", "[16, 0]")
    edit(own_base / "config.json", "speaker_encoder_config.enc_channels", GONE)
    refuse_model(own_base, "speaker_encoder_config.enc_channels", [16, 16], "equally long", "2, 5 and 5")
    edit(own_base / "config.json", "speaker_encoder_config.enc_channels", GONE)
    refuse_model(own_base, "speaker_encoder_config.enc_dim", GONE, "missing")
    refuse_model(own_base, "speaker_encoder_config", GONE, "missing")


# ------------------------------------------------------------------ the codec


CODEC_KEYS = [
    "encode_downsample_rate", "encoder_valid_num_quantizers", "output_sample_rate", "decoder_config",
    "encoder_config", "decoder_config.hidden_size", "decoder_config.sliding_window", "decoder_config.latent_dim",
    "decoder_config.codebook_dim", "decoder_config.codebook_size", "decoder_config.num_quantizers",
    "decoder_config.decoder_dim", "decoder_config.rope_theta", "decoder_config.upsampling_ratios",
    "decoder_config.upsample_rates", "decoder_config.rms_norm_eps", "encoder_config.num_filters",
    "encoder_config.hidden_size", "encoder_config.upsampling_ratios", "encoder_config.compress",
    "encoder_config.num_quantizers", "encoder_config.vector_quantization_hidden_dimension",
    "encoder_config.kernel_size",
]  # fmt: skip


@pytest.mark.parametrize("key", CODEC_KEYS)
def test_missing_codec_keys(own: Path, key: str) -> None:
    refuse_codec(own, key, GONE, "missing", "wanted")


@pytest.mark.parametrize("key", ["surprise", f"{DECODER}.surprise", f"{ENCODER}.surprise"])
def test_unknown_codec_keys(own: Path, key: str) -> None:
    refuse_codec(own, key, 1, "unknown key")


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        ("model_type", "mimi", "'qwen3_tts_tokenizer_12hz'"),
        ("decode_upsample_rate", 960, "only 1920"),
        (f"{DECODER}.hidden_act", "gelu", "'silu'"),
        (f"{DECODER}.attention_bias", True, "False"),
        (f"{DECODER}.num_semantic_quantizers", 2, "only 1"),
        (f"{DECODER}.upsample_rates", [8, 5, 4, "3"], "whole numbers above 0"),
        (f"{DECODER}.upsample_rates", [8, 5, 4, 0], "whole numbers above 0"),
        (f"{DECODER}.upsample_rates", 8, "a list of whole numbers"),
        (f"{DECODER}.sliding_window", None, "missing"),
        (f"{ENCODER}.hidden_act", "silu", "'gelu'"),
        (f"{ENCODER}.audio_channels", 2, "only 1"),
        (f"{ENCODER}.use_causal_conv", False, "True"),
        (f"{ENCODER}.pad_mode", "reflect", "'constant'"),
        (f"{ENCODER}.use_conv_shortcut", True, "False"),
    ],
)
def test_unsupported_codec_values(own: Path, key: str, value: Any, wanted: str) -> None:
    refuse_codec(own, key, value, wanted)


@pytest.mark.parametrize(("key", "value"), [("codebook_dim", 31), ("decoder_dim", 40)])
def test_codec_widths_that_cannot_be_halved(own: Path, key: str, value: int) -> None:
    message = refusal(read_codec_config, edit(own / "speech_tokenizer" / "config.json", f"{DECODER}.{key}", value))
    assert f"{key} must be even" in message or f"{key} divisible by 2 for each of the 4 stages" in message
    assert str(value) in message


def test_codec_values_are_taken_over(own: Path) -> None:
    config = read_codec_config(own / "speech_tokenizer" / "config.json")
    assert (config.decoder.samples_per_frame, config.sample_rate, config.frame_rate) == (1920, 24000, 12.5)
    trunk = config.decoder.trunk
    assert (trunk.window, trunk.qk_norm, trunk.layer_scale) == (12, False, True)
    assert (config.encoder.downsample, config.encoder.codebooks, config.codebooks_kept) == (2, 32, 16)


# ------------------------------------------------------------------ the file itself


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe{}", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}", b"nonsense"],
    ids=["empty", "open", "not utf-8", "deep", "huge number", "no json"],
)
def test_files_that_are_not_json(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match="cannot be read as JSON") as caught:
        read_json(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(("value", "found"), [([], "a list"), ("x", "a string"), (None, "null"), (3, "int")])
def test_json_that_is_no_object(tmp_path: Path, value: Any, found: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(value))
    for read in (read_model_config, read_codec_config):
        assert refusal(read, file).endswith(f"should be a JSON object, not {found}.")


def test_a_missing_file_and_a_huge_one(tmp_path: Path) -> None:
    assert "is missing" in refusal(read_model_config, tmp_path / "config.json")
    with open(tmp_path / "large.json", "wb") as stream:
        stream.truncate((64 << 20) + 1)
    assert "larger than any configuration" in refusal(read_json, tmp_path / "large.json")
    (tmp_path / "folder.json").mkdir()
    assert "cannot be read" in refusal(read_json, tmp_path / "folder.json")
