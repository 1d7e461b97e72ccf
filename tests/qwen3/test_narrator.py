"""Qwen3 as a narrator, over a tiny checkpoint: lines in, takes out, and every option honoured or refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rhapsode import narrator as door
from rhapsode.engine import judge
from rhapsode.engine.decode import Finished
from rhapsode.engine.lanes import Reading
from rhapsode.errors import CheckpointError, UserError
from rhapsode.narrator import Options, Voices
from rhapsode.qwen3 import narrator as qwen3
from rhapsode.qwen3.narrator import SILENT_LINE_S, Qwen3Narrator
from rhapsode.qwen3.room import in_room
from rhapsode.qwen3.torch.codec import CodecDecoder
from rhapsode.qwen3.torch.results import Sound
from rhapsode.qwen3.torch.stepper import TorchStepper
from rhapsode.qwen3.torch.talker import Talker
from rhapsode.types import Line, Take
from tests.qwen3.conftest import edit

TEXTS = ("Why not?", "The old man and the sea.", "It was 9 o'clock.", "Oh, dear me!", "And a fish.")
RATE = 24000


@pytest.fixture
def options(custom_folder: Path) -> Options:
    return Options(checkpoint=str(custom_folder), voice="ryan", language="english", device="cpu", slots=4, seed=5)


def line(index: int, text: str, key: int | None = None) -> Line:
    return Line(index, 1, text, 1000 + index if key is None else key)


def lines(*texts: str) -> list[Line]:
    return [line(index, text) for index, text in enumerate(texts)]


def narrate(options: Options, *texts: str, **changes: Any) -> dict[int, Take]:
    takes = list(qwen3.load(replace(options, **changes)).read(lines(*(texts or TEXTS))))
    assert len({take.line.index for take in takes}) == len(takes)
    return {take.line.index: take for take in takes}


def assert_same_sound(one: dict[int, Take], other: dict[int, Take]) -> None:
    assert one.keys() == other.keys()
    for index in one:
        assert one[index].audio.tobytes() == other[index].audio.tobytes(), f"line {index}"


# ------------------------------------------------------------------ takes


def test_every_line_has_its_take(options: Options) -> None:
    narrator = qwen3.load(options)
    takes = list(narrator.read(iter(lines(*TEXTS))))
    assert sorted(take.line.index for take in takes) == list(range(len(TEXTS)))
    for take in takes:
        assert take.line.text == TEXTS[take.line.index]
        assert take.audio.dtype == np.float32 and len(take.audio) == 1920 * take.frames > 0
        assert np.abs(take.audio).max() <= 1.0
        assert (take.sample_rate, take.seed) == (RATE, 5)
        assert 1 <= take.tries <= 3
        assert take.problem in judge.PROBLEMS
    assert 0 < narrator.useful() <= 1
    assert narrator.retakes() == sum(take.tries - 1 for take in takes)
    assert (narrator.sample_rate, narrator.sampling) == (RATE, narrator.checkpoint.sampling)


def test_no_lines_no_takes(options: Options) -> None:
    assert list(qwen3.load(options).read([])) == []


def test_lines_without_a_word_are_silence_without_a_model(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    narrator = qwen3.load(options)
    monkeypatch.setattr(type(narrator.model), "stepper", lambda *_, **__: pytest.fail("the model was asked"))
    takes = list(narrator.read(lines("…", "* * *", "", "—?!")))
    assert [take.line.index for take in takes] == [0, 1, 2, 3]
    for take in takes:
        assert len(take.audio) == round(SILENT_LINE_S * RATE) and not take.audio.any()
        assert (take.frames, take.tries, take.problem, take.seed) == (0, 0, "", 5)
    assert narrator.useful() == 1.0
    assert narrator.expected_seconds(line(0, "…")) == SILENT_LINE_S
    assert narrator.expected_seconds(line(0, "A word.")) == judge.expected_seconds("A word.")


def test_silent_lines_among_others(options: Options) -> None:
    mixed = narrate(options, TEXTS[0], "…", TEXTS[2])
    assert mixed[1].frames == 0
    assert mixed[0].audio.tobytes() == narrate(options)[0].audio.tobytes()


# ------------------------------------------------------------------ what the sound depends on


def test_same_seed_same_sound_in_any_company(options: Options) -> None:
    first = narrate(options)
    assert_same_sound(first, narrate(options))
    assert_same_sound(first, narrate(options, slots=1))
    narrator = qwen3.load(replace(options, slots=2))
    backwards = {take.line.index: take for take in narrator.read(lines(*TEXTS)[::-1])}
    assert_same_sound(first, backwards)
    [alone] = narrator.read([line(3, TEXTS[3])])
    assert alone.audio.tobytes() == first[3].audio.tobytes()


def test_a_book_that_is_wanted_from_its_beginning_is_read_in_stretches_of_the_same_sound(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a card, which this machine may not have."""
    parts: list[list[int]] = []
    decode = qwen3.decode_in_room

    def watched(readings: Iterable[Reading], *rest: Any, **more: Any) -> Iterator[Finished]:
        given = list(readings)
        parts.append([reading.stretch for reading in given])
        return decode(given, *rest, **more)

    monkeypatch.setattr(qwen3, "decode_in_room", watched)
    texts = [f"A line of one length, number {n}." for n in range(10, 22)]
    narrator = qwen3.load(replace(options, slots=1))
    assert isinstance(narrator, Qwen3Narrator)
    usual = {take.line.index: take for take in narrator.read(lines(*texts))}
    own, narrator.model = narrator.model, replace(narrator.model, device="cuda:0")  # type: ignore[arg-type, type-var]
    assert narrator.begin_early()
    narrator.model = own
    assert_same_sound(usual, {take.line.index: take for take in narrator.read(lines(*texts))})
    assert parts == [[0] * 12, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]]


