"""The official package, `qwen-tts` with transformers, made importable without what it does not need here.

Knows where the official code imports things for parts that are never called in these tests: resampling, mel spectra,
sound files, the 25 Hz tokenizer. Empty stand-ins take their place.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import torch

_STAND_INS = {
    "torchaudio": (),
    "torchaudio.compliance": (),
    "torchaudio.compliance.kaldi": (),
    "librosa": (),
    "librosa.filters": ("mel",),
    "soundfile": (),
    "sox": (),
    "onnxruntime": (),
    "einops": ("rearrange", "repeat"),
}


def _stand_in(name: str, members: tuple[str, ...]) -> None:
    module = types.ModuleType(name)
    module.__path__ = []  # type: ignore[attr-defined]
    module.__spec__ = types.SimpleNamespace(name=name, origin=None, loader=None)  # type: ignore[assignment]
    for member in members:
        setattr(module, member, None)
    parent, _, leaf = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], leaf, module)
    sys.modules[name] = module


def official() -> Any:
    """The module `qwen_tts`, imported once."""
    if "qwen_tts" not in sys.modules:
        import transformers

        assert transformers.__version__ == "4.57.3", "the official package is compared as it runs with 4.57.3"
        for name, members in _STAND_INS.items():
            _stand_in(name, members)
    import qwen_tts

    return qwen_tts


def load(folder: Path) -> Any:
    """An official `Qwen3TTSModel` in float32 on the CPU, in evaluation mode."""
    wrapper = official().Qwen3TTSModel.from_pretrained(str(folder), dtype=torch.float32, attn_implementation="eager")
    wrapper.model.eval()
    return wrapper


def talker_inputs(wrapper: Any, texts: list[str], **prompt: Any) -> dict[str, torch.Tensor]:
    """What the official code hands to the talker for these texts: `inputs_embeds`, `attention_mask`, trailing text."""

    class Caught(Exception):
        pass

    caught: dict[str, torch.Tensor] = {}

    def catch(**inputs: Any) -> None:
        caught.update(inputs)
        raise Caught

    talker = wrapper.model.talker
    talker.generate, kept = catch, talker.generate
    try:
        generate(wrapper, texts, **prompt)
    except Caught:
        return caught
    finally:
        talker.generate = kept
    raise AssertionError("the talker was not called")


def generate(
    wrapper: Any, texts: list[str], *, speaker: str | None, language: str, streaming: bool = False, frames: int = 80,
    penalty: float = 1.05,
) -> list[np.ndarray]:  # fmt: skip
    """Greedy codes of each text in one batch, each [frames, codebooks]."""
    ids = wrapper._tokenize_texts([wrapper._build_assistant_text(text) for text in texts])
    codes, _ = wrapper.model.generate(
        input_ids=ids,
        instruct_ids=[None] * len(texts),
        speakers=[speaker] * len(texts),
        languages=[language] * len(texts),
        non_streaming_mode=not streaming,
        max_new_tokens=frames + 1,  # the last one is drawn and not decoded
        do_sample=False,
        subtalker_dosample=False,
        repetition_penalty=penalty,
    )
    return [line.cpu().numpy() for line in codes]
