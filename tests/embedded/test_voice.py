"""The embedded voice from end to end: text in, speech out that is understood, the same whatever happens to a run.

Nothing here is a matter of chance: the seed is given, and the same numbers come out on every machine of a kind.
"""

from __future__ import annotations

import os
from pathlib import Path

import av
import numpy as np
import pytest
import torch

import rhapsode
from rhapsode.audio.takes import TakeStore
from rhapsode.qwen3.checkpoint import Checkpoint, embedded_checkpoint, open_checkpoint
from rhapsode.qwen3.prompt import PromptMaker
from rhapsode.qwen3.tokens import TextTokenizer
from rhapsode.qwen3.torch.load import load_model
from rhapsode.qwen3.voices import choose
from rhapsode.verify import Whisper, compare
from tests.engine import torch_lanes
from tests.parity import oracle
from tests.parity.test_codes import assert_same, greedy
from tests.pipeline.test_resume import die_at, killed

EMBEDDED = embedded_checkpoint()
pytestmark = pytest.mark.skipif(EMBEDDED is None, reason="this tree has no embedded voice")

PARAGRAPH = (
    "The boat came in before the rain. An old man stood on the pier and waved his hat. "
    "Nobody had seen him there for many years. He carried a small brown box under his arm. "
    "When the children asked him what was inside, he only smiled and walked on."
)
LINES = [sentence.strip() + "." for sentence in PARAGRAPH.split(".") if sentence.strip()]
SHORT = ["Yes.", "Good morning to you.", "why not?", "SHE LEFT AT NOON.", "Twenty-one guns; no more", "Wait ... what?"]


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    assert EMBEDDED is not None
    return open_checkpoint(EMBEDDED)


def test_it_is_small_and_says_what_it_is(checkpoint: Checkpoint) -> None:
    files = [file for file in checkpoint.folder.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) <= 30_000_000
    card = (checkpoint.folder / "README.md").read_text(encoding="utf-8")
    assert all(f"`{speaker}`" in card for speaker in checkpoint.model.talker.speakers)


def narrate(folder: Path, name: str, **options: object) -> Path:
    source = folder / "paragraph.txt"
    source.write_text(PARAGRAPH + "\n", encoding="utf-8")
    rhapsode.narrate(source, folder / name, device="cpu", format="float32", seed=1, **options)
    return folder / name


def sound(file: Path) -> tuple[np.ndarray, int]:
    """All samples of a file, float32, and how many there are in a second."""
    with av.open(str(file)) as container:
        stream = container.streams.audio[0]
        frames = [frame.to_ndarray().mean(0) for frame in container.decode(stream)]
        return np.concatenate(frames).astype(np.float32), stream.rate


@pytest.mark.parametrize("which", [0, 1])
def test_a_narrated_paragraph_is_understood(which: int, checkpoint: Checkpoint, tmp_path: Path) -> None:
    """Whisper tiny.en mishears a word in fifty where everything is right."""
    voice = list(checkpoint.model.talker.speakers)[which]
    wave, rate = sound(narrate(tmp_path, "paragraph.m4b", voice=voice))
    errors = compare(PARAGRAPH, Whisper()(wave, rate))
    assert errors.words == len(PARAGRAPH.split()) and errors.total <= 0.1 * errors.words, errors


def test_one_lane_and_sixteen_give_the_same_codes(checkpoint: Checkpoint) -> None:
    model = load_model(checkpoint, "cpu", "float32")
    tokenizer = TextTokenizer(checkpoint.folder, checkpoint.model.first_control_token)
    prompts = []
    for voice, texts in zip(checkpoint.model.talker.speakers, (LINES + SHORT, SHORT), strict=False):
        make = PromptMaker(checkpoint.model, tokenizer, choose(checkpoint.model, voice, "english"))
        prompts += [make(text) for text in texts]
    lines = range(len(prompts))
    assert len(lines) > 16, "some lanes are filled again"
    with torch.inference_mode():
        wide, narrow = (
            torch_lanes.read(model, prompts, lines, slots, sampling=checkpoint.sampling, cap=150) for slots in (16, 1)
        )
    torch_lanes.assert_same(wide, narrow)
    lengths = [len(codes) for codes, _ in wide.values()]
    assert max(lengths) < 150 and len(set(lengths)) > 8, "lines end by themselves"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills processes as POSIX does")
def test_a_killed_run_ends_in_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = narrate(tmp_path / "whole", "paragraph.wav", slots=2)

    def work() -> None:
        die_at(TakeStore, "_append", 3)
        narrate(tmp_path, "paragraph.wav", slots=2)

    assert killed(work) and not (tmp_path / "paragraph.wav").exists()
    assert narrate(tmp_path, "paragraph.wav", slots=2).read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streaming"])
def test_the_official_package_says_the_same(streaming: bool, checkpoint: Checkpoint) -> None:
    """From the same files: greedy codes to the last, and the sound that the codec makes of them."""
    voice = list(checkpoint.model.talker.speakers)[1]
    texts = [LINES[0], SHORT[0], SHORT[2]]
    tokenizer = TextTokenizer(checkpoint.folder, checkpoint.model.first_control_token)
    model = load_model(checkpoint, "cpu", "float32")
    theirs = oracle.load(checkpoint.folder)
    make = PromptMaker(checkpoint.model, tokenizer, choose(checkpoint.model, voice, "english"), streaming=streaming)
    with torch.inference_mode():
        ours = greedy(model, [make(text) for text in texts], slots=2)
        official = oracle.generate(
            theirs, texts, speaker=voice, language="english", streaming=streaming, frames=len(max(ours, key=len))
        )
        for number, codes in enumerate(ours):
            assert_same(codes, official[number], f"line {number}")
        codes = torch.from_numpy(ours[0].astype(np.int64))
        made = model.codec(codes.unsqueeze(0))[0].numpy()
        wanted = theirs.model.speech_tokenizer.model.decoder(codes.unsqueeze(0).transpose(1, 2))[0, 0].numpy()
    assert np.abs(made - wanted).max() < 1e-3 * np.abs(wanted).max()
