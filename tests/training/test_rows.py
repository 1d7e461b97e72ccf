"""Training rows against the prompts that the product makes, and training passes against the engine's modules."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from rhapsode.qwen3.prompt import PromptMaker
from rhapsode.qwen3.tokens import TextTokenizer
from rhapsode.qwen3.voices import choose
from training.audio import SLOTS
from training.layout import DEEP_CODES, SPEAKERS, write_layout
from training.passes import block_pass, frame_rows, predictor_logits, trunk_pass
from training.rows import END, NONE, RowMaker, Utterances, buckets
from training.talker import Networks

TEXTS = ("Hello there.", "A longer one; with assistants, and all.")
FRAMES = (5, 9)


def byte_vocabulary() -> tuple[dict[str, int], list[str]]:
    from tests.tiny_checkpoint import vocabulary

    return vocabulary()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("layout")
    config, _ = write_layout(folder, *byte_vocabulary())
    tokenizer = TextTokenizer(folder, config.first_control_token)
    tokens = [tokenizer(text) for text in TEXTS]
    flat = torch.tensor([token for line in tokens for token in line])
    starts = torch.tensor([0, len(tokens[0])])
    counts = torch.tensor([len(line) for line in tokens])
    frames = torch.tensor([0, FRAMES[0], sum(FRAMES)])
    torch.manual_seed(0)
    codes = torch.randint(0, DEEP_CODES, (sum(FRAMES), 16)).to(torch.int16)
    at = torch.arange(sum(FRAMES)).to(torch.int16) % 3
    labels = torch.zeros(sum(FRAMES), SLOTS, dtype=torch.uint8)
    data = Utterances(flat, starts, counts, codes, frames, at, labels, torch.tensor([0, 1]))
    return config, tokenizer, data


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("language", ["english", "auto"])
def test_rows_are_the_prompts_of_the_product(made, streaming: bool, language: str) -> None:
    config, tokenizer, data = made
    maker = RowMaker(config, tokenizer("\n")[0], data, "cpu")
    flags = torch.full((2,), streaming), torch.full((2,), language == "english")
    batch = maker(torch.tensor([0, 1]), 96, *flags)
    for row, (text, speaker) in enumerate(zip(TEXTS, SPEAKERS, strict=True)):
        prompt = PromptMaker(config, tokenizer, choose(config, speaker, language), streaming=streaming)(text)
        length, frames = len(prompt), FRAMES[row]
        assert batch.text[row, :length].tolist() == list(prompt.text)
        assert batch.codec[row, :length].tolist() == list(prompt.codec)
        trailing = [*prompt.trailing, *[prompt.pad] * frames][:frames]
        assert batch.text[row, length : length + frames].tolist() == trailing
        assert batch.codec[row, length:].eq(NONE).all()
        begin = int(data.frame_start[row])
        assert batch.frame[row, length : length + frames].tolist() == list(range(begin, begin + frames))
        assert batch.frame[row, :length].eq(NONE).all() and batch.frame[row, length + frames :].eq(NONE).all()
        target = [*range(begin, begin + frames), END]
        assert batch.target[row, length - 1 : length + frames].tolist() == target
        assert batch.target[row, : length - 1].eq(NONE).all() and batch.target[row, length + frames :].eq(NONE).all()
        first = batch.text[row].tolist().index(prompt.text[prompt.shared])
        assert batch.at[row, length - 1 : length - 1 + frames].tolist() == [
            first + int(value) for value in data.at[begin : begin + frames]
        ]


def test_every_utterance_falls_into_one_bucket_that_holds_it(made) -> None:
    config, tokenizer, data = made
    rows = data.rows()
    groups = buckets(rows, (24, 64))
    assert sorted(torch.cat(groups).tolist()) == [0, 1]
    maker = RowMaker(config, tokenizer("\n")[0], data, "cpu")
    for length, group in zip((24, 64), groups, strict=True):
        yes = torch.ones(len(group), dtype=torch.bool)
        for streaming in (yes, ~yes):
            assert maker(group, length, streaming, yes).target.eq(END).sum() == len(group)


@pytest.fixture(scope="module")
def networks(made):
    torch.manual_seed(1)
    networks = Networks(made[0], 20)
    with torch.no_grad():
        for parameter in networks.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.1)
            else:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return networks


def test_passes_compute_what_the_engine_computes(made, networks) -> None:
    from rhapsode.qwen3.torch.transformer import causal_mask

    trunk = networks.talker.trunk
    x = torch.randn(2, 20, trunk.shape.hidden)
    positions = torch.arange(20).unsqueeze(0)
    wanted = trunk(x, positions, causal_mask(positions, 20, x.dtype), lambda layer, key, value: (key, value))
    got, seen = trunk_pass(trunk, x, block_pass, watched=(2,))
    assert torch.allclose(got, wanted, atol=2e-5)
    assert seen[2][1].shape == (2, 20, trunk.shape.head_dim)


def test_predictor_pass_is_the_engines_step(made, networks) -> None:
    from rhapsode.qwen3.torch.sampling import Draw

    talker, predictor = networks.talker, networks.predictor
    hidden = torch.randn(3, talker.config.trunk.hidden)
    first_code = torch.tensor([1, 2, 3])
    first = talker.code_embedding(first_code)
    greedy = Draw(True, 1.0, 0, 1.0)
    kv = predictor.room(3, hidden)
    with torch.no_grad():
        codes, total, _ = predictor(hidden, first, torch.zeros(3, predictor.books), greedy, kv)
        logits = predictor_logits(predictor, hidden, first, codes, block_pass)
        assert torch.equal(logits.argmax(-1), codes)
        rows = frame_rows(talker, predictor, torch.cat((first_code.unsqueeze(1), codes), 1))
    assert torch.allclose(rows, total, atol=1e-5)
