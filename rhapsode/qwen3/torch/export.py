"""Modules back into the tensors of an official checkpoint: the way of `weights` in the other direction.

Knows how official tensors were fused, turned and divided when they were loaded, and undoes it. Writes no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from rhapsode.qwen3 import shapes
from rhapsode.qwen3.config import CodecConfig, ModelConfig
from rhapsode.qwen3.torch.codec import CausalUpsample, CodecDecoder
from rhapsode.qwen3.torch.encoder import CodecEncoder
from rhapsode.qwen3.torch.predictor import Predictor
from rhapsode.qwen3.torch.talker import Talker
from rhapsode.qwen3.torch.weights import (
    Sources,
    codec_sources,
    decoder_tables,
    encoder_sources,
    encoder_tables,
    predictor_sources,
    talker_sources,
)

Tensors = dict[str, Tensor]
# Projections that nobody reads, since encoding ends with codes and decoding begins with them -> those of the other
# side, which do the same work there.
_SIDES = {
    "decoder.quantizer.rvq_first": "encoder.quantizer.semantic_residual_vector_quantizer",
    "decoder.quantizer.rvq_rest": "encoder.quantizer.acoustic_residual_vector_quantizer",
}
_MIRRORED = {
    **{f"{decoding}.input_proj.weight": f"{encoding}.input_proj.weight" for decoding, encoding in _SIDES.items()},
    **{f"{encoding}.output_proj.weight": f"{decoding}.output_proj.weight" for decoding, encoding in _SIDES.items()},
}


def model_tensors(config: ModelConfig, talker: Talker, predictor: Predictor) -> Tensors:
    """The root model.safetensors: official name -> tensor on the CPU, in the type that the modules have.

    Raises `ValueError` where names or shapes are not those of the configuration. A Base checkpoint has a speaker
    encoder as well, for which there is no module: it is refused.
    """
    wanted = {name: want.shape for name, want in shapes.model_tensors(config).items()}
    tensors = _undone(talker, talker_sources(talker), wanted)
    tensors.update(_undone(predictor, predictor_sources(predictor), wanted))
    return _checked(tensors, wanted)


def codec_tensors(config: CodecConfig, decoder: CodecDecoder, encoder: CodecEncoder) -> Tensors:
    """The same of speech_tokenizer/model.safetensors, for both sides of the codec.

    Tables are written as sums over a usage of 1. Projections that are never read are those of the other side, or zero
    where the widths of the two sides differ.
    """
    wanted = {name: want.shape for name, want in shapes.codec_tensors(config).items()}
    tensors = {
        **_undone(decoder, codec_sources(decoder.config), wanted),
        **_undone(encoder, encoder_sources(encoder.config), wanted),
        **_books(decoder.quantiser.tables, decoder_tables(decoder.config)),
        **_books(encoder.quantiser.tables, encoder_tables(encoder.config)),
    }
    like = encoder.quantiser.tables
    for name, shape in wanted.items():
        if name.endswith(".codebook.initialized"):
            tensors[name] = torch.ones(shape, dtype=like.dtype)
    for name, other in _MIRRORED.items():
        same = wanted[name] == wanted[other]
        tensors[name] = tensors[other].clone() if same else torch.zeros(wanted[name], dtype=like.dtype)
    return _checked(tensors, wanted)


def _undone(module: nn.Module, sources: Sources, wanted: Mapping[str, shapes.Shape]) -> Tensors:
    """Each parameter of a module, taken apart into the official tensors that it was made of."""
    tensors: Tensors = {}
    for ours, theirs in sources.items():
        owner, value = module.get_submodule(ours.rpartition(".")[0]), module.get_parameter(ours).detach().cpu()
        if isinstance(owner, CausalUpsample) and value.dim() == 2:
            value = value.unflatten(0, (-1, owner.out)).permute(2, 1, 0)
        for name, part in zip(theirs, value.split(_rows(value, theirs, wanted)), strict=True):
            flat = wanted.get(name) == (*part.shape, 1)  # a convolution over one step is a plain product here
            tensors[name] = (part.unsqueeze(-1) if flat else part).clone(memory_format=torch.contiguous_format)
    return tensors


def _rows(value: Tensor, names: tuple[str, ...], wanted: Mapping[str, shapes.Shape]) -> list[int]:
    if len(names) == 1:
        return [len(value)]
    if not wanted.keys() >= set(names):
        raise ValueError(f"the configuration has no place for {' and '.join(names)}")
    rows = [wanted[name][0] for name in names]
    if sum(rows) != len(value):
        raise ValueError(f"{' and '.join(names)} have {sum(rows)} rows, not {len(value)}")
    return rows


def _books(tables: Tensor, names: Iterable[tuple[str, str]]) -> Tensors:
    tensors: Tensors = {}
    for table, (sums, usage) in zip(tables.detach().cpu(), names, strict=True):
        tensors[sums] = table.clone()
        tensors[usage] = torch.ones(len(table), dtype=table.dtype)
    return tensors


def _checked(tensors: Tensors, wanted: Mapping[str, shapes.Shape]) -> Tensors:
    """All that the configuration asks for, in its order. What is missing, left over or misshapen is an error."""
    wrong = [f"{name} is missing" for name in sorted(wanted.keys() - tensors.keys())]
    wrong += [f"{name} has no place" for name in sorted(tensors.keys() - wanted.keys())]
    wrong += [
        f"{name} has shape {list(tensor.shape)}, not {list(wanted[name])}"
        for name, tensor in tensors.items()
        if name in wanted and tensor.shape != wanted[name]
    ]
    if wrong:
        raise ValueError(f"{len(wrong)} tensors do not fit the configuration; the first: {wrong[0]}")
    return {name: tensors[name] for name in wanted}
