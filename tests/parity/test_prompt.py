"""Prompt rows: what our ints embed to is what the official code hands to its talker."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rhapsode.qwen3.prompt import PromptMaker
from rhapsode.qwen3.voices import choose
from tests.parity import oracle
from tests.parity.conftest import Pair

TEXTS = ["The sea was calm.", "Oh!", "He said: “no” — and left, at 9:30, without 1 word more."]


def voices_of(pair: Pair) -> list[tuple[str | None, str]]:
    if pair.checkpoint.model.kind == "base":
        return [(None, "auto"), (None, "english")]
    return [("ryan", "auto"), ("serena", "german"), ("eric", "auto"), ("eric", "chinese"), ("eric", "english")]


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streaming"])
def test_rows_are_equal(pair: Pair, streaming: bool) -> None:
    for speaker, language in voices_of(pair):
        voice = choose(pair.checkpoint.model, speaker, language)
        make = PromptMaker(pair.checkpoint.model, pair.tokenizer, voice, streaming=streaming)
        theirs = oracle.talker_inputs(pair.theirs, TEXTS, speaker=speaker, language=language, streaming=streaming)
        for row, text in enumerate(TEXTS):
            prompt = make(text)
            with torch.inference_mode():
                rows = pair.ours.talker.prompt_rows(torch.tensor(prompt.text), torch.tensor(prompt.codec))
                after = pair.ours.talker.text_rows(torch.tensor([*prompt.trailing, prompt.pad]))
            kept = theirs["attention_mask"][row].bool()
            wanted = theirs["inputs_embeds"][row][kept]
            where = f"{speaker}, {language}, {text!r}"
            assert rows.shape == wanted.shape, where
            np.testing.assert_allclose(rows, wanted, rtol=0, atol=2e-6, err_msg=where)
            # Frames beyond the trailing text see the pad, in both.
            wanted = theirs["trailing_text_hidden"][row]
            ours = torch.stack([after[min(t, len(after) - 1)] for t in range(len(wanted))])
            np.testing.assert_allclose(ours, wanted, rtol=0, atol=2e-6, err_msg=where)
            np.testing.assert_allclose(after[-1], theirs["tts_pad_embed"][0, 0], rtol=0, atol=2e-6, err_msg=where)


def test_shared_rows_are_what_two_prompts_share(pair: Pair) -> None:
    speaker, language = voices_of(pair)[-1]
    make = PromptMaker(pair.checkpoint.model, pair.tokenizer, choose(pair.checkpoint.model, speaker, language))
    one, two = make("Apples."), make("Birds fly.")
    assert one.text[: one.shared] == two.text[: two.shared] and one.codec[: one.shared] == two.codec[: two.shared]
    assert one.text[one.shared] != two.text[two.shared]
    assert one.shared == 3 + (3 if language == "auto" else 4) + (speaker is not None) + 1
