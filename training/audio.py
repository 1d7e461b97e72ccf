"""Teachers' speech between the stages: pieces of about an hour as safetensors files, and all of it on one device.

Knows frames of 1,920 samples; an utterance is a whole number of them. Knows no text and no network.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from training.layout import FRAME, SAMPLE_RATE

SLOTS = 4  # labels of a frame: one for every 20 ms
PIECE_HOURS = 1.0  # in a file
HELD_OUT = "held"
EXTRA = "extra"  # other voices, for the codec alone


@dataclass
class Speech:
    """Utterances end to end."""

    samples: Tensor  # int16 [frames, FRAME]
    labels: Tensor  # uint8 [frames, SLOTS]: the phoneme at the middle of every slot
    at: Tensor  # int16 [frames]: the text token that is being said
    utterance: Tensor  # int32 [utterances]: which text
    frames: Tensor  # int32 [utterances]

    @property
    def hours(self) -> float:
        """How long all of it is."""
        return len(self.samples) * FRAME / SAMPLE_RATE / 3600


def write_speech(file: Path, speech: Speech) -> None:
    """A piece, whole or not at all."""
    part = file.with_suffix(".part")
    save_file({name: value.cpu().contiguous() for name, value in vars(speech).items()}, part)
    os.replace(part, file)


def read_speech(file: Path) -> Speech:
    """A piece, on the host."""
    return Speech(**load_file(file))


def pieces(work: Path, voice: str) -> list[Path]:
    """Files of a voice, in the order in which stages read them."""
    return sorted((work / "speech").glob(f"{voice}-[0-9]*.safetensors"))


def held_file(work: Path, voice: str) -> Path:
    """Where a teacher's held-out speech lies."""
    return work / "speech" / f"{HELD_OUT}-{voice}.safetensors"


def label_count(work: Path) -> int:
    """How many phonemes, silence among them, the texts were labelled with."""
    return int(np.load(work / "data" / "utterances.npz")["labels"])


def join_speech(pieces: list[Speech], device: str) -> Speech:
    """Pieces end to end on a device, each let go as soon as it has been copied."""
    total = sum(len(piece.samples) for piece in pieces)
    samples = torch.empty(total, FRAME, dtype=torch.int16, device=device)
    start = 0
    for piece in pieces:
        stop = start + len(piece.samples)
        samples[start:stop] = piece.samples.to(device)
        piece.samples, start = piece.samples[:0], stop

    def joined(name: str) -> Tensor:
        return torch.cat([getattr(piece, name) for piece in pieces]).to(device)

    return Speech(samples, joined("labels"), joined("at"), joined("utterance"), joined("frames"))


def place(wave: Tensor, durations: np.ndarray, labels: np.ndarray, at: np.ndarray, utterance: int) -> Speech:
    """One utterance on the grid of frames: its samples stay on their device, the rest on the host.

    wave [samples] float32; durations [ids] in samples, which add up to about as many; labels [ids, 2] of the first
    and the second half of each id; at [ids]. The last frame is filled up with silence.
    """
    frames = max(2, -(-len(wave) // FRAME))
    filled = torch.zeros(frames * FRAME, device=wave.device)
    filled[: len(wave)] = wave
    ends = np.cumsum(durations)
    middles = (np.arange(frames * SLOTS) + 0.5) * (FRAME / SLOTS)
    which = np.searchsorted(ends, middles, side="right").clip(max=len(ends) - 1)
    second = middles - (ends[which] - durations[which]) > durations[which] / 2
    label = np.where(middles < ends[-1], labels[which, second.astype(int)], 0)
    return Speech(
        (filled.clamp(-1, 1) * 32767).round().to(torch.int16).view(frames, FRAME),
        torch.from_numpy(label.reshape(frames, SLOTS).astype(np.uint8)),
        torch.from_numpy(at[which.reshape(frames, SLOTS)[:, SLOTS // 2]].astype(np.int16)),
        torch.tensor([utterance], dtype=torch.int32),
        torch.tensor([frames], dtype=torch.int32),
    )


def offsets(frames: Tensor) -> Tensor:
    """First frame of every utterance, and the end: [utterances + 1] int64."""
    return torch.cat((frames.new_zeros(1), frames)).long().cumsum(0)


def length_batches(frames: Tensor, most_frames: int) -> Iterator[Tensor]:
    """Numbers of utterances in groups of similar length, each group at most `most_frames` when filled up."""
    order = torch.argsort(frames.cpu(), stable=True)
    lengths = frames.cpu()[order].tolist()
    start = 0
    for stop in range(1, len(order) + 1):
        if stop == len(order) or (stop + 1 - start) * lengths[stop] > most_frames:
            yield order[start:stop]
            start = stop
