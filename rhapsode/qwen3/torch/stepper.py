"""The engine's stepper on PyTorch: lanes of talker and depth predictor in fixed slots, and the codec.

Knows the state of every lane as tensors on one device; a step reads nothing back to the host. Which line sits where
is the engine's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from torch import Tensor

from rhapsode.engine.stepper import Ending, Request
from rhapsode.qwen3.limits import MIN_FRAMES, Limits, code_batch
from rhapsode.qwen3.prompt import Prompt
from rhapsode.qwen3.room import in_room
from rhapsode.qwen3.torch.codec import CodecDecoder
from rhapsode.qwen3.torch.predictor import Predictor
from rhapsode.qwen3.torch.recorded import Recorder
from rhapsode.qwen3.torch.results import CodesReader, Mail, Sound, SoundRoom
from rhapsode.qwen3.torch.sampling import Choice, Draw, penalise, uniforms
from rhapsode.qwen3.torch.talker import Talker, suppressed
from rhapsode.qwen3.torch.transformer import KEY_STEP, KV, ROW_STEP, causal_mask, round_up
from rhapsode.types import Sampling

# Rows of prompts that go through the talker at once: bounds what an admission needs besides the slots. A CPU is no
# faster with more, and fewer lines of neighbouring lengths are filled up less.
PREFILL_ROWS = 4096
PREFILL_ROWS_CPU = 512
# Positions between two recorded graphs of a step: fewer graphs, each reaching a little too far.
GRAPH_STEP = 64
# Below this width the products of a step are so short that a second thread costs more than it brings.
WIDE = 512


class TorchStepper:
    """Implements `rhapsode.engine.stepper.Stepper`."""

    def __init__(
        self,
        talker: Talker,
        predictor: Predictor,
        codec: CodecDecoder,
        sampling: Sampling,
        *,
        slots: int,
        limits: Limits,
        sample_rate: int,
        scripted: bool = False,
        codec_stream: bool = False,
    ) -> None:
        """`scripted`: the end of speech is never drawn, and a line ends at its cap as if the model had ended it.

        `codec_stream`: on CUDA the codec runs on a stream of its own, beside the steps.
        """
        self.talker, self.predictor, self.codec, self.sampling = talker, predictor, codec, sampling
        self.slots, self.limits, self.sample_rate = slots, limits, sample_rate
        self.scripted, self.codec_stream = scripted, codec_stream
        # Entered around each of prefill, predictor, talker and codec: whoever measures puts a stopwatch here.
        self.stage: Callable[[str], AbstractContextManager[None]] = _unwatched
        self.samples_per_frame = codec.config.samples_per_frame
        self.draw_with(
            Draw(sampling.greedy, sampling.temperature, sampling.top_k, sampling.top_p),
            Draw(
                sampling.predictor_greedy or sampling.greedy,
                sampling.predictor_temperature,
                sampling.predictor_top_k,
                sampling.predictor_top_p,
            ),
        )
        self._allocate()

    def draw_with(self, first: Choice, deeper: Choice) -> None:
        """How code 0 and the other codes are chosen, in place of what the sampling says."""
        self._draw, self._draw_deeper = first, deeper
        self.recorder = Recorder(self.talker.head.weight.device)  # what was recorded chose otherwise

    @in_room
    @torch.inference_mode()
    def _allocate(self) -> None:
        weight = self.talker.head.weight
        self.device, dtype = weight.device, weight.dtype
        rows = round_up(self.slots, ROW_STEP) if dtype == torch.float32 else self.slots
        config, limits = self.talker.config, self.limits

        def make(*size: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(size, dtype=dtype, device=self.device)

        # Prefills come in whole row steps, so a prompt may write that much beyond its end.
        length = round_up(limits.prompt + max(limits.frames, ROW_STEP), KEY_STEP)
        self.kv = KV(config.trunk, rows, length, weight)
        self.depth_kv = self.predictor.room(rows, weight)
        self.rows = torch.arange(rows, device=self.device)
        self.hidden = make(rows, config.trunk.hidden, dtype=dtype)  # the talker's last state
        self.code = make(rows)  # code 0 of the frame to come
        self.frame = make(rows)  # frames done
        self.start = make(rows)  # rows of the prompt
        self.cap = make(rows)
        self.seeds = make(rows, 2)
        self.ending = torch.full((rows,), Ending.SPOKEN, dtype=torch.int64, device=self.device)
        self.seen = make(rows, config.vocab, dtype=torch.bool)
        self.trailing = make(rows, limits.trailing, config.trunk.hidden, dtype=dtype)
        self.trailing_count = make(rows)
        self.pad_row = make(rows, config.trunk.hidden, dtype=dtype)
        # One frame more than any cap: lanes that stand still write there or over nothing that is kept.
        self.done = make(rows, limits.frames + 1, config.codebooks, dtype=torch.int32)
        self.suppressed = suppressed(config, self.device)
        self.suppressed_early = self.suppressed.clone()
        self.suppressed_early[config.eos] = True
        if self.scripted:
            self.suppressed = self.suppressed_early
        self.books = torch.arange(config.codebooks, device=self.device)
        self._reach: dict[int, int] = {}  # positions written, of slots whose ending was not reported
        self._admissions = [0] * self.slots  # lines that a slot has had
        self._shared: dict[tuple[int, ...], tuple[Tensor, Tensor]] = {}
        self._mail: Mail | None = None
        self._ended: dict[int, int] = {}  # slots whose codes were not fetched yet, and their frames
        self._fetched: dict[int, np.ndarray] = {}
        self._reader = CodesReader(self.device)
        self._sounds = SoundRoom(self.device, own_stream=self.codec_stream)

    # ------------------------------------------------------------------ admission

    @in_room
    @torch.inference_mode()
    def admit(self, placements: Sequence[tuple[int, Request]]) -> None:
        for _, request in placements:
            self.limits.check(request)
        # One prefill for each voice: what its lines share is never computed beside another's.
        voices: dict[tuple[int, ...], list[tuple[int, Request]]] = {}
        for slot, request in placements:
            voices.setdefault(request.prompt.head, []).append((slot, request))
        with self._few_threads(), self.stage("prefill"):
            most = PREFILL_ROWS_CPU if self.device.type == "cpu" else PREFILL_ROWS
            for group in voices.values():
                group.sort(key=lambda placement: -len(placement[1].prompt))
                while group:
                    size = max(1, most // round_up(len(group[0][1].prompt), ROW_STEP))
                    self._admit(group[:size])
                    del group[:size]

    def _admit(self, placements: Sequence[tuple[int, Request]]) -> None:
        """Admit lines of one voice."""
        prompts: list[Prompt] = [request.prompt for _, request in placements]
        slots = torch.tensor([slot for slot, _ in placements], device=self.device)
        shared = prompts[0].shared
        self.kv.forget(slots)
        if shared:
            self.kv.keys[:, slots, :, :shared], self.kv.values[:, slots, :, :shared] = self._shared_rows(prompts[0])
        self._prefill(slots, prompts, shared)
        self._reset(slots, placements)
        admitted = torch.zeros_like(self.rows, dtype=torch.bool)
        admitted[slots] = True
        self._choose(admitted, admitted)

    def _shared_rows(self, prompt: Prompt) -> tuple[Tensor, Tensor]:
        """Keys and values of the rows that every line of a voice begins with, computed once."""
        head = prompt.head
        if head not in self._shared:
            count = prompt.shared
            kv = KV(self.talker.trunk.shape, 1, round_up(count + ROW_STEP, KEY_STEP), self.talker.head.weight)
            self._run(kv, torch.zeros(1, dtype=torch.int64, device=self.device), [prompt], 0, count)
            self._shared[head] = kv.keys[:, :, :, :count].clone(), kv.values[:, :, :, :count].clone()
        return self._shared[head]

    def _prefill(self, slots: Tensor, prompts: list[Prompt], start: int) -> None:
        lengths = torch.tensor([len(prompt) for prompt in prompts], device=self.device)
        hidden = self._run(self.kv, slots, prompts, start, max(len(prompt) for prompt in prompts))
        self.hidden[slots] = hidden[torch.arange(len(prompts), device=self.device), lengths - 1 - start]

    def _run(self, kv: KV, slots: Tensor, prompts: list[Prompt], start: int, stop: int) -> Tensor:
        """The talker over rows start..stop of each prompt, shorter ones filled up at the end."""
        width = round_up(stop - start, ROW_STEP)
        text = torch.full((len(prompts), width), prompts[0].pad, dtype=torch.int64)
        codec = torch.full((len(prompts), width), -1, dtype=torch.int64)
        for row, prompt in enumerate(prompts):
            count = min(len(prompt), stop) - start
            text[row, :count] = torch.tensor(prompt.text[start : start + count])
            codec[row, :count] = torch.tensor(prompt.codec[start : start + count])
        x = self.talker.prompt_rows(text.flatten().to(self.device), codec.flatten().to(self.device))
        positions = torch.arange(start, start + width, device=self.device).unsqueeze(0)
        reach = round_up(start + width, KEY_STEP)
        mask = causal_mask(positions, reach, x.dtype)
        fill = kv.fill(slots, start, start + width, reach)
        return self.talker.trunk(x.view(len(prompts), width, -1), positions, mask, fill)

    def _reset(self, slots: Tensor, placements: Sequence[tuple[int, Request]]) -> None:
        requests = [request for _, request in placements]

        def column(values: list[int]) -> Tensor:
            return torch.tensor(values, dtype=torch.int64, device=self.device)

        self.start[slots] = column([len(request.prompt) for request in requests])
        self.cap[slots] = column([request.cap for request in requests])
        words = [[request.seed & 0xFFFFFFFF, request.seed >> 32 & 0xFFFFFFFF] for request in requests]
        self.seeds[slots] = torch.tensor(words, dtype=torch.int64, device=self.device)
        self.trailing_count[slots] = column([len(request.prompt.trailing) for request in requests])
        self.frame[slots] = 0
        self.seen[slots] = False
        self.ending[slots] = int(Ending.RUNNING)
        for slot, request in placements:
            ids = torch.tensor([*request.prompt.trailing, request.prompt.pad], device=self.device)
            rows = self.talker.text_rows(ids)
            self.trailing[slot, : len(ids) - 1] = rows[:-1]
            self.pad_row[slot] = rows[-1]
            self._reach[slot] = len(request.prompt)
            self._admissions[slot] += 1

    # ------------------------------------------------------------------ one frame

    @in_room
    @torch.inference_mode()
    def step(self) -> None:
        with self._few_threads():
            self._step()

    @contextmanager
    def _few_threads(self) -> Iterator[None]:
        """One thread for the arithmetic of a narrow talker; the codec's is wide in any case."""
        before = torch.get_num_threads()
        if self.talker.config.trunk.hidden < WIDE:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def _step(self) -> None:
        """A frame of every lane; attention reaches as far as the longest lane has written."""
        written = max(self._reach.values(), default=0) + 1
        step = KEY_STEP if self.recorder.trouble else GRAPH_STEP
        reach = min(round_up(written, step), self.kv.length)
        if self.stage is _unwatched:
            self.recorder(reach, lambda: self._frame(reach))
        else:  # a stopwatch cannot look into a recorded graph
            self._frame(reach)
        self._reach = {slot: reach + 1 for slot, reach in self._reach.items()}

    def _frame(self, reach: int) -> None:
        """All that a frame does on the device. Nothing of the host goes in but `reach`: see `Recorder`."""
        running = self.ending == int(Ending.RUNNING)
        first = self.talker.code_embedding(self.code)
        uniform = uniforms(self.seeds, self.frame.unsqueeze(1) * len(self.books) + self.books)
        with self.stage("predictor"):
            deeper, total, peak = self.predictor(self.hidden, first, uniform[:, 1:], self._draw_deeper, self.depth_kv)
        place = self.frame.masked_fill(~running, self.limits.frames)
        self.done[self.rows, place] = torch.cat((self.code.unsqueeze(1), deeper), 1).int()
        self.seen[self.rows, self.code] |= running

        positions = (self.start + self.frame).clamp(max=self.kv.length - 1)
        x = total + self._text_of_frame()
        with self.stage("talker"):
            hidden = self._talk(x, positions, reach)
            self.hidden.copy_(torch.where(running.unsqueeze(1), hidden, self.hidden))
            self.frame += running
            self._choose(running, peak.isfinite())

    def _text_of_frame(self) -> Tensor:
        if not self.limits.trailing:
            return self.pad_row
        place = self.frame.clamp(max=self.limits.trailing - 1)
        given = self.trailing[self.rows, place]
        return torch.where((self.frame < self.trailing_count).unsqueeze(1), given, self.pad_row)

    def _talk(self, x: Tensor, positions: Tensor, reach: int) -> Tensor:
        """One row of every lane through the talker, over the first `reach` positions."""
        positions = positions.clamp(max=reach - 1)
        mask = causal_mask(positions.unsqueeze(1), reach, x.dtype)
        append = self.kv.append(self.rows, positions, reach)
        return self.talker.trunk(x.unsqueeze(1), positions.unsqueeze(1), mask, append)[:, 0]

    def _choose(self, lanes: Tensor, finite: Tensor) -> None:
        """Draw code 0 of the next frame of some lanes (bool [rows]); the end of speech or the cap stops a lane.

        `finite` (bool [rows]): whether all that led here was.
        """
        logits = self.talker.logits(self.hidden)
        finite = finite & logits.isfinite().all(-1)
        logits = self.allowed(logits)
        counters = (self.frame * len(self.books)).unsqueeze(1)
        code = self._draw(logits, uniforms(self.seeds, counters).squeeze(1))
        at_cap = Ending.SPOKEN if self.scripted else Ending.CAPPED
        # `masked_fill` and not `where`: numbers of the host cannot be part of a recorded graph there.
        ending = torch.full_like(self.ending, int(Ending.RUNNING)).masked_fill(self.frame >= self.cap, int(at_cap))
        ending = ending.masked_fill(code == self.talker.config.eos, int(Ending.SPOKEN))
        ending = ending.masked_fill(~finite, int(Ending.NOT_FINITE))
        self.ending.copy_(torch.where(lanes, ending, self.ending))
        self.code.copy_(torch.where(lanes & (ending == int(Ending.RUNNING)), code, self.code))

    def allowed(self, logits: Tensor) -> Tensor:
        """Raw logits of codebook 0 of all lanes, float32 [rows, vocab], after penalty and suppression."""
        logits = penalise(logits, self.seen, self.sampling.repetition_penalty)
        early = (self.frame < MIN_FRAMES).unsqueeze(1)
        return logits.masked_fill(torch.where(early, self.suppressed_early, self.suppressed), float("-inf"))

    # ------------------------------------------------------------------ results

    @in_room
    def finished(self) -> list[tuple[int, int, Ending]]:
        mail: Mail | None = Mail(torch.stack((self.ending, self.frame)), tuple(self._admissions))
        if self.device.type != "cpu":
            # Read what the step before left, while the device works on this one.
            mail, self._mail = self._mail, mail
        if mail is None:
            return []
        endings, frames = mail.read()
        ended = [
            slot
            for slot in self._reach
            if endings[slot] != Ending.RUNNING and mail.admissions[slot] == self._admissions[slot]
        ]
        for slot in ended:
            del self._reach[slot]
            self._ended[slot] = frames[slot]
            self._fetched.pop(slot, None)
        return [(slot, frames[slot], Ending(endings[slot])) for slot in ended]

    @in_room
    def codes(self, slot: int, frames: int) -> np.ndarray:
        """All that ended are fetched when the first of them is asked for."""
        if slot not in self._fetched:
            if slot not in self._ended:  # asked for though it was not reported: it may be in the making
                self.synchronise()
            self._fetched |= self._reader.read(self.done, self._ended | {slot: frames})
            self._ended.clear()
        return self._fetched.pop(slot)

    @in_room
    @torch.inference_mode()
    def vocode(self, codes: Sequence[np.ndarray]) -> Sound:
        batch = code_batch(codes, self.codec.config.codebooks, self.codec.config.codebook_size)
        samples = [len(line) * self.samples_per_frame for line in codes]
        if not batch.size:
            return Sound(torch.zeros(len(codes), 0), samples)
        with self.stage("codec"):
            return self._sounds.start(self.codec, batch, samples)

    def synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()


def _unwatched(stage: str) -> AbstractContextManager[None]:
    return nullcontext()
