"""Stage `talker`: talker and depth predictor learn to foretell the codes of speech from text.

`python -m training.talker --work W --seconds 1000`. Reads W/codes.safetensors and the texts, writes W/talker.pt.

The loss is the cross-entropy of book 0 and the end of speech, and that of the deeper books on some of the frames;
two more help to find the text early: the phonemes of the frame from the middle of the talker, and one head in two
layers that is asked to look at the token being said.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rhapsode.qwen3.config import ModelConfig
from rhapsode.qwen3.tokens import TextTokenizer
from rhapsode.qwen3.torch.predictor import Predictor
from rhapsode.qwen3.torch.talker import Talker
from rhapsode.qwen3.torch.transformer import Block, Trunk
from training.audio import SLOTS, label_count
from training.codes import held_codes_file
from training.common import Averages, Captured, Muon, Rate, Work, load, paced, prepare_torch, save, stage_parser
from training.layout import CODES, DEEP_CODES, SPEAKERS, read_configs
from training.passes import BlockPass, block_pass, compiled_pass, frame_rows, predictor_logits, trunk_pass
from training.rows import END, LANGUAGE_SHARE, STREAMING_SHARE, Batch, RowMaker, Utterances
from training.talker_data import LENGTHS, Pools, Texts, pools_by_length, random_utterances, read_utterances

GUIDED_LAYERS, NAMING_LAYER = (2, 4), 4
_REACH, _SIGMA = 3, 1.0  # tokens around the one that is said
_NAME, _GUIDE = 0.3, 0.2  # weights of the two helpers
_GUIDED_SHARE = 0.15  # of the training; later the head may look where it likes
_DROP = 0.1  # of the branches of blocks
_WRONG_FIRST, _WRONG_DEEP, _WRONG_ALL, _BLANK = 0.04, 0.06, 0.06, 0.04  # of the codes that come in
_WRONG_PREDICTOR = 0.03
_STATE = "talker-state.pt"
_CHECK_S = 60.0  # between two looks at held-out speech
_HELD_UTTERANCES, _HELD_ROWS = 96, 256
_DEEP_WEIGHTS = (1.5, 0.5)  # from book 1 to book 15: the first ones are heard most


@dataclass
class Sizes:
    """How much a step takes in, and the highest rates."""

    rows: int = 32_768  # of all utterances in a step
    frames: int = 6144  # whose deeper books are foretold
    muon: float = 0.02
    adam: float = 2e-3
    decay: float = 0.1


class Networks(nn.Module):
    """What is trained: talker, predictor, and a reader of phonemes that is not kept."""

    def __init__(self, config: ModelConfig, labels: int) -> None:
        super().__init__()
        self.talker = Talker(config.talker)
        self.predictor = Predictor(config.predictor, config.talker)
        self.reader = nn.Linear(config.talker.trunk.hidden, SLOTS * labels)
        self.labels = labels
        _begin(self)


def _begin(networks: Networks) -> None:
    """First values. Rows of the codec vocabulary that no prompt and no frame uses are zeros, and stay so."""
    for trunk in (networks.talker.trunk, networks.predictor.trunk):
        for block in trunk.blocks:
            assert isinstance(block, Block)
            for part in (block.qkv, block.gate_up):
                nn.init.normal_(part.weight, 0, 0.02)
            for part in (block.out, block.down):
                nn.init.normal_(part.weight, 0, 0.02 / math.sqrt(2 * len(trunk.blocks)))
    talker, predictor = networks.talker, networks.predictor
    config = talker.config
    used = torch.zeros(config.vocab, 1)
    used[: config.codes] = 1
    controls = (config.pad, config.bos, config.eos, config.think, config.nothink, config.think_bos, config.think_eos)
    for control in (*controls, *config.languages.values(), *config.speakers.values()):
        used[control] = 1
    with torch.no_grad():
        nn.init.normal_(talker.code_embedding.weight, 0, 0.02).mul_(used)
        nn.init.normal_(talker.head.weight, 0, 0.02).mul_(used)
    for part in (*predictor.embeddings, *predictor.heads):
        assert isinstance(part, (nn.Embedding, nn.Linear))
        nn.init.normal_(part.weight, 0, 0.02)
    nn.init.normal_(talker.text_embedding.weight, 0, 0.5)
    nn.init.normal_(talker.text_in.weight, 0, 0.09)
    nn.init.normal_(talker.text_out.weight, 0, 0.03)
    if isinstance(predictor.project, nn.Linear):
        nn.init.normal_(predictor.project.weight, 0, 0.06)


class TalkerTraining:
    """One step and what it needs; every number that changes lies on the device."""

    def __init__(self, networks: Networks, rows: RowMaker, one: BlockPass, device: str, sizes: Sizes) -> None:
        self.networks, self.maker, self.one, self.device, self.sizes = networks, rows, one, device, sizes
        self.average = copy.deepcopy(networks).eval().requires_grad_(False)
        self.rate_muon, self.rate_adam = Rate(device), Rate(device)
        matrices = [(p, parts) for trunk in _trunks(networks) for p, parts in _matrices(trunk)]
        taken = {id(p) for p, _ in matrices}
        self.learned = list(networks.parameters())
        self.muon = Muon(matrices, self.rate_muon, sizes.decay)
        self.adam = self.rate_adam.adamw((p for p in self.learned if id(p) not in taken), (0.9, 0.95), 0.0)
        self.guide = torch.tensor(_GUIDE, device=device)
        self.keep_average = torch.tensor(0.0, device=device)
        self.averages = Averages(("book0", "right", "deep", "book1", "book15", "name", "guide", "norm"), device)
        books = networks.predictor.books
        self.deep_weights = torch.linspace(*_DEEP_WEIGHTS, books, device=device)
        eos = networks.talker.config.eos
        self.wrong = torch.tensor([_WRONG_FIRST, *[_WRONG_DEEP] * books], device=device)
        self.outcomes = torch.tensor([*range(CODES), eos], device=device)

    def losses(self, networks: Networks, data: Utterances, batch: Batch, training: bool) -> dict[str, Tensor]:
        """Every figure of a batch of rows of `data`, each a scalar; in training with spoiled codes, dropped branches.

        "book0" of the codes of book 0 and the end, "right" the share of them foretold, "deep" of the others weighted,
        "book1" and "book15" two of them, "name" of the phonemes, "guide" of where heads look.
        """
        talker, predictor = networks.talker, networks.predictor
        one = self.one if training else block_pass  # compiling it for what is seldom run costs more than it saves
        codes = data.codes[batch.frame.clamp(min=0)].long().flatten(0, 1)
        inside = (batch.frame >= 0).flatten().unsqueeze(1)
        text = F.embedding(batch.text, talker.text_rows(torch.arange(talker.config.text_vocab, device=self.device)))
        control = F.embedding(batch.codec.clamp(min=0), talker.code_embedding.weight)
        x = text + control * (batch.codec >= 0).unsqueeze(-1)
        heard = frame_rows(talker, predictor, self._spoil(data, codes) if training else codes) * inside
        if training:
            heard = heard * (torch.rand(len(heard), 1, device=self.device) >= _BLANK)
        x = x + heard.view_as(x)
        hidden, seen = trunk_pass(talker.trunk, x, one, _DROP if training else 0.0, GUIDED_LAYERS)

        target = batch.target.flatten()
        wanted = torch.where(target >= 0, data.codes[target.clamp(min=0), 0].long(), target)
        wanted = wanted.masked_fill(target == END, CODES)
        flat = hidden.flatten(0, 1)
        logits = F.linear(flat, talker.head.weight[self.outcomes])
        book0 = F.cross_entropy(logits, wanted, ignore_index=-1)
        some = self._some_frames(target)
        weight = (target[some] >= 0).float()
        weight = weight / weight.sum().clamp(min=1)
        frames = target[some].clamp(min=0)
        deep = self._deep(networks, flat[some], data.codes[frames].long(), one, training)
        named = networks.reader(seen[NAMING_LAYER][0].flatten(0, 1)[some]).view(-1, networks.labels)
        labels = data.labels[frames].long().flatten()
        name = (F.cross_entropy(named, labels, reduction="none").view(-1, SLOTS).mean(1) * weight).sum()
        deep = (deep * weight.unsqueeze(1)).sum(0)
        with torch.no_grad():
            right = ((logits.argmax(-1) == wanted) & (wanted >= 0)).sum() / (wanted >= 0).sum()
        return {
            "book0": book0, "right": right, "deep": (deep * self.deep_weights).mean(), "book1": deep[0],
            "book15": deep[-1], "name": name, "guide": self._guided(batch, seen) if training else book0 * 0,
        }  # fmt: skip

    def _spoil(self, data: Utterances, codes: Tensor) -> Tensor:
        """Some codes [n, books] replaced by another frame's: what comes in while speaking is not always right."""
        other = data.codes[torch.randint(len(data.codes), (len(codes),), device=self.device)].long()
        wrong = torch.rand(codes.shape, device=self.device)
        whole = torch.rand(len(codes), 1, device=self.device) < _WRONG_ALL
        replaced = (wrong < self.wrong) | (whole & (torch.arange(codes.shape[1], device=self.device) > 0))
        return torch.where(replaced, other, codes)

    def _some_frames(self, target: Tensor) -> Tensor:
        """Rows whose frame is foretold, drawn at random, as many as a step has room for."""
        order = torch.rand(len(target), device=self.device).masked_fill(target < 0, -1.0)
        return order.topk(min(self.sizes.frames, len(target))).indices

    def _deep(self, networks: Networks, hidden: Tensor, codes: Tensor, one: BlockPass, training: bool) -> Tensor:
        """Hidden states [n, hidden], codes [n, books] -> cross-entropy of every deeper book [n, books - 1]."""
        first = F.embedding(codes[:, 0], networks.talker.code_embedding.weight)
        given = codes[:, 1:]
        if training:
            wrong = torch.rand(given.shape, device=self.device) < _WRONG_PREDICTOR
            given = torch.where(wrong, torch.randint(DEEP_CODES, given.shape, device=self.device), given)
        logits = predictor_logits(networks.predictor, hidden, first, given, one)
        return F.cross_entropy(logits.flatten(0, 1), codes[:, 1:].flatten(), reduction="none").view(given.shape)

    def _guided(self, batch: Batch, seen: dict[int, Any]) -> Tensor:
        """How far one head looks from the token that is said; on a quarter of the rows, those with whole text."""
        rows = max(1, len(batch.text) // 4)
        length = batch.text.shape[1]
        at, counted = batch.at[:rows], (batch.target[:rows] >= 0) & ~batch.streaming[:rows].unsqueeze(1)
        near = at.unsqueeze(-1) + torch.arange(-_REACH, _REACH + 1, device=self.device)
        weight = torch.exp(-0.5 * ((near - at.unsqueeze(-1)).float() / _SIGMA) ** 2)
        weight = weight / weight.sum(-1, keepdim=True)
        hidden = torch.ones(length, length, dtype=torch.bool, device=self.device).triu(1)
        total = torch.zeros((), device=self.device)
        for layer in GUIDED_LAYERS:
            _, query, key = seen[layer]
            scores = (query[:rows] @ key[:rows].transpose(1, 2)).float() * query.shape[-1] ** -0.5
            scores = scores.masked_fill(hidden, -1e9).log_softmax(-1)
            looked = (scores.gather(2, near.clamp(0, length - 1)) * weight).sum(-1)
            total = total - (looked * counted).sum() / counted.sum().clamp(min=1)
        return total / len(GUIDED_LAYERS)

    def step(self, pools: Pools, length: int) -> None:
        """One step on utterances drawn from those that fit a length. No host work: it is captured."""
        count = max(1, self.sizes.rows // length)
        chosen = pools.draw(count)
        streaming = torch.rand(count, device=self.device) < STREAMING_SHARE
        language = torch.rand(count, device=self.device) < LANGUAGE_SHARE
        batch = self.maker(chosen, length, streaming, language)
        losses = self.losses(self.networks, self.maker.data, batch, training=True)
        self.adam.zero_grad(set_to_none=True)
        for parameter in self.learned:
            parameter.grad = None
        loss = losses["book0"] + losses["deep"] + _NAME * losses["name"] + self.guide * losses["guide"]
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.learned, 1.0)
        self.adam.step()
        self.muon.step()
        with torch.no_grad():
            for slow, fast in zip(self.average.parameters(), self.learned, strict=True):
                slow.lerp_(fast, 1 - self.keep_average)
        self.averages.add(*(losses[name] for name in self.averages.names[:-1]), norm)

    def schedule(self, share: float, steps: int) -> None:
        """Rates and weights for the next step. share: of the training's time that has passed."""
        rise = min(1.0, (steps + 1) / 200)
        fall = 1.0 if share < 0.4 else max(0.0, (1 - share) / 0.6) * 0.98 + 0.02
        self.rate_muon.set(self.sizes.muon * rise * fall)
        self.rate_adam.set(self.sizes.adam * rise * fall)
        self.guide.fill_(_GUIDE if share < _GUIDED_SHARE else 0.0)
        self.keep_average.fill_(0.99 if steps < 1000 else 0.999)

    def state(self) -> dict[str, Any]:
        """All that `restore` needs to go on as if there had been no break."""
        return {
            "networks": self.networks.state_dict(), "average": self.average.state_dict(),
            "adam": self.adam.state_dict(),
            "muon": {f"{a} {b}": value for (a, b), value in self.muon.momentum.items()},
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Weights, average and optimisers as `state` gave them."""
        self.networks.load_state_dict(state["networks"])
        self.average.load_state_dict(state["average"])
        self.rate_adam.restore(self.adam, state["adam"])
        for (a, b), value in self.muon.momentum.items():
            value.copy_(state["muon"][f"{a} {b}"])


def _trunks(networks: Networks) -> tuple[Trunk, Trunk]:
    return networks.talker.trunk, networks.predictor.trunk


def _matrices(trunk: Trunk) -> list[tuple[Tensor, tuple[int, ...]]]:
    """The matrices of the blocks, and how many rows each of the matrices fused in them has."""
    shape = trunk.shape
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    found: list[tuple[Tensor, tuple[int, ...]]] = []
    for block in trunk.blocks:
        assert isinstance(block, Block)
        found += [
            (block.qkv.weight, (query, key, key)),
            (block.out.weight, (shape.hidden,)),
            (block.gate_up.weight, (shape.intermediate, shape.intermediate)),
            (block.down.weight, (shape.hidden,)),
        ]
    return found


Held = dict[str, tuple[Utterances, Batch]]  # of each speaker


def train(training: TalkerTraining, work: Work, seconds: float, state: dict[str, Any], held: Held) -> None:
    """Until `seconds` of training in all runs have passed; the data has been put in place."""
    data = training.maker.data
    groups = pools_by_length(data)
    left_out = int((data.rows() > LENGTHS[-1]).sum())
    work.say(f"utterances by length: {[sum(map(len, g.members)) for g in groups]}, {left_out} too long")
    # Longer rows come in smaller batches: an utterance of any length is to be drawn equally often.
    batches = [max(1, training.sizes.rows // length) for length in LENGTHS]
    shares = np.array([float(g.chances.sum()) / batch for g, batch in zip(groups, batches, strict=True)])
    steps: dict[int, Captured] = {}
    pool: Any = None
    chance = np.random.default_rng(state["steps"])
    checked = time.monotonic()
    for share in paced(work, training.averages, training.device, seconds, state):
        training.schedule(share, state["steps"])
        which = int(chance.choice(len(LENGTHS), p=shares / shares.sum()))
        if which not in steps:
            step = partial(training.step, groups[which], LENGTHS[which])
            steps[which] = Captured(step, training.device, pool=pool, warm=2)
        steps[which]()
        pool = pool or steps[which].pool
        if time.monotonic() - checked > _CHECK_S:
            checked = time.monotonic()
            check(training, held, work)
            keep(training, work.folder)
    check(training, held, work)


@torch.no_grad()
def check(training: TalkerTraining, held: Held, work: Work) -> None:
    """Losses on held-out speech. They tell of trouble; which run is better, only listening tells."""
    for name, (data, batch) in held.items():
        found = training.losses(training.average, data, batch, training=False)
        figures = " ".join(f"{key} {float(found[key]):.4f}" for key in ("book0", "right", "deep", "book1", "name"))
        work.say(f"held-out {name}: {figures}")


def main() -> None:
    parser = stage_parser(__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=1000.0, help="of training, in all runs together")
    parser.add_argument("--rows", type=int, default=Sizes.rows, help="rows of a step, of all utterances together")
    parser.add_argument("--frames", type=int, default=Sizes.frames, help="frames whose deeper books are foretold")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    options = parser.parse_args()
    work, device = Work(options.work, "talker"), options.device
    prepare_torch(options.seed)
    config, _ = read_configs(options.work / "checkpoint")
    labels = label_count(options.work)
    tokenizer = TextTokenizer(options.work / "checkpoint", config.first_control_token)
    maker = RowMaker(config, tokenizer("\n")[0], random_utterances(config, labels, device), device)
    one = compiled_pass() if options.compile else block_pass
    networks = Networks(config, labels).to(device).train()
    training = TalkerTraining(networks, maker, one, device, Sizes(rows=options.rows, frames=options.frames))
    if options.compile:
        _warm_up(training, work)
    texts = Texts.read(options.work, tokenizer)
    work.say(f"{len(texts.start)} texts")
    work.wait("codes", 1500)
    held = read_held(maker, texts, options.work, device)
    maker.data = read_utterances(options.work / "codes.safetensors", texts, device)
    work.say(f"{len(maker.data.speaker)} utterances, {len(maker.data.codes)} frames")
    state: dict[str, Any] = {"steps": 0, "seconds": 0.0}
    if (options.work / _STATE).exists():
        saved = load(options.work / _STATE, device)
        training.restore(saved)
        state = saved["state"]
        work.say(f"goes on from step {state['steps']}")
    train(training, work, options.seconds, state, held)
    save({**training.state(), "state": state}, options.work / _STATE)
    keep(training, options.work)
    work.done("talker")
    work.say(f"done after {state['steps']} steps")


def keep(training: TalkerTraining, folder: Path) -> None:
    """The running average of the weights, as it would be shipped."""
    for part in ("talker", "predictor"):
        weights = getattr(training.average, part).state_dict()
        save({name: value.to(torch.bfloat16).cpu() for name, value in weights.items()}, folder / f"{part}.pt")


def read_held(maker: RowMaker, texts: Texts, work: Path, device: str) -> Held:
    """Of each speaker up to 96 of the held-out utterances that fit, as one batch, text given whole."""
    held: Held = {}
    for number, name in enumerate(SPEAKERS):
        maker.data = read_utterances(held_codes_file(work, name), texts, device, number)
        fitting = (maker.data.rows() <= _HELD_ROWS).nonzero().squeeze(1)[:_HELD_UTTERANCES]
        whole = torch.zeros(len(fitting), dtype=torch.bool, device=device)
        held[name] = maker.data, maker(fitting, _HELD_ROWS, whole, ~whole)
    return held


def _warm_up(training: TalkerTraining, work: Work) -> None:
    """Compile every length on noise; nothing of it stays in the weights."""
    before = {name: value.clone() for name, value in training.networks.state_dict().items()}
    groups = pools_by_length(training.maker.data)
    for length, group in zip(LENGTHS, groups, strict=True):
        if float(group.chances.sum()):
            training.step(group, length)
            work.say(f"compiled for {length} rows")
    captured = Captured(lambda: training.step(groups[0], LENGTHS[0]), training.device, warm=1)
    for _ in range(3):
        captured()
    work.say(f"a step {'can' if captured.is_captured else 'cannot'} be captured")
    training.networks.load_state_dict(before)
    training.average.load_state_dict(before)
    for state in training.adam.state.values():
        for value in state.values():
            value.zero_()
    for value in training.muon.momentum.values():
        value.zero_()


if __name__ == "__main__":
    main()
