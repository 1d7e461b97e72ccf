"""How many lines side by side are read where nobody says: by the talker's width, and by what memory is free."""

from __future__ import annotations

import pytest
import torch

from rhapsode import machine
from rhapsode.bench.source import Source, find_source
from rhapsode.qwen3.limits import kv_bytes, longest_line
from rhapsode.qwen3.torch import slots
from rhapsode.qwen3.torch.load import Model
from rhapsode.qwen3.torch.transformer import KV

GB = 10**9


@pytest.fixture(scope="module")
def large() -> Source:
    return find_source("1.7b", None)


def test_heavy_weights_want_many_lanes_and_light_ones_few(large: Source, custom_model: Model) -> None:
    assert slots.default_slots(large.model.talker, "cpu", "bfloat16", 100 * GB) == 64
    assert slots.default_slots(custom_model.talker.config, "cpu", "float32", 100 * GB) == 16


def test_as_many_as_memory_holds(large: Source) -> None:
    """Half of what is free is for keys and values; the lines beside a few are a power of two."""
    lane = kv_bytes(large.model.talker.trunk, longest_line(), 2)
    talker = large.model.talker
    for free, wanted in ((2 * 64 * lane, 64), (2 * 63 * lane, 32), (2 * 9 * lane, 8), (2 * lane, 1), (0, 1)):
        assert slots.default_slots(talker, "cpu", "int8", free) == wanted
    assert slots.default_slots(talker, "cpu", "float32", 2 * 64 * lane) == 32
    assert slots.default_slots(talker, "cuda:0", "bfloat16", 3 * GB) >= 8, "a card of 8 GB, beside the weights"


def test_weights_that_are_yet_to_come_are_counted(large: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "free_bytes", lambda: 8 * GB)
    found = {name: slots.slots_before_loading(large.model, "cpu", name) for name in ("float32", "bfloat16", "int8")}
    assert found == {"float32": 1, "bfloat16": 16, "int8": 32}
    monkeypatch.setattr(machine, "free_bytes", lambda: None)
    assert slots.slots_before_loading(large.model, "cpu", "float32") == 64, "a system that does not say"


def test_a_slot_takes_what_is_reckoned(custom_model: Model) -> None:
    trunk = custom_model.talker.config.trunk
    for dtype in (torch.float32, torch.bfloat16):
        held = KV(trunk, 3, 96, torch.zeros(1, dtype=dtype)).bytes
        assert held == 3 * kv_bytes(trunk, 96, dtype.itemsize)
