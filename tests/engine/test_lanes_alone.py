"""A line is a function of itself: in float32 its codes and the bits of its sound are the same in any company.

Sampled, on the PyTorch stepper, which makes products and attends in steps so that this holds.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rhapsode.engine import judge
from rhapsode.engine.decode import decode
from rhapsode.engine.lanes import Reading
from rhapsode.engine.stepper import Request
from rhapsode.qwen3.limits import MIN_FRAMES, Limits
from rhapsode.qwen3.prompt import Prompt
from rhapsode.qwen3.torch import prefill
from rhapsode.qwen3.torch import stepper as stepper_module
from rhapsode.qwen3.torch.load import load_model
from tests.engine.conftest import TEXTS, Tiny
from tests.engine.torch_lanes import (
    CAP,
    ONCE,
    ByHand,
    Sound,
    alone,
    assert_same,
    limits_for,
    read,
    seed_of,
    stepper,
)

LINES = range(len(TEXTS))
MODES = ("whole", "streaming")


@pytest.fixture(scope="session", params=MODES)
def mode(request: pytest.FixtureRequest, tiny: Tiny) -> tuple[list[Prompt], Sound]:
    """Prompts, and each line's codes and sound when it is read alone."""
    prompts: list[Prompt] = getattr(tiny, request.param)
    return prompts, alone(tiny.model, prompts, LINES)


def test_the_lines_are_worth_comparing(mode: tuple[list[Prompt], Sound]) -> None:
    """Some end by themselves and some at the cap, all differently, and all can be heard."""
    prompts, sounds = mode
    lengths = [len(codes) for codes, _ in sounds.values()]
    assert CAP in lengths and len({n for n in lengths if MIN_FRAMES < n < CAP}) >= 3
    assert len({codes[:MIN_FRAMES].tobytes() for codes, _ in sounds.values()}) == len(TEXTS)
    assert len({len(prompt) + len(prompt.trailing) for prompt in prompts}) >= 5
    for codes, wave in sounds.values():
        assert len(wave) == 1920 * len(codes)
        assert judge.judge_wave(wave) == ""
        assert codes.min() >= 0 and codes.max() < 64


@pytest.mark.parametrize("slots", [1, 3, 8, 16])
def test_any_number_of_slots(tiny: Tiny, mode: tuple[list[Prompt], Sound], slots: int) -> None:
    prompts, sounds = mode
    assert_same(read(tiny.model, prompts, LINES, slots), sounds, f"{slots} slots")


@pytest.mark.parametrize("slots", [2, 5])
def test_reversed_order(tiny: Tiny, mode: tuple[list[Prompt], Sound], slots: int) -> None:
    prompts, sounds = mode
    assert_same(read(tiny.model, prompts, LINES, slots, order=LINES[::-1]), sounds, f"{slots} slots, backwards")


