"""Every stage, one after the other, for a few steps of tiny networks on tones; and what the stages leave behind.

The clock is a stand-in, so that a stage has as many steps on any machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from rhapsode.engine import judge
from rhapsode.narrator import Options
from rhapsode.qwen3 import narrator
from rhapsode.qwen3.checkpoint import open_checkpoint
from rhapsode.qwen3.torch.encoder import CodecEncoder
from rhapsode.qwen3.torch.load import load_codec_encoder, load_model
from rhapsode.types import Line
from tests.training.stand_in import HELD_OUT, LABELS, SENTENCES, Clock, speak, write_texts
from training import codec, codes, common, export, narrow, polish, talker, teach
from training.audio import EXTRA, held_file, join_speech, pieces, read_speech, write_speech
from training.codec import Codec, CodecTraining
from training.common import Work, load
from training.layout import BOOKS, FRAME, NARROW, SPEAKERS, read_configs
from training.rows import RowMaker
from training.talker import Networks, Sizes, TalkerTraining
from training.talker_data import Texts, pools_by_length, read_utterances

SEGMENT = 10  # frames, in the place of the stages' own
TINY = ("--rows", "256", "--frames", "32")
FIRST_CODEC, ALL_CODEC, FIRST_TALKER, ALL_TALKER = "0.8", "1.6", "0.6", "1.2"


class Stages:
    """Stages as from the command line, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first: dict[str, Any] = {}  # the state after a stage's first run

    def run(self, stage: ModuleType, *options: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["stage", "--work", str(self.folder), *options])
            stage.main()

    def train(self, stage: ModuleType, seconds: str, *options: str) -> None:
        self.run(stage, "--seconds", seconds, "--device", "cpu", *options)

    def state(self, stage: str) -> dict[str, Any]:
        return load(self.folder / f"{stage}-state.pt")

    def log(self, stage: str) -> str:
        return (self.folder / f"{stage}.log").read_text()


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """More of them cost more than they bring."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def clock() -> Iterator[Clock]:
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        for module in (common, codec, polish, talker, teach):
            patch.setattr(module, "time", clock)
        for module in (codec, polish):
            patch.setattr(module, "SEGMENT", SEGMENT)
        patch.setattr(codec, "_SETTLING_VECTORS", 64)
        yield clock


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory, clock: Clock) -> Stages:
    """After `teach`: three voices."""
    folder = tmp_path_factory.mktemp("work")
    write_texts(folder)
    (folder / "speech").mkdir()
    work = Work(folder, "teach")
    for voice in ("joe", "kokoro", EXTRA):
        script = teach.Script.read(folder / "data" / "utterances.npz", "joe" if voice == "joe" else "kokoro")
        if voice != EXTRA:
            held = list(teach.speak_texts(script, range(script.held_out), speak))
            write_speech(held_file(folder, voice), join_speech(held, "cpu"))
        teach.teach(
            work, script, [speak], range(script.held_out, len(script)), voice, hours=1, seconds=100, first_piece=0,
            group=16, device="cpu",
        )  # fmt: skip
    work.done("speech")
    return Stages(folder)


@pytest.fixture(scope="module")
def encoded(taught: Stages) -> Stages:
    """After `codec`, twice."""
    taught.train(codec, FIRST_CODEC, "--rows", "1")
    taught.first["codec"] = taught.state("codec")
    taught.train(codec, ALL_CODEC, "--rows", "1")
    return taught


@pytest.fixture(scope="module")
def trained(encoded: Stages) -> Stages:
    """After `talker`, twice, and `polish`."""
    encoded.train(talker, FIRST_TALKER, *TINY)
    encoded.first["talker"] = encoded.state("talker")
    encoded.train(talker, ALL_TALKER, *TINY)
    encoded.train(polish, "0.7", "--rows", "1")
    return encoded


@pytest.fixture(scope="module")
def exported(trained: Stages) -> dict[str, Path]:
    """After `export`, with either decoder."""
    folders = {}
    for decoder in ("codec", "polished"):
        folders[decoder] = trained.folder / f"out-{decoder}"
        trained.run(export, "--out", str(folders[decoder]), "--decoder", decoder)
    return folders


def flat(value: Any, path: str = "") -> dict[str, torch.Tensor]:
    """Every tensor and number in nested containers, by its path."""
    if isinstance(value, dict):
        return {k: v for key, inner in value.items() for k, v in flat(inner, f"{path}/{key}").items()}
    if isinstance(value, (list, tuple)):
        return {k: v for i, inner in enumerate(value) for k, v in flat(inner, f"{path}/{i}").items()}
    return {path: torch.as_tensor(value)} if isinstance(value, (int, float, bool, torch.Tensor)) else {}


def assert_same_bits(one: Any, other: Any) -> None:
    one, other = flat(one), flat(other)
    assert one.keys() == other.keys() and len(one) > 20
    for name in one:
        assert torch.equal(one[name], other[name]), name


def assert_finite(tensors: dict[str, torch.Tensor]) -> None:
    assert tensors
    for name, tensor in tensors.items():
        assert tensor.isfinite().all(), name


# ------------------------------------------------------------------ what the stages leave


def test_what_was_spoken_became_codes(encoded: Stages) -> None:
    stored = load_file(encoded.folder / "codes.safetensors")
    speech = [read_speech(file) for voice in ("joe", "kokoro") for file in pieces(encoded.folder, voice)]
    assert len(stored["codes"]) == sum(len(part.samples) for part in speech) == int(stored["frames"].sum())
    assert stored["codes"].shape[1] == BOOKS and stored["codes"].max() > 0
    each = list(range(HELD_OUT, SENTENCES))
    assert stored["utterance"].tolist() == 2 * each and stored["speaker"].tolist() == [0] * len(each) + [1] * len(each)
    for speaker in SPEAKERS:
        held = load_file(codes.held_codes_file(encoded.folder, speaker))
        assert held["utterance"].tolist() == list(range(HELD_OUT))


def test_the_second_run_goes_on(trained: Stages) -> None:
    for stage in ("codec", "talker"):
        first, last = trained.first[stage]["state"], trained.state(stage)["state"]
        assert 0 < first["steps"] < last["steps"] and first["seconds"] < last["seconds"]
        assert f"goes on from step {first['steps']}" in trained.log(stage)
    assert trained.state("codec")["state"]["settled"]


def test_everything_is_finite_and_marked(trained: Stages) -> None:
    for name in ("codec-state", "talker-state", "codec", "talker", "predictor", "polished"):
        assert_finite(flat(load(trained.folder / f"{name}.pt")))
    assert {file.stem for file in trained.folder.glob("*.ok")} == {"speech", "codec", "codes", "talker", "polish"}
    assert not list(trained.folder.rglob("*.part"))


@pytest.mark.parametrize(
    ("stage", "seconds", "options"), [(codec, ALL_CODEC, ("--rows", "1")), (talker, ALL_TALKER, TINY)]
)
def test_a_run_without_steps_changes_nothing(trained: Stages, stage: ModuleType, seconds: str, options: Any) -> None:
    name = stage.__name__.split(".")[-1]
    before = trained.state(name)
    trained.train(stage, seconds, *options)
    assert_same_bits(before, trained.state(name))


# ------------------------------------------------------------------ the product takes it


@pytest.mark.parametrize("decoder", ["codec", "polished"])
def test_the_product_reads_a_line_with_it(
    exported: dict[str, Path], decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = open_checkpoint(exported[decoder], "small")
    assert checkpoint.codec.sample_rate == 24_000
    assert load_model(checkpoint, "cpu", "float32").device == "cpu"
    monkeypatch.setattr(judge, "cap_seconds", lambda text: 0.5)
    options = Options(checkpoint=str(exported[decoder]), voice="corinna", device="cpu", slots=1, tries=1)
    (take,) = narrator.load(options).read([Line(0, 1, "abc.", 1)])
    assert 0 < len(take.audio) <= 7 * FRAME and np.isfinite(take.audio).all()
    assert narrator.text_form(exported[decoder]) == "spoken"


def test_both_decoders_differ_and_all_else_is_the_same(exported: dict[str, Path]) -> None:
    one, other = (load_file(folder / "speech_tokenizer" / "model.safetensors") for folder in exported.values())
    differ = {name for name in one if not torch.equal(one[name], other[name])}
    assert differ and all(name.startswith("decoder.") for name in differ)
    assert not any("codebook" in name for name in differ), "the tables were settled with the codes"
    talkers = [(folder / "model.safetensors").read_bytes() for folder in exported.values()]
    assert talkers[0] == talkers[1]


def test_the_exported_encoder_finds_the_same_codes(trained: Stages, exported: dict[str, Path]) -> None:
    encoder = load_codec_encoder(open_checkpoint(exported["codec"], "small"), "cpu")
    speech = read_speech(pieces(trained.folder, "joe")[0])
    mine = load_file(trained.folder / "codes.safetensors")["codes"][: int(speech.frames[:8].sum())].long()
    found, start = [], 0
    with torch.no_grad():
        for frames in speech.frames[:8].tolist():
            wave = speech.samples[start : start + frames].reshape(1, -1).float() / 32768
            found.append(encoder(wave)[0])
            start += frames
    same = (torch.cat(found) == mine).float().mean(0)
    assert mine[:, 0].unique().numel() > 1 and same[0] > 0.95, same  # weights went through float16


def test_the_true_sizes_fit_into_the_package(tmp_path: Path) -> None:
    write_texts(tmp_path, small=False)
    model, sound = read_configs(tmp_path / "checkpoint")
    networks, whole = Networks(model, LABELS), Codec(sound, LABELS, "cpu")
    whole.publish()
    for part in ("talker", "predictor"):
        common.save(getattr(networks, part).state_dict(), tmp_path / f"{part}.pt")
    halves = {"encoder": whole.encoder.state_dict(), "decoder": whole.decoder.state_dict()}
    common.save(halves, tmp_path / "codec.pt")
    slim = CodecEncoder(replace(sound.encoder, intermediate=NARROW), sound.codebooks_kept)
    common.save(slim.state_dict(), tmp_path / "encoder.pt")
    size = export.export(tmp_path, tmp_path / "out", "codec")
    assert 20_000_000 < size <= export.MOST_BYTES - 60_000  # the true vocabulary is larger than this one
    assert sound.encoder.codebook_size & (sound.encoder.codebook_size - 1) == 0, "the official encoder wants that"


def test_narrowing_drops_what_does_nothing(taught: Stages) -> None:
    _, sound = read_configs(taught.folder / "checkpoint")
    torch.manual_seed(0)
    wide = Codec(sound, LABELS, "cpu").encoder.eval()
    units = sound.encoder.intermediate
    with torch.no_grad():
        for block in wide.blocks:
            block.down.weight[:, ::2] = 0  # type: ignore[union-attr, index, operator]
    waves = narrow.some_speech(taught.folder, 0.1)
    before = [wide.hidden(wave) for wave in waves]
    slim, lost = narrow.narrow(wide, waves, units // 2)
    assert max(lost) < 1e-3 and slim.config.intermediate == units // 2
    with torch.no_grad():
        for wave, wanted in zip(waves, before, strict=True):
            torch.testing.assert_close(slim.hidden(wave), wanted, atol=1e-4, rtol=1e-3)


def test_what_is_left_makes_up_for_what_went(taught: Stages) -> None:
    """Units twice over, the second ones quieter: they go, and the first ones speak for both."""
    _, sound = read_configs(taught.folder / "checkpoint")
    torch.manual_seed(0)
    wide = Codec(sound, LABELS, "cpu").encoder.eval()
    half = sound.encoder.intermediate // 2
    with torch.no_grad():
        for block in wide.blocks:
            block.up.weight[half:] = block.up.weight[:half]  # type: ignore[union-attr, index, operator]
            block.down.weight[:, half:] *= 0.1  # type: ignore[union-attr, index, operator]
    waves = narrow.some_speech(taught.folder, 0.1)
    before = wide.hidden(waves[0]).detach()
    slim, lost = narrow.narrow(wide, waves, half)
    assert max(lost) < 1e-3
    with torch.no_grad():
        torch.testing.assert_close(slim.hidden(waves[0]), before, atol=1e-4, rtol=1e-3)


def test_a_narrow_encoder_is_what_export_writes(trained: Stages, tmp_path: Path) -> None:
    for file in trained.folder.iterdir():
        if file.name in ("checkpoint", "speech", "data") or file.suffix == ".pt":
            (tmp_path / file.name).symlink_to(file)
    work = Stages(tmp_path)
    work.run(narrow, "--units", "16", "--minutes", "0.1")
    assert "64 units to 16" in work.log("narrow") and (tmp_path / "narrow.ok").exists()
    work.run(export, "--out", str(tmp_path / "out"))
    checkpoint = open_checkpoint(tmp_path / "out", "narrow")
    assert checkpoint.codec.encoder.intermediate == 16
    assert load_codec_encoder(checkpoint, "cpu").blocks[0].up.weight.shape[0] == 16  # type: ignore[union-attr]


# ------------------------------------------------------------------ they learn


def codec_training(work: Stages, rows: int, frames: int) -> CodecTraining:
    speech = read_speech(pieces(work.folder, "joe")[0])
    speech.samples, speech.labels = speech.samples[:frames], speech.labels[:frames]
    network = Codec(read_configs(work.folder / "checkpoint")[1], LABELS, "cpu").train()
    return CodecTraining(network, speech, "cpu", rows, codec.passes(network, False))


def talker_training(work: Stages) -> TalkerTraining:
    config, _ = read_configs(work.folder / "checkpoint")
    tokenizer = narrator.TextTokenizer(work.folder / "checkpoint", config.first_control_token)
    data = read_utterances(work.folder / "codes.safetensors", Texts.read(work.folder, tokenizer), "cpu")
    maker = RowMaker(config, tokenizer("\n")[0], data, "cpu")
    return TalkerTraining(Networks(config, LABELS).train(), maker, talker.block_pass, "cpu", Sizes(rows=256, frames=32))


def test_the_codec_learns_one_example(encoded: Stages) -> None:
    torch.manual_seed(0)
    training = codec_training(encoded, 1, SEGMENT + 1)
    training.rate.set(3e-3)

    def figures() -> dict[str, float]:
        found = training.averages.read().split()[2:]
        return dict(zip(found[::2], map(float, found[1::2]), strict=True))

    training.step()
    first = figures()
    for _ in range(20):
        training.step()
    figures()
    for _ in range(5):
        training.step()
    last = figures()
    names = dict(training.codec.named_parameters())
    still = {name for name, value in names.items() if value.grad is None or not value.grad.any()}
    assert still == {"encoder.quantiser.tables", "decoder.quantiser.tables"}, "gradients reach all but the tables"
    assert last["spectral"] < 0.6 * first["spectral"] and last["phoneme"] < 0.6 * first["phoneme"], (first, last)
    assert last["sketch"] < 0.8 * first["sketch"], (first, last)


def test_phonemes_do_not_pull_harder_where_tables_do(encoded: Stages, monkeypatch: pytest.MonkeyPatch) -> None:
    def pull(weight: float) -> Tensor:
        monkeypatch.setattr(codec, "_COMMIT_FIRST", weight)
        torch.manual_seed(0)
        training = codec_training(encoded, 1, SEGMENT + 1)
        training.codec.books.strength.fill_(1.0)  # rows at random, far from the vectors
        encode, found = training.encode, []

        def watched(wave: Tensor) -> Tensor:
            hidden = encode(wave)
            hidden.register_hook(found.append)
            return hidden

        training.encode = watched
        training.step()
        return found[0]

    none, some, twice = pull(0.0), pull(300.0), pull(600.0)
    assert float((some - none).norm()) > 0.3 * float(none.norm()), "the tables do pull"
    torch.testing.assert_close(twice - some, some - none, rtol=1e-3, atol=1e-4 * float(some.abs().max()))


def test_the_spectrum_pulls_at_the_encoder_as_hard_as_it_is_told(encoded: Stages) -> None:
    def pull(share: float) -> Tensor:
        torch.manual_seed(0)
        training = codec_training(encoded, 1, SEGMENT + 1)
        training.sketching.fill_(share)
        arrived: list[Tensor] = []
        plain = training.encode

        def watched(wave: Tensor) -> Tensor:
            made = plain(wave)
            made.register_hook(arrived.append)
            return made

        training.encode = watched
        training.step()
        return arrived[0]

    none, some, more = pull(0.0), pull(0.5), pull(1.0)
    assert (some - none).norm() > 0.1 * none.norm()
    torch.testing.assert_close(more - none, 2 * (some - none), atol=1e-3 * float(none.norm()), rtol=1e-2)


def test_vectors_find_their_size(encoded: Stages) -> None:
    torch.manual_seed(0)
    training = codec_training(encoded, 1, SEGMENT + 1)
    projections = training.codec.encoder.quantiser.first, training.codec.encoder.quantiser.rest
    with torch.no_grad():
        projections[0].weight.mul_(30)
        projections[1].weight.div_(30)
    training.rate.set(1e-4)

    def sizes() -> list[float]:
        torch.manual_seed(1)  # for the same segments
        with torch.no_grad():
            hidden = training.encode(training.segments(4)[0]).flatten(0, 1)
            return [float(part(hidden).square().mean().sqrt()) for part in projections]

    before = sizes()
    for _ in range(30):
        training.step()
    after = sizes()
    assert before[0] > 3 and after[0] < 0.7 * before[0] and before[1] < 0.5 and after[1] > 1.4 * before[1]
    training.codec.books.decay.fill_(1.0)
    training.rate.set(0.0)
    before = sizes()
    for _ in range(3):
        training.step()
    assert sizes() == pytest.approx(before, rel=0.02), "tables stand still"


def test_tables_are_settled_once_when_a_quarter_has_passed(
    encoded: Stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    training, state = codec_training(encoded, 1, SEGMENT + 3), {"steps": 0, "seconds": 0.0, "settled": False}
    settle, calls = training.settle, []

    def error() -> float:
        with torch.no_grad():
            hidden = training.encode(training.segments(4)[0]).flatten(0, 1)
            vectors = training.codec.encoder.quantiser.first(hidden)
            return float(training.codec.books.first(vectors)[2] / vectors.square().mean())

    def watched() -> None:
        before, strength = error(), float(training.codec.books.strength)
        settle()
        calls.append((state["steps"], strength, error() / before))

    monkeypatch.setattr(training, "settle", watched)
    codec.train(training, Work(tmp_path, "codec"), 3.0, 1e-3, state)
    ((steps, strength, share),) = calls
    assert 0.2 < steps / state["steps"] < 0.5 and strength == 0 and float(training.codec.books.strength) == 1
    assert share < 0.5, "rows lie where the vectors are"


def test_the_talker_learns_one_example(encoded: Stages) -> None:
    torch.manual_seed(0)
    training = talker_training(encoded)
    group = pools_by_length(training.maker.data)[0]
    group.members, training.sizes.rows = [members[:1] for members in group.members], 128
    training.rate_adam.set(3e-3)
    training.rate_muon.set(0.02)
    no = torch.zeros(2, dtype=torch.bool)
    batch = training.maker(torch.cat(group.members), 64, no, ~no)

    def figures() -> dict[str, float]:
        with torch.no_grad():
            found = training.losses(training.networks, training.maker.data, batch, training=False)
        return {name: float(value) for name, value in found.items()}

    first, before = figures(), {name: value.clone() for name, value in training.networks.named_parameters()}
    for _ in range(40):
        training.step(group, 64)
    last = figures()
    still = {name for name, value in training.networks.named_parameters() if torch.equal(before[name], value)}
    assert not still, "either of the optimisers has each of the weights"
    for name in ("book0", "deep", "name"):
        assert last[name] < 0.6 * first[name], (name, first, last)


# ------------------------------------------------------------------ they go on as if there had been no break


def test_the_codec_goes_on_to_the_bit(encoded: Stages, tmp_path: Path) -> None:
    one = codec_training(encoded, 1, 2 * SEGMENT)
    one.rate.set(1e-3)
    one.step()
    one.settle()
    state = {"steps": 1, "seconds": 1.0, "settled": True}
    codec.keep(one, state, tmp_path)
    torch.manual_seed(99)
    other = codec_training(encoded, 1, 2 * SEGMENT)
    assert codec.restore(other, load(tmp_path / "codec-state.pt")) == state
    for training in (one, other):
        torch.manual_seed(3)
        training.rate.set(2e-3)
        training.step()
    assert_same_bits(one.codec.state_dict(), other.codec.state_dict())
    assert_same_bits(one.listener.state_dict(), other.listener.state_dict())
    for name in ("optimiser", "hearing"):
        assert_same_bits(getattr(one, name).state_dict(), getattr(other, name).state_dict())


def test_the_talker_goes_on_to_the_bit(encoded: Stages, tmp_path: Path) -> None:
    one = talker_training(encoded)
    group = pools_by_length(one.maker.data)[0]
    one.schedule(0.2, 50)
    one.step(group, 64)
    common.save(one.state(), tmp_path / "state.pt")
    torch.manual_seed(99)
    other = talker_training(encoded)
    other.restore(load(tmp_path / "state.pt"))
    for training in (one, other):
        torch.manual_seed(3)
        training.schedule(0.7, 150)
        training.step(group, 64)
    assert_same_bits(one.state(), other.state())
