"""The way of a book, top to bottom: file -> Book -> Lines -> Takes on disk -> chapter tracks -> audiobook.

Knows the order of things and nothing of how any of them is done.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from rhapsode.audio.ahead import Ahead
from rhapsode.audio.assemble import FADE_S, plan_tracks, soften, soften_stream, stream
from rhapsode.audio.container import check_suffix, codec_in_pieces, estimate_bytes, write_audiobook
from rhapsode.audio.draw import draw
from rhapsode.audio.encoder import Codec
from rhapsode.audio.files import check_free, make_folder, require_space, write_atomic
from rhapsode.audio.marks import Tags
from rhapsode.audio.picture import cover_problem
from rhapsode.audio.takes import TakeStore, begun_settings, settings_digest, takes_folder
from rhapsode.audio.wave import to_pcm, wav_header
from rhapsode.audio.writer import TakeWriter
from rhapsode.book import read_book, split_lines
from rhapsode.errors import BookError, OutputError, UserError
from rhapsode.narrator import Narrator, Options, SpokenForms, begin_early, find
from rhapsode.narrator import stream as one_line
from rhapsode.progress import Progress
from rhapsode.report import Report, make_report
from rhapsode.types import Block, Book, Chapter, Line, Take

_SPARE_BYTES = 20_000_000  # the record, the encoder's odds and ends
_TURNED = 1 << 16  # lines whose spoken forms are at hand: how long one will be is asked long before it is read


def narrate(
    book: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    chapters: str | int | Iterable[int] | None = None,
    overwrite: bool = False,
    keep_takes: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Read a book aloud into one file: M4B, M4A, MP3, Opus, FLAC or WAV by the suffix of `out`.

    `out` is BOOK.m4b in the current folder if not given. `chapters` is a number, numbers, or a string such as "1-3,7".
    `options` are fields of `rhapsode.Options`. Takes lie in `OUT.takes` until the book is done (with `keep_takes` for
    good); a run that was stopped goes on from there and ends with the same file.
    Raises `UserError` for whatever cannot be; nothing that was there is changed.
    """
    began, watch = time.perf_counter(), progress or Progress.silent()
    chosen = make_options(options)
    source = Path(book)
    target = Path(out) if out is not None else Path((source.stem or "book") + ".m4b")
    _check_target(target, source, overwrite)

    text = read_book(source)
    lines = _chosen_lines(text, chapters, dialogue=chosen.dialogue_voice is not None)
    narrator = _load(replace(chosen, likely_language=text.language, begun=begun_settings(takes_folder(target))))
    for note in (*text.notes, *_cover_notes(text), *narrator.notes()):
        watch.note(note)

    codec = _codec_ahead(target, narrator)
    expected = {line.index: narrator.expected_seconds(line) for line in lines}
    room = partial(_check_room, target, narrator.sample_rate, lines, expected, copies=2 if codec else 1)
    begun = (takes_folder(target) / settings_digest(narrator.settings())).exists()
    if not begun:  # asked before a folder is made, so that a refusal leaves none
        room(lines)
    make_folder(target.parent)
    with TakeStore(takes_folder(target), narrator.settings()) as store:
        left = [line for line in lines if not store.has(line)]
        if begun:
            room(left, store)
        samples = round(sum(expected.values()) * narrator.sample_rate)
        with Ahead(lines, store, codec, samples) if codec and left else nullcontext() as ahead:
            with TakeWriter(store) as writer:
                made_s = _read(left, narrator, expected, writer.put, watch, resumed=len(lines) - len(left))
            audio_s = _assemble(target, text, lines, narrator, store, watch, ahead)
        problems = {line.index: store.info(line).problem for line in lines}
        if not keep_takes:
            store.drop_sound()
    return make_report(
        target, narrator, lines, problems,
        audio_s=audio_s, made_s=made_s, wall_s=time.perf_counter() - began,
        resumed=len(lines) - len(left), record=str(store.folder / "record.jsonl"),
    )  # fmt: skip


