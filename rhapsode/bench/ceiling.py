"""What this machine could do at best: memory, products at the talker's shapes, and all products of a frame.

Knows modules and a stopwatch. The floor of a frame is every product of talker and predictor in their order, with the
weights where they lie, and nothing else: no attention, no sampling, no norms.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rhapsode.bench.stopwatch import Stopwatch
from rhapsode.qwen3.torch.load import FORMATS, Model
from rhapsode.qwen3.torch.transformer import Block, Trunk

COPY_BYTES = 256 << 20  # beyond any cache
PRODUCT_ROWS = 512  # enough that a product waits for arithmetic, not for weights


@torch.inference_mode()
def copy_rate(device: str, watch: Stopwatch) -> float:
    """Bytes read and written in a second by a plain copy, the best of five."""
    source = torch.ones(COPY_BYTES, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    return 2 * COPY_BYTES / min(watch.repeat(lambda: target.copy_(source), warm_up=1, times=5).runs)


@torch.inference_mode()
def product_rate(model: Model, watch: Stopwatch, rows: int = PRODUCT_ROWS) -> float:
    """Operations a second of the talker's widest product at many rows, the best of three."""
    block = _blocks(model.talker.trunk)[0]
    x = _input(block.shape.hidden, rows, model)
    operations = 2 * rows * block.shape.hidden * 2 * block.shape.intermediate
    return operations / min(watch.repeat(lambda: block.gate_up(x), warm_up=1, times=3).runs)


@torch.inference_mode()
def floor(model: Model, lanes: int, watch: Stopwatch, times: int = 3) -> float:
    """Seconds of every product of one frame at these lanes."""
    frame = frame_products(model, lanes)
    if model.device.startswith("cuda"):
        frame = _captured(frame)
    return watch.repeat(frame, warm_up=2, times=times).median


def frame_products(model: Model, lanes: int) -> Callable[[], None]:
    """A function that makes all products of a frame, in order."""
    talker, predictor = model.talker, model.predictor
    wide = _input(talker.trunk.shape.hidden, lanes, model)
    deep = _input(predictor.trunk.shape.hidden, lanes, model)
    two_wide, two_deep = wide.repeat(2, 1), deep.repeat(2, 1)

    def frame() -> None:
        for book in range(predictor.books):
            predictor.project(two_wide if book == 0 else wide)
            _trunk_products(predictor.trunk, two_deep if book == 0 else deep)
            predictor.heads[book](deep)
        _trunk_products(talker.trunk, wide)
        talker.head(wide)

    return frame


def _trunk_products(trunk: Trunk, x: Tensor) -> None:
    for block in _blocks(trunk):
        shape = block.shape
        mixed = block.qkv(x)[:, : shape.heads * shape.head_dim]
        block.out(mixed)
        block.down(block.gate_up(x)[:, : shape.intermediate])


def _blocks(trunk: nn.Module) -> list[Block]:
    return [part for part in trunk.modules() if isinstance(part, Block)]


def _input(width: int, rows: int, model: Model) -> Tensor:
    return torch.full((rows, width), 0.5, dtype=FORMATS[model.format], device=model.device)


def _captured(work: Callable[[], None]) -> Callable[[], None]:
    """The same work as one CUDA graph: what is measured is then not how fast Python launches it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay
