"""How many lines side by side are read where nobody says: by the talker's width, and by what memory is free."""

from __future__ import annotations

import pytest
import torch

from rhapsode import machine
from rhapsode.bench.source import Source, find_source
from rhapsode.qwen3.limits import kv_bytes, longest_line
from rhapsode.qwen3.torch import load, slots
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


# Cards of 8, 12, 24 and 141 GB; the longest line of a book of short ones, and one that could not be longer.
@pytest.mark.parametrize(
    ("card", "positions", "lanes", "frames"),
    [
        (8, None, 8, 400), (12, None, 48, 600), (24, None, 128, 1800), (141, None, 512, 8192),
        (8, 350, 32, 270), (12, 350, 96, 600), (24, 350, 256, 1800), (141, 350, 512, 8192),
    ],
)  # fmt: skip
def test_cards_of_all_sizes(large: Source, card: int, positions: int | None, lanes: int, frames: int) -> None:
    """1.7B in bfloat16 on all of them; what is planned fits, and leaves nothing that would have been of use."""
    weights = 4.36 * GB  # the codec's among them
    free = int(card * GB - 0.5 * GB - weights)
    talker, codec = large.model.talker, large.codec.decoder
    found = slots.default_slots(talker, "cuda", "bfloat16", free, codec=codec, positions=positions)
    policy = slots.policy(talker, codec, "cuda", "bfloat16", found, positions=positions, free=free)
    assert found == lanes
    assert (
        policy.group_frames >= frames
        and policy.refill == max(1, lanes // 16)
        and 32 <= policy.shelf_lines <= max(32, lanes)
    )
    kv = found * kv_bytes(talker.trunk, positions or longest_line(), 2)
    held = kv + policy.group_frames * slots.frame_bytes(codec) + slots.AT_REST
    assert held <= free and (held > 0.7 * free or lanes == 512)


def test_lanes_that_the_user_wants_leave_the_codec_less(large: Source) -> None:
    talker, codec = large.model.talker, large.codec.decoder
    few, many = (
        slots.policy(talker, codec, "cuda", "bfloat16", lanes, free=20 * GB).group_frames for lanes in (16, 128)
    )
    assert few > many > 256
    none_left = slots.policy(talker, codec, "cuda", "bfloat16", 512, free=20 * GB)
    assert none_left.group_frames > 256, "a piece of a line in any case"


def test_the_codec_takes_about_what_is_reckoned(large: Source) -> None:
    assert slots.frame_bytes(large.codec.decoder) == 4 * 1920 * 96 * 4


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_elsewhere_lines_are_admitted_at_once_and_groups_are_small(large: Source, device: str) -> None:
    policy = slots.policy(large.model.talker, large.codec.decoder, device, "float32", 16)
    assert (policy.refill, policy.shelf_lines, policy.group_frames) == (1, 8, 1024)
    assert policy.group_lines == {"cpu": 1, "mps": 4}[device]


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


def test_a_numbered_card_is_made_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are recorded there, whatever device their tensors are on."""
    made: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "set_device", made.append)
    for device in ("cpu", "cuda", "cuda:1"):
        load.make_current(device)
    assert made == [torch.device("cuda:1")]
