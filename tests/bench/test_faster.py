"""The package with CUDA graphs: made to end lines where they are scripted, and asked for only where it can be had."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest
import torch

from rhapsode.bench import faster
from rhapsode.bench.faster import require_faster, scripted
from rhapsode.errors import UserError

EOS = 7


def sample(logits: torch.Tensor, *, suppress_eos_mask: torch.Tensor | None, eos_id: int, **how: Any) -> torch.Tensor:
    """The likeliest, as the package draws without chance."""
    logits = logits.clone()
    if suppress_eos_mask is not None:
        logits[suppress_eos_mask, eos_id] = float("-inf")
    return logits.argmax(-1)


def test_every_row_ends_at_its_frame_and_nowhere_else() -> None:
    """Of logits that would end at once: a prompt's draw for two lines, then draws for the three rows of the graph."""
    draw = scripted(sample, [2, 4, 0], EOS)
    logits = torch.zeros(3, 10)
    logits[:, EOS], logits[:, 5] = 9.0, 4.0
    drawn = [draw(logits[:2], suppress_eos_mask=None, eos_id=EOS, top_k=50)]
    drawn += [draw(logits, suppress_eos_mask=None, eos_id=EOS) for _ in range(5)]
    assert drawn[0].tolist() == [5, 5]
    assert [one.tolist()[0] for one in drawn] == [5, 5, EOS, EOS, EOS, EOS]
    assert [one.tolist()[1] for one in drawn] == [5, 5, 5, 5, EOS, EOS]
    assert {one.tolist()[2] for one in drawn[1:]} == {EOS}  # a row without a line


def test_it_is_for_cuda_and_in_one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="--against faster is for --device cuda"):
        require_faster("cpu")
    for version, said in (("0.3.0", "installed is 0.3.0"), (None, "installed is none")):

        def found(name: str, version: str | None = version) -> str:
            if version is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return version

        monkeypatch.setattr(faster.importlib.metadata, "version", found)
        with pytest.raises(UserError, match=said):
            require_faster("cuda:1")
    monkeypatch.setattr(faster.importlib.metadata, "version", lambda name: faster.VERSION)
    require_faster("cuda")
