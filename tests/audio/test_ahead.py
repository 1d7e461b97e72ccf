"""Sound encoded while its lines are read: the same packets, as soon as they can be, and nothing left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from rhapsode.audio import ahead, assemble, encoder
from rhapsode.audio.ahead import Ahead
from rhapsode.audio.container import FORMATS, codec_in_pieces, write_audiobook
from rhapsode.audio.encoder import Codec, Encoded
from rhapsode.audio.marks import Tags
from rhapsode.audio.takes import TakeStore
from rhapsode.errors import OutputError
from rhapsode.types import Line, Take
from rhapsode.workers import Crew

CUT = [suffix for suffix, form in FORMATS.items() if form.muxer and form.pieces]
LINES, SAMPLES = 12, 9_000


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of half a second to one, and processes for them."""
    monkeypatch.setattr(encoder, "PIECE_S", 0.5)
    monkeypatch.setattr(encoder, "_WORTH_S", 1.0)
    monkeypatch.setattr(encoder, "cores", lambda: 2)


@pytest.fixture
def takes(make_line: Callable[..., Line], make_take: Callable[..., Take]) -> list[Take]:
    return [make_take(make_line(n, chapter=1 + n // 5, pause_s=0.25), samples=SAMPLES) for n in range(LINES)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TakeStore]:
    with TakeStore(tmp_path / "x.takes", {}) as found:
        yield found


@pytest.fixture
def crews(monkeypatch: pytest.MonkeyPatch) -> list[Crew]:
    found: list[Crew] = []
    begin = Crew.__init__

    def counted(crew: Crew, *arguments: object) -> None:
        found.append(crew)
        begin(crew, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Crew, "__init__", counted)
    return found


def m4b() -> Codec:
    codec = codec_in_pieces(Path("x.m4b"), 24_000)
    assert codec is not None
    return codec


def lines_of(takes: Sequence[Take]) -> list[Line]:
    return [take.line for take in takes]


def total(takes: Sequence[Take]) -> int:
    return sum(len(take.audio) + round(take.line.pause_s * take.sample_rate) for take in takes)


def in_time(work: Callable[[], object]) -> None:
    """Do what would wait for ever if it were wrong."""
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.append(work()), daemon=True)
    thread.start()
    thread.join(120)
    assert done, "it waits, or has failed"


def write(path: Path, takes: Sequence[Take], store: TakeStore, encoded: Iterator[Encoded] | None) -> bytes:
    tracks = assemble.plan_tracks(lines_of(takes), {}, store)
    write_audiobook(
        path,
        sample_rate=24_000,
        tracks=[(track.title, track.samples) for track in tracks],
        blocks=assemble.stream(tracks, store),
        encoded=encoded,
        tags=Tags("t"),
    )
    return path.read_bytes()


@pytest.mark.parametrize("suffix", CUT)
def test_the_file_is_as_if_it_were_encoded_afterwards(
    suffix: str, tmp_path: Path, store: TakeStore, takes: list[Take]
) -> None:
    path = tmp_path / f"x{suffix}"
    codec = codec_in_pieces(path, 24_000)
    assert codec is not None
    with Ahead(lines_of(takes), store, codec, total(takes)) as sound:
        for take in reversed(takes):
            store.put(take)
        found = write(path, takes, store, sound.encoded(total(takes)))
    assert found == write(path, takes, store, None)


def test_what_is_encoded_as_a_whole_is_not_encoded_ahead() -> None:
    assert {suffix for suffix in FORMATS if codec_in_pieces(Path(f"x{suffix}"), 24_000)} == set(CUT)
    assert codec_in_pieces(Path("x.opus"), 22_050) is None, "resampling knows no pieces"


def test_it_begins_before_the_last_line_is_there(store: TakeStore, takes: list[Take], crews: list[Crew]) -> None:
    with Ahead(lines_of(takes), store, m4b(), total(takes)) as sound:
        for take in takes[:-1]:
            store.put(take)
        pieces = sound.encoded(total(takes))
        in_time(lambda: next(pieces))
        in_time(lambda: next(pieces))  # of another process
        store.put(takes[-1])
        in_time(lambda: list(pieces))
        assert crews


@pytest.mark.parametrize("there", [0, 2, LINES - 1, LINES])
def test_nothing_goes_on_when_it_is_left(there: int, store: TakeStore, takes: list[Take], crews: list[Crew]) -> None:
    """Whatever it waits for then: the first line, another one, what the processes say."""
    for take in takes[:there]:
        store.put(take)
    sound = Ahead(lines_of(takes), store, m4b(), total(takes))

    def leave() -> bool:
        with pytest.raises(KeyboardInterrupt), sound:
            if there > 2:
                next(sound.encoded(total(takes)))
            raise KeyboardInterrupt
        return True

    in_time(leave)
    assert not sound._thread.is_alive()
    assert all(process.poll() is not None for crew in crews for process in crew._processes)
    sound.close()
    assert [path.suffix for path in store.folder.iterdir() if path.suffix not in (".wav", ".json", ".jsonl")] == []


def test_what_stops_it_is_said_when_the_sound_is_wanted(store: TakeStore, takes: list[Take]) -> None:
    for take in takes:
        store.put(take)
    next(store.folder.glob("*.wav")).write_bytes(b"RIFF")
    with Ahead(lines_of(takes), store, m4b(), total(takes)) as sound:
        pieces = sound.encoded(total(takes))
        with pytest.raises(OutputError, match="damaged; run the same command again"):
            list(pieces)


def test_marks_of_another_length_are_refused(store: TakeStore, takes: list[Take]) -> None:
    for take in takes:
        store.put(take)
    with (
        Ahead(lines_of(takes), store, m4b(), total(takes)) as sound,
        pytest.raises(RuntimeError, match=f"{total(takes)} samples were encoded, and {total(takes) + 1} planned"),
    ):
        list(sound.encoded(total(takes) + 1))


def test_a_disk_that_says_no_is_named(store: TakeStore, takes: list[Take], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ahead.tempfile, "TemporaryFile", full)
    with pytest.raises(OutputError, match="no room left"):
        Ahead(lines_of(takes), store, m4b(), total(takes))