def test_another_seed_another_sound(options: Options) -> None:
    first, other = narrate(options), narrate(options, seed=6)
    assert all(first[i].audio.tobytes() != other[i].audio.tobytes() for i in first)
    assert {take.seed for take in other.values()} == {6}


def test_a_line_is_its_key(options: Options) -> None:
    """The same text twice in a book has two keys and is read twice, not copied; its place is no part of it."""
    narrator = qwen3.load(options)
    one, two, moved = (
        take.audio.tobytes()
        for take in sorted(
            narrator.read([line(0, "Oh, no.", key=1), line(1, "Oh, no.", key=2), line(7, "Oh, no.", key=1)]),
            key=lambda take: take.line.index,
        )
    )
    assert one != two and one == moved


def changed_file(folder: Path, name: str, path: str, value: Any) -> Callable[[Path], dict[str, Any]]:
    def change(tmp_path: Path) -> dict[str, Any]:
        own = shutil.copytree(folder, tmp_path / "other")
        edit(own / name, path, value)
        return {"checkpoint": str(own)}

    return change


@pytest.mark.parametrize(
    "change",
    [
        {"voice": "serena"}, {"language": "german"}, {"language": "auto"}, {"format": "bfloat16"}, {"seed": 6},
        {"tries": 2}, {"sampling": {"greedy": True}}, {"sampling": {"temperature": 0.8}}, {"sampling": {"top_k": 40}},
        {"sampling": {"top_p": 0.9}}, {"sampling": {"repetition_penalty": 1.1}},
        {"sampling": {"predictor_greedy": True}}, {"sampling": {"predictor_temperature": 0.8}},
        {"sampling": {"predictor_top_k": 40}}, {"sampling": {"predictor_top_p": 0.9}},
    ],
    ids=str,
)  # fmt: skip
def test_settings_change_with_what_changes_the_sound(options: Options, change: dict[str, Any]) -> None:
    before, after = (qwen3.load(o).settings() for o in (options, replace(options, **change)))
    assert before != after
    assert before.keys() == after.keys()


def test_settings_change_with_the_checkpoint(options: Options, custom_folder: Path, tmp_path: Path) -> None:
    before = qwen3.load(options).settings()
    for number, (name, path, value) in enumerate(
        [
            ("generation_config.json", "temperature", 0.7),
            ("config.json", "talker_config.rope_theta", 10000),
            ("speech_tokenizer/config.json", "decoder_config.sliding_window", 11),
        ]
    ):
        change = changed_file(custom_folder, name, path, value)(tmp_path / str(number))
        assert qwen3.load(replace(options, **change)).settings() != before, path


def test_settings_do_not_change_with_what_does_not(options: Options, custom_folder: Path, tmp_path: Path) -> None:
    import json

    before = qwen3.load(options).settings()
    assert json.loads(json.dumps(before)) == before, "JSON values"
    elsewhere = shutil.copytree(custom_folder, tmp_path / "elsewhere")
    copied = {"checkpoint": str(elsewhere)}
    for change in ({"slots": 1}, copied, {"voice": "RYAN"}, {"language": "en-GB"}, {"format": "auto"}):
        assert qwen3.load(replace(options, **change)).settings() == before, change


