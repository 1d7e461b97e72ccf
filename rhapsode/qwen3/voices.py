"""Which voices and languages a checkpoint has, and what the user's words for them mean.

Knows names, dialects and BCP 47 tags. Makes no prompt.
"""

from __future__ import annotations

from dataclasses import dataclass

from rhapsode.errors import UserError
from rhapsode.qwen3.config import ModelConfig

# ISO 639-1, and the three letters of 639-2 that books use as well, to the names in codec_language_id.
_ISO_NAMES = {
    "zh": "chinese", "en": "english", "de": "german", "it": "italian", "pt": "portuguese", "es": "spanish",
    "ja": "japanese", "ko": "korean", "fr": "french", "ru": "russian",
    "zho": "chinese", "chi": "chinese", "eng": "english", "deu": "german", "ger": "german", "ita": "italian",
    "por": "portuguese", "spa": "spanish", "jpn": "japanese", "kor": "korean", "fra": "french", "fre": "french",
    "rus": "russian",
}  # fmt: skip
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Voice:
    """Who speaks, in which language: the control ids that every line of a reading shares."""

    name: str  # "" where the checkpoint has no named speakers
    language: str  # as in codec_language_id, or "auto"
    speaker_id: int | None
    language_id: int | None  # None: the model finds the language itself


def speakers(config: ModelConfig) -> list[str]:
    return list(config.talker.speakers)


def languages(config: ModelConfig) -> list[str]:
    """Names a user can ask for; dialects come with their speakers."""
    return [AUTO, *(name for name in config.talker.languages if "dialect" not in name)]


def language_name(config: ModelConfig, tag: str) -> str | None:
    """A BCP 47 tag or a name, as the checkpoint calls it; None if it does not speak it."""
    wanted = tag.strip().lower().replace("_", "-")
    name = _ISO_NAMES.get(wanted.split("-")[0], wanted)
    return name if name in languages(config) else None


def likely(config: ModelConfig, tag: str) -> str | None:
    """The language of a text that says it is in `tag`, "" for nothing: the checkpoint's only one, where it has one.

    Such a checkpoint was never told to find a language by itself. None: it is left to the model.
    """
    known = languages(config)
    return language_name(config, tag) or (known[1] if len(known) == 2 else None)


def choose(config: ModelConfig, name: str | None, language: str | None) -> Voice:
    """The voice of that name (None: the first one) speaking that language (None: auto).

    Raises `UserError` for a name or language the checkpoint does not have, listing those it has.
    """
    talker, known = config.talker, speakers(config)
    if config.kind == "voice_design":
        raise UserError(
            "This checkpoint makes a voice from a description, which is not supported; "
            "use a Base or CustomVoice checkpoint."
        )
    if name is not None and not known:
        raise UserError(f"This checkpoint has no named voices, so the voice {name!r} would be ignored; leave it out.")
    speaker = (name or (known[0] if known else "")).lower()
    if speaker and speaker not in talker.speakers:
        raise UserError(f"There is no voice {name!r} in this checkpoint; there are {', '.join(known)}.")
    spoken = language_name(config, language) if language is not None else AUTO
    if spoken is None:
        raise UserError(f"This checkpoint does not speak {language!r}; it speaks {', '.join(languages(config))}.")
    language_id = None if spoken == AUTO else talker.languages[spoken]
    if speaker in talker.dialects and spoken in (AUTO, "chinese"):
        language_id = talker.languages[talker.dialects[speaker]]
    return Voice(speaker, spoken, talker.speakers[speaker] if speaker else None, language_id)
