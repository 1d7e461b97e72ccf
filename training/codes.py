"""Speech to codes: all that has been spoken for the talker to learn from, and what held-out speech loses on the way.

Knows the codec as it is while it is trained. Learns nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from training.audio import SLOTS, Speech, held_file, join_speech, length_batches, offsets, pieces, read_speech
from training.common import Work, autocast
from training.layout import BOOKS, SPEAKERS, TEACHERS
from training.losses import SpectralLoss

if TYPE_CHECKING:
    from training.codec import Codec

_ENCODE_FRAMES = 32_768  # at once
_JUDGED = 60  # held-out utterances of a speaker


def held_codes_file(work: Path, speaker: str) -> Path:
    """Where the codes of a speaker's held-out speech lie."""
    return work / f"held-{speaker}.safetensors"


@torch.no_grad()
def encode_all(codec: Codec, speech: Speech, device: str) -> Tensor:
    """Codes [frames, BOOKS] int16 of every utterance, each encoded by itself."""
    starts = offsets(speech.frames)
    codes = torch.zeros(len(speech.samples), BOOKS, dtype=torch.int16, device=device)
    for group in length_batches(speech.frames, _ENCODE_FRAMES):
        group = group.to(device)
        length = int(speech.frames[group].max())
        inside = torch.arange(length, device=device) < speech.frames[group].unsqueeze(1)
        frames = (starts[group].unsqueeze(1) + torch.arange(length, device=device)).clamp(max=len(codes) - 1)
        wave = (speech.samples[frames] * inside.unsqueeze(-1)).flatten(1).float() / 32768
        with autocast(device):
            hidden = codec.encoder.hidden(wave).float().flatten(0, 1)
        quantiser = codec.encoder.quantiser
        found = codec.books.codes(quantiser.first(hidden), quantiser.rest(hidden))
        codes[frames[inside]] = found.view(len(group), length, BOOKS)[inside].to(torch.int16)
    return codes


def encode_pieces(codec: Codec, work: Work, device: str) -> dict[str, Tensor]:
    """Every piece of both speakers as codes, in the order of their files; what the talker learns from."""
    parts: dict[str, list[Tensor]] = {name: [] for name in ("codes", "labels", "at", "utterance", "frames", "speaker")}
    for number, speaker in enumerate(SPEAKERS):
        for file in pieces(work.folder, TEACHERS[speaker]):
            speech = join_speech([read_speech(file)], device)
            parts["codes"].append(encode_all(codec, speech, device).cpu())
            for name in ("labels", "at", "utterance", "frames"):
                parts[name].append(getattr(speech, name).cpu())
            parts["speaker"].append(torch.full((len(speech.frames),), number, dtype=torch.uint8))
    return {name: torch.cat(values) for name, values in parts.items()}


def encode_held_out(codec: Codec, work: Work, loss: SpectralLoss, device: str) -> None:
    """Each speaker's held-out speech as codes, and a report on it."""
    for speaker in SPEAKERS:
        speech = join_speech([read_speech(held_file(work.folder, TEACHERS[speaker]))], device)
        codes = encode_all(codec, speech, device)
        work.say(f"{speaker}: {report(codec, speech, codes, loss)}")
        save_file({"codes": codes.cpu(), "utterance": speech.utterance.cpu(), "frames": speech.frames.cpu(),
                   "labels": speech.labels.cpu(), "at": speech.at.cpu()},
                  held_codes_file(work.folder, speaker))  # fmt: skip


@torch.no_grad()
def report(codec: Codec, speech: Speech, codes: Tensor, loss: SpectralLoss) -> str:
    """How held-out speech comes back, how well book 0 names phonemes, how evenly the books are used."""
    codec.eval()
    distance = mean_distance(codec.decoder, speech, codes, loss)
    codec.train()
    rows = F.embedding(codes[:, 0].long(), codec.books.tables(1)[0])
    named = codec.reader(rows).view(-1, SLOTS, codec.labels).argmax(-1)
    right = float((named == speech.labels).float().mean())
    used = []
    for book in (0, 1, 3, 7, BOOKS - 1):
        share = torch.bincount(codes[:, book].long()).float() / len(codes)
        used.append(float(torch.exp(-(share * (share + 1e-12).log()).sum())))
    return (
        f"log-mel distance {distance:.4f}, phonemes right {right:.3f}, "
        f"perplexity of books 0 1 3 7 15: {' '.join(f'{value:.0f}' for value in used)}"
    )


@torch.no_grad()
def mean_distance(decoder: torch.nn.Module, speech: Speech, codes: Tensor, loss: SpectralLoss) -> float:
    """The mean log-mel distance of the first utterances, decoded one by one, from what was said."""
    starts, found = offsets(speech.frames), []
    for i in range(min(_JUDGED, len(speech.frames))):
        part = slice(int(starts[i]), int(starts[i + 1]))
        made = decoder(codes[part].long().unsqueeze(0))
        found.append(float(loss.mel_distance(made, speech.samples[part].reshape(1, -1).float() / 32768)))
    return sum(found) / max(1, len(found))
