"""Qwen3-TTS as a narrator: a checkpoint and one voice or two, lines in, takes out.

Knows how a line becomes a request and a finished reading a take, and which checkpoint is taken where none is named.
The loop is the engine's, the arithmetic the stepper's.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rhapsode.engine import judge
from rhapsode.engine.decode import Finished
from rhapsode.engine.fallback import decode_in_room
from rhapsode.engine.lanes import Reading, stretches
from rhapsode.engine.meter import Meter
from rhapsode.engine.stepper import Ending, OutOfRoom, Request, Stepper
from rhapsode.errors import CheckpointError, UserError
from rhapsode.narrator import Options, TextForm, Voices
from rhapsode.qwen3 import voices as voice_table
from rhapsode.qwen3.backends import MLX, backend_of
from rhapsode.qwen3.checkpoint import CARD, Checkpoint, embedded_checkpoint, open_checkpoint
from rhapsode.qwen3.hub import locate
from rhapsode.qwen3.limits import PROMPT, longest_line
from rhapsode.qwen3.prompt import Prompt, PromptMaker
from rhapsode.qwen3.strict import Section, read_json
from rhapsode.qwen3.tokens import PRE_TOKENIZER, TextTokenizer
from rhapsode.types import Line, Sampling, Speaker, Take

if TYPE_CHECKING:
    from rhapsode.qwen3.mlx.load import Model as MlxModel
    from rhapsode.qwen3.shared import SharedNarrator
    from rhapsode.qwen3.torch.load import Model
    from rhapsode.qwen3.torch.streaming import Streamer

SILENT_LINE_S = 0.2  # a line with nothing to say
SPOKEN_ENGLISH = "spoken-english"
_FORMATS = ("format", "codec_format")  # settings that a machine may choose
_FULL_SIZE = "Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice"


def load(options: Options) -> Qwen3Narrator | SharedNarrator:
    """A narrator as the options ask for. Raises `UserError` for anything that cannot be had."""
    if options.device.startswith("cuda:") and backend_of(options.device) != MLX:
        from rhapsode.qwen3.torch.several import several

        devices = several(options.device)
        if len(devices) > 1:
            from rhapsode.qwen3.shared import SharedNarrator

            return SharedNarrator(options, devices)
        options = replace(options, device=devices[0].name)
    return load_one(options)


def load_one(options: Options) -> Qwen3Narrator:
    """A narrator on one device of this process."""
    if options.slots is not None and options.slots < 1:
        raise UserError(f"--slots must be 1 or more, not {options.slots}.")
    if options.threads is not None and options.threads < 1:
        raise UserError(f"--threads must be 1 or more, not {options.threads}.")
    if options.tries < 1:
        raise UserError(f"A line needs one try or more, not {options.tries}.")
    checkpoint = _open(options)
    # Cheap questions first: nothing heavy is loaded for a voice that does not exist.
    language = options.language or voice_table.likely(checkpoint.model, options.likely_language)
    cast: dict[Speaker, voice_table.Voice] = {
        "narration": voice_table.choose(checkpoint.model, options.voice, language)
    }
    if options.dialogue_voice is not None:
        cast["dialogue"] = voice_table.choose(checkpoint.model, options.dialogue_voice, language)
    form = text_form(checkpoint.folder)
    sampling = checkpoint.sampling.but(**(options.sampling or {}))
    if backend_of(options.device) == MLX:
        if options.threads is not None:
            raise UserError("--threads is for the CPU through PyTorch; MLX takes the threads it wants: leave it out.")
        from rhapsode.qwen3.mlx.load import load_model as load_mlx

        mlx = load_mlx(checkpoint, options.format, options.slots)
        return Qwen3Narrator(checkpoint, cast, sampling, mlx, options, form, " ".join(mlx.notes))
    from rhapsode.qwen3.torch.load import load_model
    from rhapsode.qwen3.torch.remembered import pick_format
    from rhapsode.qwen3.torch.threads import use_threads

    use_threads(options.threads)
    begun: list[Mapping[str, Any]] = []
    if options.begun:
        TextTokenizer(checkpoint.folder, checkpoint.model.first_control_token)  # says what is missing
        begun = _same_but_format(options.begun, _fixed_settings(checkpoint, cast, sampling, options, form))
    chosen = pick_format(options.format, options.device, checkpoint.model, options.slots, begun)
    model = load_model(checkpoint, options.device, chosen.format)
    return Qwen3Narrator(checkpoint, cast, sampling, model, options, form, chosen.note)


def voices(options: Options) -> Voices:
    """Voices and languages of a checkpoint, from its config.json."""
    config = _open(options).model
    return Voices(tuple(voice_table.speakers(config)), tuple(voice_table.languages(config)))


def _open(options: Options) -> Checkpoint:
    if options.checkpoint is None:
        embedded = embedded_checkpoint()
        if embedded is None:
            raise UserError(
                "This installation has no embedded voice; name a checkpoint with --checkpoint: a folder, "
                f"or a Hub id such as {_FULL_SIZE}."
            )
        if options.revision is not None:
            raise UserError(f"The revision {options.revision!r} is of a Hub id; name that with --checkpoint.")
        return open_checkpoint(embedded, "the embedded voice")
    folder = locate(options.checkpoint, revision=options.revision, offline=options.offline, token=options.token)
    return open_checkpoint(folder, options.checkpoint)


def text_form(folder: Path) -> TextForm:
    """What a checkpoint wants to be given, from its card. Raises `CheckpointError` for a form that is not known."""
    if not (folder / CARD).exists():
        return "written"
    card = Section(read_json(folder / CARD), folder / CARD)
    form = card.text("text")
    if form not in ("written", SPOKEN_ENGLISH):
        raise CheckpointError(f"{folder / CARD}: text is {form!r:.60}; only 'written' or {SPOKEN_ENGLISH!r} is known.")
    return "spoken" if form == SPOKEN_ENGLISH else "written"


def _fixed_settings(
    checkpoint: Checkpoint,
    cast: Mapping[Speaker, voice_table.Voice],
    sampling: Sampling,
    options: Options,
    form: TextForm,
) -> dict[str, Any]:
    """All that the sound of a line depends on, but the format."""
    found = {
        "narrator": "qwen3",
        "checkpoint": checkpoint.identity(),
        "voice": cast["narration"].name,
        "language": cast["narration"].language,
        "seed": options.seed,
        "tries": options.tries,
        "pre_tokenizer": PRE_TOKENIZER,
        **asdict(sampling),
    }
    # Only where they are asked for: takes of a reading without them stay good.
    if "dialogue" in cast:
        found["dialogue_voice"] = cast["dialogue"].name
    if form == "spoken":
        found["text_form"] = SPOKEN_ENGLISH
    return found


def _same_but_format(begun: Iterable[Mapping[str, Any]], fixed: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Those readings that only their format may keep apart from one with these settings."""
    return [one for one in begun if {name: one[name] for name in one if name not in _FORMATS} == fixed]