def test_options_are_used(options: Options) -> None:
    narrator = qwen3.load(replace(options, voice="serena", language="de", sampling={"top_k": 3}, slots=None))
    assert (narrator.voice.name, narrator.voice.language, narrator.sampling.top_k) == ("serena", "german", 3)
    assert narrator.slots == narrator.model.default_slots
    assert narrator.voice.speaker_id in narrator.prompt(line(0, "Hi")).codec
    assert qwen3.load(replace(options, format="bfloat16")).model.talker.head.weight.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("language", "likely", "spoken", "noted"),
    [
        (None, "de-AT", "german", False), (None, "", "auto", False), (None, "nl", "auto", True),
        ("english", "de", "english", False), ("auto", "de", "auto", False),
    ],
)  # fmt: skip
def test_the_book_s_language(options: Options, language: str | None, likely: str, spoken: str, noted: bool) -> None:
    narrator = qwen3.load(replace(options, language=language, likely_language=likely))
    assert narrator.voice.language == spoken
    assert any(repr(likely) in note for note in narrator.notes()) is noted


def test_a_base_checkpoint_says_that_it_has_no_voice(base_folder: Path) -> None:
    narrator = qwen3.load(Options(checkpoint=str(base_folder), device="cpu"))
    assert any("no named voice" in note for note in narrator.notes())
    assert [take.frames > 0 for take in narrator.read(lines("Oh."))] == [True]


# ------------------------------------------------------------------ greedy


def test_greedy_works_and_needs_no_seed(options: Options) -> None:
    short = replace(options, sampling={"greedy": True})
    first = narrate(short, "Oh.", "A fish.")
    assert_same_sound(first, narrate(short, "Oh.", "A fish.", seed=99))
    assert first[0].audio.tobytes() != narrate(options, "Oh.", "A fish.")[0].audio.tobytes()


