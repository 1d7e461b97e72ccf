"""How well voices can be understood: they read known sentences, Whisper listens, and words and sound are compared.

    from rhapsode.verify import verify
    print(verify("Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice", voices=["ryan"], limit=5).as_json())

Knows the order of things: sentences -> takes of a narrator, or recordings -> what was heard -> figures.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rhapsode import pipeline
from rhapsode.book.lines import line_key
from rhapsode.book.spoken import spoken
from rhapsode.engine.judge import expected_seconds
from rhapsode.errors import UserError
from rhapsode.narrator import Options, find
from rhapsode.progress import Progress
from rhapsode.types import Line, Take
from rhapsode.verify.listen import Listener, Whisper, find_model
from rhapsode.verify.recordings import find_recordings, read_recordings
from rhapsode.verify.result import Result, Row, Scored
from rhapsode.verify.sentences import Sentence, read_sentences
from rhapsode.verify.sound import measure
from rhapsode.verify.words import Errors, compare

__all__ = ["Errors", "Result", "Row", "Scored", "Sentence", "Whisper", "compare", "read_sentences", "verify"]


def verify(
    checkpoint: str | os.PathLike[str] | None = None,
    *,
    voices: Sequence[str] | None = None,
    sentences: str | os.PathLike[str] | None = None,
    recordings: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    asr: str | None = None,
    listener: Listener | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Result:
    """Let voices read English sentences, listen, and compare.

    `voices` are those of the checkpoint if none is named; `sentences` is a file as `read_sentences` wants it, or the
    built-in ones; `limit` takes the first so many of each section. With `recordings`, a folder with 001.wav and so on,
    these are scored and nothing is read. `asr` is a folder with a Whisper model or a package that contains one;
    `listener` listens in its stead. `options` are fields of `rhapsode.Options`. Raises `UserError` for what cannot be.
    """
    watch = progress or Progress.silent()
    chosen = read_sentences(sentences, limit)
    if recordings is not None:
        usual = asdict(Options())
        named = sorted(name for name, value in asdict(pipeline.make_options(options)).items() if value != usual[name])
        if checkpoint is not None or voices or named:
            what = "a checkpoint" if checkpoint is not None else "voices" if voices else named[0]
            raise UserError(f"Recordings are scored as they are; {what} cannot be chosen for them.")
        files = find_recordings(recordings, chosen)
        hear, listens = _listener(asr, listener)
        folder = Path(recordings).resolve().name
        return Result(folder, listens, tuple(_score_recordings(folder, chosen, files, hear, watch)))
    if checkpoint is not None:
        options["checkpoint"] = os.fspath(checkpoint)
    if listener is None:
        find_model(asr)  # before anything heavy is loaded
    cast = _cast(voices, options)
    hear, listens = _listener(asr, listener)
    scored = [line for voice in cast for line in _score_voice(voice, chosen, options, hear, watch)]
    source = Path(os.fspath(checkpoint)).name if checkpoint is not None else "the embedded checkpoint"
    return Result(source, listens, tuple(scored), options.get("seed", 0))


def _listener(asr: str | None, listener: Listener | None) -> tuple[Listener, str]:
    if listener is not None:
        return listener, type(listener).__name__
    whisper = Whisper(asr)
    return whisper, whisper.name


def _cast(voices: Sequence[str] | None, options: dict[str, Any]) -> list[str | None]:
    """The voices to be heard; [None] for a checkpoint that has none by name."""
    if options.get("voice") or options.get("dialogue_voice"):
        raise UserError("A list of voices is wanted here: voices, not voice.")
    asked = pipeline.make_options({**options, "likely_language": "en"})
    if voices:
        return list(dict.fromkeys(voices))
    return list(find(asked.narrator).voices(asked).voices) or [None]


def _score_voice(
    voice: str | None, sentences: Sequence[Sentence], options: dict[str, Any], hear: Listener, watch: Progress
) -> Iterator[Scored]:
    """One voice reads all sentences; in their order."""
    narrator = pipeline.load(**{**options, "voice": voice, "likely_language": "en"})
    for note in narrator.notes():
        watch.note(note)
    lines = _lines(sentences)
    name = voice or "a voice of its own"
    scored: dict[int, Scored] = {}
    expected = [narrator.expected_seconds(line) for line in lines]
    watch.begin(sum(expected), resumed=0)
    try:
        for take in narrator.read(lines):
            at = take.line.index
            scored[at] = _score(name, sentences[at], take, expected[at], hear)
            watch.take(take, expected[at])
    finally:
        watch.end()
    yield from (scored[line.index] for line in lines)


def _lines(sentences: Sequence[Sentence]) -> list[Line]:
    """A line for each sentence, whatever its length; keyed as those of a book are."""
    lines: list[Line] = []
    seen: Counter[str] = Counter()
    for at, sentence in enumerate(sentences):
        lines.append(Line(at, 1, sentence.text, line_key(sentence.text, seen[sentence.text])))
        seen[sentence.text] += 1
    return lines


def _score_recordings(
    voice: str, sentences: Sequence[Sentence], files: Sequence[Path], hear: Listener, watch: Progress
) -> Iterator[Scored]:
    expected = [expected_seconds(spoken(sentence.text)) for sentence in sentences]
    watch.begin(sum(expected), resumed=0)
    try:
        for at, (wave, rate) in enumerate(read_recordings(files)):
            take = Take(Line(at, 1, sentences[at].text, 0), wave, rate, frames=0, seed=0)
            yield _score(voice, sentences[at], take, expected[at], hear)
            watch.take(take, expected[at])
    finally:
        watch.end()


def _score(voice: str, sentence: Sentence, take: Take, expected_s: float, hear: Listener) -> Scored:
    heard = hear(take.audio, take.sample_rate)
    return Scored(
        voice=voice,
        sentence=sentence,
        heard=heard,
        errors=compare(sentence.text, heard),
        sound=measure(take.audio, take.sample_rate),
        expected_s=expected_s,
        problem=take.problem,
        tries=take.tries,
    )