def test_groups_that_are_admitted_in_parts(
    tiny: Tiny, mode: tuple[list[Prompt], Sound], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prefill of more rows than are taken at once is made in parts, which no line can tell."""
    prompts, sounds = mode
    monkeypatch.setattr(prefill, "MOST_ROWS_CPU", 80)
    assert_same(read(tiny.model, prompts, LINES, 7), sounds, "admitted in parts")


def test_alone_among_many_slots(tiny: Tiny, mode: tuple[list[Prompt], Sound]) -> None:
    prompts, sounds = mode
    for line in (1, 2):
        assert_same(read(tiny.model, prompts, [line], 16), sounds, "alone in 16 slots")


def test_what_is_allocated_changes_nothing(tiny: Tiny, mode: tuple[list[Prompt], Sound]) -> None:
    prompts, sounds = mode
    roomy = Limits(prompt=333, frames=CAP * 7, trailing=99)
    assert_same(read(tiny.model, prompts, (1, 4), 2, limits=roomy), sounds, "in a larger room")


def test_next_to_a_line_with_another_prompt_length(tiny: Tiny, mode: tuple[list[Prompt], Sound]) -> None:
    prompts, sounds = mode
    for neighbour in (0, 2):
        pair = read(tiny.model, prompts, [1, neighbour], 2)
        assert_same(pair, sounds, f"beside line {neighbour}")


def test_with_and_without_others_ending_midway(tiny: Tiny, mode: tuple[list[Prompt], Sound]) -> None:
    """The longest line runs on while its neighbours end, at once or never, and others take their slots."""
    prompts, sounds = mode
    longest = max(LINES, key=lambda line: len(sounds[line][0]))
    others = [line for line in LINES if line != longest]
    for refill in (True, False):
        lanes = ByHand(stepper(tiny.model, limits_for(prompts), 3), prompts)
        lanes.admit(1, longest)
        waiting = list(others)
        lanes.admit(0, waiting.pop(0), cap=2)
        while 1 in lanes.sitting:
            free = [slot for slot in (0, 2) if slot not in lanes.sitting]
            if refill and waiting and free:
                lanes.admit(free[0], waiting.pop(0), cap=3 + len(waiting))
            lanes.step()
        np.testing.assert_array_equal(lanes.codes[longest], sounds[longest][0])
        assert len(waiting) < 4 if refill else len(waiting) == 5


def test_a_slot_that_had_other_lines_before(tiny: Tiny, mode: tuple[list[Prompt], Sound]) -> None:
    prompts, sounds = mode
    by_length = sorted(LINES, key=lambda line: -len(prompts[line]) - len(prompts[line].trailing))
    assert_same(read(tiny.model, prompts, by_length, 1), sounds, "one slot, long lines first")


def test_same_seed_same_codes_other_seed_other_codes(tiny: Tiny) -> None:
    lanes = ByHand(stepper(tiny.model, limits_for(tiny.whole), 5), tiny.whole)
    seed = seed_of(2)
    for slot, changed in enumerate((seed, seed, seed + 1, seed ^ 1 << 32, seed ^ 1 << 63)):
        lanes.admit(slot, slot, seed=changed, prompt=2)
    codes = [line[:MIN_FRAMES].tobytes() for _, line in sorted(lanes.finish().items())]
    assert codes[0] == codes[1]
    assert len(set(codes)) == 4, "every bit of the seed counts"


def test_an_attempt_is_no_repetition(tiny: Tiny, mode: tuple[list[Prompt], Sound]) -> None:
    """Frames and codebooks draw with different numbers: no two codebooks of a line are alike."""
    _, sounds = mode
    codes = np.concatenate([codes for codes, _ in sounds.values()])
    assert len({column.tobytes() for column in codes.T}) == codes.shape[1]


def test_bfloat16_runs_and_ends(tiny: Tiny) -> None:
    model = load_model(tiny.checkpoint, "cpu", "bfloat16")
    lanes = stepper(model, limits_for(tiny.whole), 3)
    assert {lanes.hidden.dtype, lanes.kv.keys.dtype, model.talker.head.weight.dtype} == {torch.bfloat16}
    readings = [Reading(line, Request(tiny.whole[line], CAP, seed_of(line)), 1.0) for line in LINES]
    finished = list(decode(readings, lanes, lambda *_: pytest.fail("read once"), ONCE))
    assert sorted(one.line for one in finished) == list(LINES)
    assert any(len(one.codes) < CAP for one in finished)
    for one in finished:
        assert MIN_FRAMES <= len(one.codes) <= CAP
        assert one.problem in ("", "no end before the cap")
        assert one.wave.dtype == np.float32 and len(one.wave) == 1920 * len(one.codes)
        assert one.codes.min() >= 0 and one.codes.max() < 64


def test_what_was_not_allocated_is_refused(tiny: Tiny) -> None:
    room = Limits(prompt=len(tiny.whole[1]), frames=10, trailing=3)
    lanes = stepper(tiny.model, room, 2)
    for prompt, cap, words in (
        (tiny.whole[2], 5, "prompt rows"),
        (tiny.whole[1], 11, "frames"),
        (tiny.streaming[2], 5, "trailing text"),
        (tiny.whole[1], 0, "a cap of one frame or more"),
    ):
        with pytest.raises(ValueError, match=words):
            lanes.admit([(0, Request(prompt, cap, 1))])
    assert lanes.finished() == []


def test_the_number_of_threads_is_left_as_it_was(tiny: Tiny) -> None:
    """A narrow talker steps on one thread; what the codec and the caller have is not taken from them."""
    before = torch.get_num_threads()
    seen: list[int] = []

    class Watching(stepper_module.TorchStepper):
        def _step(self) -> None:
            seen.append(torch.get_num_threads())
            super()._step()

    try:
        torch.set_num_threads(2)
        read(tiny.model, tiny.whole, [0], 1, kind=Watching)
        assert set(seen) == {1} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
