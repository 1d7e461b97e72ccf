"""Speech on the grid of frames: labels and tokens stand where they are said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from training.audio import SLOTS, join_speech, length_batches, offsets, place, read_speech, write_speech
from training.layout import FRAME


def example(utterance: int = 7):
    slot = FRAME // SLOTS
    durations = np.array([2 * slot, 4 * slot, 3 * slot])
    labels = np.array([[1, 1], [2, 3], [4, 4]])
    wave = torch.linspace(-0.5, 0.5, int(durations.sum()))
    return place(wave, durations, labels, np.array([0, 5, 9]), utterance)


def test_labels_change_at_the_middle_and_silence_follows() -> None:
    speech = example()
    assert speech.labels.flatten().tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 4, 0, 0, 0]
    assert speech.at.tolist() == [5, 9, 9]
    assert speech.frames.tolist() == [3] and speech.utterance.tolist() == [7]
    assert speech.samples.shape == (3, FRAME)
    wave = speech.samples.flatten()
    assert wave[9 * (FRAME // SLOTS) :].eq(0).all() and abs(int(wave[0]) + 16384) < 2


def test_the_shortest_utterance_has_two_frames() -> None:
    speech = place(torch.ones(10) * 0.1, np.array([10]), np.array([[1, 1]]), np.array([0]), 0)
    assert speech.frames.tolist() == [2]


def test_files_and_joining_keep_everything(tmp_path: Path) -> None:
    write_speech(tmp_path / "a.safetensors", example(1))
    both = join_speech([read_speech(tmp_path / "a.safetensors"), example(2)], "cpu")
    assert both.utterance.tolist() == [1, 2] and offsets(both.frames).tolist() == [0, 3, 6]
    assert torch.equal(both.samples[3:], example().samples) and len(both.labels) == len(both.at) == 6
    assert both.hours == pytest.approx(6 * 0.08 / 3600)


def test_groups_hold_every_utterance_once_and_stay_small() -> None:
    frames = torch.tensor([5, 90, 7, 30, 31, 2, 60])
    groups = list(length_batches(frames, 100))
    assert sorted(torch.cat(groups).tolist()) == list(range(7))
    assert all(len(group) == 1 or len(group) * int(frames[group].max()) <= 100 for group in groups)
    assert len(groups) < 6
