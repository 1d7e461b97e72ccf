"""Attention in half precision, which the library makes, against float32, which is written out."""

from __future__ import annotations

import pytest
import torch

from rhapsode.qwen3.torch.load import Model
from rhapsode.qwen3.torch.transformer import attend, causal_mask


@pytest.mark.parametrize("new", [1, 3])
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_each_query_sees_the_keys_of_its_own_group(new: int, kv_heads: int) -> None:
    numbers = torch.Generator().manual_seed(0)
    rows, heads, length, width = 4, 6, 32, 16
    query = torch.randn(rows, heads, new, width, generator=numbers)
    keys, values = torch.randn(2, rows, kv_heads, length, width, generator=numbers)
    positions = torch.tensor([[3], [9], [20], [28]]) + torch.arange(new)
    wanted = attend(query, keys, values, causal_mask(positions, length, torch.float32))
    half = (part.bfloat16() for part in (query, keys, values))
    found = attend(*half, causal_mask(positions, length, torch.bfloat16))
    assert found.shape == wanted.shape == (rows, new, heads * width)
    assert float((found.float() - wanted).abs().max()) < 0.03 * float(wanted.abs().max())
    # Keys that are kept in float32, as the predictor's are: only the queries are rounded, and what comes out.
    found = attend(query.bfloat16(), keys, values, causal_mask(positions, length, torch.bfloat16))
    assert found.dtype == torch.bfloat16
    assert float((found.float() - wanted).abs().max()) < 0.01 * float(wanted.abs().max())


def test_the_predictors_keys_are_float32_on_the_cpu(custom_model: Model) -> None:
    kept = custom_model.predictor.room(3, torch.zeros(2, 2, dtype=torch.bfloat16))
    assert kept.keys.dtype == kept.values.dtype == torch.float32
