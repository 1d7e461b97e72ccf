"""Where Triton is missing, makes no kernel or a wrong one, the plain twins compute, and it is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from rhapsode.qwen3.torch import kernels
from rhapsode.qwen3.torch.kernels import gate, has_triton, interpreted, runs_on, sentence, trouble

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    trouble.cache_clear()
    yield
    trouble.cache_clear()


def raises(both: Tensor) -> Tensor:
    raise RuntimeError("Failed to find C compiler. Please specify via CC.\nAnd more.")


@pytest.mark.skipif(not (has_triton() and interpreted()), reason="needs Triton, and no card")
def test_a_kernel_that_is_right_is_no_trouble() -> None:
    assert trouble(CPU) == "" and sentence(CPU).startswith("kernels by Triton ")


@pytest.mark.skipif(not has_triton(), reason="Triton is not installed")
@pytest.mark.parametrize(("launch", "said"), [
    (raises, "makes no kernel here (Failed to find C compiler. Please specify via CC.)"),
    (lambda both: both[:, :1] * 0.5, "kernels are wrong here (0.5 is not 0.7311)"),
    (lambda both: both[:, :1] * float("nan"), "kernels are wrong here"),
])  # fmt: skip
def test_what_is_in_the_way_is_said(
    launch: Callable[[Tensor], Tensor], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "launch", launch)
    assert said in trouble(CPU) and "several times slower" in sentence(CPU)


def test_without_triton_the_twins_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "has_triton", lambda: False)
    assert trouble(CUDA) == "Triton is not installed"
    assert not runs_on(CUDA) and not runs_on(CPU)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card")
def test_a_card_that_is_not_there_runs_no_kernels() -> None:
    assert not runs_on(CUDA) and trouble(CUDA)