# ------------------------------------------------------------------ bad readings


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of speech is never drawn."""
    logits = Talker.logits

    def without_end(talker: Talker, hidden: torch.Tensor) -> torch.Tensor:
        found = logits(talker, hidden)
        found[:, talker.config.eos] = -1e9
        return found

    monkeypatch.setattr(Talker, "logits", without_end)


@pytest.mark.parametrize("tries", [1, 3])
def test_a_line_that_never_ends_is_read_again_and_then_reported(options: Options, endless: None, tries: int) -> None:
    narrator = qwen3.load(replace(options, tries=tries))
    takes = list(narrator.read(lines("Oh.", "A.")))
    assert [take.problem for take in takes] == ["no end before the cap"] * 2
    assert [take.tries for take in takes] == [tries] * 2
    assert narrator.retakes() == 2 * (tries - 1)
    for take in takes:
        assert take.seconds >= judge.cap_seconds(take.line.text)
        assert take.seconds < judge.cap_seconds(take.line.text) + 0.1
        assert take.audio.any(), "it is handed out, as what it is"
    assert narrator.useful() <= 1 / tries


def test_a_greedy_line_is_read_once_even_if_it_is_bad(options: Options, endless: None) -> None:
    [take] = narrate(options, "A.", sampling={"greedy": True}).values()
    assert (take.problem != "", take.tries) == (True, 1), "it would come out the same"


def test_attempts_draw_other_numbers(options: Options) -> None:
    narrator = qwen3.load(options)
    words = {narrator._words(line(0, "", key), attempt) for key in (1, 2) for attempt in (1, 2, 3)}
    assert len(words) == 6 and all(0 <= word < 1 << 64 for word in words) and max(words) >= 1 << 32


@pytest.mark.parametrize(("level", "problem"), [(0.0, "silent"), (np.nan, "not finite"), (np.inf, "not finite")])
def test_sound_that_is_none_becomes_a_pause(
    options: Options, monkeypatch: pytest.MonkeyPatch, level: float, problem: str
) -> None:
    def vocode(stepper: TorchStepper, codes: list[np.ndarray]) -> Sound:
        samples = [len(line) * stepper.samples_per_frame for line in codes]
        return Sound(torch.full((len(codes), max(samples)), level), samples)

    monkeypatch.setattr(TorchStepper, "vocode", vocode)
    for index, take in narrate(options, "Oh.", "A fish.", tries=2).items():
        assert (take.problem, take.tries) == (problem, 2)
        assert not take.audio.any() and take.audio.dtype == np.float32
        assert len(take.audio) == round(judge.expected_seconds(("Oh.", "A fish.")[index]) * RATE)


def test_a_model_that_is_not_finite_is_reported(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(talker: Talker, hidden: torch.Tensor) -> torch.Tensor:
        return torch.full((len(hidden), talker.config.vocab), torch.nan)

    monkeypatch.setattr(Talker, "logits", nowhere)
    for take in narrate(options, "Oh.", "A fish.").values():
        assert (take.problem, take.tries, take.frames) == ("not finite", 3, 0)
        assert len(take.audio) > 0 and not take.audio.any()


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sampling": {"heat": 1}}, "no sampling option 'heat'; there are greedy, temperature, top_k"),
        ({"sampling": {"temperature": 0}}, "temperature must be above 0"),
        ({"sampling": {"top_k": "9"}}, "top_k must be a whole number, not '9'"),
        ({"sampling": {"greedy": 1}}, "greedy must be true or false"),
        ({"device": "tpu"}, "no device 'tpu' here; there are cpu"),
        ({"device": "cuda:99"}, "no device 'cuda:99'"),
        ({"device": "cpu:1"}, "no device 'cpu:1'"),
        ({"device": ""}, "no device ''"),
        ({"format": "float16"}, "no format 'float16'; there are float32, bfloat16, int8 .or auto"),
        ({"slots": 0}, "--slots must be 1 or more, not 0"),
        ({"slots": -3}, "--slots must be 1 or more, not -3"),
        ({"tries": 0}, "one try or more, not 0"),
        ({"voice": "nobody"}, "no voice 'nobody' in this checkpoint; there are ryan, serena, eric"),
        ({"language": "klingon"}, "does not speak 'klingon'"),
        ({"checkpoint": "no such folder"}, "neither a checkpoint folder nor a Hub id"),
    ],
)  # fmt: skip
def test_what_cannot_be_had(options: Options, change: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        qwen3.load(replace(options, **change))


def test_a_missing_vocabulary_is_said(own: Path, options: Options) -> None:
    (own / "vocab.json").unlink()
    with pytest.raises(CheckpointError, match="vocab.json is missing"):
        qwen3.load(replace(options, checkpoint=str(own)))


def test_voices_need_no_weights(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    from rhapsode.qwen3.torch import load

    monkeypatch.setattr(load, "load_model", lambda *_: pytest.fail("weights were read"))
    assert qwen3.voices(options) == Voices(("ryan", "serena", "eric"), ("auto", "english", "chinese", "german"))
    with pytest.raises(UserError, match="no voice"):
        qwen3.load(replace(options, voice="nobody"))


def test_it_is_found_through_the_door() -> None:
    assert door.find("qwen3") is qwen3 is door.find()
    with pytest.raises(UserError, match="There is no narrator 'parrot'; installed are .*qwen3"):
        door.find("parrot")


def test_it_is_a_narrator(options: Options) -> None:
    narrator: door.Narrator = qwen3.load(options)
    assert isinstance(narrator, Qwen3Narrator)
    for name in ("sample_rate", "sampling", "settings", "notes", "expected_seconds", "read", "useful", "retakes"):
        assert hasattr(narrator, name)


# ------------------------------------------------------------------ memory that runs out


@pytest.mark.parametrize("where", ["_allocate", "_admit", "_deepen", "codec"])
def test_with_less_memory_it_goes_on_with_fewer_lanes(
    options: Options, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    first = narrate(options)
    holder = CodecDecoder if where == "codec" else TorchStepper
    name = "forward" if where == "codec" else where
    real = getattr(holder, name)
    real = real.__wrapped__ if where == "_allocate" else real  # what stands in its place is guarded as it is
    tight = [5]  # calls that there is no room for

    def refuse(*arguments: Any, **named: Any) -> Any:
        if tight[0] and (where == "codec" or arguments[0].slots > 1):
            tight[0] -= 1
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.\nAnd a table.")
        return real(*arguments, **named)

    monkeypatch.setattr(holder, name, in_room(refuse) if where == "_allocate" else refuse)
    narrator, told = qwen3.load(options), []
    narrator.tell = told.append
    if where == "codec":
        tight[0] = 2
    takes = {take.line.index: take for take in narrator.read(lines(*TEXTS))}
    assert_same_sound(first, takes)
    assert told == [
        "Memory ran out with 4 lines side by side; it goes on with 2.",
        "Memory ran out with 2 lines side by side; it goes on with 1.",
    ]


def test_no_memory_for_one_line_is_a_sentence(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried")

    monkeypatch.setattr(TorchStepper, "_allocate", in_room(refuse))
    with pytest.raises(UserError, match="not enough memory on cpu for one line of .* in float32 .*DefaultCPUAllocator"):
        narrate(options)


def test_other_failures_are_not_taken_for_that(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(TorchStepper, "_deepen", broken)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        narrate(options)
