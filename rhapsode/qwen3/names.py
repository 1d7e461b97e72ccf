"""Which official tensors make which of our parameters, in either back end. Knows names only, and no array library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rhapsode.qwen3.config import DecoderConfig, PredictorConfig, TalkerConfig

# Our parameter -> the official tensors whose rows it is made of, in this order.
Sources = Mapping[str, tuple[str, ...]]


def _trunk_sources(
    ours: str, theirs: str, layers: int, qk_norm: bool, layer_scale: bool
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for i in range(layers):
        block, layer = f"{ours}.blocks.{i}", f"{theirs}.layers.{i}"
        yield f"{block}.norm_in.weight", (f"{layer}.input_layernorm.weight",)
        yield f"{block}.qkv.weight", tuple(f"{layer}.self_attn.{n}_proj.weight" for n in "qkv")
        yield f"{block}.out.weight", (f"{layer}.self_attn.o_proj.weight",)
        yield f"{block}.norm_mid.weight", (f"{layer}.post_attention_layernorm.weight",)
        yield f"{block}.gate_up.weight", (f"{layer}.mlp.gate_proj.weight", f"{layer}.mlp.up_proj.weight")
        yield f"{block}.down.weight", (f"{layer}.mlp.down_proj.weight",)
        if qk_norm:
            yield f"{block}.norm_q.weight", (f"{layer}.self_attn.q_norm.weight",)
            yield f"{block}.norm_k.weight", (f"{layer}.self_attn.k_norm.weight",)
        if layer_scale:
            yield f"{block}.scale_attention", (f"{layer}.self_attn_layer_scale.scale",)
            yield f"{block}.scale_mlp", (f"{layer}.mlp_layer_scale.scale",)
    yield f"{ours}.norm.weight", (f"{theirs}.norm.weight",)


def both(ours: str, theirs: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for part in ("weight", "bias"):
        yield f"{ours}.{part}", (f"{theirs}.{part}",)


def talker_sources(config: TalkerConfig) -> Sources:
    return {
        "text_embedding.weight": ("talker.model.text_embedding.weight",),
        "code_embedding.weight": ("talker.model.codec_embedding.weight",),
        "head.weight": ("talker.codec_head.weight",),
        **dict(both("text_in", "talker.text_projection.linear_fc1")),
        **dict(both("text_out", "talker.text_projection.linear_fc2")),
        **dict(_trunk_sources("trunk", "talker.model", config.trunk.layers, True, False)),
    }


def predictor_sources(config: PredictorConfig, talker: TalkerConfig) -> Sources:
    prefix = "talker.code_predictor"
    sources = dict(_trunk_sources("trunk", f"{prefix}.model", config.trunk.layers, True, False))
    for book in range(talker.codebooks - 1):
        sources[f"embeddings.{book}.weight"] = (f"{prefix}.model.codec_embedding.{book}.weight",)
        sources[f"heads.{book}.weight"] = (f"{prefix}.lm_head.{book}.weight",)
    if config.trunk.hidden != talker.trunk.hidden:
        sources.update(both("project", f"{prefix}.small_to_mtp_projection"))
    return sources


def codec_sources(config: DecoderConfig) -> Sources:
    sources: dict[str, tuple[str, ...]] = {
        "quantiser.first.weight": ("decoder.quantizer.rvq_first.output_proj.weight",),
        "quantiser.rest.weight": ("decoder.quantizer.rvq_rest.output_proj.weight",),
    }

    def add(ours: str, theirs: str) -> None:
        sources.update(both(ours, theirs))

    def snake(ours: str, theirs: str) -> None:
        sources.update({f"{ours}.{part}": (f"{theirs}.{part}",) for part in ("alpha", "beta")})

    add("conv_in", "decoder.pre_conv.conv")
    add("project_in", "decoder.pre_transformer.input_proj")
    add("project_out", "decoder.pre_transformer.output_proj")
    sources.update(_trunk_sources("trunk", "decoder.pre_transformer", config.trunk.layers, False, True))
    for i in range(len(config.upsampling_ratios)):
        add(f"upsample.{i}.0", f"decoder.upsample.{i}.0.conv")
        sources[f"upsample.{i}.1.gamma"] = (f"decoder.upsample.{i}.1.gamma",)
        for ours, theirs in (
            ("depthwise", "dwconv.conv"),
            ("norm", "norm"),
            ("wide", "pwconv1"),
            ("narrow", "pwconv2"),
        ):
            add(f"upsample.{i}.1.{ours}", f"decoder.upsample.{i}.1.{theirs}")
    add("stages.0", "decoder.decoder.0.conv")
    stages = len(config.upsample_rates)
    for i in range(1, stages + 1):
        snake(f"stages.{i}.0", f"decoder.decoder.{i}.block.0")
        add(f"stages.{i}.1", f"decoder.decoder.{i}.block.1.conv")
        for j in (2, 3, 4):
            for n in (1, 2):
                snake(f"stages.{i}.{j}.snake_{n}", f"decoder.decoder.{i}.block.{j}.act{n}")
                add(f"stages.{i}.{j}.conv_{n}", f"decoder.decoder.{i}.block.{j}.conv{n}.conv")
    snake(f"stages.{stages + 1}", f"decoder.decoder.{stages + 1}")
    add(f"stages.{stages + 2}", f"decoder.decoder.{stages + 2}.conv")
    return sources


def decoder_tables(config: DecoderConfig) -> Iterator[tuple[str, str]]:
    """For each table of the decoder its running sums and how often each entry was chosen."""
    groups = [("rvq_first", 0), *(("rvq_rest", i) for i in range(config.codebooks - 1))]
    for group, layer in groups:
        book = f"decoder.quantizer.{group}.vq.layers.{layer}._codebook"
        yield f"{book}.embedding_sum", f"{book}.cluster_usage"
