"""A step as two graphs: made once for each reach, the same codes as without them, keys written where they lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from rhapsode.engine.stepper import Request  # noqa: E402
from rhapsode.qwen3.checkpoint import Checkpoint  # noqa: E402
from rhapsode.qwen3.limits import Limits  # noqa: E402
from rhapsode.qwen3.mlx import library  # noqa: E402
from rhapsode.qwen3.mlx.load import load_model  # noqa: E402
from rhapsode.qwen3.mlx.memory import PREFILL  # noqa: E402
from rhapsode.qwen3.mlx.step import REACH_STEP, reach_of  # noqa: E402
from rhapsode.qwen3.mlx.stepper import MlxStepper  # noqa: E402
from rhapsode.qwen3.prompt import Prompt  # noqa: E402
from rhapsode.types import Sampling  # noqa: E402
from tests.engine.torch_lanes import limits_for, read, seed_of  # noqa: E402

STEPPER: Any = MlxStepper


@pytest.fixture(scope="module")
def model(checkpoint: Checkpoint) -> Any:
    return load_model(checkpoint, "float32", 3)


def scripted(model: Any, limits: Limits, slots: int, kind: Any = STEPPER) -> Any:
    networks = model.talker, model.predictor, model.codec
    return kind(*networks, Sampling(), slots=slots, limits=limits, sample_rate=24000, scripted=True)


def begin(lanes: Any, prompts: list[Prompt], cap: int) -> None:
    lanes.admit([(slot, Request(prompts[slot], cap, seed_of(slot))) for slot in range(lanes.slots)])


class Counted:
    """In a network's place: how often Python goes through it."""

    def __init__(self, network: Any) -> None:
        self.network, self.calls = network, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.network, name)

    def __call__(self, *inputs: Any) -> Any:
        self.calls += 1
        return self.network(*inputs)


def test_a_line_is_stepped_by_few_graphs(model: Any, prompts: list[Prompt]) -> None:
    """Python goes through the networks once for each reach, however many frames there are."""
    frames = 200
    lanes = scripted(model, limits_for(prompts, frames), 2)
    predictor = Counted(model.predictor)
    lanes.predictor = predictor
    lanes.talker = talker = Counted(model.talker)
    talker.trunk = Counted(model.talker.trunk)
    lanes._step = lanes._made(*_draws(), compiled=True)
    begin(lanes, prompts, frames)
    before = talker.trunk.calls
    for _ in range(frames - 1):
        lanes.step()
    lanes.synchronise()
    longest = max(len(prompt) for prompt in prompts[:2])
    reaches = {reach_of(longest + frame, lanes.kv.length) for frame in range(1, frames)}
    assert len(reaches) <= 5
    assert predictor.calls == 1
    assert talker.trunk.calls - before == len(reaches)


@pytest.mark.skipif(mx.default_device() != mx.Device(mx.cpu), reason="where kernels are kept is known of the CPU build")
def test_another_reach_makes_no_kernel(
    model: Any, prompts: list[Prompt], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that is made while a line is read costs a second on some machines: no number of a reach is in one."""
    if library.taken("compiling").name != "compile":
        pytest.skip("steps are no graphs here")
    longest = max(len(prompt) for prompt in prompts[:2])
    lanes = scripted(model, Limits(longest, 2 * REACH_STEP), 2)
    begin(lanes, prompts, 2 * REACH_STEP)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "before"))
    (tmp_path / "before").mkdir()
    lanes.step()
    lanes.synchronise()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "after"))
    (tmp_path / "after").mkdir()
    reaches = set()
    for _ in range(2 * REACH_STEP - 1):
        lanes.step()
        reaches.add(reach_of(max(lanes._reach.values()), lanes.kv.length))
    lanes.synchronise()
    assert len(reaches) > 1 and lanes.kv.length in reaches
    assert not list((tmp_path / "after").rglob("*.cpp"))


def _draws() -> tuple[Any, Any]:
    from rhapsode.qwen3.mlx.sampling import Draw

    return Draw(False, 0.9, 50, 1.0), Draw(False, 0.9, 50, 1.0)


def test_graphs_give_the_codes_that_single_steps_give(
    model: Any, prompts: list[Prompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = read(model, prompts, range(4), 3, kind=STEPPER)
    monkeypatch.setitem(library._taken, ("compiling", ()), library.WAYS["compiling"][1])
    found = read(model, prompts, range(4), 3, kind=STEPPER)
    assert all(np.array_equal(found[line][0], codes) for line, (codes, _) in wanted.items())


def test_keys_are_written_where_they_lie(model: Any, prompts: list[Prompt]) -> None:
    """Steps hold less than a copy of one layer's keys beside those that there are, and the codes."""
    before = mx.get_active_memory()
    lanes = scripted(model, Limits(64, 30_000), 2)
    begin(lanes, prompts, 30_000)
    lanes.synchronise()
    mx.reset_peak_memory()
    for _ in range(5):
        lanes.step()
        lanes.finished()
    lanes.synchronise()
    keys = lanes.kv.layers[0].nbytes // 2
    assert keys > 5e6
    allowed = lanes.kv_bytes + 2 * lanes.state["done"].nbytes + keys
    assert mx.get_peak_memory() - before < allowed


@pytest.mark.parametrize(("written", "length", "wanted"), [
    (1, 1000, 64), (64, 1000, 64), (65, 1000, 128), (300, 1000, 320), (513, 2000, 640), (990, 1000, 1000),
])  # fmt: skip
def test_reach_is_one_of_few(written: int, length: int, wanted: int) -> None:
    assert reach_of(written, length) == wanted


def test_reach_is_never_far_off() -> None:
    for written in range(1, 5000):
        reach = reach_of(written, 10_000)
        assert 0 <= reach - written < max(REACH_STEP, written / 4 + 1)


def test_prefill_is_bounded_and_shared_rows_are_computed_once(
    model: Any, prompts: list[Prompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many lines at once go through the talker in groups, without the rows that all of them begin with."""
    lanes = scripted(model, limits_for(prompts, 4), 48)
    rows: list[tuple[int, ...]] = []
    plain = model.talker.prompt_rows

    def watched(text: Any, codec: Any) -> Any:
        rows.append(tuple(text.shape))
        return plain(text, codec)

    monkeypatch.setattr(model.talker, "prompt_rows", watched)
    lanes.admit([(slot, Request(prompts[slot % 7], 4, seed_of(slot))) for slot in range(48)])
    shared = prompts[0].shared
    assert shared and rows[0][0] == 1 and rows[0][1] >= shared
    assert sum(lines for lines, _ in rows[1:]) == 48 and len(rows) > 2
    assert all(lines * width <= PREFILL for lines, width in rows[1:])
    assert max(width for _, width in rows[1:]) < max(len(prompt) for prompt in prompts)
    before = len(rows)
    lanes.admit([(0, Request(prompts[0], 4, 1))])
    assert len(rows) == before + 1, "the rows that all share are not computed again"


def test_a_line_is_the_same_admitted_alone_or_among_many(model: Any, prompts: list[Prompt]) -> None:
    many = read(model, prompts, range(7), 7, kind=STEPPER)
    for line in range(7):
        alone = read(model, prompts, [line], 1, kind=STEPPER)
        assert np.array_equal(alone[line][0], many[line][0]), f"line {line}"
