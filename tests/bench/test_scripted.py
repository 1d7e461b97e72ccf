"""Scripted ends: the model cannot end a line, its cap does; without the option all is as ever."""

from __future__ import annotations

import torch

from rhapsode.bench.requests import readings
from rhapsode.bench.source import Source
from rhapsode.bench.workload import Script, Workload
from rhapsode.engine.stepper import Ending
from rhapsode.qwen3.limits import MIN_FRAMES
from rhapsode.qwen3.torch.load import Model
from rhapsode.types import Sampling

CAPS = (7, 4)


def eager_to_end(source: Source) -> Model:
    """A model that draws the end of speech wherever it may."""
    model = source.build("cpu", "float32")
    plain, more = model.talker.logits, torch.zeros(source.model.talker.vocab)
    more[source.model.talker.eos] = 1e6
    model.talker.logits = lambda hidden: plain(hidden) + more  # type: ignore[method-assign]
    return model


def endings(source: Source, model: Model, *, scripted: bool) -> dict[int, tuple[int, Ending]]:
    lines = readings(Workload(tuple(Script(5, cap) for cap in CAPS)), source.model)
    stepper = model.stepper(
        Sampling(greedy=True), slots=2, prompt=40, frames=max(CAPS), sample_rate=24000, scripted=scripted
    )
    stepper.admit([(slot, reading.request) for slot, reading in enumerate(lines)])
    found: dict[int, tuple[int, Ending]] = {}
    for _ in range(max(CAPS) + 1):
        stepper.step()
        found.update({slot: (frames, ending) for slot, frames, ending in stepper.finished()})
    return found


def test_a_scripted_line_ends_at_its_cap_and_nowhere_else(source: Source) -> None:
    by_script = {slot: (cap, Ending.SPOKEN) for slot, cap in enumerate(CAPS)}
    assert endings(source, eager_to_end(source), scripted=True) == by_script
    assert endings(source, source.build("cpu", "float32"), scripted=True) == by_script


def test_without_a_script_all_is_as_ever(source: Source) -> None:
    """The model ends a line as early as it may, and a cap that is reached is a fault."""
    early = endings(source, eager_to_end(source), scripted=False)
    assert early == {slot: (MIN_FRAMES, Ending.SPOKEN) for slot in range(len(CAPS))}
    cut_off = {slot: (cap, Ending.CAPPED) for slot, cap in enumerate(CAPS)}
    assert endings(source, source.build("cpu", "float32"), scripted=False) == cut_off
