"""Random weights in memory, and the counts of what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rhapsode.bench import shapes, weights
from rhapsode.bench.counts import count
from rhapsode.bench.deviation import deviation, trace
from rhapsode.bench.measure import scripted_stepper
from rhapsode.bench.on_torch import weight_bytes
from rhapsode.bench.requests import readings
from rhapsode.bench.source import Source
from rhapsode.bench.workload import draw
from rhapsode.qwen3.config import codec_config, model_config
from rhapsode.qwen3.torch import codec
from rhapsode.qwen3.torch.codec import CausalConv, CausalUpsample
from rhapsode.qwen3.torch.formats import Int8Linear, has_int8
from rhapsode.qwen3.torch.load import Model
from rhapsode.qwen3.torch.mixed import NarrowPointwise

needs_int8 = pytest.mark.skipif(not has_int8(), reason="this build of PyTorch has no eight-bit products")


def networks(model: Model) -> dict[str, Tensor]:
    named = {"talker": model.talker, "predictor": model.predictor, "codec": model.codec}
    return {f"{part}.{name}": value for part, network in named.items() for name, value in network.named_parameters()}


def test_formats_hold_the_same_numbers_rounded(source: Source) -> None:
    wide, narrow = networks(source.build("cpu", "float32")), networks(source.build("cpu", "bfloat16"))
    again = networks(source.build("cpu", "float32"))
    assert wide.keys() == narrow.keys()
    for name, value in wide.items():
        assert value.dtype == torch.float32 and not value.is_meta
        if not name.startswith("codec."):  # whose convolutions are narrow where that is fast and not heard
            assert narrow[name].dtype == torch.bfloat16
        assert torch.equal(narrow[name], value.to(narrow[name].dtype)), name
        assert torch.equal(again[name], value), name


def test_no_piece_is_larger_than_the_deck(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parameter beyond the deck is dealt in pieces, each of which begins the deck anew; none repeats a row."""
    monkeypatch.setattr(weights, "DECK", 101)
    deck = weights.Deck(0)
    value = torch.zeros(40, 16)
    deck.deal(value, "a", 2.0)
    numbers = value.flatten() / 2
    assert torch.equal(numbers[:101], numbers[101:202]) and not torch.equal(numbers[:101], numbers[1:102])
    assert len({tuple(row) for row in value.tolist()}) == 40
    other = torch.zeros(40, 16)
    deck.deal(other, "b", 2.0)
    assert not torch.equal(other, value)


@pytest.mark.parametrize("format", ["bfloat16", pytest.param("int8", marks=needs_int8)])
def test_nothing_overflows(source: Source, format: str) -> None:
    model = source.build("cpu", format)
    lines = readings(draw(2), source.model)
    stepper = scripted_stepper(model, source.codec, lines, 2)
    stepper.admit([(slot, reading.request) for slot, reading in enumerate(lines)])
    for _ in range(4):
        stepper.step()
    spread = model.talker.logits(stepper.hidden).std().item()
    assert 0.1 < spread < 10
    wave = stepper.vocode([np.arange(20 * 16).reshape(20, 16) % 64]).waves()[0]
    assert 1e-3 < np.abs(wave).max() < 1.0  # heard, and not cut off


@pytest.mark.parametrize(("name", "gflop"), [("1.7b", 5.48), ("0.6b", 3.47)])
def test_counts_of_the_published_shapes(name: str, gflop: float) -> None:
    counts = count(model_config(shapes.PUBLISHED[name](), Path("m")), codec_config(shapes.CODEC, Path("c")))
    assert (counts.talker.operations + counts.predictor.operations) / 1e9 == pytest.approx(gflop, abs=0.01)
    assert counts.codec.operations / 1e9 == pytest.approx(4.96, abs=0.01)
    assert 2 * counts.kv_numbers == 114_688  # bytes of a position in bfloat16


class Products:
    """Counts multiplications and additions of linear layers and convolutions as they run."""

    def __init__(self, *parts: nn.Module) -> None:
        self.operations = 0
        every = [part for network in parts for part in network.modules()]
        self._handles = [
            part.register_forward_hook(self._count)
            for part in every
            if isinstance(part, (nn.Linear, CausalUpsample, NarrowPointwise))
        ]
        for part in every:
            if isinstance(part, CausalConv):
                part.over = partial(self._over, part, part.over)

    def _count(self, part: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        if isinstance(part, CausalUpsample):
            self.operations += 2 * given[0].shape[0] * given[0].shape[2] * part.weight.numel()
        elif isinstance(part, (nn.Linear, NarrowPointwise)):
            self.operations += 2 * out.numel() * part.weight[0].numel()

    def _over(self, part: CausalConv, over: Callable[[Tensor], Tensor], seen: Tensor) -> Tensor:
        out = over(seen)
        self.operations += 2 * out.numel() * part.weight[0].numel()
        return out

    def stop(self) -> int:
        for handle in self._handles:
            handle.remove()
        return self.operations


def test_counts_are_what_runs(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a step, a codec call and the products of the floor."""
    from rhapsode.bench.ceiling import frame_products

    model, counts = source.build("cpu", "bfloat16"), count(source.model, source.codec)
    lines, lanes = readings(draw(3), source.model), 3
    stepper = scripted_stepper(model, source.codec, lines, lanes)
    stepper.admit([(slot, reading.request) for slot, reading in enumerate(lines)])
    seen = Products(model.talker, model.predictor)
    stepper.step()
    frame = counts.talker.operations + counts.predictor.operations
    assert seen.stop() == lanes * frame
    seen = Products(model.talker, model.predictor)
    frame_products(model, lanes)()
    assert seen.stop() == lanes * frame
    seen = Products(model.codec)
    monkeypatch.setattr(codec, "STRETCH_UP", 10**6)  # where a stretch begins, one step is computed again
    stepper.vocode([np.zeros((7, 16), np.int32)])
    # Both projections of the quantiser run once; the count has them as one square.
    assert seen.stop() == 7 * counts.codec.operations


@needs_int8
def test_eight_bits_are_eight_bits(source: Source) -> None:
    """Of each layer that is shrunk one byte a weight and four a row; they are the same numbers, rounded further."""
    wide, narrow = source.build("cpu", "bfloat16"), source.build("cpu", "int8")
    shrunk = [(part.in_features, part.out_features) for part in narrow.talker.modules() if isinstance(part, Int8Linear)]
    shrunk += [(p.in_features, p.out_features) for p in narrow.predictor.modules() if isinstance(p, Int8Linear)]
    assert len(shrunk) == 4 * (3 + 2) + 15
    saved = sum(into * out - 4 * out for into, out in shrunk)
    assert weight_bytes(wide) - weight_bytes(narrow) == saved
    far = deviation(trace(narrow, source.model, source.codec), trace(wide, source.model, source.codec))
    assert 1e-3 < far.talker < 0.2 and 1e-3 < far.predictor < 0.2
