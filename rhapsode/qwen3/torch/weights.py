"""Tensors of a checkpoint into modules: which official tensors make which of our parameters.

Knows the official names and ours, both ways round. Files are mapped, not read; what needs no conversion is not copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from rhapsode.errors import CheckpointError
from rhapsode.qwen3.checkpoint import Checkpoint, Entry
from rhapsode.qwen3.config import DecoderConfig, EncoderConfig
from rhapsode.qwen3.torch import formats
from rhapsode.qwen3.torch.codec import CausalUpsample, CodecDecoder
from rhapsode.qwen3.torch.encoder import CodecEncoder
from rhapsode.qwen3.torch.predictor import Predictor
from rhapsode.qwen3.torch.talker import Talker
from rhapsode.qwen3.torch.transformer import Rotary

# Our parameter -> the official tensors whose rows it is made of, in this order.
Sources = Mapping[str, tuple[str, ...]]
# For the codec: what its file holds and decoding or encoding does not read. Each side has its own copy of the tables.
_UNREAD_BY_DECODING = ("decoder.quantizer.rvq_first.input_proj.", "decoder.quantizer.rvq_rest.input_proj.", "encoder.")
_UNREAD_BY_ENCODING = (
    "decoder.",
    "encoder.quantizer.semantic_residual_vector_quantizer.output_proj.",
    "encoder.quantizer.acoustic_residual_vector_quantizer.output_proj.",
)


def load_talker(
    checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, *, int8: bool = False
) -> tuple[Talker, Predictor]:
    """Talker and depth predictor in `dtype` on `device`. The speaker encoder, where there is one, is not loaded.

    `int8`: the matrices that are read for every frame become eight bits wide, each as soon as it is there.
    """
    with torch.device("meta"):
        talker = Talker(checkpoint.model.talker)
        predictor = Predictor(checkpoint.model.predictor, checkpoint.model.talker)
    with _Reader(checkpoint.model_file, checkpoint.model_header) as reader:
        reader.fill(talker, talker_sources(talker), dtype, device, int8=int8)
        reader.fill(predictor, predictor_sources(predictor), dtype, device, int8=int8)
        reader.finish(unread=("speaker_encoder.",))
    return talker, predictor


def load_codec(checkpoint: Checkpoint, device: torch.device) -> CodecDecoder:
    """The codec decoder in float32, whatever the file holds: half precision is not good enough for its sines.

    The codec encoder is not loaded.
    """
    config = checkpoint.codec.decoder
    with torch.device("meta"):
        codec = CodecDecoder(config)
    with _Reader(checkpoint.codec_file, checkpoint.codec_header) as reader:
        tables = torch.stack([_table(reader, *names) for names in decoder_tables(config)])
        _put(codec, "quantiser.tables", tables.to(device))
        reader.fill(codec, codec_sources(config), torch.float32, device)
        reader.finish(unread=_UNREAD_BY_DECODING)
    return codec


def load_encoder(checkpoint: Checkpoint, device: torch.device, *, windowed: bool = False) -> CodecEncoder:
    """The codec encoder in float32, whatever the file holds. It gives the codebooks that the file says are kept.

    The official code as it runs lets the transformer see all that came before, whatever `sliding_window` says, unless
    it is given another attention than its own. So does this, but with `windowed`; up to the window, which is 10 s in
    the published file, both are the same.
    """
    config = checkpoint.codec.encoder
    if not windowed:
        config = replace(config, window=None)
    with torch.device("meta"):
        encoder = CodecEncoder(config, checkpoint.codec.codebooks_kept)
    with _Reader(checkpoint.codec_file, checkpoint.codec_header) as reader:
        tables = torch.stack([_table(reader, *names) for names in encoder_tables(config)])
        _put(encoder, "quantiser.tables", tables.to(device))
        reader.fill(encoder, encoder_sources(config), torch.float32, device)
        marks = tuple(name for name in checkpoint.codec_header if name.endswith(".codebook.initialized"))
        reader.finish(unread=_UNREAD_BY_ENCODING + marks)
    return encoder


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


def _both(ours: str, theirs: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for part in ("weight", "bias"):
        yield f"{ours}.{part}", (f"{theirs}.{part}",)


def talker_sources(talker: Talker) -> Sources:
    return {
        "text_embedding.weight": ("talker.model.text_embedding.weight",),
        "code_embedding.weight": ("talker.model.codec_embedding.weight",),
        "head.weight": ("talker.codec_head.weight",),
        **dict(_both("text_in", "talker.text_projection.linear_fc1")),
        **dict(_both("text_out", "talker.text_projection.linear_fc2")),
        **dict(_trunk_sources("trunk", "talker.model", talker.trunk.shape.layers, True, False)),
    }


def predictor_sources(predictor: Predictor) -> Sources:
    prefix = "talker.code_predictor"
    sources = dict(_trunk_sources("trunk", f"{prefix}.model", predictor.trunk.shape.layers, True, False))
    for book in range(predictor.books):
        sources[f"embeddings.{book}.weight"] = (f"{prefix}.model.codec_embedding.{book}.weight",)
        sources[f"heads.{book}.weight"] = (f"{prefix}.lm_head.{book}.weight",)
    if isinstance(predictor.project, nn.Linear):
        sources.update(_both("project", f"{prefix}.small_to_mtp_projection"))
    return sources


def codec_sources(config: DecoderConfig) -> Sources:
    sources: dict[str, tuple[str, ...]] = {
        "quantiser.first.weight": ("decoder.quantizer.rvq_first.output_proj.weight",),
        "quantiser.rest.weight": ("decoder.quantizer.rvq_rest.output_proj.weight",),
    }

    def add(ours: str, theirs: str) -> None:
        sources.update(_both(ours, theirs))

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


def encoder_sources(config: EncoderConfig) -> Sources:
    quantiser, layers = "encoder.quantizer", "encoder.encoder.layers"
    sources: dict[str, tuple[str, ...]] = {
        "downsample.weight": ("encoder.downsample.conv.weight",),
        "quantiser.first.weight": (f"{quantiser}.semantic_residual_vector_quantizer.input_proj.weight",),
        "quantiser.rest.weight": (f"{quantiser}.acoustic_residual_vector_quantizer.input_proj.weight",),
    }

    def add(ours: str, theirs: str) -> None:
        sources.update(_both(ours, theirs))

    add("stages.0", f"{layers}.0.conv")
    units, stages = config.residual_layers, len(config.ratios)
    for i in range(stages):
        first = 1 + i * (units + 2)  # the official list is flat: units, an activation, the strided convolution
        for j in range(units):
            add(f"stages.{i + 1}.{j}.conv_1", f"{layers}.{first + j}.block.1.conv")
            add(f"stages.{i + 1}.{j}.conv_2", f"{layers}.{first + j}.block.3.conv")
        add(f"stages.{i + 1}.{units + 1}", f"{layers}.{first + units + 1}.conv")
    add(f"stages.{stages + 2}", f"{layers}.{stages * (units + 2) + 2}.conv")
    for i in range(config.layers):
        block, layer = f"blocks.{i}", f"encoder.encoder_transformer.layers.{i}"
        add(f"{block}.norm_in", f"{layer}.input_layernorm")
        add(f"{block}.norm_mid", f"{layer}.post_attention_layernorm")
        sources[f"{block}.qkv.weight"] = tuple(f"{layer}.self_attn.{n}_proj.weight" for n in "qkv")
        sources[f"{block}.out.weight"] = (f"{layer}.self_attn.o_proj.weight",)
        sources[f"{block}.up.weight"] = (f"{layer}.mlp.fc1.weight",)
        sources[f"{block}.down.weight"] = (f"{layer}.mlp.fc2.weight",)
        sources[f"{block}.scale_attention"] = (f"{layer}.self_attn_layer_scale.scale",)
        sources[f"{block}.scale_mlp"] = (f"{layer}.mlp_layer_scale.scale",)
    return sources


def encoder_tables(config: EncoderConfig) -> Iterator[tuple[str, str]]:
    """For each table of the encoder its running sums and how often each entry was chosen."""
    semantic = config.semantic_codebooks
    for kind, books in (("semantic", semantic), ("acoustic", config.codebooks - semantic)):
        for i in range(books):
            book = f"encoder.quantizer.{kind}_residual_vector_quantizer.layers.{i}.codebook"
            yield f"{book}.embed_sum", f"{book}.cluster_usage"


def decoder_tables(config: DecoderConfig) -> Iterator[tuple[str, str]]:
    """As `encoder_tables`."""
    groups = [("rvq_first", 0), *(("rvq_rest", i) for i in range(config.codebooks - 1))]
    for group, layer in groups:
        book = f"decoder.quantizer.{group}.vq.layers.{layer}._codebook"
        yield f"{book}.embedding_sum", f"{book}.cluster_usage"


def _table(reader: _Reader, sums: str, usage: str) -> Tensor:
    """A codebook as it is used: running sums over how often each entry was chosen."""
    return reader.tensor(sums).float() / reader.tensor(usage).float().clamp(min=1e-5).unsqueeze(1)


class _Reader:
    """One safetensors file, mapped; counts which tensors were used."""

    def __init__(self, file: Path, header: Mapping[str, Entry]) -> None:
        self._file, self._names, self._used = file, set(header), set[str]()

    def __enter__(self) -> _Reader:
        try:
            self._open = safe_open(str(self._file), framework="pt")
            self._source = self._open.__enter__()
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{self._file} cannot be mapped: {error}.") from None
        return self

    def __exit__(self, *error: object) -> None:
        self._open.__exit__(*error)

    def tensor(self, name: str) -> Tensor:
        self._used.add(name)
        return self._source.get_tensor(name)

    def fill(
        self, module: nn.Module, sources: Sources, dtype: torch.dtype, device: torch.device, *, int8: bool = False
    ) -> None:
        """Every parameter of a module that is still without data, from the official tensors it is made of."""
        for ours, theirs in sources.items():
            parts = [self.tensor(name).to(device=device, dtype=dtype) for name in theirs]
            _put(module, ours, parts[0] if len(parts) == 1 else torch.cat(parts))
            if int8:
                formats.shrink(module, ours)
        empty = [name for name, parameter in module.named_parameters() if parameter.is_meta]
        if empty:
            raise RuntimeError(f"no source is known for {', '.join(empty)} of {type(module).__name__}")
        for part in module.modules():
            if isinstance(part, Rotary):
                part.place(device)
        module.eval().requires_grad_(False)

    def finish(self, unread: tuple[str, ...]) -> None:
        """What is in the file was used, but for what is known not to be needed."""
        left = sorted(name for name in self._names - self._used if not name.startswith(unread))
        if left:
            raise RuntimeError(f"{self._file}: {len(left)} tensors were not used, such as {left[0]}")


def _put(module: nn.Module, name: str, value: Tensor) -> None:
    owner_name, _, leaf = name.rpartition(".")
    owner = module.get_submodule(owner_name)
    wanted = getattr(owner, leaf).shape
    if isinstance(owner, CausalUpsample) and leaf == "weight":
        value = owner.adopt(value)
    if value.dim() == len(wanted) + 1 and value.shape[-1] == 1:
        value = value.squeeze(-1)  # a convolution over one step is a plain product here
    if value.shape != wanted:
        raise RuntimeError(f"{name} has shape {list(wanted)}, its source {list(value.shape)}")
    setattr(owner, leaf, nn.Parameter(value, requires_grad=False))
