"""Eight-bit weights: what they compute, in what company, which layers have them, and how far speech moves."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from rhapsode.errors import UserError
from rhapsode.qwen3.checkpoint import open_checkpoint
from rhapsode.qwen3.torch.formats import Int8Linear, has_int8, shrink_all
from rhapsode.qwen3.torch.load import choose_format, load_model
from tests import tiny_checkpoint

pytestmark = pytest.mark.skipif(not has_int8(), reason="this build of PyTorch has no eight-bit products")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory):
    return tiny_checkpoint.write(tmp_path_factory.mktemp("tiny"))


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def wanted(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The product of what weight and rows are rounded to, in float64."""
    step = weight.double().abs().amax(1, keepdim=True) / 127
    scale = x.double().abs().amax(-1, keepdim=True) / 127
    return F.linear((x.double() / scale).round() * scale, (weight.double() / step).round() * step)


@pytest.mark.parametrize("rows", [1, 2, 7, 24, 65])
def test_the_product_is_that_of_the_rounded_values(rows: int) -> None:
    weight, x = noise(96, 64), noise(rows, 64, seed=rows)
    assert torch.allclose(Int8Linear(weight)(x).double(), wanted(weight, x), atol=1e-4)


def test_rounding_costs_about_a_hundredth() -> None:
    weight, x = noise(256, 512), noise(16, 512, seed=1)
    exact = F.linear(x, weight)
    assert 0.002 < (Int8Linear(weight)(x) - exact).norm() / exact.norm() < 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_is_the_same_to_the_bit_in_any_company(dtype: torch.dtype) -> None:
    layer, x = Int8Linear(noise(96, 64)), noise(33, 64, seed=2).to(dtype)
    x[5] *= 1000  # a loud neighbour must not take the others' steps away
    together = layer(x)
    assert together.dtype == dtype
    for count in (1, 3, 32):
        assert torch.equal(layer(x[:count]), together[:count])


def test_leading_dimensions_stay() -> None:
    layer, x = Int8Linear(noise(8, 16)), noise(2, 3, 16)
    assert torch.equal(layer(x), layer(x.view(6, 16)).view(2, 3, 8))


def test_zeros_and_what_is_not_finite_stay_what_they_are() -> None:
    layer, x = Int8Linear(noise(8, 16)), noise(3, 16)
    x[0], x[1, 4] = 0, float("nan")
    made = layer(x)
    assert made[0].eq(0).all() and made[1].isnan().all() and made[2].isfinite().all()
    assert Int8Linear(torch.zeros(4, 16))(x)[0].eq(0).all()


def test_every_matrix_of_a_frame_is_small_but_the_talkers_head(folder) -> None:
    model = load_model(open_checkpoint(folder, "tiny"), "cpu", "int8")
    for trunk in (model.talker.trunk, model.predictor.trunk):
        assert not [m for m in trunk.modules() if isinstance(m, nn.Linear)]
    assert all(isinstance(head, Int8Linear) for head in model.predictor.heads)
    assert isinstance(model.talker.head, nn.Linear) and isinstance(model.talker.text_in, nn.Linear)
    assert not [m for m in model.codec.modules() if isinstance(m, Int8Linear)]


def test_weights_shrunk_in_memory_are_those_loaded_so(folder) -> None:
    checkpoint = open_checkpoint(folder, "tiny")
    loaded, plain = load_model(checkpoint, "cpu", "int8"), load_model(checkpoint, "cpu", "bfloat16")
    shrink_all(plain.talker)
    x = noise(5, plain.talker.trunk.shape.hidden).bfloat16()
    for ours, theirs in zip(loaded.talker.trunk.blocks, plain.talker.trunk.blocks, strict=True):
        assert torch.equal(ours.qkv(x), theirs.qkv(x)) and torch.equal(ours.gate_up(x), theirs.gate_up(x))


def test_logits_stay_near_those_of_float32(folder) -> None:
    """Relative to their spread; what eight bits may cost over all blocks of the tiny checkpoint."""
    checkpoint = open_checkpoint(folder, "tiny")
    rows = noise(1, 40, checkpoint.model.talker.trunk.hidden)
    found = {}
    for format in ("float32", "bfloat16", "int8"):
        talker = load_model(checkpoint, "cpu", format).talker
        x = rows.to(talker.head.weight.dtype)
        positions = torch.arange(40).unsqueeze(0)
        mask = torch.full((40, 40), float("-inf")).triu(1).to(x.dtype)
        with torch.inference_mode():
            hidden = talker.trunk(x, positions, mask, lambda layer, key, value: (key, value))
            found[format] = talker.logits(hidden[0])
    exact = found["float32"]
    moved = {name: float((logits - exact).norm() / exact.norm()) for name, logits in found.items()}
    assert moved["bfloat16"] < 0.02
    assert 0.003 < moved["int8"] < 0.06


def test_only_the_cpu_has_it() -> None:
    assert choose_format("int8", "cpu") == "int8"
    with pytest.raises(UserError, match="float32 or bfloat16"):
        choose_format("int8", "cuda")
