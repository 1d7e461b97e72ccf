"""The engine's stepper on MLX: lanes of talker and depth predictor in fixed slots, and the codec.

Knows which arrays the lanes are and when work is queued; a step reads nothing back to the host. Which line sits where
is the engine's business, what a frame is that of `step.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import mlx.core as mx
import numpy as np

from rhapsode.engine.stepper import Ending, Request
from rhapsode.qwen3.limits import Limits, code_batch
from rhapsode.qwen3.mlx.codec import CodecDecoder
from rhapsode.qwen3.mlx.memory import PREFILL
from rhapsode.qwen3.mlx.predictor import Predictor
from rhapsode.qwen3.mlx.sampling import Choice, Draw
from rhapsode.qwen3.mlx.step import Drawn, Step, allocate, reach_of
from rhapsode.qwen3.mlx.talker import Talker
from rhapsode.qwen3.mlx.transformer import KEY_STEP, KV, ROW_STEP, causal_mask, round_up
from rhapsode.qwen3.prompt import Prompt
from rhapsode.qwen3.room import in_room
from rhapsode.types import Sampling


class MlxStepper:
    """Implements `rhapsode.engine.stepper.Stepper`."""

    @in_room
    def __init__(
        self, talker: Talker, predictor: Predictor, codec: CodecDecoder, sampling: Sampling,
        *, slots: int, limits: Limits, sample_rate: int, scripted: bool = False,
    ) -> None:  # fmt: skip
        """`scripted`: the end of speech is never drawn, and a line ends at its cap as if the model had ended it."""
        self.talker, self.predictor, self.codec, self.sampling = talker, predictor, codec, sampling
        self.slots, self.limits, self.sample_rate = slots, limits, sample_rate
        self.scripted = scripted
        # Entered around each of prefill, predictor, talker and codec: whoever measures puts a stopwatch here.
        self.stage: Callable[[str], AbstractContextManager[None]] = _unwatched
        self.samples_per_frame = codec.config.samples_per_frame
        self.queues = mx.default_device() != mx.Device(mx.cpu)
        first = Draw(sampling.greedy, sampling.temperature, sampling.top_k, sampling.top_p)
        deeper = Draw(
            sampling.predictor_greedy or sampling.greedy, sampling.predictor_temperature,
            sampling.predictor_top_k, sampling.predictor_top_p,
        )  # fmt: skip
        self._step = self._made(first, deeper, compiled=True)
        length = round_up(limits.prompt + max(limits.frames, ROW_STEP), KEY_STEP)
        self.kv = KV.of(talker.config.trunk, slots, length, talker.dtype)
        self.state = allocate(talker, slots, limits)
        self._drawn: Drawn | None = None
        self._reach: dict[int, int] = {}  # positions written, of slots whose ending was not reported
        self._ends: dict[int, mx.array] = {}  # the last position of each reach
        self._admissions = [0] * slots  # lines that a slot has had
        self._shared: dict[tuple[int, ...], KV] = {}
        self._mail: tuple[mx.array, tuple[int, ...]] | None = None

    def draw_with(self, first: Choice, deeper: Choice) -> None:
        """How code 0 and the other codes are chosen, in place of what the sampling says. They may write things down."""
        self._step = self._made(first, deeper, compiled=False)

    def _made(self, first: Choice, deeper: Choice, *, compiled: bool) -> Step:
        return Step(
            self.talker, self.predictor, self.limits, self.sampling.repetition_penalty, first, deeper,
            scripted=self.scripted, compiled=compiled,
        )  # fmt: skip

    @property
    def kv_bytes(self) -> int:
        """Keys and values of all slots. Those of the predictor live for a frame."""
        return self.kv.nbytes

    # ------------------------------------------------------------------ admission

    @in_room
    def admit(self, placements: Sequence[tuple[int, Request]]) -> None:
        for _, request in placements:
            self.limits.check(request)
        # One prefill for each voice: what its lines share is never computed beside another's.
        voices: dict[tuple[int, ...], list[tuple[int, Request]]] = {}
        for slot, request in placements:
            voices.setdefault(request.prompt.head, []).append((slot, request))
        with self.stage("prefill"):
            for group in voices.values():
                group.sort(key=lambda placement: -len(placement[1].prompt))
                while group:
                    size = max(1, PREFILL // round_up(len(group[0][1].prompt), ROW_STEP))
                    self._admit(group[:size])
                    self._queue()
                    del group[:size]

    def _admit(self, placements: Sequence[tuple[int, Request]]) -> None:
        """Admit lines of one voice, few enough for one prefill."""
        prompts: list[Prompt] = [request.prompt for _, request in placements]
        slots = mx.array([slot for slot, _ in placements])
        shared = prompts[0].shared
        admitted = np.isin(np.arange(self.slots), [slot for slot, _ in placements])
        self.kv.forget(slots)
        if shared:
            self.kv.share(slots, self._shared_rows(prompts[0]))
        hidden = self._run(self.kv, slots, prompts, shared, max(map(len, prompts)))
        last = [row * hidden.shape[1] + len(prompt) - 1 - shared for row, prompt in enumerate(prompts)]
        self.state["hidden"][slots] = hidden.reshape(-1, hidden.shape[-1])[mx.array(last)]
        lanes = mx.array(admitted)
        self._reset(lanes, placements)
        self.state = self._step.choose(self.state, lanes, lanes)

    def _shared_rows(self, prompt: Prompt) -> KV:
        """Keys and values of the rows that every line of a voice begins with, computed once."""
        head = prompt.head
        if head not in self._shared:
            length = round_up(prompt.shared + ROW_STEP, KEY_STEP)
            kv = KV.of(self.talker.config.trunk, 1, length, self.talker.dtype)
            self._run(kv, mx.array([0]), [prompt], 0, prompt.shared)
            self._shared[head] = kv.first(prompt.shared)
        return self._shared[head]

    def _run(self, kv: KV, slots: mx.array, prompts: list[Prompt], start: int, stop: int) -> mx.array:
        """The talker over rows start..stop of each prompt, shorter ones filled up at the end."""
        width = round_up(stop - start, ROW_STEP)
        text = np.full((len(prompts), width), prompts[0].pad, np.int32)
        codec = np.full((len(prompts), width), -1, np.int32)
        for row, prompt in enumerate(prompts):
            count = min(len(prompt), stop) - start
            text[row, :count] = prompt.text[start : start + count]
            codec[row, :count] = prompt.codec[start : start + count]
        x = self.talker.prompt_rows(mx.array(text), mx.array(codec))
        positions = mx.arange(start, start + width)[None]
        reach = round_up(start + width, KEY_STEP)
        mask = causal_mask(positions, reach, x.dtype)
        turn = self.talker.trunk.turning(positions)
        return self.talker.trunk(x, turn, mask, kv.fill(slots, start, start + width, reach))

    def _reset(self, lanes: mx.array, placements: Sequence[tuple[int, Request]]) -> None:
        """What a line begins with, chosen over what a lane had: to scatter it would take a kernel for each type."""
        state = self.state
        numbers = np.zeros((3, self.slots), np.int32)
        words = np.zeros((self.slots, 2), np.uint32)
        for slot, request in placements:
            numbers[:, slot] = len(request.prompt), request.cap, len(request.prompt.trailing)
            words[slot] = request.seed & 0xFFFFFFFF, request.seed >> 32 & 0xFFFFFFFF
        for name, given in zip(("start", "cap", "trailing_count"), numbers, strict=True):
            state[name] = mx.where(lanes, mx.array(given), state[name])
        state["seeds"] = mx.where(lanes[:, None], mx.array(words), state["seeds"])
        for name, value in (("frame", 0), ("ending", int(Ending.RUNNING))):
            state[name] = mx.where(lanes, value, state[name])
        state["seen"] = state["seen"] & ~lanes[:, None]
        for slot, request in placements:
            ids = mx.array([*request.prompt.trailing, request.prompt.pad])
            rows = self.talker.text_rows(ids)
            if len(ids) > 1:
                state["trailing"][slot, : len(ids) - 1] = rows[:-1]
            state["pad"][slot : slot + 1] = rows[-1:]
            self._reach[slot] = len(request.prompt)
            self._admissions[slot] += 1

    # ------------------------------------------------------------------ one frame

    @in_room
    def step(self) -> None:
        with self.stage("predictor"):
            self._drawn = self._step.predict(self.state)
        reach = reach_of(max(self._reach.values(), default=0) + 1, self.kv.length)
        with self.stage("talker"):
            self.state, self.kv.layers = self._step.advance(
                self.state, self.kv.layers, self._drawn, self._last(reach), reach
            )
            self._drawn = None
        self._reach = {slot: written + 1 for slot, written in self._reach.items()}
        self._queue()

    def _last(self, reach: int) -> mx.array:
        if reach not in self._ends:
            self._ends[reach] = mx.array(reach - 1)
        return self._ends[reach]

    def _pending(self) -> list[mx.array]:
        return [*self.state.values(), *self.kv.layers, *(self._drawn or ())]

    def _queue(self) -> None:
        """Let the device begin; nothing waits for it here."""
        mx.async_eval(self._pending())

    # ------------------------------------------------------------------ results

    @in_room
    def finished(self) -> list[tuple[int, int, Ending]]:
        mail: tuple[mx.array, tuple[int, ...]] | None
        mail = mx.stack([self.state["ending"], self.state["frame"]]), tuple(self._admissions)
        if self.queues:
            # Read what the step before left, while the device works on this one.
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

    @in_room
    def codes(self, slot: int, frames: int) -> np.ndarray:
        return np.array(self.state["done"][slot, :frames])

    @in_room
    def vocode(self, codes: Sequence[np.ndarray]) -> Sound:
        batch = code_batch(codes, self.codec.config.codebooks, self.codec.config.codebook_size)
        if not batch.size:
            return Sound([np.zeros(0, np.float32) for _ in codes])
        with self.stage("codec"):
            waves = np.array(self.codec(mx.array(batch.astype(np.int32))))
        return Sound(
            [wave[: len(line) * self.samples_per_frame].copy() for wave, line in zip(waves, codes, strict=True)]
        )

    def synchronise(self) -> None:
        mx.eval(self._pending())
        mx.synchronize()


class Sound:
    """Sound that is there: implements `rhapsode.engine.stepper.Pending`."""

    def __init__(self, waves: list[np.ndarray]) -> None:
        self._waves = waves

    def waves(self) -> list[np.ndarray]:
        return self._waves


def _unwatched(stage: str) -> AbstractContextManager[None]:
    return nullcontext()
