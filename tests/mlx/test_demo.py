"""The embedded voice on MLX: what it says is what it says on PyTorch, code for code, with two voices and refill."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")

from rhapsode.narrator import Options  # noqa: E402
from rhapsode.qwen3.narrator import Qwen3Narrator, load  # noqa: E402
from rhapsode.types import Line, Speaker, Take  # noqa: E402

TOLERANCE = 1e-3  # of the peak
TEXTS: list[tuple[Speaker, str]] = [
    ("narration", "The boat came in."), ("dialogue", "No."), ("narration", "He said so."),
]  # fmt: skip


def read(device: str, greedy: bool) -> tuple[dict[int, np.ndarray], dict[int, Take]]:
    """Codes and takes of the lines, two at a time."""
    narrator = load(
        Options(
            device=device, format="float32", voice="ion", dialogue_voice="corinna", slots=2,
            sampling={"greedy": greedy},
        )
    )  # fmt: skip
    assert isinstance(narrator, Qwen3Narrator)
    codes: dict[int, np.ndarray] = {}
    plain = narrator._take

    def watched(line: Line, finished: Any) -> Take:
        codes[line.key] = np.array(finished.codes)
        return plain(line, finished)

    narrator._take = watched  # type: ignore[method-assign]
    lines = [Line(n, 1, text, 1000 + n, speaker=who) for n, (who, text) in enumerate(TEXTS)]
    return codes, {take.line.key: take for take in narrator.read(lines)}


@pytest.mark.parametrize("greedy", [False, True], ids=["sampled", "greedy"])
def test_both_back_ends_say_the_same(greedy: bool) -> None:
    (wanted, theirs), (found, ours) = read("cpu", greedy), read("mlx", greedy)
    assert len(wanted) == len(TEXTS)
    for key, codes in wanted.items():
        assert np.array_equal(codes, found[key]), f"line {key}"
        wave = theirs[key].audio
        assert np.abs(wave - ours[key].audio).max() <= TOLERANCE * np.abs(wave).max()
