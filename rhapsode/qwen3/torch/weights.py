"""Tensors of a checkpoint into modules: which official tensors make which of our parameters.

Knows the official names and ours, both ways round, and how little memory loading may take beside the weights: tensors
are read into their place, piece by piece where they change their type. Tables of which few rows are needed are mapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from rhapsode.errors import CheckpointError
from rhapsode.qwen3 import names
from rhapsode.qwen3.checkpoint import Checkpoint, read_header
from rhapsode.qwen3.config import EncoderConfig
from rhapsode.qwen3.names import Sources, both, codec_sources, decoder_tables
from rhapsode.qwen3.torch import formats
from rhapsode.qwen3.torch.codec import CausalUpsample, CodecDecoder
from rhapsode.qwen3.torch.encoder import CodecEncoder
from rhapsode.qwen3.torch.predictor import Predictor
from rhapsode.qwen3.torch.talker import Talker
from rhapsode.qwen3.torch.transformer import Rotary

PIECE_BYTES = 1 << 24  # of a tensor that are read at once where it changes its type
_TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
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
    with _Reader(checkpoint.model_file) as reader:
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
    with _Reader(checkpoint.codec_file) as reader:
        tables = torch.stack([_table(reader, *pair) for pair in decoder_tables(config)])
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
    with _Reader(checkpoint.codec_file) as reader:
        tables = torch.stack([_table(reader, *pair) for pair in encoder_tables(config)])
        _put(encoder, "quantiser.tables", tables.to(device))
        reader.fill(encoder, encoder_sources(config), torch.float32, device)
        marks = tuple(name for name in checkpoint.codec_header if name.endswith(".codebook.initialized"))
        reader.finish(unread=_UNREAD_BY_ENCODING + marks)
    return encoder


def talker_sources(talker: Talker) -> Sources:
    return names.talker_sources(talker.config)


def predictor_sources(predictor: Predictor) -> Sources:
    return names.predictor_sources(predictor.config, predictor.talker_config)


def encoder_sources(config: EncoderConfig) -> Sources:
    quantiser, layers = "encoder.quantizer", "encoder.encoder.layers"
    sources: dict[str, tuple[str, ...]] = {
        "downsample.weight": ("encoder.downsample.conv.weight",),
        "quantiser.first.weight": (f"{quantiser}.semantic_residual_vector_quantizer.input_proj.weight",),
        "quantiser.rest.weight": (f"{quantiser}.acoustic_residual_vector_quantizer.input_proj.weight",),
    }

    def add(ours: str, theirs: str) -> None:
        sources.update(both(ours, theirs))

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


def _table(reader: _Reader, sums: str, usage: str) -> Tensor:
    """A codebook as it is used: running sums over how often each entry was chosen."""
    cpu = torch.device("cpu")
    found, times = (reader.join([name], torch.float32, cpu) for name in (sums, usage))
    return found.div_(times.clamp_(min=1e-5).unsqueeze(1))


class _Reader:
    """One safetensors file; counts which tensors were used."""

    def __init__(self, file: Path) -> None:
        self._file, self._used = file, set[str]()

    def __enter__(self) -> _Reader:
        self._header = read_header(self._file)
        self._close = ExitStack()
        try:
            self._stream = self._close.enter_context(open(self._file, "rb", buffering=0))
            self._mapped = self._close.enter_context(safe_open(str(self._file), framework="pt"))
        except (SafetensorError, OSError) as error:
            self._close.close()
            raise CheckpointError(f"{self._file} cannot be mapped: {error}.") from None
        return self

    def __exit__(self, *error: object) -> None:
        self._close.close()

    def tensor(self, name: str) -> Tensor:
        """As it is in the file, and mapped: pages that are never looked at take no memory, the others stay."""
        self._used.add(name)
        return self._mapped.get_tensor(name)

    def join(self, names: Sequence[str], dtype: torch.dtype, device: torch.device) -> Tensor:
        """The rows of several tensors under one another."""
        sizes = [self._header[name].shape[0] for name in names]
        joined = torch.empty((sum(sizes), *self._header[names[0]].shape[1:]), dtype=dtype, device=device)
        for name, part in zip(names, joined.split(sizes), strict=True):
            self._read(name, part.view(-1))
        return joined

    def _read(self, name: str, into: Tensor) -> None:
        """A tensor's numbers into a row of as many, of any type and on any device."""
        self._used.add(name)
        dtype = _TYPES[self._header[name].dtype]
        self._stream.seek(self._header[name].start)
        step = PIECE_BYTES // dtype.itemsize
        for part in into.split(step):
            piece = part
            if part.dtype != dtype or part.device.type != "cpu":
                piece = torch.empty(len(part), dtype=dtype, device="cpu")
            left = memoryview(piece.view(torch.uint8).numpy())
            while left:
                count = self._stream.readinto(left)
                if not count:
                    raise CheckpointError(f"{self._file} is cut off within tensor {name}.")
                left = left[count:]
            if piece is not part:
                part.copy_(piece)

    def fill(
        self, module: nn.Module, sources: Sources, dtype: torch.dtype, device: torch.device, *, int8: bool = False
    ) -> None:
        """Every parameter of a module that is still without data, from the official tensors it is made of."""
        for ours, theirs in sources.items():
            looked_up = isinstance(module.get_submodule(ours.rpartition(".")[0]), nn.Embedding)
            if looked_up and device.type == "cpu" and _TYPES[self._header[theirs[0]].dtype] == dtype:
                _put(module, ours, self.tensor(*theirs))
            else:
                _put(module, ours, self.join(theirs, dtype, device))
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
        left = sorted(name for name in self._header.keys() - self._used if not name.startswith(unread))
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
