"""The estimate for machines that were not at hand: its terms, and that the table in the documents is what it gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rhapsode.bench.counts import FRAMES_A_SECOND, Counts, count, estimate
from rhapsode.bench.source import find_source

POSITIONS = 230


@pytest.fixture(scope="module")
def counts() -> Counts:
    source = find_source("1.7b", None)
    assert source.codec.frame_rate == FRAMES_A_SECOND
    return count(source.model, source.codec)


def test_the_table_in_the_documents_is_what_it_gives(counts: Counts) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "bench.md").read_text(encoding="utf-8")
    number = r"([\d.]+)"
    rows = re.findall(r"^\| (M\d[ \w]*) \|" + rf" {number} \|" * 5 + "$", text, re.M)
    assert len(rows) == 12
    for chip, bandwidth, rate, *said in rows:
        wanted = [estimate(counts, float(bandwidth) * 1e9, float(rate) * 1e12, n, POSITIONS) for n in (1, 8, 24)]
        assert [float(one) for one in said] == pytest.approx(wanted, abs=6e-4), chip


def test_the_slower_of_memory_and_arithmetic_counts(counts: Counts) -> None:
    endless = 1e30
    by_memory = estimate(counts, 1e11, endless, 8, POSITIONS)
    weights = 2 * (counts.talker.weights + counts.predictor.weights)
    assert by_memory == pytest.approx(12.5 * (weights / 8 + 2 * POSITIONS * counts.kv_numbers) / 1e11)
    by_arithmetic = estimate(counts, endless, 1e12, 8, POSITIONS)
    assert by_arithmetic == pytest.approx(12.5 * 10.436e9 / 1e12, rel=1e-3)
    assert estimate(counts, 1e11, 1e12, 8, POSITIONS) <= by_memory + by_arithmetic
