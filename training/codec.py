"""Stage `codec`: encoder, codebooks and decoder learn together to give speech back; then all speech becomes codes.

`python -m training.codec --work W --seconds 400`. Reads W/speech, writes W/codec.pt and W/codes.safetensors.

Book 0 is to hold what is said: a linear reading of its rows is trained to name the phonemes of a frame, and only a
tenth of the reconstruction's gradient reaches it. The other books hold how it is said. A linear reading of
what the decoder starts from is trained to give the log mel bands of the frame: it tells the encoder at once what to
keep, while the decoder still learns to speak.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from rhapsode.qwen3.config import CodecConfig
from rhapsode.qwen3.torch.codec import CausalUpsample, CodecDecoder, ConvNeXt
from rhapsode.qwen3.torch.encoder import CodecEncoder, EncoderBlock
from rhapsode.qwen3.torch.transformer import Block
from training.audio import EXTRA, PIECE_HOURS, SLOTS, Speech, join_speech, label_count, pieces, read_speech
from training.codes import encode_held_out, encode_pieces
from training.common import Averages, Captured, Rate, Work, autocast, load, paced, prepare_torch, save, stage_parser
from training.layout import BOOKS, FRAME, SAMPLE_RATE, SPEAKERS, TEACHERS, read_configs
from training.listener import Listener, hearing_loss, recognition_loss
from training.losses import BANDS, HOP, LogMel, SpectralLoss
from training.quantiser import Codebooks

SEGMENT = 32  # frames of a training example: 2.56 s
# Of the training, before the tables are settled by k-means. Tables that are settled before the encoder has something to
# say stay poor: settled after 200 steps, a codec ended where its vectors filled three dimensions of 48.
UNQUANTISED_SHARE = 0.25
_SETTLING_VECTORS = 32_768
_FIRST_SHARE = 0.1  # of the reconstruction's gradient that reaches book 0
_DROPPED_ROWS = 0.3  # of the rows are rebuilt from fewer books than there are
_SPECTRAL, _HEARING, _COMMIT_FIRST, _COMMIT_REST = 6.0, 2.0, 0.25, 0.05
_SKETCH = 0.5  # of the sound's pull on the encoder is that of the spectrum read from the vectors; falls to nothing
_CORRECTION = 0.02  # of the size of vectors, at most in a step: tables follow them
STATE = "codec-state.pt"


class Codec(nn.Module):
    """Encoder, codebooks and decoder, with readers of phonemes and of spectra that are not kept."""

    def __init__(self, config: CodecConfig, labels: int, device: str) -> None:
        super().__init__()
        self.encoder = CodecEncoder(config.encoder, config.codebooks_kept)
        self.decoder = CodecDecoder(config.decoder)
        half = config.decoder.codebook_dim // 2
        self.reader = nn.Linear(half, SLOTS * labels)
        self.sketcher = nn.Linear(config.decoder.codebook_dim, FRAME // HOP * BANDS)
        self.labels = labels
        _begin(self)
        self.to(device)
        self.books = Codebooks(half, device)

    def vectors(self, first: Tensor, rest: Tensor) -> Tensor:
        """Rows of book 0 and summed rows of the others, each [..., width] -> what the decoder starts from."""
        quantiser = self.decoder.quantiser
        return quantiser.first(first) + quantiser.rest(rest)

    @torch.no_grad()
    def publish(self) -> None:
        """The learned tables into encoder and decoder, where the product looks for them."""
        self.encoder.quantiser.tables.copy_(self.books.tables(*self.encoder.quantiser.tables.shape[:2]))
        self.decoder.quantiser.tables.copy_(self.books.tables(BOOKS))


def _begin(codec: Codec) -> None:
    """First values where the modules' own would be zeros or ones."""
    for module in codec.modules():
        if isinstance(module, CausalUpsample):
            bound = 1 / math.sqrt(2 * module.weight.shape[1])
            nn.init.uniform_(module.weight, -bound, bound)
        elif isinstance(module, ConvNeXt):
            nn.init.constant_(module.gamma, 0.2)
        elif isinstance(module, (Block, EncoderBlock)):
            assert module.scale_attention is not None and module.scale_mlp is not None
            nn.init.constant_(module.scale_attention, 0.1)
            nn.init.constant_(module.scale_mlp, 0.1)
    # Twelve convolutions one after the other: each is to give back about the loudness that it got, and speech is quiet.
    for module in codec.encoder.modules():
        if isinstance(module, nn.Conv1d):
            nn.init.normal_(module.weight, 0, 1 / math.sqrt(module.weight[0].numel()))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    first = codec.encoder.stages[0]
    assert isinstance(first, nn.Conv1d)
    with torch.no_grad():
        first.weight.mul_(8.0)


