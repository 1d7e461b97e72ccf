"""What needs a card: codes and sound that come beside what is queued, and a line that is heard while it is read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from rhapsode.engine.stepper import Request
from rhapsode.narrator import Options
from rhapsode.qwen3 import narrator as qwen3
from rhapsode.qwen3.checkpoint import Checkpoint
from rhapsode.qwen3.prompt import Prompt
from rhapsode.qwen3.torch.load import load_model
from rhapsode.qwen3.torch.results import SoundRoom
from rhapsode.types import Line
from tests.engine import torch_lanes

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
LONG = 2_000_000_000  # cycles that the card does nothing: about a second


@pytest.fixture(scope="module")
def prompts(make_prompt: Callable[[str], Prompt]) -> list[Prompt]:
    return [make_prompt(text) for text in ("Why?", "Three words here.", "A dark and stormy night.")]


def test_codes_come_before_the_step_in_flight(checkpoint: Checkpoint, prompts: list[Prompt]) -> None:
    lanes = torch_lanes.stepper(load_model(checkpoint, "cuda", "bfloat16"), torch_lanes.limits_for(prompts, 9), 3)
    lanes.admit([(slot, Request(prompts[slot], 5 + slot, slot)) for slot in range(3)])
    ended = []
    while not ended:
        lanes.step()
        lanes.synchronise()
        ended = lanes.finished()
    lanes._reader.read(lanes.done, {0: 9, 1: 9, 2: 9})  # allocates what it copies into, which may wait
    torch.cuda._sleep(LONG)
    queued = torch.cuda.Event()
    queued.record()
    found = {slot: lanes.codes(slot, frames) for slot, frames, _ in ended}
    assert not queued.query(), "it was waited for"
    for slot, codes in found.items():
        np.testing.assert_array_equal(codes, lanes.done[slot, : len(codes)].cpu().numpy())


@pytest.mark.parametrize("format", ["float32", "bfloat16"])
def test_sound_is_begun_without_waiting_and_comes_whole(checkpoint: Checkpoint, format: str) -> None:
    model = load_model(checkpoint, "cuda", format)
    config, numbers = model.codec.config, np.random.default_rng(2)
    batches = [numbers.integers(0, config.codebook_size, (4, frames, config.codebooks)) for frames in (40, 9, 300, 77)]
    with torch.inference_mode():
        wanted = [model.codec(torch.from_numpy(batch).cuda()).float().cpu().numpy() for batch in batches]
        room, begun = SoundRoom(torch.device("cuda")), []
        found = []
        for batch in batches:
            samples = [batch.shape[1] * config.samples_per_frame] * 4
            torch.cuda._sleep(LONG // 4)
            begun.append(room.start(model.codec, batch, samples))
            if len(begun) == 2:
                found.append(begun.pop(0).waves())
        found += [sound.waves() for sound in begun]
    for waves, whole in zip(found, wanted, strict=True):
        assert np.abs(np.stack(waves) - whole).max() < 1e-3 * np.abs(whole).max()


@pytest.mark.parametrize("format", ["float32", "bfloat16"])
def test_a_line_streams_as_it_is_read(checkpoint: Checkpoint, format: str) -> None:
    narrator = qwen3.load(Options(checkpoint=str(checkpoint.folder), device="cuda", format=format, tries=1, slots=1))
    narrator.tell = lambda _: None
    line = Line(0, 1, "The old man and the sea.", 77)
    pieces = list(narrator.stream(line))
    [take] = narrator.read([line])
    sound = np.concatenate(pieces)
    assert len(sound) == len(take.audio)
    assert np.abs(sound - take.audio).max() < 5e-3 * np.abs(take.audio).max()
