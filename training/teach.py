"""Stage `teach`: a teacher speaks the texts; its speech goes to W/speech in pieces, placed on the grid of frames.

`python -m training.teach --work W --voice joe --teachers FOLDER --hours 150`. Several processes share one voice with
`--part 0/4` and so on; each takes every fourth text. `--voice extra` speaks some texts in other voices, which only the
codec hears. Ends by itself when its hours or seconds are spoken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from training.audio import EXTRA, PIECE_HOURS, Speech, held_file, join_speech, place, write_speech
from training.common import Work, prepare_torch, stage_parser

_GROUP = 512  # texts handed to a teacher at once, to be sorted by length within
_EXTRA_GROUP = 64  # of each other voice in turn
_MOST_PIECES = 1000  # of one process: files of several processes never share a number

Speak = Callable[[Sequence[np.ndarray]], Iterable[Any]]  # ids -> spoken utterances, in order


@dataclass
class Script:
    """What a teacher is to say: the texts as its own phonemes, with labels and tokens."""

    ids: np.ndarray  # uint8 [all ids]
    end: np.ndarray  # int64 [texts]: where each ends among the ids
    at: np.ndarray  # uint16 [all ids]: token of the text
    label: np.ndarray  # uint8 [all ids, 2]: of the first and the second half of each
    held_out: int  # texts at the beginning that nothing learns from

    @staticmethod
    def read(file: Path, teacher: str) -> Script:
        """A teacher's part of the file that `prepare` wrote."""
        stored = np.load(file)
        ids, at, label = (stored[f"{teacher}_{name}"] for name in ("ids", "at", "label"))
        return Script(ids, stored[f"{teacher}_end"].astype(np.int64), at, label, int(stored["held_out"]))

    def __len__(self) -> int:
        return len(self.end)

    def numbers(self, voice: str, part: int, parts: int) -> range:
        """The texts that one of several processes is to speak, in their order; never a held-out one."""
        if voice == EXTRA:  # from the end: few of them are heard twice
            return range(len(self) - 1 - part, self.held_out - 1, -parts)
        return range(self.held_out + part, len(self), parts)

    def span(self, number: int) -> slice:
        """Where a text's ids lie among all ids."""
        return slice(int(self.end[number - 1]) if number else 0, int(self.end[number]))


def speak_texts(script: Script, numbers: Sequence[int], speak: Speak) -> Iterator[Speech]:
    """Texts by their numbers as utterances on the grid; one without phonemes is passed over."""
    numbers = [number for number in numbers if script.span(number).stop > script.span(number).start]
    for number, spoken in zip(numbers, speak([script.ids[script.span(n)] for n in numbers]), strict=True):
        span = script.span(number)
        yield place(spoken.samples, spoken.durations, script.label[span], script.at[span], number)


def teach(
    work: Work, script: Script, speakers: Sequence[Speak], numbers: Sequence[int], name: str, *,
    hours: float, seconds: float, first_piece: int, group: int, device: str,
) -> None:  # fmt: skip
    """Speak until the hours or the seconds are over, the speakers taking turns; a file for every hour of speech.

    Files are numbered from `first_piece` on. Hours and seconds are looked at after every `group` of texts.
    """
    folder = work.folder / "speech"
    pending: list[Speech] = []
    spoken = held = 0.0
    piece, began = first_piece, time.monotonic()

    def flush() -> None:
        nonlocal piece, held
        if pending:
            write_speech(folder / f"{name}-{piece:04d}.safetensors", join_speech(list(pending), device))
            piece += 1
        pending.clear()
        held = 0.0

    for turn, start in enumerate(range(0, len(numbers), group)):
        for speech in speak_texts(script, numbers[start : start + group], speakers[turn % len(speakers)]):
            pending.append(speech)
            spoken += speech.hours
            held += speech.hours
            if held >= PIECE_HOURS:
                flush()
        passed = time.monotonic() - began
        work.say(f"{name}: {spoken:.2f} h in {passed:.1f} s")
        if spoken >= hours or passed >= seconds:
            break
    flush()


def load_speakers(voice: str, folder: Path, style: str, device: str) -> list[Speak]:
    """The teachers that speak as a voice, from the folder that `training.teachers` packed."""
    from training.teachers import STYLES, Joe, Kokoro

    if voice == "joe":
        return [Joe(folder, device).speak]
    styles = [style] if voice == "kokoro" else [other for other in STYLES if other != style]
    return [Kokoro(folder, style, device).speak for style in styles]


def main() -> None:
    parser = stage_parser(__doc__.split("\n")[0])
    parser.add_argument("--voice", required=True, choices=("joe", "kokoro", EXTRA))
    parser.add_argument("--teachers", type=Path, required=True, help="the folder that training.teachers packed")
    parser.add_argument("--style", default="jf_gongitsune", help="of Kokoro")
    parser.add_argument("--part", default="0/1", help="which of how many processes this is")
    parser.add_argument("--hours", type=float, default=150.0)
    parser.add_argument("--seconds", type=float, default=600.0, help="stop after this time whatever the hours")
    options = parser.parse_args()
    part, parts = (int(value) for value in options.part.split("/"))
    work, device = Work(options.work, f"teach-{options.voice}-{part}"), options.device
    (options.work / "speech").mkdir(exist_ok=True)
    prepare_torch(options.seed)
    teacher = "joe" if options.voice == "joe" else "kokoro"
    script = Script.read(options.work / "data" / "utterances.npz", teacher)
    speakers = load_speakers(options.voice, options.teachers, options.style, device)
    work.say("teacher loaded")
    if part == 0 and options.voice != EXTRA:
        held = list(speak_texts(script, range(script.held_out), speakers[0]))
        write_speech(held_file(options.work, teacher), join_speech(held, device))
        work.say(f"held-out: {len(held)} utterances")
    teach(
        work, script, speakers, script.numbers(options.voice, part, parts), options.voice, hours=options.hours,
        seconds=options.seconds, first_piece=_MOST_PIECES * part,
        group=_EXTRA_GROUP if options.voice == EXTRA else _GROUP, device=device,
    )  # fmt: skip
    work.done(f"speech-{options.voice}-{part}")


if __name__ == "__main__":
    main()
