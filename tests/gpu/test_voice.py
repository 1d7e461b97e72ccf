"""The embedded voice on a card: what it says is what it says on the processor, also where memory is short."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from rhapsode.engine.decode import Finished
from rhapsode.narrator import Options
from rhapsode.qwen3 import narrator as qwen3
from rhapsode.types import Line

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
TEXTS = (
    "Call me Ishmael.",
    "Some years ago, never mind how long precisely, having little or no money in my purse, I thought I would sail.",
    "It is a way I have of driving off the spleen and regulating the circulation.",
    "Who would not?",
    "There is nothing surprising in this; if they but knew it, almost all men in their degree feel the same.",
)
LINES = [Line(number, 1, text, number + 1) for number, text in enumerate(TEXTS)]
GREEDY = {"greedy": True, "predictor_greedy": True}


def codes_of(device: str, slots: int, **sampling: bool) -> dict[int, np.ndarray]:
    options = Options(device=device, format="float32", voice="corinna", slots=slots, tries=1, sampling=sampling)
    narrator, codes = qwen3.load(options), dict[int, np.ndarray]()
    take = narrator._take

    def watched(line: Line, finished: Finished) -> object:
        codes[line.key] = np.array(finished.codes)
        return take(line, finished)

    narrator._take = watched  # type: ignore[method-assign, assignment]
    assert len(list(narrator.read(LINES))) == len(LINES)
    return codes


@pytest.mark.parametrize("sampling", [GREEDY, {}], ids=["greedy", "drawn"])
def test_the_codes_are_those_of_the_processor(sampling: dict[str, bool]) -> None:
    """float32: every code of every line, in fewer lanes than there are lines, and in more."""
    wanted = codes_of("cpu", 4, **sampling)
    for slots in (3, 8):
        found = codes_of("cuda", slots, **sampling)
        for key, codes in wanted.items():
            assert np.array_equal(codes, found[key]), (slots, key)


@pytest.fixture
def little_memory() -> Iterator[None]:
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 700e6) / total)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


def test_fewer_lanes_where_memory_runs_out(little_memory: None) -> None:
    """More lanes are asked for than fit; every line is read all the same, and it is said."""
    narrator = qwen3.load(Options(device="cuda", voice="ion", slots=1500, tries=1))
    told: list[str] = []
    narrator.tell = told.append
    lines = [Line(number, 1, f"{TEXTS[number % len(TEXTS)]} And {number} more.", number + 1) for number in range(1500)]
    read = {take.line.index for take in narrator.read(lines)}
    assert len(read) == 1500
    assert any("Memory ran out with 1500 lines" in one for one in told)
