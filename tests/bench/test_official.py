"""The official package over our random weights: the same model, made to end where lines are scripted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from rhapsode.bench import official as official_module
from rhapsode.bench.measure import BookRun, scripted_stepper
from rhapsode.bench.official import Official, compare
from rhapsode.bench.requests import readings
from rhapsode.bench.source import Source
from rhapsode.bench.stopwatch import Clock
from rhapsode.bench.workload import Script, Workload
from rhapsode.engine.decode import Policy, decode
from rhapsode.qwen3.torch.codec import CausalConv
from rhapsode.qwen3.torch.load import Model
from rhapsode.types import Sampling

BOOK = Workload(tuple(Script(tokens, frames) for tokens, frames in ((4, 6), (7, 9), (3, 4))))


@pytest.fixture(scope="module")
def model(source: Source) -> Model:
    return source.build("cpu", "float32")


def test_it_is_the_same_model(source: Source, model: Model) -> None:
    """Greedy codes and the sound of them, in one batch; every line as long as it should be."""
    lines, official = readings(BOOK, source.model), Official(source, model)
    stepper = model.stepper(
        Sampling(greedy=True), slots=3, prompt=max(len(r.request.prompt) for r in lines), frames=9,
        sample_rate=24000, scripted=True,
    )  # fmt: skip
    ours = {one.line: one for one in decode(lines, stepper, lambda line, attempt: lines[line].request, Policy(tries=1))}
    asked = [(reading.request.prompt, reading.request.cap) for reading in lines]
    theirs = official.codes(asked, do_sample=False, subtalker_dosample=False)
    waves, _ = official.tokenizer.decode([{"audio_codes": codes} for codes in theirs])
    for line, codes in enumerate(theirs):
        assert np.array_equal(codes.numpy(), ours[line].codes), f"line {line}"
        assert np.abs(waves[line] - ours[line].wave).max() < 1e-4 * np.abs(ours[line].wave).max()
    assert official.read(asked) == [1920 * frames for _, frames in asked]


def test_weights_are_shared(source: Source, model: Model) -> None:
    theirs = Official(source, model).model.talker.model.layers[0].self_attn.k_proj.weight
    fused = model.talker.trunk.blocks[0].qkv.weight
    start = fused.untyped_storage().data_ptr()
    assert start < theirs.data_ptr() < start + fused.numel() * fused.element_size()


def test_weights_made_in_inference_mode_are_taken(source: Source) -> None:
    """As those of a codec are that was made narrow in part."""
    with torch.inference_mode():
        model = source.build("cpu", "float32")
        conv = next(part for part in model.codec.modules() if isinstance(part, CausalConv))
        conv.weight = nn.Parameter(conv.weight.bfloat16(), requires_grad=False)
    assert conv.weight.is_inference()
    assert Official(source, model).read([(readings(BOOK, source.model)[0].request.prompt, 6)]) == [1920 * 6]


def test_turns_are_taken(source: Source, model: Model, ticking: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(official_module, "ALONE", 2)
    turns: list[str] = []
    run = BookRun(model, source.model, source.codec, BOOK, 2, "refill", ticking)
    found = compare(run, source, 2, turns.append)
    assert [row.name for row in found.rows] == [
        "ours", "official, one at a time", "official, batches of 2 in book order",
    ]  # fmt: skip
    assert [row.seconds.runs for row in found.rows] == [(1.0, 1.0)] * 3
    assert [(row.lines, row.audio_s) for row in found.rows] == [(3, 19 / 12.5), (2, 15 / 12.5), (3, 19 / 12.5)]
    # In the same time, of fewer lines.
    assert [row.ratio for row in found.rows] == [1.0, pytest.approx(19 / 15), 1.0]
    assert (found.lines, found.audio_s) == (3, 19 / 12.5)
    assert [turn.rpartition(",")[0] for turn in turns] == [row.name for row in found.rows] * 2


def test_one_slot_needs_no_batches(source: Source, model: Model, ticking: Clock) -> None:
    run = BookRun(model, source.model, source.codec, BOOK.first(1), 1, "refill", ticking)
    assert [row.name for row in compare(run, source, 1, lambda message: None).rows] == [
        "ours", "official, one at a time",
    ]  # fmt: skip
    assert scripted_stepper(model, source.codec, run.readings, 1).slots == 1
