"""Files into modules: every tensor that is read lands in one place, every parameter comes from the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rhapsode.errors import CheckpointError
from rhapsode.qwen3 import shapes
from rhapsode.qwen3.checkpoint import Checkpoint, open_checkpoint
from rhapsode.qwen3.torch import weights
from rhapsode.qwen3.torch.weights import load_codec, load_talker

CPU = torch.device("cpu")
CODEC = "speech_tokenizer/model.safetensors"
Load = Callable[[Checkpoint], nn.Module]


def talker_and_predictor(checkpoint: Checkpoint) -> nn.ModuleDict:
    talker, predictor = load_talker(checkpoint, torch.float32, CPU)
    return nn.ModuleDict({"talker": talker, "predictor": predictor})


def codec(checkpoint: Checkpoint) -> nn.Module:
    return load_codec(checkpoint, CPU)


def replace(file: Path, tensors: dict[str, Tensor]) -> None:
    """A new file in the place of the old one, which may still be mapped."""
    beside = file.with_suffix(".new")
    save_file(tensors, beside)
    os.replace(beside, file)


def same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool((one == other).all())


def parameters(module: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


def assert_each_lands_once(
    folder: Path, file: Path, names: list[str], load: Load, per_element: Callable[[str], int]
) -> None:
    """Change one tensor after the other: one parameter changes, in as many places as it should; all get their turn."""
    checkpoint, tensors = open_checkpoint(folder), load_file(file)
    before = parameters(load(checkpoint))
    reached = {name: torch.zeros(value.shape, dtype=torch.int64) for name, value in before.items()}
    for name in names:
        replace(file, tensors | {name: tensors[name] + 1.0})
        after = parameters(load(checkpoint))
        changed = {ours: after[ours] != before[ours] for ours in before}
        places = {ours: int(where.sum()) for ours, where in changed.items() if where.any()}
        assert list(places.values()) == [tensors[name].numel() * per_element(name)], f"{name} changes {places}"
        for ours in places:
            reached[ours] += changed[ours]
    for ours, count in reached.items():
        wanted = 2 if ours == "quantiser.tables" else 1  # sums and usage
        assert (count == wanted).all(), f"{ours} is not wholly of the file"


def test_every_tensor_of_the_model_is_used(own: Path) -> None:
    names = list(shapes.model_tensors(open_checkpoint(own).model))
    assert any("small_to_mtp" in name for name in names)
    assert_each_lands_once(own, own / "model.safetensors", names, talker_and_predictor, lambda _: 1)


def test_every_tensor_of_a_base_model_is_used_but_the_speaker_encoder(own_base: Path) -> None:
    names = [n for n in open_checkpoint(own_base).model_header if not n.startswith("speaker_encoder.")]
    assert len(names) < len(open_checkpoint(own_base).model_header)
    assert_each_lands_once(own_base, own_base / "model.safetensors", names, talker_and_predictor, lambda _: 1)


def test_every_tensor_of_the_codec_decoder_is_used(own: Path) -> None:
    checkpoint = open_checkpoint(own)
    names = [n for n in checkpoint.codec_header if n.startswith("decoder.") and ".input_proj.weight" not in n]
    names.append("decoder.pre_transformer.input_proj.weight")
    half = checkpoint.codec.decoder.codebook_dim // 2
    # A usage count divides a whole row of its table.
    assert_each_lands_once(own, own / CODEC, names, codec, lambda name: half if name.endswith("cluster_usage") else 1)


def test_what_decoding_does_not_read_changes_nothing(own: Path, own_base: Path) -> None:
    for folder, file, load, unread in (
        (
            own,
            CODEC,
            codec,
            ("encoder.", *(f"decoder.quantizer.rvq_{group}.input_proj" for group in ("first", "rest"))),
        ),
        (own_base, "model.safetensors", talker_and_predictor, ("speaker_encoder.",)),
    ):
        checkpoint, tensors = open_checkpoint(folder), load_file(folder / file)
        before = parameters(load(checkpoint))
        count = sum(name.startswith(unread) for name in tensors)
        assert count > 2
        replace(folder / file, {n: t + 1.0 if n.startswith(unread) else t for n, t in tensors.items()})
        after = parameters(load(checkpoint))
        assert all(same(after[name], before[name]) for name in before)


def test_fused_rows_are_in_their_order(custom: Checkpoint) -> None:
    tensors = load_file(custom.model_file)
    talker, predictor = load_talker(custom, torch.float32, CPU)
    for trunk, prefix in ((talker.trunk, "talker.model"), (predictor.trunk, "talker.code_predictor.model")):
        for i, block in enumerate(trunk.blocks):
            layer = f"{prefix}.layers.{i}"
            query, key, value = (tensors[f"{layer}.self_attn.{part}_proj.weight"] for part in "qkv")
            assert same(block.qkv.weight, torch.cat((query, key, value)))
            gate, up = (tensors[f"{layer}.mlp.{part}_proj.weight"] for part in ("gate", "up"))
            assert same(block.gate_up.weight, torch.cat((gate, up)))
            assert same(block.norm_in.weight, tensors[f"{layer}.input_layernorm.weight"])
            assert same(block.norm_mid.weight, tensors[f"{layer}.post_attention_layernorm.weight"])
            assert same(block.norm_q.weight, tensors[f"{layer}.self_attn.q_norm.weight"])
            assert same(block.norm_k.weight, tensors[f"{layer}.self_attn.k_norm.weight"])
    assert same(talker.text_in.weight, tensors["talker.text_projection.linear_fc1.weight"])
    assert same(talker.text_out.weight, tensors["talker.text_projection.linear_fc2.weight"])
    for book in range(15):
        assert same(predictor.heads[book].weight, tensors[f"talker.code_predictor.lm_head.{book}.weight"])
        embedding = f"talker.code_predictor.model.codec_embedding.{book}.weight"
        assert same(predictor.embeddings[book].weight, tensors[embedding])


def test_a_codebook_is_sums_over_usage(own: Path) -> None:
    tensors = load_file(own / CODEC)
    unused = "decoder.quantizer.rvq_rest.vq.layers.3._codebook"
    tensors[f"{unused}.cluster_usage"][5] = 0.0
    replace(own / CODEC, tensors)
    tables = load_codec(open_checkpoint(own), CPU).quantiser.tables
    for book in range(16):
        at = "rvq_first.vq.layers.0" if book == 0 else f"rvq_rest.vq.layers.{book - 1}"
        sums, usage = (tensors[f"decoder.quantizer.{at}._codebook.{n}"] for n in ("embedding_sum", "cluster_usage"))
        torch.testing.assert_close(tables[book], sums / usage.clamp(min=1e-5)[:, None], rtol=0, atol=0)
    assert tables.isfinite().all()


def test_formats(custom: Checkpoint, own: Path) -> None:
    """The talker in the format asked for; the codec in float32 whatever its file holds."""
    talker, predictor = load_talker(custom, torch.bfloat16, CPU)
    assert {p.dtype for p in (*talker.parameters(), *predictor.parameters())} == {torch.bfloat16}
    assert talker.trunk.rotary.frequencies.dtype == torch.float32
    for file in ("model.safetensors", CODEC):
        replace(own / file, {name: value.bfloat16() for name, value in load_file(own / file).items()})
    halved = open_checkpoint(own)
    assert {p.dtype for p in load_codec(halved, CPU).parameters()} == {torch.float32}
    talker, predictor = load_talker(halved, torch.float32, CPU)
    assert {p.dtype for p in (*talker.parameters(), *predictor.parameters())} == {torch.float32}


def test_modules_are_ready_to_read(custom: Checkpoint) -> None:
    for module in (*load_talker(custom, torch.float32, CPU), load_codec(custom, CPU)):
        assert not any(p.is_meta or p.requires_grad for p in module.parameters())
        assert not any(b.is_meta for b in module.buffers()) and not any(m.training for m in module.modules())


def test_a_forgotten_tensor_is_our_fault(custom: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor without a place, and a place without a tensor, are found when loading, not by ear."""
    sources = weights.predictor_sources
    name = "heads.3.weight"
    monkeypatch.setattr(weights, "predictor_sources", lambda p: {k: v for k, v in sources(p).items() if k != name})
    with pytest.raises(RuntimeError, match=name):
        load_talker(custom, torch.float32, CPU)
    doubled = {name: ("talker.code_predictor.lm_head.4.weight",)}
    monkeypatch.setattr(weights, "predictor_sources", lambda p: {**sources(p), **doubled})
    with pytest.raises(RuntimeError, match=r"1 tensors were not used, such as .*lm_head\.3\.weight"):
        load_talker(custom, torch.float32, CPU)


def test_a_file_that_went_bad_after_it_was_checked(own: Path) -> None:
    checkpoint = open_checkpoint(own)
    checkpoint.model_file.write_bytes(b"gone bad")
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        load_talker(checkpoint, torch.float32, CPU)