Passes = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]  # waveform -> hidden, vectors -> waveform


def passes(codec: Codec, compile: bool) -> Passes:
    """Waveforms [rows, samples] -> hidden [rows, frames, hidden], and vectors [rows, frames, width] -> waveforms."""
    encode, decode = codec.encoder.hidden, codec.decoder.sound
    if not compile:
        return encode, decode
    return torch.compile(encode, dynamic=False), torch.compile(decode, dynamic=False)


class CodecTraining:
    """One step and what it needs; every number that changes lies on the device."""

    def __init__(self, codec: Codec, speech: Speech, device: str, rows: int, passes: Passes) -> None:
        self.codec, self.speech, self.device, self.rows = codec, speech, device, rows
        self.encode, self.decode = passes
        self.loss = SpectralLoss().to(device)
        self.spectrum = LogMel().to(device)
        with torch.no_grad():  # the reader of spectra begins with their mean, which would take it thousands of steps
            codec.sketcher.bias.copy_(self._bands(self.segments(rows)[0]).mean((0, 1)))
        self.rate = Rate(device)
        self.learned = [p for p in codec.parameters() if p.requires_grad]
        self.optimiser = self.rate.adamw(self.learned, (0.8, 0.95), 0.01)
        self.listener = Listener(codec.labels).to(device)
        self.hearing = self.rate.adamw(self.listener.parameters(), (0.9, 0.99), 0.01)
        self.sketching = torch.full((), _SKETCH, device=device)
        self.averages = Averages(
            ("spectral", "phoneme", "sketch", "commit", "size", "hearing", "heard", "norm"), device
        )

    def segments(self, rows: int) -> tuple[Tensor, Tensor]:
        """Waveforms [rows, samples], with a gain of their own, and labels [rows, SEGMENT, SLOTS]."""
        start = torch.randint(len(self.speech.samples) - SEGMENT, (rows, 1), device=self.device)
        frames = start + torch.arange(SEGMENT, device=self.device)
        wave = self.speech.samples[frames].float().flatten(1) / 32768
        # The voice that ships is level; recordings are not.
        loud = (0.6 * torch.randn(rows, 1, device=self.device)).exp().clamp(0.15, 1.6)
        quiet = torch.rand(rows, 1, device=self.device) < 0.3
        return wave * torch.where(quiet, loud, torch.ones_like(loud)), self.speech.labels[frames].long()

    def step(self) -> None:
        """One step on segments drawn at random. No host work: it is captured."""
        codec, books = self.codec, self.codec.books
        wave, labels = self.segments(self.rows)
        with autocast(self.device):
            encoded = self.encode(wave)
        hidden = encoded.detach().float().requires_grad_(True)
        kept = torch.randint(BOOKS, (self.rows,), device=self.device)
        dropped = torch.rand(self.rows, device=self.device) < _DROPPED_ROWS
        kept = torch.where(dropped, kept, torch.full_like(kept, BOOKS - 1)).repeat_interleave(SEGMENT)

        flat = hidden.flatten(0, 1)
        before_first, before_rest = codec.encoder.quantiser.first(flat), codec.encoder.quantiser.rest(flat)
        _, first, commit_first = books.first(before_first, learn=True)
        _, rest, commit_rest = books.rest(before_rest, kept, learn=True)
        named = codec.reader(first).view(-1, codec.labels)
        phoneme = F.cross_entropy(named, labels.reshape(-1))
        held = first.detach() + _FIRST_SHARE * (first - first.detach())
        vectors = codec.vectors(held, rest).view(self.rows, SEGMENT, -1)
        sketch = F.l1_loss(codec.sketcher(vectors), self._bands(wave))
        with autocast(self.device):
            made = self.decode(vectors)
        spectral = self.loss(made.float(), wave)
        seen, right = self._listen(wave, labels)
        self.listener.requires_grad_(False)
        with autocast(self.device):
            hearing = hearing_loss(self.listener, made, labels, seen)

        self.optimiser.zero_grad(set_to_none=True)
        phoneme.backward(retain_graph=True)
        by_phoneme, hidden.grad = hidden.grad, None
        commit = books.strength * (_COMMIT_FIRST * commit_first + _COMMIT_REST * commit_rest)
        commit.backward(retain_graph=True)
        by_tables, hidden.grad = hidden.grad, None
        sketch.backward(retain_graph=True)
        by_sketch, hidden.grad = hidden.grad, None
        (_SPECTRAL * spectral + _HEARING * hearing).backward()
        by_sound = hidden.grad
        assert by_phoneme is not None and by_tables is not None and by_sketch is not None and by_sound is not None
        # What is said and how it sounds pull equally hard at the encoder. The tables' pull has no part in that: it
        # grows with the vectors, the phonemes would grow with it, and they want the vectors larger still.
        strength = by_sound.norm()
        pull = by_sound + by_tables + strength / (by_phoneme.norm() + 1e-8) * by_phoneme
        pull = pull + self.sketching * strength / (by_sketch.norm() + 1e-8) * by_sketch
        encoded.backward(pull.to(encoded.dtype))
        norm = nn.utils.clip_grad_norm_(self.learned, 5.0)
        self.optimiser.step()
        size = self._correct(codec.encoder.quantiser.first, before_first)
        self._correct(codec.encoder.quantiser.rest, before_rest)
        self.listener.requires_grad_(True)
        self.averages.add(spectral, phoneme, sketch, commit_first + commit_rest, size, hearing, right, norm)

    def _bands(self, wave: Tensor) -> Tensor:
        """Waveforms [rows, samples] -> the log mel bands of every frame, [rows, frames, bands of all its hops]."""
        return self.spectrum(wave).transpose(1, 2).unflatten(1, (-1, FRAME // HOP)).flatten(2)

    @torch.no_grad()
    def _correct(self, projection: nn.Module, vectors: Tensor) -> Tensor:
        """Bring the size of the vectors that a projection gave nearer to 1; what it was. Not once tables stand still.

        No loss says how large vectors are to be, and the reader of phonemes wants them larger all the time.
        """
        size = vectors.square().mean().sqrt()
        factor = (1 / size.clamp(min=1e-3)).clamp(1 - _CORRECTION, 1 + _CORRECTION)
        still = self.codec.books.decay >= 1
        for parameter in projection.parameters():
            parameter.mul_(factor.masked_fill(still, 1.0))
        return size

    def _listen(self, wave: Tensor, labels: Tensor) -> tuple[list[Tensor], Tensor]:
        """One step of the listener on real speech: what its layers saw, and the share of phonemes it got right."""
        with autocast(self.device):
            loss, seen, right = recognition_loss(self.listener, wave, labels)
        self.hearing.zero_grad(set_to_none=True)
        loss.backward()
        self.hearing.step()
        return [layer.detach() for layer in seen], right

    @torch.no_grad()
    def settle(self) -> None:
        """Tables by k-means over what the encoder gives now; from here on vectors are quantised."""
        codec = self.codec
        hidden = []
        for _ in range(max(1, _SETTLING_VECTORS // (self.rows * SEGMENT))):
            with autocast(self.device):
                hidden.append(self.encode(self.segments(self.rows)[0]).float().flatten(0, 1))
        flat = torch.cat(hidden)
        codec.books.first(codec.encoder.quantiser.first(flat), settle=True)
        codec.books.rest(codec.encoder.quantiser.rest(flat), settle=True)
        codec.books.strength.fill_(1.0)


def train(training: CodecTraining, work: Work, seconds: float, most_rate: float, state: dict[str, Any]) -> None:
    """Until `seconds` of training in all runs have passed; the rate falls as a cosine over them."""
    books, captured = training.codec.books, Captured(training.step, training.device)
    for share in paced(work, training.averages, training.device, seconds, state):
        rise = min(1.0, (state["steps"] + 1) / 100)
        training.rate.set(most_rate * rise * (0.5 * (1 + math.cos(math.pi * share)) * 0.97 + 0.03))
        if not state["settled"] and share > UNQUANTISED_SHARE:
            work.say(f"step {state['steps']} {training.averages.read()}")
            training.settle()
            state["settled"] = True
            work.say("codebooks settled")
        training.sketching.fill_(_SKETCH * (1 - share))
        books.revive.fill_(state["steps"] % 10 == 0 and share < 0.7 and state["settled"])
        if share > 0.9:
            books.decay.fill_(1.0)
        captured()
    work.say(f"trained: {state['steps']} steps, {training.averages.read()}")


def read_some(work: Work, hours: dict[str, float], device: str) -> Speech:
    """The first hours of every voice, as soon as they are there: what the codec learns from."""
    for voice, most in hours.items():
        while len(pieces(work.folder, voice)) < most / PIECE_HOURS and not work.is_done("speech"):
            time.sleep(0.5)
    found: list[Speech] = []
    for voice, most in hours.items():
        files = pieces(work.folder, voice)
        if not files:
            raise FileNotFoundError(f"no speech of {voice} in {work.folder / 'speech'}")
        spoken = 0.0
        for file in files:
            if spoken < most:
                found.append(read_speech(file))
                spoken += found[-1].hours
    return join_speech(found, device)


def restore(training: CodecTraining, saved: dict[str, Any]) -> dict[str, Any]:
    """Weights, tables and optimiser as `keep` wrote them; the state of the run, from which it goes on."""
    training.codec.load_state_dict(saved["codec"])
    training.rate.restore(training.optimiser, saved["optimiser"])
    training.listener.load_state_dict(saved["listener"])
    training.rate.restore(training.hearing, saved["hearing"])
    training.codec.books.strength.fill_(float(saved["state"]["settled"]))
    return saved["state"]


def keep(training: CodecTraining, state: dict[str, Any], folder: Path) -> None:
    """All that a later run goes on from, and both halves of the codec in float16, as they are shipped."""
    codec = training.codec
    codec.publish()
    everything = {
        "codec": codec.state_dict(), "optimiser": training.optimiser.state_dict(), "state": state,
        "listener": training.listener.state_dict(), "hearing": training.hearing.state_dict(),
    }  # fmt: skip
    save(everything, folder / STATE)
    halves = {"encoder": codec.encoder, "decoder": codec.decoder}
    save({part: {k: v.half().cpu() for k, v in module.state_dict().items()} for part, module in halves.items()},
         folder / "codec.pt")  # fmt: skip


def main() -> None:
    parser = stage_parser(__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=400.0, help="of training, in all runs together")
    parser.add_argument("--rows", type=int, default=32, help="segments in a step")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--hours", type=float, default=6.0, help="of each speaker that the codec learns from")
    parser.add_argument("--after-speech", action="store_true", help="learn when all is spoken: the GPU is shared")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    options = parser.parse_args()
    work, device = Work(options.work, "codec"), options.device
    prepare_torch(options.seed)
    _, config = read_configs(options.work / "checkpoint")
    codec = Codec(config, label_count(options.work), device).train()
    both = passes(codec, options.compile)
    if options.compile:
        _warm_up(codec, device, options.rows, both, work)
    if options.after_speech:
        work.wait("speech", 1200)
    shares = {**{TEACHERS[name]: options.hours for name in SPEAKERS}, EXTRA: options.hours / 8}
    speech = read_some(work, shares, device)
    work.say(f"learns from {speech.hours:.2f} h of speech")
    training = CodecTraining(codec, speech, device, options.rows, both)
    state: dict[str, Any] = {"steps": 0, "seconds": 0.0, "settled": False}
    if (options.work / STATE).exists():
        state = restore(training, load(options.work / STATE, device))
        work.say(f"goes on from step {state['steps']}")
    train(training, work, options.seconds, options.rate, state)
    keep(training, state, options.work)
    work.done("codec")
    encode_held_out(codec, work, training.loss, device)
    del training, speech
    work.wait("speech", 1200)
    codes = encode_pieces(codec, work, device)
    save_file(codes, options.work / "codes.safetensors")
    work.done("codes")
    hours = len(codes["codes"]) * FRAME / SAMPLE_RATE / 3600
    work.say(f"{hours:.2f} h as codes")


def _warm_up(codec: Codec, device: str, rows: int, both: Passes, work: Work) -> None:
    """Compile while the teachers still speak."""
    frames = 4 * SEGMENT
    noise = Speech(
        torch.randint(-3000, 3000, (frames, FRAME), device=device, dtype=torch.int16),
        torch.zeros(frames, SLOTS, dtype=torch.uint8, device=device),
        torch.zeros(frames, dtype=torch.int16, device=device),
        torch.zeros(1, dtype=torch.int32, device=device),
        torch.tensor([frames], dtype=torch.int32, device=device),
    )
    before = {name: value.clone() for name, value in codec.state_dict().items()}
    training = CodecTraining(codec, noise, device, rows, both)
    training.step()
    with torch.no_grad(), autocast(device):
        training.encode(training.segments(rows)[0])
    codec.load_state_dict(before)
    codec.zero_grad(set_to_none=True)
    work.say("compiled")


if __name__ == "__main__":
    main()
