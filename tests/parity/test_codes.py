"""Greedy float32 codes: token-exact on all codebooks, alone and side by side with lines of other lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rhapsode.engine.stepper import Request
from rhapsode.qwen3.limits import Limits
from rhapsode.qwen3.prompt import PromptMaker
from rhapsode.qwen3.torch.load import Model
from rhapsode.qwen3.torch.stepper import TorchStepper
from rhapsode.qwen3.voices import choose
from rhapsode.types import Sampling
from tests.parity import oracle
from tests.parity.conftest import Pair

FRAMES = 70
FEWER = 30  # where each line is read by itself, which takes as long as all of them together
PENALTY_FRAMES = 30
TEXTS = [
    "It was a dark and stormy night; the rain fell in torrents, except at occasional intervals.",
    "Why?",
    "The old man and the sea, and the boy, and a fish that was longer than the boat.",
    "Three words here.",
]


def greedy(
    model: Model, prompts: Sequence, *, slots: int, penalty: float = 1.05, most: int = FRAMES
) -> list[np.ndarray]:
    """Codes of each prompt from our lanes, so many frames at most."""
    sampling = Sampling(greedy=True, predictor_greedy=True, repetition_penalty=penalty)
    limits = Limits(
        prompt=max(map(len, prompts)), frames=most, trailing=max(len(prompt.trailing) for prompt in prompts)
    )
    stepper = TorchStepper(
        model.talker, model.predictor, model.codec, sampling, slots=slots, limits=limits, sample_rate=24000
    )
    results: dict[int, np.ndarray] = {}
    waiting, sitting = list(enumerate(prompts)), {}
    while len(results) < len(prompts):
        free = [slot for slot in range(slots) if slot not in sitting]
        group = [(slot, waiting.pop(0)) for slot in free[: len(waiting)]]
        if group:
            stepper.admit([(slot, Request(prompt, most, seed=7)) for slot, (_, prompt) in group])
            sitting.update({slot: number for slot, (number, _) in group})
        stepper.step()
        for slot, frames, _ in stepper.finished():
            results[sitting.pop(slot)] = stepper.codes(slot, frames)
    return [results[number] for number in range(len(prompts))]


def assert_same(ours: np.ndarray, theirs: np.ndarray, where: str) -> None:
    both = min(len(ours), len(theirs))
    wrong = np.argwhere(ours[:both] != theirs[:both])
    if len(wrong):
        frame, book = wrong[0]
        pytest.fail(f"{where}: first difference at frame {frame}, codebook {book}: "
                    f"{ours[frame, book]}, officially {theirs[frame, book]}")  # fmt: skip
    assert len(ours) == len(theirs), f"{where}: {len(ours)} frames, officially {len(theirs)}"


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streaming"])
def test_codes_are_the_official_ones(pair: Pair, streaming: bool) -> None:
    base = pair.checkpoint.model.kind == "base"
    speaker, language = (None, "auto") if base else ("eric", "chinese")
    make = PromptMaker(
        pair.checkpoint.model, pair.tokenizer, choose(pair.checkpoint.model, speaker, language), streaming=streaming
    )
    prompts = [make(text) for text in TEXTS]
    asked = {"speaker": speaker, "language": language, "streaming": streaming}
    batch = oracle.generate(pair.theirs, TEXTS, **asked, frames=FRAMES)
    assert max(map(len, batch)) >= 60 and len({tuple(line[:, 0]) for line in batch}) == len(TEXTS)
    for slots, most in ((1, FEWER), (3, FRAMES), (4, FRAMES)):
        for number, codes in enumerate(greedy(pair.ours, prompts, slots=slots, most=most)):
            assert_same(codes, batch[number][:most], f"{slots} slots, official batch, line {number}")
    for number, text in enumerate(TEXTS[:2]):  # the longest and the shortest
        alone = oracle.generate(pair.theirs, [text], **asked, frames=FEWER)[0]
        assert_same(alone, batch[number][:FEWER], f"official single, line {number}")


def test_the_penalty_is_the_official_one(pair: Pair) -> None:
    """A penalty strong enough to change codes, so that its absence or its leak into another lane would show."""
    base = pair.checkpoint.model.kind == "base"
    speaker, language = (None, "english") if base else ("ryan", "english")
    make = PromptMaker(pair.checkpoint.model, pair.tokenizer, choose(pair.checkpoint.model, speaker, language))
    prompts = [make(text) for text in TEXTS]
    asked = {"speaker": speaker, "language": language, "frames": PENALTY_FRAMES}
    theirs = oracle.generate(pair.theirs, TEXTS, **asked, penalty=1.6)
    without = oracle.generate(pair.theirs, TEXTS, **asked, penalty=1.0)
    assert any(not np.array_equal(a, b) for a, b in zip(theirs, without, strict=True))
    for number, codes in enumerate(greedy(pair.ours, prompts, slots=4, penalty=1.6, most=PENALTY_FRAMES)):
        assert_same(codes, theirs[number], f"line {number}")
