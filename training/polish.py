"""Stage `polish`: the decoder alone learns on against discriminators, from the codes as they are.

`python -m training.polish --work W --seconds 780`. Reads W/codec.pt, W/codec-state.pt (its listener, which learns no
more), W/codes.safetensors and the speech; writes W/polished.pt, a running average. Encoder, codebooks and codes stay
as they are, so it may run beside `talker`.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from rhapsode.qwen3.torch.codec import CodecDecoder
from training.audio import held_file, join_speech, label_count, offsets, pieces, read_speech
from training.codec import SEGMENT, STATE
from training.codes import held_codes_file, mean_distance
from training.common import Averages, Captured, Rate, Work, autocast, load, paced, prepare_torch, save, stage_parser
from training.layout import FRAME, SPEAKERS, TEACHERS, read_configs
from training.listener import Listener, hearing_loss
from training.losses import Discriminators, SpectralLoss, discriminator_loss, generator_losses

_SPECTRAL, _FEATURES, _HEARING = 8.0, 4.0, 2.0
_SKIPPED = 4  # frames at the beginning of a segment whose past is missing: not judged
_GROWING_STEPS = 500  # in which the discriminators gain their weight
_SAVE_S = 60.0


@dataclass
class Matched:
    """Frames end to end."""

    samples: Tensor  # int16 [frames, FRAME]
    codes: Tensor  # int16 [frames, books]
    labels: Tensor  # uint8 [frames, SLOTS]


class Polish:
    """One step of the decoder and its judges."""

    def __init__(self, decoder: CodecDecoder, listener: Listener, data: Matched, device: str, rows: int) -> None:
        self.decoder, self.data, self.device, self.rows = decoder, data, device, rows
        self.listener = listener.requires_grad_(False)
        self.judges = Discriminators().to(device)
        self.judges.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        decoder.quantiser.tables.requires_grad_(False)  # the codes are those that it was settled with
        self.average = copy.deepcopy(decoder).requires_grad_(False)
        self.rate = Rate(device)
        self.learned = [parameter for parameter in decoder.parameters() if parameter.requires_grad]
        self.optimiser = self.rate.adamw(self.learned, (0.8, 0.99), 0.0)
        self.judging = self.rate.adamw(self.judges.parameters(), (0.8, 0.99), 0.0)
        self.loss = SpectralLoss().to(device)
        self.weight = torch.zeros((), device=device)
        self.averages = Averages(("spectral", "judges", "adversarial", "features", "hearing", "norm"), device)
        self.decode = decoder.sound

    def step(self) -> None:
        """The judges learn, then the decoder, both on the same segments. No host work: it is captured."""
        data = self.data
        start = torch.randint(len(data.codes) - SEGMENT, (self.rows, 1), device=self.device)
        frames = start + torch.arange(SEGMENT, device=self.device)
        wave = data.samples[frames].float().flatten(1) / 32768
        vectors = self.decoder.quantiser(data.codes[frames].long())
        with autocast(self.device):
            made = self.decode(vectors)
        made = made.float()
        skip = _SKIPPED * FRAME
        heard, real = made[:, skip:], wave[:, skip:]
        with autocast(self.device):
            judged = discriminator_loss(self.judges(real), self.judges(heard.detach()))
        self.judging.zero_grad(set_to_none=True)
        judged.backward()
        torch.nn.utils.clip_grad_norm_(self.judges.parameters(), 5.0)
        self.judging.step()
        self.judges.requires_grad_(False)
        with autocast(self.device):
            with torch.no_grad():
                truth = self.judges(real)
                seen = self.listener(real)[1]
            adversarial, features = generator_losses(truth, self.judges(heard))
            hearing = hearing_loss(self.listener, heard, data.labels[frames[:, _SKIPPED:]].long(), seen)
        spectral = self.loss(heard, real)
        self.optimiser.zero_grad(set_to_none=True)
        judgement = adversarial + _FEATURES * features
        (_SPECTRAL * spectral + _HEARING * hearing + self.weight * judgement).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.learned, 5.0)
        self.optimiser.step()
        self.judges.requires_grad_(True)
        with torch.no_grad():
            for slow, fast in zip(self.average.parameters(), self.decoder.parameters(), strict=True):
                slow.lerp_(fast, 0.002)
        self.averages.add(spectral, judged, adversarial, features, hearing, norm)


def train(polish: Polish, work: Work, seconds: float, most_rate: float) -> None:
    """For `seconds`; the rate falls as a cosine over them, and the average is written now and then."""
    captured, state = Captured(polish.step, polish.device), {"steps": 0, "seconds": 0.0}
    saved = time.monotonic()
    for share in paced(work, polish.averages, polish.device, seconds, state):
        rise = min(1.0, (state["steps"] + 1) / 50)
        polish.rate.set(most_rate * rise * (0.5 * (1 + math.cos(math.pi * share)) * 0.95 + 0.05))
        polish.weight.fill_(min(1.0, state["steps"] / _GROWING_STEPS))
        captured()
        if time.monotonic() - saved > _SAVE_S:
            saved = time.monotonic()
            keep(polish, work.folder / "polished.pt")


def main() -> None:
    parser = stage_parser(__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=780.0)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--rate", type=float, default=4e-4)
    parser.add_argument("--hours", type=float, default=20.0, help="of each speaker at most")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    options = parser.parse_args()
    work, device = Work(options.work, "polish"), options.device
    prepare_torch(options.seed)
    _, config = read_configs(options.work / "checkpoint")
    work.wait("codes", 1500)
    decoder = CodecDecoder(config.decoder)
    decoder.load_state_dict({k: v.float() for k, v in load(options.work / "codec.pt")["decoder"].items()})
    decoder.to(device).train()
    listener = Listener(label_count(options.work))
    listener.load_state_dict(load(options.work / STATE)["listener"])
    data = matching_speech(work, device, options.hours)
    work.say(f"{len(data.codes)} frames")
    polish = Polish(decoder, listener.to(device), data, device, options.rows)
    if options.compile:
        polish.decode = torch.compile(decoder.sound, dynamic=False)
    train(polish, work, options.seconds, options.rate)
    keep(polish, options.work / "polished.pt")
    for name in SPEAKERS:
        work.say(f"{name}: log-mel distance {held_distance(polish, work, name, device):.4f}")
    work.done("polish")


def keep(polish: Polish, file: Path) -> None:
    """The running average in float16, as it is shipped."""
    save({name: value.half().cpu() for name, value in polish.average.state_dict().items()}, file)


def matching_speech(work: Work, device: str, hours: float) -> Matched:
    """Samples, codes and labels of the same frames, up to `hours` of each speaker."""
    stored = load_file(work.folder / "codes.safetensors")
    begins = offsets(stored["frames"])
    samples, codes, labels = [], [], []
    for number, name in enumerate(SPEAKERS):
        start = int(begins[(stored["speaker"] == number).nonzero()[0]])
        spoken = 0.0
        for file in pieces(work.folder, TEACHERS[name]):
            piece = read_speech(file)
            samples.append(piece.samples.to(device))
            codes.append(stored["codes"][start : start + len(piece.samples)].to(device))
            labels.append(piece.labels.to(device))
            start += len(piece.samples)
            spoken += piece.hours
            if spoken >= hours:
                break
    return Matched(torch.cat(samples), torch.cat(codes), torch.cat(labels))


def held_distance(polish: Polish, work: Work, name: str, device: str) -> float:
    """The mean log-mel distance of a speaker's held-out speech, decoded with the running average."""
    codes = load_file(held_codes_file(work.folder, name))["codes"].to(device)
    speech = join_speech([read_speech(held_file(work.folder, TEACHERS[name]))], device)
    return mean_distance(polish.average, speech, codes, polish.loss)


if __name__ == "__main__":
    main()