def say(
    text: str,
    out: str | os.PathLike[str] | None = None,
    *,
    picture: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Read a few sentences into a file, say.wav (or the next free name) if none is given. Raises `UserError`.

    `picture` is an SVG file for the waveform and the spectrogram of what was said.
    """
    began, watch = time.perf_counter(), progress or Progress.silent()
    chosen = make_options(options)
    target = Path(out) if out is not None else _free_name("say", ".wav")
    _check_target(target, None, overwrite)
    drawn = Path(picture) if picture is not None else None
    if drawn is not None:
        _check_picture(drawn, overwrite)
    utterances = lines(text, dialogue=chosen.dialogue_voice is not None)
    narrator = _load(chosen)
    for note in narrator.notes():
        watch.note(note)
    takes: dict[int, Take] = {}
    expected = {line.index: narrator.expected_seconds(line) for line in utterances}
    made_s = _read(utterances, narrator, expected, lambda take: takes.update({take.line.index: take}), watch)
    sound = _join([takes[line.index] for line in utterances])
    if out is None:
        target = _free_name("say", ".wav")  # another process may have taken the one that was free
    make_folder(target.parent)
    write_audiobook(
        target, sample_rate=narrator.sample_rate, tracks=[("", len(sound))], blocks=[sound], tags=Tags(target.stem)
    )
    if drawn is not None:
        make_folder(drawn.parent)
        write_atomic(drawn, draw(sound, narrator.sample_rate, text).encode())
    problems = {index: take.problem for index, take in takes.items()}
    audio_s = len(sound) / narrator.sample_rate
    return make_report(
        target, narrator, utterances, problems,
        audio_s=audio_s, made_s=made_s, wall_s=time.perf_counter() - began,
    )  # fmt: skip


def say_aloud(text: str, write: Callable[[bytes], object], *, progress: Progress | None = None, **options: Any) -> None:
    """Read a few sentences as a WAV without a known end, given to `write` as it is made. Raises `UserError`.

    The samples are those of `say`.
    """
    watch, chosen = progress or Progress.silent(), make_options(options)
    utterances = lines(text, dialogue=chosen.dialogue_voice is not None)
    narrator = _load(chosen)
    for note in narrator.notes():
        watch.note(note)
    if hasattr(narrator, "tell"):
        narrator.tell = watch.note
    write(wav_header(narrator.sample_rate, None))
    pause = 0
    for line in utterances:
        write(np.zeros(pause, np.int16).tobytes())
        for piece in soften_stream(map(to_pcm, one_line(narrator, line)), round(FADE_S * narrator.sample_rate)):
            write(piece.tobytes())
        pause = round(line.pause_s * narrator.sample_rate)


def load(checkpoint: str | os.PathLike[str] | None = None, **options: Any) -> Narrator:
    """A narrator that reads lines: `for take in load(...).read(lines)`. Options as in `rhapsode.Options`."""
    if checkpoint is not None:
        options["checkpoint"] = checkpoint
    return _load(make_options(options))


def lines(text: str, language: str = "en", *, dialogue: bool = False) -> list[Line]:
    """Lines of a plain text, split as a book's are; blank lines part paragraphs. Raises `UserError` for no text.

    With `dialogue`, what is inside quotation marks makes lines of its own, for a second voice.
    """
    text = re.sub("[\ud800-\udfff]", "\ufffd", text)  # bytes of a command line that were not UTF-8
    blocks = tuple(Block("paragraph", part.strip()) for part in text.split("\n\n") if part.strip())
    found = split_lines(Book("", "", language, (Chapter(1, "", blocks),)), dialogue=dialogue)
    if not any(character.isalnum() for line in found for character in line.text):
        raise UserError(f"There is nothing to say in {text!r:.40}; a letter or a digit is the least.")
    return found


def make_options(options: dict[str, Any]) -> Options:
    """Options from keyword arguments; an unknown name is refused with those that exist."""
    known = [field.name for field in fields(Options)]
    for name in options:
        if name not in known:
            raise UserError(f"There is no option {name!r}; there are {', '.join(known)}.")
    return Options(**options)


# ---------------------------------------------------------------------- the steps of narrate


def _load(options: Options) -> Narrator:
    """The narrator, behind one that turns lines into spoken forms where it wants them."""
    narrator = find(options.narrator).load(options)
    if getattr(narrator, "text_form", "written") == "written":
        return narrator
    from rhapsode.book.spoken import spoken

    return SpokenForms(narrator, lru_cache(_TURNED)(spoken))


def _check_target(target: Path, source: Path | None, overwrite: bool) -> None:
    check_suffix(target)
    itself = source is not None and _same(target, source)
    check_free(target, "audiobook", overwrite or itself)
    if itself:
        raise OutputError(f"{target} is the book itself; choose another name for the audiobook.")


def _same(target: Path, source: Path) -> bool:
    try:
        return target.samefile(source)
    except (OSError, ValueError):  # one of them is not there, or cannot be
        return False


def _check_picture(picture: Path, overwrite: bool) -> None:
    if picture.suffix.lower() != ".svg":
        raise OutputError(f"{picture} is to be a picture, and pictures are SVG; choose a name that ends in .svg.")
    check_free(picture, "picture", overwrite)


def _free_name(stem: str, suffix: str) -> Path:
    """The first of stem.wav, stem-2.wav ... that is not there."""
    number = 1
    while (path := Path(f"{stem}-{number}{suffix}" if number > 1 else f"{stem}{suffix}")).exists():
        number += 1
    return path


def _chosen_lines(book: Book, chapters: str | int | Iterable[int] | None, *, dialogue: bool) -> list[Line]:
    found = split_lines(book, dialogue=dialogue)
    if chapters is not None:
        if isinstance(chapters, str):
            numbers = parse_chapters(chapters, len(book.chapters))
        else:
            numbers = {chapters} if not isinstance(chapters, Iterable) else set(chapters)
        if odd := [number for number in numbers if not isinstance(number, int)]:
            raise UserError(f"{odd[0]!r:.40} is no number of a chapter; give numbers, or text such as '1-3,7'.")
        beyond = sorted(number for number in numbers if not 1 <= number <= len(book.chapters))
        if beyond:
            raise UserError(f"There is no chapter {beyond[0]}; the book has {len(book.chapters)}.")
        found = [line for line in found if line.chapter in numbers]
    if not any(character.isalnum() for line in found for character in line.text):
        raise BookError("There is no text to read in the book or in the chapters chosen.")
    return found


def parse_chapters(text: str, most: int) -> set[int]:
    """ "1-3,7" to {1, 2, 3, 7}; "5-" is to the end. Raises `UserError` for anything else."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            start, stop = int(first), int(last) if last else most if dash else int(first)
        except ValueError:
            start, stop = 0, 0
        if start < 1 or (stop < start and last):
            raise UserError(f"{part.strip()!r} is no choice of chapters; write numbers and ranges such as 1-3,7.")
        if max(start, stop) > most:
            raise UserError(f"There is no chapter {max(start, stop)}; the book has {most}.")
        numbers.update(range(start, stop + 1))
    return numbers


def _cover_notes(book: Book) -> list[str]:
    problem = cover_problem(book.cover) if book.cover is not None else ""
    return [problem] if problem else []


def _codec_ahead(target: Path, narrator: Narrator) -> Codec | None:
    """The encoder of a file that is encoded while its lines are read, where reading leaves the processor to it."""
    codec = codec_in_pieces(target, narrator.sample_rate)
    return codec if codec is not None and begin_early(narrator) else None


def _check_room(
    target: Path,
    sample_rate: int,
    lines: Sequence[Line],
    expected: Mapping[int, float],
    left: Sequence[Line],
    store: TakeStore | None = None,
    *,
    copies: int,
) -> None:
    """Better a sentence now than a full disk after hours. copies: of the file's sound, what is encoded ahead beside it.

    expected: seconds of each line, by its index. left: lines that are yet to be read.
    """
    still = sum(expected[line.index] for line in left)
    known = sum(store.info(line).seconds for line in lines if store.has(line)) if store else 0.0
    silence = sum(line.pause_s for line in lines)
    takes = round(still * sample_rate * 2)
    book = copies * estimate_bytes(target.suffix, still + known + silence, sample_rate)
    require_space(target, takes + book + _SPARE_BYTES)


def _read(
    lines: Sequence[Line],
    narrator: Narrator,
    expected: Mapping[int, float],
    keep: Callable[[Take], object],
    watch: Progress,
    resumed: int = 0,
) -> float:
    """Read lines and hand each take to `keep` as it is finished; seconds of sound made."""
    made = 0.0
    if hasattr(narrator, "tell"):
        narrator.tell = watch.note
    watch.begin(sum(expected[line.index] for line in lines), resumed=resumed)
    try:
        for take in narrator.read(lines):
            keep(take)
            made += take.seconds
            watch.take(take, expected[take.line.index])
    finally:
        watch.end()
    return made


def _join(takes: Sequence[Take]) -> np.ndarray:
    """int16 sound of takes in order, with the pauses between them."""
    parts: list[np.ndarray] = []
    for take in takes:
        parts.append(soften(to_pcm(take.audio), round(FADE_S * take.sample_rate)))
        parts.append(np.zeros(round(take.line.pause_s * take.sample_rate), np.int16))
    return np.concatenate(parts[:-1])


def _assemble(
    target: Path,
    book: Book,
    lines: Sequence[Line],
    narrator: Narrator,
    store: TakeStore,
    watch: Progress,
    ahead: Ahead | None,
) -> float:
    """Chapters into the file; its length in seconds."""
    titles = {chapter.number: chapter.title for chapter in book.chapters}
    tracks = plan_tracks(lines, titles, store)
    settings = narrator.settings()
    samples = sum(track.samples for track in tracks)
    readers = dict.fromkeys(str(settings[name]) for name in ("voice", "dialogue_voice") if settings.get(name))
    try:
        write_audiobook(
            target,
            sample_rate=narrator.sample_rate,
            tracks=[(track.title, track.samples) for track in tracks],
            blocks=stream(tracks, store),
            encoded=ahead.encoded(samples) if ahead is not None else None,
            tags=Tags(title=book.title, author=book.author, narrator=", ".join(readers)),
            cover=book.cover,
            progress=watch.writing,
        )
    finally:
        watch.end()
    return samples / narrator.sample_rate
