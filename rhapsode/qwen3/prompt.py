"""A line of text to the rows that the talker is prefilled with, as plain ints.

Knows the order of control ids. Embeds nothing: a row is a text id and a codec id whose embeddings are added.
"""

from __future__ import annotations

from dataclasses import dataclass

from rhapsode.qwen3.config import ModelConfig
from rhapsode.qwen3.tokens import TextTokenizer
from rhapsode.qwen3.voices import Voice

NONE = -1  # in `Prompt.codec`: a row of text alone


@dataclass(frozen=True, slots=True)
class Prompt:
    """`text[i]` and `codec[i]` make row i of the prefill; `trailing[t]` is the text that frame t + 1 sees.

    Frames beyond `trailing` see `pad`. The first `shared` rows are the same for every line of a voice.
    """

    text: tuple[int, ...]
    codec: tuple[int, ...]
    trailing: tuple[int, ...]
    pad: int
    shared: int

    def __len__(self) -> int:
        return len(self.text)

    @property
    def head(self) -> tuple[int, ...]:
        """The rows that all lines of the voice begin with: text ids, then codec ids."""
        return (*self.text[: self.shared], *self.codec[: self.shared])


class PromptMaker:
    """Prompts of one voice."""

    def __init__(self, config: ModelConfig, tokenizer: TextTokenizer, voice: Voice, *, streaming: bool = False) -> None:
        """`streaming`: one text token a frame, as for text that is still being written; else all text in the prefill.

        A narrator wants the latter: speech uses four or five tokens a second, streaming text brings 12.5.
        """
        self._config, self._tokenizer, self._streaming = config, tokenizer, streaming
        talker = config.talker
        newline = tokenizer("\n")
        if voice.language_id is None:
            control = [talker.nothink, talker.think_bos, talker.think_eos]
        else:
            control = [talker.think, talker.think_bos, voice.language_id, talker.think_eos]
        if voice.speaker_id is not None:
            control.append(voice.speaker_id)
        role = [config.im_start, config.assistant, *newline]
        self._head_text = (*role, *[config.tts_pad] * len(control), config.tts_bos)
        self._head_codec = (*[NONE] * len(role), *control, talker.pad)

    def __call__(self, text: str) -> Prompt:
        """The prompt of a text; tokenised apart from the control tokens, so that a leading newline cannot merge.

        Raises `ValueError` for text without a token: it would be spoken as something.
        """
        ids = self._tokenizer(text.strip())
        if not ids:
            raise ValueError("a prompt needs text; lines without any are silence and need no model")
        config, talker = self._config, self._config.talker
        body_text: tuple[int, ...]
        body_codec: tuple[int, ...]
        trailing: tuple[int, ...]
        if self._streaming:
            body_text, body_codec = (ids[0],), (talker.bos,)
            trailing = (*ids[1:], config.tts_eos)
        else:
            body_text = (*ids, config.tts_eos, config.tts_pad)
            body_codec = (*[talker.pad] * (len(ids) + 1), talker.bos)
            trailing = ()
        return Prompt(
            text=self._head_text + body_text,
            codec=self._head_codec + body_codec,
            trailing=trailing,
            pad=config.tts_pad,
            shared=len(self._head_text),
        )
