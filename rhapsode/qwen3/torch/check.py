"""The library functions that a step relies on, on a PyTorch device, against numpy in double precision.

Knows which sizes a configuration uses. Changes nothing: there is no second way here, so what is wrong is only said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from rhapsode.qwen3.config import CodecConfig, ModelConfig
from rhapsode.qwen3.torch.formats import FORMATS, Int8Linear
from rhapsode.qwen3.torch.sampling import uniforms
from rhapsode.qwen3.torch.transformer import ROW_STEP
from rhapsode.qwen3.trials import Trial, Way, choose, random_numbers

TIME, REACH, KERNEL = 64, 512, 7
# Largest difference over the peak; a GPU may round float32 products to fewer bits.
TOLERANCES = {torch.float32: 5e-3, torch.bfloat16: 4e-2}
INT8_TOLERANCE = 6e-2

Question = tuple[str, str, Way, tuple[Tensor, ...], np.ndarray, float]


@torch.inference_mode()
def check(model: ModelConfig, codec: CodecConfig, device: str, format: str, slots: int) -> list[Trial]:
    numbers, place = np.random.Generator(np.random.PCG64(0)), torch.device(device)
    asked = _questions(numbers, model, codec, place, format, slots)
    return [
        choose(task, size, (way,), inputs, truth, tolerance, _numpy)
        for task, size, way, inputs, truth, tolerance in asked
    ]


def _numpy(found: Tensor) -> np.ndarray:
    return (found.float() if found.is_floating_point() else found).cpu().numpy()


def _questions(
    numbers: np.random.Generator, model: ModelConfig, codec: CodecConfig, place: torch.device, format: str, slots: int
) -> Iterator[Question]:
    dtype, trunk = FORMATS[format], model.talker.trunk

    def given(*size: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, np.ndarray]:
        """Numbers on the device, and the same for numpy as the type rounded them."""
        made = torch.from_numpy(numbers.standard_normal(size, dtype=np.float32)).to(place, dtype)
        return made, made.double().cpu().numpy()

    words, counters = (numbers.integers(0, most, (slots, n)) for most, n in ((2**32, 2), (2**20, 16)))
    truth = random_numbers(words.astype(np.uint32), counters.astype(np.uint32))
    inputs = torch.from_numpy(words).to(place), torch.from_numpy(counters).to(place)
    yield _asked("random numbers", "arithmetic", uniforms, inputs, truth, 0.0)
    for vocab in dict.fromkeys((model.talker.vocab, model.predictor.vocab)):
        rows = np.stack([numbers.permutation(vocab) for _ in range(slots)]).astype(np.float32)
        there = torch.from_numpy(rows).to(place)
        first = min(50, vocab)
        yield _asked("sort", "topk", lambda x, k=first: x.topk(k)[1], (there,), np.argsort(-rows, -1)[:, :first], 0.0)
        yield _asked("largest", "argmax", lambda x: x.argmax(-1), (there,), rows.argmax(-1), 0.0)
        truth = rows.astype(np.float64).cumsum(-1)
        yield _asked("running sum", "cumsum", lambda x: x.cumsum(-1), (there,), truth, 1e-4)
    scores, wide = given(slots, trunk.heads, 1, REACH, dtype=dtype)
    hidden = np.arange(REACH) >= np.maximum(1, np.linspace(0, REACH, slots).astype(int))[:, None, None, None]
    wide = np.exp(np.where(hidden, -np.inf, wide))
    masked = scores.masked_fill(torch.from_numpy(hidden).to(place), float("-inf"))
    truth = wide / wide.sum(-1, keepdims=True)
    yield _asked("softmax", "softmax", lambda x: x.softmax(-1), (masked,), truth, TOLERANCES[dtype])
    x, rows = given(slots, trunk.hidden, dtype=dtype)
    weight, wide = given(3 * trunk.hidden, trunk.hidden, dtype=dtype)
    truth = rows @ wide.T
    if format == "int8":
        yield _asked("int8 product", "oneDNN", lambda x, w: Int8Linear(w)(x), (x, weight), truth, INT8_TOLERANCE)
    else:
        yield _asked("product", "linear", F.linear, (x, weight), truth, TOLERANCES[dtype])
    if dtype == torch.float32 and place.type == "cpu":
        yield _rows_alike(given(4 * ROW_STEP, trunk.hidden)[0], weight)
    channels = codec.decoder.channels // 2
    (sound, wave), (taps, wide) = given(1, channels, TIME + KERNEL - 1), given(channels, channels, KERNEL)
    truth = np.sum([np.einsum("oi,rit->rot", wide[..., k], wave[..., k : k + TIME]) for k in range(KERNEL)], axis=0)
    yield _asked("convolution", "conv1d", F.conv1d, (sound, taps), truth, TOLERANCES[torch.float32])


def _asked(
    task: str, name: str, run: Callable[..., Tensor], inputs: tuple[Tensor, ...], truth: np.ndarray, tolerance: float
) -> Question:
    return task, " and ".join(" x ".join(map(str, x.shape)) for x in inputs), Way(name, run), inputs, truth, tolerance


def _rows_alike(x: Tensor, weight: Tensor) -> Question:
    """That a row of a product is the same to the bit in any batch is what keeps lines from each other's sound."""

    def differing(x: Tensor, weight: Tensor) -> Tensor:
        whole, part = F.linear(x, weight), F.linear(x[:ROW_STEP], weight)
        return (whole[:ROW_STEP] != part).sum().view(1)

    size = f"{len(x)} and {ROW_STEP} x {x.shape[1]}"
    return "rows alike in any batch", size, Way("linear", differing), (x, weight), np.zeros(1), 0.0
