"""Every library function that a step relies on, against numpy in double precision, at the sizes that are used.

Knows what is asked. What is right is noted in `library.py` once for the process; a task that no way does right ends
with a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import numpy as np

from rhapsode.qwen3.config import CodecConfig, ModelConfig
from rhapsode.qwen3.mlx import library, questions
from rhapsode.qwen3.mlx.questions import REACH, TIME, Question
from rhapsode.qwen3.mlx.sizes import convolution_sizes, quantised_sizes, snake_sizes, snaked_sizes
from rhapsode.qwen3.trials import Clock, Trial, choose

CANDIDATES = 50  # that a code is usually drawn from
PROMPT = 24  # rows of a prompt, a third of them there before
MANY = 64  # rows of a prefill


def check(
    model: ModelConfig, codec: CodecConfig, dtype: mx.Dtype, bits: int | None, slots: int, clock: Clock | None = None
) -> list[Trial]:
    """Ask everything, and take from now on what is right. With a clock, what may be chosen by speed is.

    A process asks once for each size, device and format.
    """
    sizes = model.talker.trunk, model.predictor.trunk, model.talker.vocab, model.predictor.vocab, codec.decoder
    asked = str(mx.default_device()), sizes, str(dtype), bits, slots, clock is None
    if asked not in _found:
        _found[asked] = _ask(model, codec, dtype, bits, slots, clock)
    return _found[asked]


_found: dict[tuple[Any, ...], list[Trial]] = {}


def _ask(
    model: ModelConfig, codec: CodecConfig, dtype: mx.Dtype, bits: int | None, slots: int, clock: Clock | None
) -> list[Trial]:
    trials = []
    for one in ask_for(model, codec, dtype, bits, slots):
        ways = one.ways or library.WAYS[one.task]
        timed = clock if one.timed else None
        wait = mx.eval if questions.has_gpu() else None
        trial = choose(one.task, one.label, ways, one.inputs, one.truth, one.tolerance, one.read, timed, wait)
        if trial.taken and one.task in library.WAYS:
            library.take(one.task, one.size, trial.taken)
        trials.append(trial)
    return trials


def ask_for(
    model: ModelConfig, codec: CodecConfig, dtype: mx.Dtype, bits: int | None, slots: int
) -> Iterator[Question]:
    numbers = np.random.Generator(np.random.PCG64(0))
    yield questions.uniform_numbers(numbers, slots)
    for vocab in dict.fromkeys((model.talker.vocab, model.predictor.vocab)):
        yield questions.sort(numbers, slots, vocab)
        yield questions.largest(numbers, slots, vocab)
        for width in dict.fromkeys((min(CANDIDATES, vocab), vocab)):  # the user may choose among more or fewer
            yield questions.running_sum(numbers, slots, width)
    yield from _of_blocks(numbers, model, codec, dtype, slots)
    yield questions.write(numbers, slots, model.talker.trunk, dtype)
    for kind in dict.fromkeys((dtype, mx.float32)):
        yield questions.softmax(numbers, slots, model.talker.trunk, kind)
    if bits:
        for into, out in quantised_sizes(model):
            for rows in (slots, MANY):
                yield questions.quantised(numbers, rows, into, out, bits, dtype)
    yield questions.layer_norm(numbers, codec.decoder.latent)
    for size in convolution_sizes(codec.decoder):
        yield questions.convolution(numbers, size)
    for channels in snake_sizes(codec.decoder):
        yield questions.snake(numbers, channels)
    for snaked in snaked_sizes(codec.decoder):
        yield questions.snaked(numbers, snaked)
    yield questions.compiling(numbers, slots)


def _of_blocks(
    numbers: np.random.Generator, model: ModelConfig, codec: CodecConfig, dtype: mx.Dtype, slots: int
) -> Iterator[Question]:
    """What a transformer block asks: those of a step, of a prefill, and of the codec."""
    talker, predictor, decoder = model.talker.trunk, model.predictor.trunk, codec.decoder.trunk
    for trunk, kind, rows in ((talker, dtype, slots), (predictor, dtype, slots), (decoder, mx.float32, TIME)):
        yield questions.norm(numbers, rows, trunk.hidden, 0, trunk.eps, kind)
        if trunk.qk_norm:
            yield questions.norm(numbers, rows, trunk.head_dim, trunk.heads + 2 * trunk.kv_heads, trunk.eps, kind)
        yield questions.rotation(numbers, 2, PROMPT, trunk, kind)
        if trunk is not decoder:
            yield questions.rotation(numbers, slots, 1, trunk, kind)
            yield questions.product(numbers, rows, trunk, kind)
            yield questions.added(numbers, rows, trunk, kind)
    yield questions.attention(numbers, slots, 1, REACH, talker, dtype)
    yield questions.attention(numbers, 2, PROMPT * 2 // 3, PROMPT, talker, dtype)
    yield questions.attention(numbers, slots, 2, 2, predictor, dtype)
    yield questions.attention(numbers, slots, 1, model.talker.codebooks, predictor, dtype, masked=False)
    for new in (1, TIME):  # a piece may be of one frame
        yield questions.attention(numbers, 1, new, TIME, decoder, mx.float32, decoder.window)
