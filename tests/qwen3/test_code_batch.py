"""Codes of lines as one batch for the codec: filled up at the end, and refused where no table holds them."""

from __future__ import annotations

import numpy as np
import pytest

from rhapsode.qwen3.limits import code_batch


def test_shorter_lines_are_filled_up() -> None:
    batch = code_batch([np.full((3, 2), 5), np.full((1, 2), 7), np.zeros((0, 2), int)], 2, 8)
    assert batch.dtype == np.int64 and batch.tolist() == [[[5, 5]] * 3, [[7, 7], [0, 0], [0, 0]], [[0, 0]] * 3]


@pytest.mark.parametrize("codes", [-1, 8])
def test_codes_that_no_table_holds_are_refused(codes: int) -> None:
    line = np.array([[0, 7], [codes, 3]])
    with pytest.raises(ValueError, match=f"codes from {min(codes, 0)} to {max(codes, 7)}; .* hold 0 to 7"):
        code_batch([line], 2, 8)


def test_no_lines_and_no_frames_are_an_empty_batch() -> None:
    assert code_batch([], 2, 8).size == code_batch([np.zeros((0, 2), int)], 2, 8).size == 0
