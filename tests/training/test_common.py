"""What the stages share: the folder, the pace, the optimisers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.training.stand_in import Clock
from training import common
from training.common import Averages, Captured, Muon, Rate, Work, load, paced, save


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(common, "time", clock)
    return clock


# ------------------------------------------------------------------ the folder


def test_a_wait_comes_to_an_end(tmp_path: Path, clock: Clock) -> None:
    work = Work(tmp_path, "talker")
    with pytest.raises(TimeoutError, match="talker waited 30 s for codes"):
        work.wait("codes", 30)
    assert 30 < clock.now < 40
    Work(tmp_path, "codec").done("codes")
    work.wait("codes", 0)


def test_a_file_is_whole_or_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "weights.pt"
    save({"a": torch.ones(3)}, file)

    def broken(value: Any, part: Path) -> None:
        part.write_bytes(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", broken)
    with pytest.raises(KeyboardInterrupt):
        save({"a": torch.zeros(3)}, file)
    assert load(file)["a"].tolist() == [1, 1, 1]


# ------------------------------------------------------------------ the pace


def test_a_run_has_its_seconds_and_the_next_goes_on(tmp_path: Path, clock: Clock) -> None:
    work, averages, state = Work(tmp_path, "codec"), Averages(("loss",), "cpu"), {"steps": 0, "seconds": 0.0}
    shares = []
    for share in paced(work, averages, "cpu", 20, state):
        averages.add(torch.tensor(2.0))
        shares.append(share)
    assert state["steps"] == len(shares) and state["seconds"] == 20
    assert shares == sorted(shares) and 0 < shares[0] < 0.02 and 0.97 < shares[-1] < 1
    assert "loss 2.0000" in (tmp_path / "codec.log").read_text()
    further = list(paced(work, averages, "cpu", 40, state))
    assert further[0] > 0.5 and state["steps"] == len(shares) + len(further)
    assert list(paced(work, averages, "cpu", 10, state)) == [] and state["seconds"] == 40


def test_averages_begin_anew_when_they_were_read() -> None:
    averages = Averages(("one", "two"), "cpu")
    for value in (1.0, 3.0):
        averages.add(torch.tensor(value), torch.tensor(10 * value))
    assert averages.read().endswith("one 2.0000 two 20.0000")
    assert averages.read().endswith("one 0.0000 two 0.0000")


@pytest.mark.parametrize("later", [3.0, float("nan"), float("inf")])
def test_a_training_that_comes_apart_is_ended(later: float) -> None:
    averages = Averages(("loss", "norm"), "cpu")
    for value in (2.5, 2.0, 2.2, 2.7):  # a loss goes up and down
        averages.add(torch.tensor(value), torch.tensor(1e6 * value))
        averages.read()
    averages.add(torch.tensor(later), torch.tensor(1.0))
    with pytest.raises(RuntimeError, match="came apart: loss was 2.0000, now"):
        averages.read()


def test_without_a_gpu_a_captured_step_is_just_called() -> None:
    calls = []
    captured = Captured(lambda: calls.append(None), "cpu")
    for _ in range(7):
        captured()
    assert len(calls) == 7 and not captured.is_captured and captured.pool is None


# ------------------------------------------------------------------ the optimisers


def test_an_optimiser_goes_by_the_rate_before_and_after_it_was_restored() -> None:
    weights = nn.Parameter(torch.zeros(1))
    rate = Rate("cpu")
    optimiser = rate.adamw([weights], (0.9, 0.95), 0.0)

    def moved(by: float) -> float:
        rate.set(by)
        before = weights.detach().clone()
        weights.grad = torch.ones(1)
        optimiser.step()
        return float(before - weights.detach())

    assert moved(0.5) == pytest.approx(0.5, rel=1e-4) and moved(0.0) == 0
    rate.restore(optimiser, optimiser.state_dict())
    assert moved(0.25) == pytest.approx(0.25, rel=1e-4) and moved(0.0) == 0


def stepped(shape: tuple[int, int], rows: tuple[int, ...], gradient: torch.Tensor, decay: float = 0.0) -> torch.Tensor:
    """What one step at a rate of 1 takes away from zeros."""
    weights = nn.Parameter(torch.zeros(shape))
    rate = Rate("cpu")
    rate.set(1.0)
    weights.grad = gradient
    Muon([(weights, rows)], rate, decay).step()
    return -weights.detach()


@pytest.mark.parametrize("shape", [(24, 24), (12, 40), (40, 12)])
def test_muon_moves_alike_in_every_direction(shape: tuple[int, int]) -> None:
    gradient = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    gradient[:, 0] *= 30
    change = stepped(shape, (shape[0],), gradient)
    size = torch.linalg.svdvals(change) / max(1, shape[0] / shape[1]) ** 0.5
    assert size.max() < 1.3 and size.median() > 0.6 and torch.linalg.svdvals(gradient).max() > 50
    left, _, right = torch.linalg.svd(gradient, full_matrices=False)
    turned = (left.t() @ change @ right.t()).diagonal()
    assert turned.min() > 0, "the directions are those of the gradient"


def test_muon_takes_the_parts_of_a_fused_matrix_apart() -> None:
    gradient = torch.randn(36, 16, generator=torch.Generator().manual_seed(0))
    gradient[:20] *= 100
    fused = stepped((36, 16), (20, 8, 8), gradient)
    alone = [stepped((len(part), 16), (len(part),), part) for part in gradient.split((20, 8, 8))]
    torch.testing.assert_close(fused, torch.cat(alone))
    assert not torch.allclose(fused, stepped((36, 16), (36,), gradient), atol=0.1)


def test_muon_refuses_parts_that_do_not_make_up_the_matrix() -> None:
    with pytest.raises(ValueError, match=r"parts of \(20, 8\) rows do not make up \(36, 16\)"):
        stepped((36, 16), (20, 8), torch.zeros(36, 16))


def test_muon_remembers_and_shrinks() -> None:
    weights = nn.Parameter(torch.ones(4, 4))
    rate = Rate("cpu")
    rate.set(0.5)
    muon = Muon([(weights, (4,))], rate, 0.1)
    weights.grad = torch.zeros(4, 4)
    muon.step()
    assert weights.detach().unique().tolist() == pytest.approx([0.95])
    weights.grad = torch.eye(4)
    muon.step()
    torch.testing.assert_close(muon.momentum[4, 4][0], 0.05 * torch.eye(4))
