"""The engine's stepper on MLX: lanes of talker and depth predictor in fixed slots, and the codec.

Knows the state of every lane as arrays; a step reads nothing back to the host. Which line sits where is the engine's
business.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from rhapsode.engine.stepper import Ending, Request
from rhapsode.qwen3.limits import Limits
from rhapsode.qwen3.mlx.codec import CodecDecoder
from rhapsode.qwen3.mlx.predictor import Predictor
from rhapsode.qwen3.mlx.sampling import Draw, penalise, uniforms
from rhapsode.qwen3.mlx.talker import Talker, suppressed
from rhapsode.qwen3.mlx.transformer import KEY_STEP, KV, ROW_STEP, causal_mask, round_up
from rhapsode.qwen3.prompt import Prompt
from rhapsode.types import Sampling

MIN_FRAMES = 2  # the official package never ends a line before


class MlxStepper:
    """Implements `rhapsode.engine.stepper.Stepper`."""

    def __init__(
        self, talker: Talker, predictor: Predictor, codec: CodecDecoder, sampling: Sampling,
        *, slots: int, limits: Limits, sample_rate: int,
    ) -> None:  # fmt: skip
        self.talker, self.predictor, self.codec, self.sampling = talker, predictor, codec, sampling
        self.slots, self.limits, self.sample_rate = slots, limits, sample_rate
        self.samples_per_frame = codec.config.samples_per_frame
        self.queues = mx.default_device() != mx.Device(mx.cpu)
        self._draw = Draw(sampling.greedy, sampling.temperature, sampling.top_k, sampling.top_p)
        self._draw_deeper = Draw(
            sampling.predictor_greedy or sampling.greedy, sampling.predictor_temperature,
            sampling.predictor_top_k, sampling.predictor_top_p,
        )  # fmt: skip
        self._allocate()

    def _allocate(self) -> None:
        config, limits, rows, dtype = self.talker.config, self.limits, self.slots, self.talker.dtype
        hidden = config.trunk.hidden
        length = round_up(limits.prompt + max(limits.frames, ROW_STEP), KEY_STEP)
        self.kv = KV(config.trunk, rows, length, dtype)
        self.rows = mx.arange(rows)
        self.hidden = mx.zeros((rows, hidden), dtype)  # the talker's last state
        self.code, self.frame, self.start, self.cap, self.trailing_count = (
            mx.zeros(rows, mx.int32) for _ in range(5)
        )
        self.seeds = mx.zeros((rows, 2), mx.uint32)
        self.ending = mx.full(rows, int(Ending.SPOKEN), mx.int32)
        self.seen = mx.zeros((rows, config.vocab), mx.bool_)
        self.trailing = mx.zeros((rows, limits.trailing, hidden), dtype)
        self.pad_row = mx.zeros((rows, hidden), dtype)
        # One frame more than any cap: lanes that stand still write there.
        self.done = mx.zeros((rows, limits.frames + 1, config.codebooks), mx.int32)
        self.suppressed = suppressed(config)
        self.suppressed_early = self.suppressed | (mx.arange(config.vocab) == config.eos)
        self.books = mx.arange(config.codebooks)
        self._reach: dict[int, int] = {}
        self._admissions = [0] * rows
        self._mail: tuple[mx.array, tuple[int, ...]] | None = None

    # ------------------------------------------------------------------ admission

    def admit(self, placements: Sequence[tuple[int, Request]]) -> None:
        if not placements:
            return
        for _, request in placements:
            self.limits.check(request)
        prompts: list[Prompt] = [request.prompt for _, request in placements]
        slots = mx.array([slot for slot, _ in placements])
        self.kv.forget(slots)
        self._prefill(slots, prompts)
        self._reset(slots, placements)
        admitted = mx.zeros(self.slots, mx.bool_)
        admitted[slots] = True
        self._choose(admitted, admitted)
        self._queue()

    def _prefill(self, slots: mx.array, prompts: list[Prompt]) -> None:
        """The talker over the prompts, shorter ones filled up at the end."""
        width = round_up(max(map(len, prompts)), ROW_STEP)
        text = np.full((len(prompts), width), prompts[0].pad, np.int32)
        codec = np.full((len(prompts), width), -1, np.int32)
        for row, prompt in enumerate(prompts):
            text[row, : len(prompt)], codec[row, : len(prompt)] = prompt.text, prompt.codec
        x = self.talker.prompt_rows(mx.array(text), mx.array(codec))
        positions, reach = mx.arange(width)[None], round_up(width, KEY_STEP)
        mask = causal_mask(positions, reach, x.dtype)
        hidden = self.talker.trunk(x, positions, mask, self.kv.fill(slots, 0, width, reach))
        last = mx.array([len(prompt) - 1 for prompt in prompts])
        self.hidden[slots] = hidden[mx.arange(len(prompts)), last]

    def _reset(self, slots: mx.array, placements: Sequence[tuple[int, Request]]) -> None:
        requests = [request for _, request in placements]
        self.start[slots] = mx.array([len(request.prompt) for request in requests], mx.int32)
        self.cap[slots] = mx.array([request.cap for request in requests], mx.int32)
        words = [[request.seed & 0xFFFFFFFF, request.seed >> 32 & 0xFFFFFFFF] for request in requests]
        self.seeds[slots] = mx.array(np.array(words, np.uint32))
        self.trailing_count[slots] = mx.array([len(request.prompt.trailing) for request in requests], mx.int32)
        self.frame[slots] = 0
        self.seen[slots] = False
        self.ending[slots] = int(Ending.RUNNING)
        for slot, request in placements:
            ids = mx.array([*request.prompt.trailing, request.prompt.pad])
            rows = self.talker.text_rows(ids)
            if len(ids) > 1:
                self.trailing[slot, : len(ids) - 1] = rows[:-1]
            self.pad_row[slot] = rows[-1]
            self._reach[slot] = len(request.prompt)
            self._admissions[slot] += 1

    # ------------------------------------------------------------------ one frame

    def step(self) -> None:
        running = self.ending == int(Ending.RUNNING)
        first = self.talker.code_embedding[self.code]
        counters = (self.frame[:, None] * len(self.books) + self.books).astype(mx.uint32)
        uniform = uniforms(self.seeds, counters)
        deeper, total, peak = self.predictor(self.hidden, first, uniform[:, 1:], self._draw_deeper)
        place = mx.where(running, self.frame, self.limits.frames)
        self.done[self.rows, place] = mx.concatenate([self.code[:, None], deeper], axis=1)
        self.seen[self.rows, self.code] = self.seen[self.rows, self.code] | running
        hidden = self._talk(total + self._text_of_frame())
        self.hidden = mx.where(running[:, None], hidden, self.hidden)
        self.frame = self.frame + running.astype(mx.int32)
        self._choose(running, mx.isfinite(peak))
        self._reach = {slot: reach + 1 for slot, reach in self._reach.items()}
        self._queue()

    def _text_of_frame(self) -> mx.array:
        if not self.limits.trailing:
            return self.pad_row
        given = self.trailing[self.rows, mx.minimum(self.frame, self.limits.trailing - 1)]
        return mx.where((self.frame < self.trailing_count)[:, None], given, self.pad_row)

    def _talk(self, x: mx.array) -> mx.array:
        """One row of every lane through the talker; attention reaches as far as the longest lane has written."""
        reach = min(round_up(max(self._reach.values(), default=0) + 1, KEY_STEP), self.kv.length)
        positions = mx.minimum(self.start + self.frame, reach - 1)
        mask = causal_mask(positions[:, None], reach, x.dtype)
        append = self.kv.append(self.rows, positions, reach)
        return self.talker.trunk(x[:, None], positions[:, None], mask, append)[:, 0]

    def _choose(self, lanes: mx.array, finite: mx.array) -> None:
        """Draw code 0 of the next frame of some lanes; the end of speech or the cap stops a lane."""
        logits = self.talker.logits(self.hidden)
        finite = finite & mx.isfinite(logits).all(-1)
        logits = penalise(logits, self.seen, self.sampling.repetition_penalty)
        barred = mx.where((self.frame < MIN_FRAMES)[:, None], self.suppressed_early, self.suppressed)
        logits = mx.where(barred, -mx.inf, logits)
        counters = (self.frame * len(self.books))[:, None].astype(mx.uint32)
        code = self._draw(logits, uniforms(self.seeds, counters)[:, 0])
        ending = mx.where(self.frame >= self.cap, int(Ending.CAPPED), int(Ending.RUNNING))
        ending = mx.where(code == self.talker.config.eos, int(Ending.SPOKEN), ending)
        ending = mx.where(finite, ending, int(Ending.NOT_FINITE))
        self.ending = mx.where(lanes, ending, self.ending).astype(mx.int32)
        self.code = mx.where(lanes & (ending == int(Ending.RUNNING)), code, self.code)

    def _queue(self) -> None:
        """Let the device begin; nothing waits for it here."""
        state = self.ending, self.frame, self.code, self.hidden, self.seen, self.done
        mx.async_eval(*state, *self.kv.keys, *self.kv.values)

    # ------------------------------------------------------------------ results

    def finished(self) -> list[tuple[int, int, Ending]]:
        mail: tuple[mx.array, tuple[int, ...]] | None
        mail = mx.stack([self.ending, self.frame]), tuple(self._admissions)
        if self.queues:
            mx.async_eval(mail[0])
            mail, self._mail = self._mail, mail
        if mail is None:
            return []
        (endings, frames), admissions = np.array(mail[0]).tolist(), mail[1]
        ended = [
            slot for slot in self._reach
            if endings[slot] != Ending.RUNNING and admissions[slot] == self._admissions[slot]
        ]  # fmt: skip
        for slot in ended:
            del self._reach[slot]
        return [(slot, frames[slot], Ending(endings[slot])) for slot in ended]

    def codes(self, slot: int, frames: int) -> np.ndarray:
        return np.array(self.done[slot, :frames])

    def vocode(self, codes: Sequence[np.ndarray]) -> list[np.ndarray]:
        longest = max((len(line) for line in codes), default=0)
        if not longest:
            return [np.zeros(0, np.float32) for _ in codes]
        size = self.codec.config.codebook_size
        batch = np.zeros((len(codes), longest, self.codec.config.codebooks), np.int32)
        for row, line in zip(batch, codes, strict=True):
            row[: len(line)] = line
        if batch.min() < 0 or batch.max() >= size:
            raise ValueError(f"codes from {batch.min()} to {batch.max()}; the codec's tables hold 0 to {size - 1}")
        waves = np.array(self.codec(mx.array(batch)))
        return [wave[: len(line) * self.samples_per_frame].copy() for wave, line in zip(waves, codes, strict=True)]

    def synchronise(self) -> None:
        mx.eval(self.ending, self.done)
        mx.synchronize()
