"""One frame of all lanes on MLX, as pure functions of arrays: what comes in is given, what changed is returned.

Compiled once for each reach of attention, so that a step is two graphs with nothing but queued work between them.
Knows no slot, no line and no host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from rhapsode.engine.stepper import Ending
from rhapsode.qwen3.limits import MIN_FRAMES, Limits
from rhapsode.qwen3.mlx import library
from rhapsode.qwen3.mlx.predictor import Predictor
from rhapsode.qwen3.mlx.sampling import Choice, penalise, uniforms
from rhapsode.qwen3.mlx.talker import Talker, suppressed
from rhapsode.qwen3.mlx.transformer import KV, causal_mask

REACH_STEP = 64  # a graph for each reach: as few as waste little of a step
State = dict[str, mx.array]  # by name, a row for each slot
Drawn = tuple[mx.array, mx.array, mx.array]  # what the predictor returns


def reach_of(written: int, length: int) -> int:
    """How far attention looks for lanes that wrote so many positions of `length`: few values, at most a quarter off."""
    step = max(REACH_STEP, 1 << max(0, (written - 1).bit_length() - 3))
    return min(-(-written // step) * step, length)


def allocate(talker: Talker, slots: int, limits: Limits) -> State:
    """Lanes that stand still."""
    config, dtype = talker.config, talker.dtype
    hidden = config.trunk.hidden
    return {
        "hidden": mx.zeros((slots, hidden), dtype),  # the talker's last state
        "code": mx.zeros(slots, mx.int32),  # code 0 of the frame to come
        "frame": mx.zeros(slots, mx.int32),  # frames done
        "ending": mx.full(slots, int(Ending.SPOKEN), mx.int32),
        "seen": mx.zeros((slots, config.vocab), mx.bool_),
        # One frame more than any cap: lanes that stand still write there.
        "done": mx.zeros((slots, limits.frames + 1, config.codebooks), mx.int32),
        "start": mx.zeros(slots, mx.int32),  # rows of the prompt
        "cap": mx.zeros(slots, mx.int32),
        "uniform": mx.zeros((slots, config.codebooks)),  # what the codes of the frame to come are drawn with
        "seeds": mx.zeros((slots, 2), mx.uint32),
        "trailing": mx.zeros((slots, limits.trailing, hidden), dtype),
        "trailing_count": mx.zeros(slots, mx.int32),
        "pad": mx.zeros((slots, hidden), dtype),
    }


class Step:
    """The two halves of a step, `predict` and `advance`, and the choice that ends an admission and a step."""

    def __init__(
        self, talker: Talker, predictor: Predictor, limits: Limits, penalty: float, first: Choice, deeper: Choice,
        *, scripted: bool = False, compiled: bool = True,
    ) -> None:  # fmt: skip
        """`scripted`: the end of speech is never drawn, and a line ends at its cap as if the model had ended it.

        `compiled`: whether the choices are pure functions, so that the whole may be one graph.
        """
        compiler: Callable[[Any], Any] = library.compiled if compiled else lambda function: function
        networks = _Networks(talker, predictor, limits, penalty, first, deeper, scripted)
        self.predict: Callable[[State], Drawn] = compiler(networks.predict)
        self.advance: Callable[..., tuple[State, list[mx.array]]] = compiler(networks.advance)
        self.choose = networks.choose


class _Networks:
    def __init__(
        self, talker: Talker, predictor: Predictor, limits: Limits, penalty: float, first: Choice, deeper: Choice,
        scripted: bool,
    ) -> None:  # fmt: skip
        self.talker, self.predictor, self.limits, self.penalty = talker, predictor, limits, penalty
        self.first, self.deeper = first, deeper
        config = talker.config
        self.suppressed = suppressed(config)
        self.suppressed_early = self.suppressed | (mx.arange(config.vocab) == config.eos)
        if scripted:
            self.suppressed = self.suppressed_early
        self.at_cap = int(Ending.SPOKEN if scripted else Ending.CAPPED)
        self.books = mx.arange(config.codebooks)
        mx.eval(self.suppressed, self.suppressed_early, self.books)

    def predict(self, state: State) -> Drawn:
        """The other codes of a frame, the sum of its embeddings, and a number that is finite if all of it was."""
        first = self.talker.code_embedding[state["code"]]
        return self.predictor(state["hidden"], first, state["uniform"][:, 1:], self.deeper)

    def advance(
        self, state: State, layers: list[mx.array], drawn: Drawn, last: mx.array, reach: int
    ) -> tuple[State, list[mx.array]]:
        """Keep the frame's codes, let the talker see it, and draw code 0 of the next.

        `layers`: keys and values, as `KV` keeps them. `last`: reach - 1, an array, as kernels are made anew for each
        number that stands in them.
        """
        (deeper, total, peak), state = drawn, dict(state)
        rows = mx.arange(len(deeper))
        running = state["ending"] == int(Ending.RUNNING)
        place = mx.where(running, state["frame"], self.limits.frames)
        codes = mx.concatenate([state["code"][:, None], deeper], axis=1)
        state["done"] = library.write(state["done"][:, None], rows, place, codes[:, None])[:, 0]
        here = mx.arange(self.talker.config.vocab) == state["code"][:, None]
        state["seen"] = state["seen"] | (running[:, None] & here)

        kv = KV(layers)
        positions = mx.minimum(state["start"] + state["frame"], last)
        x = (total + self._text(state))[:, None]
        mask = causal_mask(positions[:, None], reach, x.dtype)
        turn = self.talker.trunk.turning(positions[:, None])
        hidden = self.talker.trunk(x, turn, mask, kv.append(positions, reach))[:, 0]
        state["hidden"] = mx.where(running[:, None], hidden, state["hidden"])
        state["frame"] = state["frame"] + running.astype(mx.int32)
        return self.choose(state, running, mx.isfinite(peak)), kv.layers

    def _text(self, state: State) -> mx.array:
        if not self.limits.trailing:
            return state["pad"]
        place = mx.minimum(state["frame"], self.limits.trailing - 1)
        given = mx.take_along_axis(state["trailing"], place[:, None, None], axis=1)[:, 0]
        return mx.where((state["frame"] < state["trailing_count"])[:, None], given, state["pad"])

    def choose(self, state: State, lanes: mx.array, finite: mx.array) -> State:
        """Draw code 0 of the next frame of some lanes; the end of speech or the cap stops a lane."""
        logits = self.talker.logits(state["hidden"])
        finite = finite & mx.isfinite(logits.sum(-1))
        logits = penalise(logits, state["seen"], self.penalty)
        barred = mx.where(state["frame"][:, None] < MIN_FRAMES, self.suppressed_early, self.suppressed)
        logits = mx.where(barred, -mx.inf, logits)
        # Of all codes of the frame: what is made twice has kernels of its own each time.
        counters = (state["frame"][:, None] * len(self.books) + self.books).astype(mx.uint32)
        uniform = uniforms(state["seeds"], counters)
        code = self.first(logits, uniform[:, 0])
        ending = mx.where(state["frame"] >= state["cap"], self.at_cap, int(Ending.RUNNING))
        ending = mx.where(code == self.talker.config.eos, int(Ending.SPOKEN), ending)
        ending = mx.where(finite, ending, int(Ending.NOT_FINITE))
        return {
            **state,
            "uniform": uniform,
            "ending": mx.where(lanes, ending, state["ending"]).astype(mx.int32),
            "code": mx.where(lanes & (ending == int(Ending.RUNNING)), code, state["code"]),
        }
