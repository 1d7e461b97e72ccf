"""A second voice for the dialogue, the checkpoint that is taken where none is named, and what a card says of it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rhapsode.errors import CheckpointError, UserError
from rhapsode.narrator import Options, Voices
from rhapsode.qwen3 import checkpoint
from rhapsode.qwen3 import narrator as qwen3
from rhapsode.qwen3.checkpoint import Checkpoint
from rhapsode.qwen3.voices import language_name, likely
from rhapsode.types import Line, Speaker, Take
from tests.qwen3.conftest import GONE, edit
from tests.tiny_checkpoint import SPEAKERS

TEXTS = ("Why not?", "The old man and the sea.", "Oh, dear me!", "And a fish.", "It was nine o'clock.")


@pytest.fixture
def options(custom_folder: Path) -> Options:
    return Options(checkpoint=str(custom_folder), voice="ryan", language="english", device="cpu", slots=3, seed=5)


def lines(*speakers: Speaker) -> list[Line]:
    return [Line(n, 1, TEXTS[n % len(TEXTS)], 1000 + n, speaker=who) for n, who in enumerate(speakers)]


def takes(options: Options, read: list[Line]) -> dict[int, bytes]:
    return {take.line.index: take.audio.tobytes() for take in qwen3.load(options).read(read)}


# ------------------------------------------------------------------ two voices


def test_each_line_is_read_by_its_voice(options: Options) -> None:
    both = qwen3.load(replace(options, dialogue_voice="Serena"))
    narration, dialogue = lines("narration", "dialogue")
    assert SPEAKERS["ryan"] in both.prompt(narration).codec and SPEAKERS["serena"] not in both.prompt(narration).codec
    assert SPEAKERS["serena"] in both.prompt(dialogue).codec and SPEAKERS["ryan"] not in both.prompt(dialogue).codec
    one = qwen3.load(options)
    assert one.prompt(replace(narration, speaker="dialogue")) == one.prompt(narration), "one voice reads it all"


def test_mixed_voices_sound_as_each_alone(options: Options) -> None:
    mixed = lines("narration", "dialogue", "narration", "dialogue", "dialogue")
    together = takes(replace(options, dialogue_voice="serena"), mixed)
    plain = [replace(line, speaker="narration") for line in mixed]
    ryan, serena = takes(options, plain), takes(replace(options, voice="serena"), plain)
    for line in mixed:
        mine, other = (serena, ryan) if line.speaker == "dialogue" else (ryan, serena)
        assert together[line.index] == mine[line.index] != other[line.index], f"line {line.index}"
    narrator = qwen3.load(replace(options, dialogue_voice="serena", slots=1))
    for line in mixed:
        [alone] = narrator.read([line])
        assert alone.audio.tobytes() == together[line.index]


def test_the_second_voice_is_a_setting_only_where_there_is_one(options: Options) -> None:
    before = qwen3.load(options).settings()
    assert "dialogue_voice" not in before and "text_form" not in before
    after = qwen3.load(replace(options, dialogue_voice="SERENA")).settings()
    assert after == {**before, "dialogue_voice": "serena"}


def test_a_second_voice_that_is_not_there(options: Options) -> None:
    with pytest.raises(UserError, match="no voice 'nobody' in this checkpoint; there are ryan, serena, eric"):
        qwen3.load(replace(options, dialogue_voice="nobody"))


def test_a_checkpoint_without_names_has_no_second_voice(base_folder: Path) -> None:
    with pytest.raises(UserError, match="no named voices, so the voice 'serena' would be ignored"):
        qwen3.load(Options(checkpoint=str(base_folder), dialogue_voice="serena", device="cpu"))


# ------------------------------------------------------------------ the embedded checkpoint


@pytest.fixture
def embedded(own: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(qwen3, "embedded_checkpoint", lambda: own)
    return own


def test_without_a_checkpoint_the_embedded_one_reads(options: Options, embedded: Path) -> None:
    none = replace(options, checkpoint=None)
    narrator = qwen3.load(none)
    assert narrator.checkpoint.folder == embedded
    [note] = [note for note in narrator.notes() if "embedded" in note]
    assert note.startswith("Reading with the small embedded voice; --checkpoint Qwen/")
    assert not any("embedded" in note for note in qwen3.load(replace(none, checkpoint=str(embedded))).notes())
    assert qwen3.voices(Options()) == Voices(("ryan", "serena", "eric"), ("auto", "english", "chinese", "german"))
    [take] = narrator.read(lines("narration"))
    assert take.frames > 0
    with pytest.raises(UserError, match="The revision 'main' is of a Hub id; name that with --checkpoint"):
        qwen3.load(replace(none, revision="main"))


def test_a_package_without_it_says_so(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qwen3, "embedded_checkpoint", lambda: None)
    for ask in (qwen3.load, qwen3.voices):
        with pytest.raises(UserError, match="no embedded voice; name a checkpoint"):
            ask(replace(options, checkpoint=None))


def test_where_it_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "files", lambda package: tmp_path / package)
    assert checkpoint.embedded_checkpoint() is None
    (tmp_path / "rhapsode" / "demo").mkdir(parents=True)
    assert checkpoint.embedded_checkpoint() is None, "a folder alone is none"
    (tmp_path / "rhapsode" / "demo" / "model.safetensors").touch()
    assert checkpoint.embedded_checkpoint() == tmp_path / "rhapsode" / "demo"


# ------------------------------------------------------------------ its card


def card(folder: Path, **values: Any) -> Path:
    (folder / qwen3.CARD).write_text(json.dumps(values), encoding="utf-8")
    return folder


def test_a_card_asks_for_spoken_forms(options: Options, own: Path) -> None:
    here = replace(options, checkpoint=str(own))
    before = qwen3.load(here)
    assert before.text_form == "written"
    card(own, text="written", name="X")
    assert (qwen3.load(here).text_form, qwen3.load(here).settings()) == ("written", before.settings())
    card(own, text="spoken-english", name="X", more=[1])
    after = qwen3.load(here)
    assert after.text_form == "spoken"
    assert after.settings() == {**before.settings(), "text_form": "spoken-english"}


def test_a_card_that_cannot_be_understood(options: Options, own: Path) -> None:
    for values, words in (
        ({"text": "sung"}, "text is 'sung'; only 'written' or 'spoken-english' is known"),
        ({}, "text is missing"),
        ({"text": 3}, "text should be a string, not 3"),
    ):
        card(own, **values)
        with pytest.raises(CheckpointError, match=words):
            qwen3.load(replace(options, checkpoint=str(own)))
    (own / qwen3.CARD).write_text("no JSON")
    with pytest.raises(CheckpointError, match="cannot be read as JSON"):
        qwen3.load(replace(options, checkpoint=str(own)))


# ------------------------------------------------------------------ one language


def test_the_only_language_is_spoken_unless_another_is_asked_for(
    options: Options, custom: Checkpoint, own: Path
) -> None:
    for tag, name in {"": None, "de-AT": "german", "nl": None}.items():
        assert likely(custom.model, tag) == name, "the model finds it by itself where there are many"
    for name in ("chinese", "german", "sichuan_dialect"):
        edit(own / "config.json", f"talker_config.codec_language_id.{name}", GONE)
    edit(own / "config.json", "talker_config.spk_is_dialect.eric", False)
    here = replace(options, checkpoint=str(own), language=None)
    narrator = qwen3.load(here)
    assert (narrator.voice.language, narrator.notes()) == ("english", [])
    assert language_name(narrator.checkpoint.model, "de") is None
    german = qwen3.load(replace(here, likely_language="de"))
    assert german.voice.language == "english"
    assert "'de', which this checkpoint does not name; it will read it as english." in german.notes()[0]
    assert qwen3.load(replace(here, language="auto")).voice.language == "auto"


def test_takes_carry_their_speaker(options: Options) -> None:
    found: list[Take] = list(qwen3.load(replace(options, dialogue_voice="serena")).read(lines("dialogue")))
    assert [take.line.speaker for take in found] == ["dialogue"]


def test_the_copy_is_the_same_checkpoint(options: Options, embedded: Path, tmp_path: Path) -> None:
    """Takes that were made with the embedded checkpoint stay good when its folder is named."""
    copy = shutil.copytree(embedded, tmp_path / "copy")
    one, other = (qwen3.load(replace(options, checkpoint=where)).settings() for where in (None, str(copy)))
    assert one == other
