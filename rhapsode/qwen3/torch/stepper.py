"""The engine's stepper on PyTorch: lanes of talker and depth predictor in fixed slots, and the codec.

Knows the state of every lane as tensors on one device; a step reads nothing back to the host. Which line sits where
is the engine's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rhapsode.engine.stepper import Ending, Request
from rhapsode.qwen3.limits import MIN_FRAMES, Limits, code_batch
from rhapsode.qwen3.prompt import Prompt
from rhapsode.qwen3.room import in_room
from rhapsode.qwen3.torch import sampling as plain
from rhapsode.qwen3.torch.codec import CodecDecoder
from rhapsode.qwen3.torch.fused import FusedPredictor, FusedTrunk, can_fuse, draw_codes
from rhapsode.qwen3.torch.kernels import runs_on
from rhapsode.qwen3.torch.kernels.random import uniforms
from rhapsode.qwen3.torch.predictor import Predictor
from rhapsode.qwen3.torch.prefill import Prefill
from rhapsode.qwen3.torch.recorded import Recorder
from rhapsode.qwen3.torch.results import CodesReader, Mail, Sound, SoundRoom
from rhapsode.qwen3.torch.sampling import Choice, Draw, penalise
from rhapsode.qwen3.torch.talker import Talker, suppressed
from rhapsode.qwen3.torch.transfer import send
from rhapsode.qwen3.torch.transformer import KEY_STEP, KV, ROW_STEP, causal_mask, round_up
from rhapsode.types import Sampling

# Positions between two recorded graphs of a step: fewer graphs, each reaching a little too far.
GRAPH_STEP = 64
# Numbers of lanes that a step is recorded for, beside all: near its end a book has fewer lines than lanes.
NARROWER = (1, 8, 32, 64, 128, 256)
# Below this width the products of a step are so short that a second thread costs more than it brings.
WIDE = 512


@dataclass(frozen=True, slots=True)
class _Lanes:
    """Which lanes a step computes, and how far attention reaches: where that is None, as far as each has written."""

    at: slice | Tensor
    count: int
    reach: int | None = None


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
        fused: bool | None = None,
    ) -> None:
        """`scripted`: the end of speech is never drawn, and a line ends at its cap as if the model had ended it.

        `fused`: whether the kernels compute the steps; None: where they run.
        """
        self.talker, self.predictor, self.codec, self.sampling = talker, predictor, codec, sampling
        self.slots, self.limits, self.sample_rate = slots, limits, sample_rate
        self.scripted = scripted
        if fused is None:
            fused = talker.head.weight.device.type == "cuda" and runs_on(talker.head.weight.device)
        self.fused = fused and can_fuse(talker.trunk) and can_fuse(predictor.trunk)
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
        if not (isinstance(first, Draw) and isinstance(deeper, Draw)):
            self.recorder.trouble = "how codes are chosen is not known to depend on the device alone"

    @in_room
    @torch.inference_mode()
    def _allocate(self) -> None:
        weight = self.talker.head.weight
        self.device, dtype = weight.device, weight.dtype
        # With kernels one lane more, which nobody sits in: it fills up a step of fewer lanes.
        rows = self.slots + 1 if self.fused else self.slots
        if dtype == torch.float32 and not self.fused:
            rows = round_up(self.slots, ROW_STEP)
        config, limits = self.talker.config, self.limits

        def make(*size: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(size, dtype=dtype, device=self.device)

        # Prefills come in whole row steps, so a prompt may write that much beyond its end.
        length = round_up(limits.prompt + max(limits.frames, ROW_STEP), KEY_STEP)
        self.kv = KV(config.trunk, rows, length, weight)
        self.depth_kv = self.predictor.room(rows, weight)
        self._trunk = FusedTrunk(self.talker.trunk, length) if self.fused else None
        self._deeper = (
            FusedPredictor(self.predictor, self.talker.code_embedding.weight) if self.fused else self.predictor
        )
        self._prefill = Prefill(self.talker, self.kv, self._trunk)
        self.rows = torch.arange(rows, device=self.device)
        self.hidden = make(rows, config.trunk.hidden, dtype=dtype)  # the talker's last state
        self.code = make(rows)  # code 0 of the frame to come
        self.frame = make(rows)  # frames done
        self.start = make(rows)  # rows of the prompt
        self.cap = make(rows)
        self.seeds = make(rows, 2)
        self.total = make(rows, config.trunk.hidden, dtype=torch.float32 if self.fused else dtype)  # of a frame's codes
        self.finite = make(rows, dtype=torch.bool)
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
        self._uniforms = uniforms if self.fused else plain.uniforms
        self._reach: dict[int, int] = {}  # positions written, of slots whose ending was not reported
        self._admissions = [0] * self.slots  # lines that a slot has had
        widths = {self.slots, *(width for width in NARROWER if width < self.slots)}
        self._widths = sorted(widths) if self.fused else [rows]
        self._listed = {width: self.rows[:width].clone() for width in self._widths}  # lanes of a step of a width
        self._list: tuple[int, ...] = ()  # what was last sent there
        self._mail: Mail | None = None
        self._ended: dict[int, int] = {}  # slots whose codes were not fetched yet, and their frames
        self._fetched: dict[int, np.ndarray] = {}
        self._reader = CodesReader(self.device)
        self._sounds = SoundRoom(self.device)

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
            for group in voices.values():
                group.sort(key=lambda placement: -len(placement[1].prompt))
                while group:
                    size = self._prefill.lines_at_once(len(group[0][1].prompt))
                    self._admit(sorted(group[:size], key=lambda placement: placement[0]))
                    del group[:size]

    def _admit(self, placements: Sequence[tuple[int, Request]]) -> None:
        """Admit lines of one voice."""
        prompts: list[Prompt] = [request.prompt for _, request in placements]
        slots = send(np.array([slot for slot, _ in placements]), self.device)
        self.hidden[slots] = self._prefill(slots, prompts)
        self._reset(slots, placements)
        if self.fused:
            everyone = torch.ones_like(slots, dtype=torch.bool)
            self._choose(slots, everyone, everyone)
        else:  # all rows, so that a row has the same bits in any company
            admitted = torch.zeros_like(self.rows, dtype=torch.bool)
            admitted[slots] = True
            self._choose(slice(None), admitted, admitted)

    def _reset(self, slots: Tensor, placements: Sequence[tuple[int, Request]]) -> None:
        requests = [request for _, request in placements]
        columns = [
            (len(r.prompt), r.cap, r.seed & 0xFFFFFFFF, r.seed >> 32 & 0xFFFFFFFF, len(r.prompt.trailing))
            for r in requests
        ]
        start, cap, low, high, trailing = send(np.array(columns, np.int64).T, self.device)
        self.start[slots], self.cap[slots], self.trailing_count[slots] = start, cap, trailing
        self.seeds[slots] = torch.stack((low, high), 1)
        self.frame[slots] = 0
        self.seen[slots] = False
        self.ending[slots] = int(Ending.RUNNING)
        self._reset_text(slots, [request.prompt for request in requests])
        for slot, request in placements:
            self._reach[slot] = len(request.prompt)
            self._admissions[slot] += 1

    def _reset_text(self, slots: Tensor, prompts: Sequence[Prompt]) -> None:
        """What a lane is given with each frame: text that is left, then rows of the pad."""
        longest = max(len(prompt.trailing) for prompt in prompts)
        ids = np.full((len(prompts), longest + 1), prompts[0].pad, np.int64)
        for row, prompt in zip(ids, prompts, strict=True):
            row[: len(prompt.trailing)] = prompt.trailing
        rows = self.talker.text_rows(send(ids, self.device).flatten()).view(len(prompts), longest + 1, -1)
        self.pad_row[slots] = rows[:, -1]
        if longest:
            self.trailing[slots, :longest] = rows[:, :longest]

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
        lanes = self._lanes()
        # Two recordings, so that a stopwatch can stand between them.
        for stage, work in (("predictor", self._deepen), ("talker", self._advance)):
            with self.stage(stage):
                self.recorder((stage, lanes.count, lanes.reach), partial(work, lanes))
        self._reach = {slot: reach + 1 for slot, reach in self._reach.items()}

    @in_room
    def prepare(self) -> None:
        """Compile and record steps of every width, where that is done at all, while nobody sits in any lane."""
        if self._reach:
            raise RuntimeError("steps are prepared before lines are admitted")
        for width in self._widths if self.fused else []:
            lanes = _Lanes(self._listed[width], width)
            with torch.inference_mode():
                for stage, work in (("predictor", self._deepen), ("talker", self._advance)) * 2:
                    self.recorder((stage, width, None), partial(work, lanes))
        self.synchronise()

    def _lanes(self) -> _Lanes:
        """All of them, or as few as there are lines: a step costs what its lanes cost."""
        if not self.fused:
            written = max(self._reach.values(), default=0) + 1
            step = KEY_STEP if self.recorder.trouble else GRAPH_STEP
            return _Lanes(slice(None), len(self.rows), min(round_up(written, step), self.kv.length))
        width = next(width for width in self._widths if width >= len(self._reach))
        if width < self.slots:
            # What is left of the width is the lane that nobody sits in.
            seated = (*sorted(self._reach), *[self.slots] * (width - len(self._reach)))
            if seated != self._list:
                self._listed[width].copy_(send(np.array(seated), self.device), non_blocking=True)
                self._list = seated
        return _Lanes(self._listed[width], width)

    # What follows is all that a frame does on the device. Nothing of the host goes in but the lanes: see `Recorder`.

    def _deepen(self, lanes: _Lanes) -> None:
        """The other codes of the frame that code 0 begins."""
        at = lanes.at
        rows, running = self.rows[at], self.ending[at] == int(Ending.RUNNING)
        code, frame = self.code[at], self.frame[at]
        uniform = self._uniforms(self.seeds[at], frame.unsqueeze(1) * len(self.books) + self.books)
        deeper, total, finite = self._predict(self.hidden[at], code, uniform[:, 1:])
        place = frame.masked_fill(~running, self.limits.frames)
        self.done[rows, place] = torch.cat((code.unsqueeze(1), deeper), 1).int()
        self.seen[rows, code] = self.seen[rows, code] | running
        self.total[: lanes.count] = total
        self.finite[: lanes.count] = finite

    def _predict(self, hidden: Tensor, code: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if isinstance(self._deeper, FusedPredictor):
            return self._deeper(hidden, code, uniform, self._draw_deeper, self.depth_kv)
        first = self.talker.code_embedding(code)
        codes, total, peak = self._deeper(hidden, first, uniform, self._draw_deeper, self.depth_kv)
        return codes, total, peak.isfinite()

    def _advance(self, lanes: _Lanes) -> None:
        """The frame through the talker, and code 0 of the next."""
        at, count = lanes.at, lanes.count
        running, frame = self.ending[at] == int(Ending.RUNNING), self.frame[at]
        positions = (self.start[at] + frame).clamp(max=self.kv.length - 1)
        x = (self.total[:count] + self._text_of_frame(at, frame)).to(self.hidden.dtype)
        hidden = self._talk(x, positions, lanes)
        self.hidden[at] = torch.where(running.unsqueeze(1), hidden, self.hidden[at])
        self.frame[at] = frame + running
        self._choose(at, running, self.finite[:count])

    def _text_of_frame(self, at: slice | Tensor, frame: Tensor) -> Tensor:
        if not self.limits.trailing:
            return self.pad_row[at]
        given = self.trailing[self.rows[at], frame.clamp(max=self.limits.trailing - 1)]
        return torch.where((frame < self.trailing_count[at]).unsqueeze(1), given, self.pad_row[at])

    def _talk(self, x: Tensor, positions: Tensor, lanes: _Lanes) -> Tensor:
        """One row of some lanes through the talker."""
        if self._trunk is not None:
            return self._trunk(x, self.kv, self.rows[lanes.at], positions)
        assert lanes.reach is not None
        positions = positions.clamp(max=lanes.reach - 1)
        mask = causal_mask(positions.unsqueeze(1), lanes.reach, x.dtype)
        append = self.kv.append(self.rows, positions, lanes.reach)
        return self.talker.trunk(x.unsqueeze(1), positions.unsqueeze(1), mask, append)[:, 0]

    def _choose(self, at: slice | Tensor, lanes: Tensor, finite: Tensor) -> None:
        """Draw code 0 of the next frame of those lanes at `at` that `lanes` says; its end or the cap stops a line.

        `lanes` and `finite` (whether all that led here was): bool, one for each lane at `at`.
        """
        logits, frame = self.talker.logits(self.hidden[at]), self.frame[at]
        finite = finite & logits.isfinite().all(-1)
        logits = self.allowed(logits, at)
        uniform = self._uniforms(self.seeds[at], (frame * len(self.books)).unsqueeze(1)).squeeze(1)
        code = torch.empty_like(frame)
        if self.fused:
            draw_codes(self._draw, logits, uniform, code, torch.zeros_like(code, dtype=torch.int32))
        else:
            code = self._draw(logits, uniform)
        at_cap = Ending.SPOKEN if self.scripted else Ending.CAPPED
        # `masked_fill` and not `where`: numbers of the host cannot be part of a recorded graph there.
        ending = torch.full_like(frame, int(Ending.RUNNING)).masked_fill(frame >= self.cap[at], int(at_cap))
        ending = ending.masked_fill(code == self.talker.config.eos, int(Ending.SPOKEN))
        ending = ending.masked_fill(~finite, int(Ending.NOT_FINITE))
        self.ending[at] = torch.where(lanes, ending, self.ending[at])
        self.code[at] = torch.where(lanes & (ending == int(Ending.RUNNING)), code, self.code[at])

    def allowed(self, logits: Tensor, at: slice | Tensor = slice(None)) -> Tensor:
        """Raw logits of codebook 0 of some lanes, float32 [rows, vocab], after penalty and suppression."""
        penalty = self.sampling.repetition_penalty
        logits = logits if penalty == 1.0 else penalise(logits, self.seen[at], penalty)
        early = (self.frame[at] < MIN_FRAMES).unsqueeze(1)
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

    def drawn(self, slot: int, start: int, stop: int) -> np.ndarray:
        """Codes of some frames of a lane that runs, [frames, codebooks]; `finished` has waited for these frames."""
        return self._reader.read(self.done[:, start:], {slot: stop - start})[slot]

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