def expected_seconds(line: Line) -> float:
    """A guess at how long a line will be."""
    return judge.expected_seconds(line.text) if judge.speakable(line.text) else SILENT_LINE_S


class Qwen3Narrator:
    """Implements `rhapsode.narrator.Narrator`."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        cast: Mapping[Speaker, voice_table.Voice],
        sampling: Sampling,
        model: Model | MlxModel,
        options: Options,
        form: TextForm = "written",
        note: str = "",
    ) -> None:
        """`cast` has a voice for the narration, and one for the dialogue where that is not the same.

        `note`: why the model has this format.
        """
        self.checkpoint, self.model, self.options, self._note = checkpoint, model, options, note
        self.voice, self.dialogue_voice = cast["narration"], cast.get("dialogue")
        self.text_form: TextForm = form
        self.sample_rate = checkpoint.codec.sample_rate
        self.sampling = sampling
        self.slots = options.slots or model.default_slots
        # Hears what is found out while it reads.
        self.tell: Callable[[str], None] = to_stderr
        self.seed = options.seed
        self._early = False
        self._frame_rate = checkpoint.codec.frame_rate
        tokenizer = TextTokenizer(checkpoint.folder, checkpoint.model.first_control_token)
        self._prompts = {who: PromptMaker(checkpoint.model, tokenizer, voice) for who, voice in cast.items()}
        self._fixed = _fixed_settings(checkpoint, cast, sampling, options, form)
        self._meter = Meter()
        self._streamer: Streamer | None = None
        self._streamer_room = 0, 0  # prompt rows and frames

    def settings(self) -> dict[str, Any]:
        found = {**self._fixed, "format": self.model.format}
        if self.model.codec_format != "float32":
            found["codec_format"] = self.model.codec_format
        return found

    def notes(self) -> list[str]:
        found = [self._note] if self._note else []
        begun = _same_but_format(self.options.begun, self._fixed)
        if begun and self.settings() not in begun:
            found.append("What was read of this book is in another format; it is kept, and all lines are read anew.")
        if self.options.checkpoint is None:
            found.append(f"Reading with the small embedded voice; --checkpoint {_FULL_SIZE} for the real one.")
        if not self.checkpoint.model.talker.speakers:
            found.append("This checkpoint has no named voice; it makes one up for every line.")
        likely = self.options.likely_language
        known = voice_table.language_name(self.checkpoint.model, likely)
        if not self.options.language and likely and (known is None or self.voice.language == voice_table.AUTO):
            will = "guess" if self.voice.language == voice_table.AUTO else f"read it as {self.voice.language}"
            found.append(
                f"The book says its language is {likely!r}, which this checkpoint does not name; it will {will}."
            )
        return found

    def prompt(self, line: Line) -> Prompt:
        """The prompt of a line in the voice of who speaks it."""
        return self._prompts.get(line.speaker, self._prompts["narration"])(line.text)

    def expected_seconds(self, line: Line) -> float:
        return expected_seconds(line)

    def begin_early(self) -> bool:
        # A card reads faster than cores encode, and leaves them idle; elsewhere nothing would be gained.
        self._early = self.model.device.startswith("cuda")
        return self._early

    def useful(self) -> float:
        return self._meter.useful

    def retakes(self) -> int:
        return self._meter.retakes

    def read(self, lines: Iterable[Line]) -> Iterator[Take]:
        """Takes of all lines, longest lines first, after `begin_early` within stretches of the book.

        In float32 a line's codes depend on nothing but itself.
        """
        spoken = []
        for line in lines:
            if judge.speakable(line.text):
                spoken.append(line)
            else:
                silence = np.zeros(round(SILENT_LINE_S * self.sample_rate), np.float32)
                yield Take(line, silence, self.sample_rate, frames=0, seed=self.seed, tries=0)
        if not spoken:
            return
        prompts = [self.prompt(line) for line in spoken]
        caps = [self._cap(line) for line in spoken]
        longest, most = max(map(len, prompts)), max(caps)
        slots = min(self.options.slots or self.model.slots_for(longest + most), len(spoken))

        def make(slots: int) -> Stepper:
            return self.model.stepper(
                self.sampling, slots=slots, prompt=longest, frames=most, sample_rate=self.sample_rate
            )

        def request(number: int, attempt: int) -> Request:
            return Request(prompts[number], caps[number], self._words(spoken[number], attempt))

        expected = [judge.expected_seconds(line.text) for line in spoken]
        parts = stretches(expected, slots) if self._early else [0] * len(spoken)
        readings = (
            Reading(number, request(number, 1), expected[number], stretch=parts[number])
            for number in range(len(spoken))
        )
        # A greedy reading comes out the same however often it is made.
        policy = self.model.policy(slots, longest + most, 1 if self.sampling.greedy else self.options.tries)
        try:
            for finished in decode_in_room(
                readings, make, slots, request, policy, self._meter, forget=self.model.forget, tell=self.tell
            ):
                yield self._take(spoken[finished.line], finished)
        except OutOfRoom as error:
            raise self._no_room(most, error) from None

    def stream(self, line: Line) -> Iterator[np.ndarray]:
        """One line as it is read: float32 samples [some], the first after a few frames.

        Together they are the sound of its first reading; what is wrong with that is told, and it is not read again.
        The first call makes what the following ones use.
        """
        if not judge.speakable(line.text):
            yield np.zeros(round(SILENT_LINE_S * self.sample_rate), np.float32)
            return
        if not hasattr(self.model, "streamer"):  # MLX: in one piece
            yield from (take.audio for take in self.read([line]))
            return
        prompt, cap = self.prompt(line), self._cap(line)
        request = Request(prompt, cap, self._words(line, 1))
        try:
            streamer = self._streamer_for(len(prompt), cap)
            yield from streamer(request)
        except OutOfRoom as error:
            raise self._no_room(cap, error) from None
        if streamer.ending is not Ending.SPOKEN:
            problem = judge.NO_END if streamer.ending is Ending.CAPPED else "not finite"
            self.tell(f"line {line.index + 1}: {problem}: {line.text!r:.70}")

    def _streamer_for(self, prompt: int, frames: int) -> Streamer:
        """The one lane of streams, made anew where a line is longer than any before."""
        model: Any = self.model  # of PyTorch
        if self._streamer is None or prompt > self._streamer_room[0] or frames > self._streamer_room[1]:
            self._streamer = None  # gives its memory back first
            longest = longest_line(self._frame_rate) - PROMPT
            self._streamer_room = max(PROMPT, prompt), max(longest, frames)
            self._streamer = model.streamer(
                self.sampling, prompt=self._streamer_room[0], frames=self._streamer_room[1],
                sample_rate=self.sample_rate,
            )  # fmt: skip
        return self._streamer

    def _cap(self, line: Line) -> int:
        return max(1, math.ceil(judge.cap_seconds(line.text) * self._frame_rate))

    def _no_room(self, frames: int, error: OutOfRoom) -> UserError:
        return UserError(
            f"There is not enough memory on {self.model.device} for one line of {frames / self._frame_rate:.0f} s "
            f"in {self.model.format} ({error}); close what else uses it, or choose another --device or --format."
        )

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


def to_stderr(text: str) -> None:
    """For who has no better place for it."""
    print(f"rhapsode: {text}", file=sys.stderr, flush=True)
