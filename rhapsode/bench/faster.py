"""The package faster-qwen3-tts-batch on the same weights and lines: the official model, its steps as CUDA graphs.

Knows how that package is put together over an official model without files, and how its lines are made to end where
they are scripted: the function by which it draws code 0 is given another's place. What it does else is its own.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rhapsode.errors import UserError
from rhapsode.qwen3.prompt import Prompt

if TYPE_CHECKING:
    from rhapsode.bench.official import Official

PACKAGE, MODULE = "faster-qwen3-tts-batch", "faster_qwen3_tts_batch"
VERSION = "0.2.0"  # the one whose inner functions these are
_ROOM = 64  # positions of its cache come in steps of so many


def require_faster(device: str) -> None:
    """Raises `UserError` where it cannot be had."""
    if not device.startswith("cuda"):
        raise UserError(f"{PACKAGE} records CUDA graphs; --against faster is for --device cuda.")
    try:
        found = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if found != VERSION:
        raise UserError(f"--against faster runs the package {PACKAGE} {VERSION}; installed is {found}.")


class Faster:
    """Its graphs over the talker and the predictor of an official model, for batches of a fixed size."""

    def __init__(self, official: Official, slots: int, lines: Sequence[tuple[Prompt, int]]) -> None:
        """`lines`: all that it will be given; the longest decides how much room its cache has."""
        self._official, self._slots = official, slots
        self._generate: Any = importlib.import_module(f"{MODULE}.batched_generate")
        predictor = importlib.import_module(f"{MODULE}.batched_predictor_graph").BatchedPredictorGraph
        talker_graph = importlib.import_module(f"{MODULE}.batched_talker_graph").BatchedTalkerGraph
        talker = official.model.talker
        self._config = official.model.config.talker_config
        how = {"max_batch_size": slots, "device": official.device, "dtype": talker.codec_head.weight.dtype}
        self._predictor = predictor(
            talker.code_predictor, talker.code_predictor.model.config, self._config.hidden_size, **how
        )
        prompt, frames = max(len(prompt) for prompt, _ in lines), max(frames for _, frames in lines)
        room = -(-(prompt + frames + 2) // _ROOM) * _ROOM
        self._talker = talker_graph(talker.model, self._config, max_seq_len=room, **how)
        with contextlib.redirect_stdout(sys.stderr):  # it says what it does; stdout is for results
            self._predictor.capture()
            self._talker.capture(prefill_len=prompt)

    @torch.inference_mode()
    def read(self, lines: Sequence[tuple[Prompt, int]]) -> list[int]:
        """One batch of prompts, each with its scripted frames, to sound; the samples of each line."""
        given, frames = self._official.inputs(lines), [frames for _, frames in lines]
        embeds, mask = given["inputs_embeds"], given["attention_mask"]
        starts = [int(row) for row in (embeds.shape[1] - mask.sum(1)).tolist()]  # shorter ones are filled up before
        with self._scripted(frames):
            made = self._generate.batched_fast_generate(
                talker=self._official.model.talker,
                talker_input_embeds_list=[embeds[n : n + 1, start:] for n, start in enumerate(starts)],
                attention_mask_list=[mask[n : n + 1, start:] for n, start in enumerate(starts)],
                trailing_text_hiddens_list=[given["trailing_text_hidden"][n : n + 1] for n in range(len(lines))],
                tts_pad_embed=given["tts_pad_embed"],
                config=self._config,
                predictor_graph=self._predictor,
                talker_graph=self._talker,
                max_new_tokens=max(frames) + 1,
            )
        for (codes, _), wanted in zip(made, frames, strict=True):
            if codes is None or len(codes) != wanted:
                raise RuntimeError(f"{PACKAGE} made {0 if codes is None else len(codes)} frames, not {wanted}")
        # One line after the other, as it does for its users.
        return [len(self._official.tokenizer.decode({"audio_codes": codes[None]})[0][0]) for codes, _ in made]

    @contextlib.contextmanager
    def _scripted(self, frames: Sequence[int]) -> Iterator[None]:
        kept = self._generate.batched_sample_logits
        rows = [*frames, *[0] * (self._slots - len(frames))]
        self._generate.batched_sample_logits = scripted(kept, rows, self._config.codec_eos_token_id)
        try:
            yield
        finally:
            self._generate.batched_sample_logits = kept


def scripted(sample: Callable[..., Tensor], frames: Sequence[int], eos: int) -> Callable[..., Tensor]:
    """In the place of its draw of code 0, which is called once for each frame of all rows: what it draws, but no end
    before a row's scripted frame, and the end there."""
    calls, ends = 0, torch.tensor(frames)

    def draw(logits: Tensor, **how: Any) -> Tensor:
        nonlocal calls, ends
        if calls == 0:
            ends = ends.to(logits.device)
        how["suppress_eos_mask"] = torch.ones(len(logits), dtype=torch.bool, device=logits.device)
        over = ends[: len(logits)] <= calls
        calls += 1
        return sample(logits, **how).masked_fill(over, eos)

    return draw
