"""Random weights of given shapes, made in memory in the type that they are used in. What they say is noise.

Knows our modules and how large their numbers may be for nothing to overflow. Reads and writes no file. The same
numbers come out for every format and device, rounded.
"""

from __future__ import annotations

import zlib

import torch
from torch import Tensor, nn

from rhapsode.qwen3.config import CodecConfig, ModelConfig
from rhapsode.qwen3.torch.codec import CodecDecoder, ConvNeXt, Quantiser, SnakeBeta
from rhapsode.qwen3.torch.formats import shrink
from rhapsode.qwen3.torch.load import FORMATS, Model, assemble
from rhapsode.qwen3.torch.predictor import Predictor
from rhapsode.qwen3.torch.talker import Talker
from rhapsode.qwen3.torch.transformer import Rotary

# Numbers are dealt from one deck, over and over, each parameter from a place of its own. Its length is prime, so that
# no row of a matrix repeats another; drawing billions anew would take longer than what is measured.
DECK = 4_194_301
_SMALL = 0.1  # of what is added to a residual stream many times over
_QUIET = 0.02  # of what is heard: the sines before it have a mean, which grows from stage to stage


def random_model(model: ModelConfig, codec: CodecConfig, device: str, format: str, seed: int = 0) -> Model:
    """The three networks on a device: talker and predictor in `format`, the codec as `assemble` has it."""
    place, deck = torch.device(device), Deck(seed)
    with torch.device("meta"):
        talker, predictor = Talker(model.talker), Predictor(model.predictor, model.talker)
        decoder = CodecDecoder(codec.decoder)
    for module in (talker, predictor):
        fill(module, deck, FORMATS[format], place, int8=format == "int8")
    fill(decoder, deck, torch.float32, place)
    return assemble(talker, predictor, decoder, device, format)


class Deck:
    """Normal numbers in a fixed order."""

    def __init__(self, seed: int) -> None:
        self._numbers = torch.empty(DECK).normal_(generator=torch.Generator().manual_seed(seed))

    def deal(self, into: Tensor, name: str, scale: float) -> None:
        """Fill a tensor, piece by piece, so that no copy of it in another type is ever whole."""
        flat, done = into.view(-1), 0
        start = zlib.crc32(name.encode()) % DECK
        while done < len(flat):
            piece = self._numbers[start : start + len(flat) - done]
            flat[done : done + len(piece)].copy_(piece * scale)
            done, start = done + len(piece), 0


def fill(module: nn.Module, deck: Deck, dtype: torch.dtype, device: torch.device, *, int8: bool = False) -> None:
    """Give every parameter of a module without data its numbers. `int8`: shrink each matrix as soon as it is there."""
    for prefix, part in list(module.named_modules()):
        for leaf, parameter in list(part.named_parameters(recurse=False)):
            value = torch.empty(parameter.shape, dtype=dtype, device=device)
            _fill_one(part, prefix, leaf, value, deck)
            setattr(part, leaf, nn.Parameter(value, requires_grad=False))
            if int8:
                shrink(module, f"{prefix}.{leaf}")
        if isinstance(part, Rotary):
            part.place(device)
    module.eval().requires_grad_(False)


def _fill_one(part: nn.Module, prefix: str, leaf: str, value: Tensor, deck: Deck) -> None:
    name = f"{prefix}.{leaf}"
    if isinstance(part, (SnakeBeta, Quantiser, nn.Embedding)):
        # Logarithms around 0, and vectors of length one in each direction.
        deck.deal(value, name, _SMALL if isinstance(part, SnakeBeta) else 1.0)
    elif leaf == "bias":
        value.zero_()
    elif value.dim() == 1:  # norms and scales
        value.fill_(_SMALL if leaf.startswith("scale_") or isinstance(part, ConvNeXt) else 1.0)
    else:
        small = _SMALL if prefix.endswith((".out", ".down", ".conv_2")) else 1.0
        if value.shape[0] == 1:  # one channel of sound
            small = _QUIET
        deck.deal(value, name, small * value[0].numel() ** -0.5)
