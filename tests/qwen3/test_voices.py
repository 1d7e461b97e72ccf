"""What the user's words for voices and languages mean, and what is said about words that mean nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rhapsode.errors import UserError
from rhapsode.qwen3.checkpoint import Checkpoint
from rhapsode.qwen3.config import ModelConfig
from rhapsode.qwen3.voices import Voice, choose, language_name, languages, speakers
from tests.tiny_checkpoint import LANGUAGES, SPEAKERS


@pytest.fixture
def config(custom: Checkpoint) -> ModelConfig:
    return custom.model


def test_what_there_is(config: ModelConfig, base: Checkpoint) -> None:
    assert speakers(config) == ["ryan", "serena", "eric"]
    assert languages(config) == ["auto", "english", "chinese", "german"], "dialects come with their speakers"
    assert speakers(base.model) == []


def test_the_first_voice_and_the_model_s_guess_are_the_defaults(config: ModelConfig) -> None:
    assert choose(config, None, None) == Voice("ryan", "auto", SPEAKERS["ryan"], None)
    assert choose(config, None, "auto") == choose(config, None, "AUTO") == choose(config, None, None)


@pytest.mark.parametrize("name", ["serena", "Serena", "SERENA"])
def test_case_does_not_matter(config: ModelConfig, name: str) -> None:
    assert choose(config, name, "English") == Voice("serena", "english", SPEAKERS["serena"], LANGUAGES["english"])


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("en", "english"), ("en-GB", "english"), ("EN_us", "english"), ("English", "english"), (" de ", "german"),
        ("de-CH-1901", "german"), ("zh", "chinese"), ("zh-Hant-TW", "chinese"), ("zh_CN", "chinese"), ("auto", "auto"),
        ("ja", None), ("japanese", None), ("nl", None), ("klingon", None), ("", None), ("sichuan_dialect", None),
        ("english-GB", None), ("e", None),
        ("eng", "english"), ("deu", "german"), ("ger-AT", "german"), ("zho", "chinese"),
    ],
)  # fmt: skip
def test_language_tags(config: ModelConfig, tag: str, name: str | None) -> None:
    assert language_name(config, tag) == name


@pytest.mark.parametrize(
    ("language", "wanted"),
    [
        (None, "sichuan_dialect"), ("auto", "sichuan_dialect"), ("chinese", "sichuan_dialect"),
        ("zh-CN", "sichuan_dialect"), ("english", "english"), ("de", "german"),
    ],
)  # fmt: skip
def test_a_dialect_speaker_speaks_it_where_chinese_is_meant(
    config: ModelConfig, language: str | None, wanted: str
) -> None:
    assert choose(config, "Eric", language).language_id == LANGUAGES[wanted]
    others = choose(config, "ryan", language).language_id
    assert others == {"sichuan_dialect": LANGUAGES["chinese"] if language in ("chinese", "zh-CN") else None}.get(
        wanted, LANGUAGES[wanted]
    )


def test_unknown_names_list_those_that_exist(config: ModelConfig) -> None:
    with pytest.raises(UserError, match=r"no voice 'vivian' in this checkpoint; there are ryan, serena, eric\."):
        choose(config, "vivian", None)
    with pytest.raises(UserError, match=r"does not speak 'fr'; it speaks auto, english, chinese, german\."):
        choose(config, None, "fr")
    for language in ("sichuan_dialect", ""):
        with pytest.raises(UserError, match="does not speak"):
            choose(config, "eric", language)


def test_a_base_checkpoint_has_no_names(base: Checkpoint) -> None:
    assert choose(base.model, None, "german") == Voice("", "german", None, LANGUAGES["german"])
    assert choose(base.model, None, None) == Voice("", "auto", None, None)
    with pytest.raises(UserError, match="has no named voices, so the voice 'ryan' would be ignored"):
        choose(base.model, "ryan", None)


def test_a_voice_from_a_description_is_refused(config: ModelConfig) -> None:
    with pytest.raises(UserError, match="from a description, which is not supported; use a Base or CustomVoice"):
        choose(replace(config, kind="voice_design"), None, None)
