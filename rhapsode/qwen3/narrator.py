"""Qwen3-TTS as a narrator: a checkpoint and a voice, lines in, takes out.

Knows how a line becomes a request and a finished reading a take. The loop is the engine's, the arithmetic the
stepper's.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from rhapsode.engine import judge
from rhapsode.engine.decode import Finished, Policy, decode
from rhapsode.engine.lanes import Reading
from rhapsode.engine.meter import Meter
from rhapsode.engine.stepper import Request
from rhapsode.errors import UserError
from rhapsode.narrator import Options, Voices
from rhapsode.qwen3 import voices as voice_table
from rhapsode.qwen3.checkpoint import Checkpoint, open_checkpoint
from rhapsode.qwen3.hub import locate
from rhapsode.qwen3.prompt import PromptMaker
from rhapsode.qwen3.tokens import PRE_TOKENIZER, TextTokenizer
from rhapsode.types import Line, Sampling, Take

if TYPE_CHECKING:
    from rhapsode.qwen3.torch.load import Model

SILENT_LINE_S = 0.2  # a line with nothing to say


def load(options: Options) -> Qwen3Narrator:
    """A narrator as the options ask for. Raises `UserError` for anything that cannot be had."""
    if options.slots is not None and options.slots < 1:
        raise UserError(f"--slots must be 1 or more, not {options.slots}.")
    if options.tries < 1:
        raise UserError(f"A line needs one try or more, not {options.tries}.")
    checkpoint = _open(options)
    # Cheap questions first: nothing heavy is loaded for a voice that does not exist.
    language = options.language or voice_table.language_name(checkpoint.model, options.likely_language)
    voice = voice_table.choose(checkpoint.model, options.voice, language)
    sampling = checkpoint.sampling.but(**(options.sampling or {}))
    from rhapsode.qwen3.torch.load import load_model

    model = load_model(checkpoint, options.device, options.format)
    return Qwen3Narrator(checkpoint, voice, sampling, model, options)


def voices(options: Options) -> Voices:
    """Voices and languages of a checkpoint, from its config.json."""
    config = _open(options).model
    return Voices(tuple(voice_table.speakers(config)), tuple(voice_table.languages(config)))


def _open(options: Options) -> Checkpoint:
    if options.checkpoint is None:
        raise UserError(
            "Name a checkpoint with --checkpoint: a folder, or a Hub id such as Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice."
        )
    folder = locate(options.checkpoint, revision=options.revision, offline=options.offline, token=options.token)
    return open_checkpoint(folder, options.checkpoint)


class Qwen3Narrator:
    """Implements `rhapsode.narrator.Narrator`."""

    def __init__(
        self, checkpoint: Checkpoint, voice: voice_table.Voice, sampling: Sampling, model: Model, options: Options
    ) -> None:
        self.checkpoint, self.voice, self.model, self.options = checkpoint, voice, model, options
        self.sample_rate = checkpoint.codec.sample_rate
        self.sampling = sampling
        self.slots = options.slots or model.default_slots
        self.seed = options.seed
        self._frame_rate = checkpoint.codec.frame_rate
        tokenizer = TextTokenizer(checkpoint.folder, checkpoint.model.first_control_token)
        self.prompt = PromptMaker(checkpoint.model, tokenizer, voice)
        self._meter = Meter()

    def settings(self) -> dict[str, Any]:
        return {
            "narrator": "qwen3",
            "checkpoint": self.checkpoint.identity(),
            "voice": self.voice.name,
            "language": self.voice.language,
            "format": self.model.format,
            "seed": self.seed,
            "tries": self.options.tries,
            "pre_tokenizer": PRE_TOKENIZER,
            **asdict(self.sampling),
        }

    def notes(self) -> list[str]:
        found = []
        if not self.checkpoint.model.talker.speakers:
            found.append("This checkpoint has no named voice; it makes one up for every line.")
        likely = self.options.likely_language
        if not self.options.language and likely and self.voice.language == voice_table.AUTO:
            found.append(
                f"The book says its language is {likely!r}, which this checkpoint does not name; it will guess."
            )
        return found

    def expected_seconds(self, line: Line) -> float:
        return judge.expected_seconds(line.text) if judge.speakable(line.text) else SILENT_LINE_S

    def useful(self) -> float:
        return self._meter.useful

    def retakes(self) -> int:
        return self._meter.retakes

    def read(self, lines: Iterable[Line]) -> Iterator[Take]:
        """Takes of all lines, longest lines first. In float32 a line's codes depend on nothing but itself."""
        spoken = []
        for line in lines:
            if judge.speakable(line.text):
                spoken.append(line)
            else:
                silence = np.zeros(round(SILENT_LINE_S * self.sample_rate), np.float32)
                yield Take(line, silence, self.sample_rate, frames=0, seed=self.seed, tries=0)
        if not spoken:
            return
        prompts = [self.prompt(line.text) for line in spoken]
        caps = [max(1, math.ceil(judge.cap_seconds(line.text) * self._frame_rate)) for line in spoken]
        stepper = self.model.stepper(
            self.sampling,
            slots=min(self.slots, len(spoken)),
            prompt=max(map(len, prompts)),
            frames=max(caps),
            sample_rate=self.sample_rate,
        )

        def request(number: int, attempt: int) -> Request:
            return Request(prompts[number], caps[number], self._words(spoken[number], attempt))

        readings = (
            Reading(number, request(number, 1), judge.expected_seconds(line.text)) for number, line in enumerate(spoken)
        )
        # A greedy reading comes out the same however often it is made.
        policy = Policy(
            tries=1 if self.sampling.greedy else self.options.tries,
            group_lines=self.model.codec_group,
        )
        for finished in decode(readings, stepper, request, policy, self._meter):
            yield self._take(spoken[finished.line], finished)

    def _words(self, line: Line, attempt: int) -> int:
        """64 random bits of one reading, from the seed, the line and the attempt alone."""
        source = f"{self.seed}/{line.key}/{attempt}".encode()
        return int.from_bytes(hashlib.blake2b(source, digest_size=8).digest(), "little")

    def _take(self, line: Line, finished: Finished) -> Take:
        wave = finished.wave
        if finished.problem in ("not finite", "silent") or not len(wave):
            # Noise or nothing: better a pause of the right length, which is reported.
            wave = np.zeros(round(judge.expected_seconds(line.text) * self.sample_rate), np.float32)
        return Take(
            line,
            wave,
            self.sample_rate,
            frames=len(finished.codes),
            seed=self.seed,
            tries=finished.tries,
            problem=finished.problem,
        )
