"""Nothing of one lane reaches another, nor a slot's next line: one test for each thing that a lane has of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rhapsode.engine.stepper import Ending, Request
from rhapsode.qwen3.prompt import Prompt, PromptMaker
from rhapsode.qwen3.tokens import TextTokenizer
from rhapsode.qwen3.voices import choose
from rhapsode.types import Sampling
from tests.engine.conftest import Tiny
from tests.engine.torch_lanes import CAP, ByHand, alone, limits_for, poison, seed_of, stepper

LONG, SHORT, OTHER = 2, 3, 1


def by_hand(tiny: Tiny, prompts: list[Prompt], slots: int, sampling: Sampling | None = None) -> ByHand:
    return ByHand(stepper(tiny.model, limits_for(prompts), slots, sampling), prompts)


def codes_alone(tiny: Tiny, prompts: list[Prompt], lines: tuple[int, ...], sampling: Sampling | None = None) -> dict:
    return {line: codes for line, (codes, _) in alone(tiny.model, prompts, lines, sampling=sampling).items()}


def assert_codes(lanes: ByHand, wanted: dict[int, np.ndarray]) -> None:
    for line, codes in wanted.items():
        np.testing.assert_array_equal(lanes.codes[line], codes, err_msg=f"line {line}")


def test_mask_hides_the_line_before(tiny: Tiny) -> None:
    """Keys of a long line lie beyond the end of the short one that follows in its slot."""
    lanes = by_hand(tiny, tiny.whole, 1)
    lanes.admit(0, LONG)
    lanes.finish()
    lanes.admit(0, SHORT)
    lanes.finish()
    assert_codes(lanes, codes_alone(tiny, tiny.whole, (LONG, SHORT)))


def test_mask_hides_what_fills_up_a_group(tiny: Tiny) -> None:
    """A short prompt in a group with a long one is filled up; the rows that fill it are no part of the line."""
    lanes = by_hand(tiny, tiny.whole, 2)
    requests = [Request(tiny.whole[line], CAP, seed_of(line)) for line in (SHORT, LONG)]
    lanes.lanes.admit(list(enumerate(requests)))
    lanes.sitting = {0: SHORT, 1: LONG}
    lanes.finish()
    assert_codes(lanes, codes_alone(tiny, tiny.whole, (SHORT, LONG)))


def test_voices_side_by_side(tiny: Tiny, tiny_folder: Path) -> None:
    """Lines of two voices admitted in one group: the rows that a voice shares are not taken for another's."""
    config = tiny.checkpoint.model
    tokenizer = TextTokenizer(tiny_folder, config.first_control_token)
    make = PromptMaker(config, tokenizer, choose(config, "serena", "german"))
    prompts = [tiny.whole[OTHER], make("Three words here.")]
    assert prompts[0].shared == prompts[1].shared and prompts[0].codec[:9] != prompts[1].codec[:9]
    lanes = by_hand(tiny, prompts, 2)
    for _ in range(2):  # the second time with all that is kept of the first
        lanes.lanes.admit([(slot, Request(prompt, CAP, seed_of(slot))) for slot, prompt in enumerate(prompts)])
        lanes.sitting = {0: 0, 1: 1}
        lanes.finish()
        assert_codes(lanes, codes_alone(tiny, prompts, (0, 1)))
        lanes.codes = {}
        lanes.admit(0, 1)
        lanes.finish()
        assert_codes(lanes, codes_alone(tiny, prompts, (1,)))


def test_positions_are_a_lane_s_own(tiny: Tiny) -> None:
    """Prompts of different lengths, begun at different times: no two lanes are at the same position."""
    lanes = by_hand(tiny, tiny.whole, 3)
    for slot, line in enumerate((LONG, SHORT, OTHER)):
        lanes.admit(slot, line)
        lanes.step(1)
    lanes.finish()
    assert_codes(lanes, codes_alone(tiny, tiny.whole, (LONG, SHORT, OTHER)))


def test_trailing_text_is_a_lane_s_own(tiny: Tiny) -> None:
    """Streaming lines out of step, and a short one where a line with much more text was before."""
    long, other, short = (len(tiny.streaming[line].trailing) for line in (LONG, OTHER, SHORT))
    assert long > other > short
    wanted = codes_alone(tiny, tiny.streaming, (LONG, SHORT, OTHER))
    assert min(map(len, wanted.values())) > 2
    lanes = by_hand(tiny, tiny.streaming, 2)
    lanes.admit(0, LONG)
    lanes.step(2)
    lanes.admit(1, OTHER)
    lanes.finish()
    lanes.admit(0, SHORT)
    lanes.finish()
    assert_codes(lanes, wanted)


