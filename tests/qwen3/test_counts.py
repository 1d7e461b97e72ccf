"""Tensors and parameters that the released configurations ask for, against what the released files hold."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rhapsode.bench import shapes as published
from rhapsode.qwen3 import shapes
from rhapsode.qwen3.config import read_codec_config, read_model_config
from rhapsode.qwen3.shapes import Wanted


def model_tensors(folder: Path, config: dict[str, Any]) -> dict[str, Wanted]:
    file = folder / "config.json"
    file.write_text(json.dumps(config))
    return shapes.model_tensors(read_model_config(file))


def codec_tensors(folder: Path) -> dict[str, Wanted]:
    file = folder / "config.json"
    file.write_text(json.dumps(published.CODEC))
    return shapes.codec_tensors(read_codec_config(file))


def totals(tensors: dict[str, Wanted]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for wanted in tensors.values():
        counts[wanted.component] += math.prod(wanted.shape)
    return counts


@pytest.mark.parametrize(
    ("config", "tensors", "parameters"),
    [
        (published.base_06b, 478, 914_643_008),
        (published.base_17b, 480, 1_928_677_440),
        # As 0.6B Base, without the 76 tensors of the speaker encoder.
        (lambda: published.CUSTOM_06B, 402, 905_788_672),
    ],
    ids=["0.6B Base", "1.7B Base", "0.6B CustomVoice"],
)
def test_models(tmp_path: Path, config: Any, tensors: int, parameters: int) -> None:
    wanted = model_tensors(tmp_path, config())
    assert (len(wanted), totals(wanted).total()) == (tensors, parameters)


def test_the_codec(tmp_path: Path) -> None:
    wanted = codec_tensors(tmp_path)
    assert (len(wanted), totals(wanted).total()) == (496, 170_557_441)


def test_components_of_17b_base(tmp_path: Path) -> None:
    model, codec = totals(model_tensors(tmp_path, published.base_17b())), totals(codec_tensors(tmp_path))
    assert model == {
        shapes.TRUNK: 1_409_410_048,
        shapes.TEXT: 311_164_928,
        shapes.PREDICTOR: 175_125_760,
        shapes.HEADS: 32_976_704 - 12_001_088,
        shapes.SPEAKER: 12_001_088,
    }
    assert set(codec) == {shapes.ENCODER, shapes.DECODER, shapes.CODEBOOKS}
    # 16 decoder tables of 2,048 x 256 with usage counts; 32 of the encoder, with one flag each.
    assert codec[shapes.CODEBOOKS] == 16 * (2048 * 257) + 32 * (2048 * 257 + 1)
    assert model.total() + codec.total() == 2_099_234_881


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("talker.model.layers.27.self_attn.q_proj.weight", (2048, 2048)),
        ("talker.model.layers.0.mlp.down_proj.weight", (2048, 6144)),
        ("talker.code_predictor.model.layers.4.self_attn.o_proj.weight", (1024, 2048)),
        ("talker.code_predictor.model.codec_embedding.14.weight", (2048, 2048)),
        ("talker.code_predictor.lm_head.14.weight", (2048, 1024)),
        ("talker.code_predictor.small_to_mtp_projection.weight", (1024, 2048)),
        ("talker.code_predictor.small_to_mtp_projection.bias", (1024,)),
        ("speaker_encoder.blocks.0.conv.weight", (512, 128, 5)),
        ("speaker_encoder.fc.weight", (2048, 3072, 1)),
    ],
)
def test_single_tensors_of_17b_base(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    assert model_tensors(tmp_path, published.base_17b())[name].shape == shape


def test_06b_projects_nothing_before_the_predictor(tmp_path: Path) -> None:
    assert not any("small_to_mtp" in name for name in model_tensors(tmp_path, published.base_06b()))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("decoder.pre_transformer.layers.7.self_attn.q_proj.weight", (1024, 512)),
        ("decoder.decoder.1.block.1.conv.weight", (1536, 768, 16)),
        ("decoder.decoder.6.conv.weight", (1, 96, 7)),
        ("decoder.quantizer.rvq_rest.vq.layers.14._codebook.embedding_sum", (2048, 256)),
        ("encoder.downsample.conv.weight", (512, 512, 4)),
        ("encoder.encoder.layers.14.conv.weight", (512, 1024, 3)),
        ("encoder.quantizer.acoustic_residual_vector_quantizer.layers.30.codebook.embed_sum", (2048, 256)),
    ],
)
def test_single_tensors_of_the_codec(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    assert codec_tensors(tmp_path)[name].shape == shape