def test_trailing_text_matters(tiny: Tiny) -> None:
    """The text of every frame changes what follows: else the test above would see nothing."""
    prompt = tiny.streaming[OTHER]
    other = replace(prompt, trailing=(*prompt.trailing[:1], 5, *prompt.trailing[2:]))
    lanes = by_hand(tiny, [prompt, other], 2)
    lanes.admit(0, 0, seed=1)
    lanes.admit(1, 1, seed=1)
    one, two = (codes for _, codes in sorted(lanes.finish().items()))
    both = min(len(one), len(two))
    assert np.array_equal(one[:2], two[:2]) and not np.array_equal(one[:both], two[:both])


def test_penalty_knows_one_line(tiny: Tiny) -> None:
    """A penalty that decides which codes are drawn, and slots whose lines before used most codes."""
    hard, none = Sampling(repetition_penalty=8.0), Sampling(repetition_penalty=1.0)
    lines = (LONG, SHORT, OTHER)
    wanted = codes_alone(tiny, tiny.whole, lines, hard)
    without = codes_alone(tiny, tiny.whole, lines, none)
    assert all(not np.array_equal(wanted[line], without[line]) for line in lines)
    lanes = by_hand(tiny, tiny.whole, 2, hard)
    lanes.admit(0, OTHER)
    lanes.admit(1, LONG)
    lanes.finish()
    assert len(set(lanes.codes[OTHER][:, 0])) > 10
    lanes.admit(0, SHORT)
    lanes.finish()
    assert_codes(lanes, wanted)


def test_seed_words_are_a_lane_s_own(tiny: Tiny) -> None:
    """The same text side by side with different seeds, which swap their slots afterwards."""
    lanes = by_hand(tiny, tiny.whole, 2)
    results = []
    for seeds in ((11, 22 << 32), (22 << 32, 11)):
        for slot, seed in enumerate(seeds):
            lanes.admit(slot, slot, seed=seed, prompt=OTHER)
        results.append({seeds[line]: codes for line, codes in lanes.finish().items()})
        lanes.codes = {}
    assert not np.array_equal(results[0][11][:2], results[0][22 << 32][:2])
    for seed in (11, 22 << 32):
        np.testing.assert_array_equal(results[0][seed], results[1][seed])


def test_a_lane_that_is_not_finite_ends_as_that(tiny: Tiny) -> None:
    """NaN in one lane's keys: its neighbour does not change, nor does the line that has the slot next."""
    wanted = codes_alone(tiny, tiny.whole, (LONG, SHORT, OTHER))
    broken = LONG if len(wanted[LONG]) > 3 else OTHER
    neighbour = OTHER if broken == LONG else LONG
    lanes = by_hand(tiny, tiny.whole, 2)
    lanes.admit(0, broken)
    lanes.admit(1, neighbour)
    assert lanes.step(2) == []
    poison(lanes.lanes, 0)
    assert lanes.step() == [(0, 3, Ending.NOT_FINITE)]
    lanes.admit(0, SHORT)
    lanes.finish()
    assert_codes(lanes, {neighbour: wanted[neighbour], SHORT: wanted[SHORT]})
    assert lanes.endings[SHORT] != Ending.NOT_FINITE
    np.testing.assert_array_equal(lanes.codes[broken], wanted[broken][:3])


def test_a_predictor_that_is_not_finite_ends_the_lane(tiny: Tiny) -> None:
    """The codes of a frame are numbers whatever the logits were, so the talker alone would not notice."""
    wanted = codes_alone(tiny, tiny.whole, (OTHER,))
    lanes = by_hand(tiny, tiny.whole, 2)
    lanes.admit(0, LONG)
    lanes.admit(1, OTHER)
    with torch.inference_mode():
        lanes.lanes.hidden[0, 3] = float("inf")
    assert lanes.step() == [(0, 1, Ending.NOT_FINITE)]
    lanes.finish()
    assert_codes(lanes, wanted)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_prompt_that_is_not_finite_ends_at_once(tiny: Tiny, monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    lanes = by_hand(tiny, tiny.whole, 2)
    lanes.admit(1, OTHER)
    logits = type(tiny.model.talker).logits

    def broken(talker: torch.nn.Module, hidden: torch.Tensor) -> torch.Tensor:
        found = logits(talker, hidden)
        found[0, 17] = value
        return found

    monkeypatch.setattr(type(tiny.model.talker), "logits", broken)
    lanes.admit(0, LONG)
    monkeypatch.undo()
    assert (0, 0, Ending.NOT_FINITE) in lanes.step()
    assert lanes.codes[LONG].shape == (0, 16)
    lanes.finish()
    assert_codes(lanes, codes_alone(tiny, tiny.whole, (OTHER,)))
