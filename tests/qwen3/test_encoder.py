"""The codec encoder by itself: pieces against whole, what it learns by, the search in the tables, what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from rhapsode.errors import CheckpointError
from rhapsode.qwen3.checkpoint import Checkpoint, open_checkpoint
from rhapsode.qwen3.config import EncoderConfig, read_codec_config
from rhapsode.qwen3.torch import encoder as encoder_module
from rhapsode.qwen3.torch.encoder import CodecEncoder, EncoderQuantiser, StridedConv, context_positions
from rhapsode.qwen3.torch.load import load_codec_encoder
from rhapsode.qwen3.torch.weights import load_encoder
from tests.qwen3.conftest import GONE, edit
from tests.qwen3.test_weights import CODEC, assert_each_lands_once, parameters, same
from tests.qwen3.test_weights import replace as replace_file

CPU = torch.device("cpu")
TOLERANCE = 1e-5  # of the largest state
SAMPLES = 30 * 1920 + 700


@pytest.fixture(scope="module")
def encoder(custom: Checkpoint) -> CodecEncoder:
    return load_codec_encoder(custom, "cpu")


@pytest.fixture(scope="module")
def narrow(custom: Checkpoint) -> CodecEncoder:
    """The same weights under a window that 30 frames leave far behind."""
    return like(load_encoder(custom, CPU), window=9)


def like(encoder: CodecEncoder, **changes: Any) -> CodecEncoder:
    made = CodecEncoder(replace(encoder.config, **changes), encoder.quantiser.kept)
    made.load_state_dict(encoder.state_dict())
    return made


def noise(samples: int, rows: int = 1, seed: int = 0) -> Tensor:
    return 0.3 * torch.randn(rows, samples, generator=torch.Generator().manual_seed(seed))


@torch.inference_mode()
def hear(encoder: CodecEncoder, wave: Tensor, piece: int = 10_000) -> Tensor:
    return encoder.hidden(wave, piece)


def deviation(ours: Tensor, whole: Tensor) -> float:
    assert ours.shape == whole.shape and whole.std() > 0.1
    return float((ours - whole).abs().max() / whole.abs().max())


@pytest.mark.parametrize("piece", [1, 2, 7, 30, 31])
@pytest.mark.parametrize("which", ["encoder", "narrow"])
def test_pieces_are_heard_as_the_whole(piece: int, which: str, request: pytest.FixtureRequest) -> None:
    encoder: CodecEncoder = request.getfixturevalue(which)
    wave = noise(SAMPLES, rows=2)
    assert deviation(hear(encoder, wave, piece), hear(encoder, wave)) <= TOLERANCE
    with torch.inference_mode():
        assert torch.equal(encoder(wave, piece), encoder(wave))


def test_fewer_samples_of_context_are_heard(encoder: CodecEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    wave, enough = noise(SAMPLES, rows=2), context_positions(encoder.config)
    whole = hear(encoder, wave)
    for context, fits in ((enough, True), (enough + 3, True), (enough - 1, False), (0, False)):
        monkeypatch.setattr(encoder_module, "context_positions", lambda _, context=context: context)
        found = deviation(hear(encoder, wave, 4), whole)
        assert (found <= TOLERANCE) is fits, f"{context} positions of context: deviation {found}"


def test_the_window_bounds_what_the_transformer_sees(encoder: CodecEncoder, narrow: CodecEncoder) -> None:
    """One block looks back 9 positions, 4 frames and a half, and the convolutions around it 3 frames more."""
    wave = noise(SAMPLES)
    changed = torch.cat((noise(1920, seed=8), wave[:, 1920:]), 1)
    differs = (hear(narrow, wave) - hear(narrow, changed)).abs().amax((0, 2)) > 0
    assert differs[:5].all() and not differs[9:].any()
    assert ((hear(encoder, wave) - hear(encoder, changed)).abs().amax((0, 2)) > 0).all()


def test_the_future_is_not_heard(encoder: CodecEncoder) -> None:
    wave = noise(SAMPLES)
    changed = torch.cat((wave[:, : 20 * 1920], noise(SAMPLES, seed=9)[:, 20 * 1920 :]), 1)
    before, after = hear(encoder, wave), hear(encoder, changed)
    assert deviation(after[:, :20], before[:, :20]) <= TOLERANCE
    assert deviation(after, before) > 100 * TOLERANCE


@pytest.mark.parametrize(("samples", "frames"), [(1, 1), (1919, 1), (1920, 1), (1921, 2), (19_200, 10)])
def test_a_begun_frame_counts(encoder: CodecEncoder, samples: int, frames: int) -> None:
    assert encoder.frames(samples) == frames == hear(encoder, noise(samples)).shape[1]


def test_a_recording_has_samples(encoder: CodecEncoder) -> None:
    with pytest.raises(ValueError, match="without samples"):
        encoder(torch.zeros(2, 0))


# ------------------------------------------------------------------ training


def gradients(encoder: CodecEncoder, wave: Tensor, piece: int) -> dict[str, Tensor]:
    encoder = like(encoder).to(wave.dtype).requires_grad_(True)
    encoder.hidden(wave, piece).square().mean().backward()
    return {name: p.grad for name, p in encoder.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("piece", [256, 7])
def test_every_weight_before_the_tables_learns(encoder: CodecEncoder, piece: int) -> None:
    """In single precision, where attention is written out, as in double, where it is the library's."""
    wave = noise(20 * 1920 + 700, rows=2)
    single, double = gradients(encoder, wave, piece), gradients(encoder, wave.double(), 256)
    assert single.keys() == {name for name in encoder.state_dict() if not name.startswith("quantiser.")}
    for name, gradient in single.items():
        assert gradient.abs().max() > 0
        torch.testing.assert_close(gradient.double(), double[name], rtol=1e-3, atol=1e-3 * float(gradient.abs().max()))


def test_autocast(encoder: CodecEncoder) -> None:
    wave, learner = noise(SAMPLES, rows=2), like(encoder).requires_grad_(True)
    whole = hear(encoder, wave)
    with torch.autocast("cpu", torch.bfloat16):
        hidden = learner.hidden(wave)
        codes = learner.quantiser(whole)
    hidden.float().square().mean().backward()
    assert hidden.dtype == torch.bfloat16 and 1e-4 < deviation(hidden.detach().float(), whole) < 0.1
    assert torch.equal(codes, encoder.quantiser(whole)), "codes are searched in single precision"


def test_compiles_in_one_graph(encoder: CodecEncoder) -> None:
    wave = noise(3 * 1920)
    compiled = torch.compile(encoder.hidden, backend="eager", fullgraph=True)
    assert torch.equal(compiled(wave), encoder.hidden(wave))


# ------------------------------------------------------------------ parts


@pytest.mark.parametrize("padding", ["constant", "replicate"])
@pytest.mark.parametrize("time", [1, 2, 3, 9, 10])
def test_strided_convolution_is_its_sum(padding: str, time: int) -> None:
    torch.manual_seed(1)
    conv = StridedConv(2, 3, 3, padding=padding).double()
    x = torch.randn(1, 2, time, dtype=torch.float64)
    steps = -(-time // 3)
    wanted = conv.bias[:, None].expand(3, steps).clone()
    for step in range(steps):
        for k in range(6):
            at = 3 * step + k - 3
            outside = not 0 <= at < time
            if not outside or padding == "replicate":
                wanted[:, step] += conv.weight[:, :, k] @ x[0, :, min(max(at, 0), time - 1)]
    torch.testing.assert_close(conv(x)[0], wanted)


@pytest.mark.parametrize("rows_at_a_time", [1, 4, 4096])
@pytest.mark.parametrize("semantic", [1, 2])
def test_codes_are_the_nearest_of_what_is_left(
    encoder: CodecEncoder, rows_at_a_time: int, semantic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_module, "SEARCH_ROWS", rows_at_a_time)
    quantiser = EncoderQuantiser(replace(encoder.config, semantic_codebooks=semantic), kept=5)
    quantiser.load_state_dict(encoder.quantiser.state_dict())
    hidden = torch.randn(2, 3, encoder.config.hidden, generator=torch.Generator().manual_seed(4))
    codes = quantiser(hidden)
    assert codes.shape == (2, 3, 5) and codes.dtype == torch.int64
    for row in range(2):
        for frame in range(3):
            wanted: list[int] = []
            for projection, books in ((quantiser.first, range(semantic)), (quantiser.rest, range(semantic, 5))):
                left = projection.weight.double() @ hidden[row, frame].double()
                for book in books:
                    distances = (quantiser.tables[book].double() - left).norm(dim=1)
                    wanted.append(int(distances.argmin()))
                    left = left - quantiser.tables[book, wanted[-1]].double()
            assert codes[row, frame].tolist() == wanted


# ------------------------------------------------------------------ files


def load(checkpoint: Checkpoint) -> CodecEncoder:
    return load_encoder(checkpoint, CPU)


def read_by_encoding(name: str) -> bool:
    return name.startswith("encoder.") and "output_proj" not in name and not name.endswith("initialized")


def test_every_tensor_of_the_codec_encoder_is_used(own: Path) -> None:
    checkpoint = open_checkpoint(own)
    names = [name for name in checkpoint.codec_header if read_by_encoding(name)]
    dim = checkpoint.codec.encoder.codebook_dim
    assert_each_lands_once(own, own / CODEC, names, load, lambda name: dim if name.endswith("cluster_usage") else 1)


def test_what_encoding_does_not_read_changes_nothing(own: Path) -> None:
    checkpoint, tensors = open_checkpoint(own), load_file(own / CODEC)
    before = parameters(load(checkpoint))
    replace_file(own / CODEC, {n: t if read_by_encoding(n) else t + 1.0 for n, t in tensors.items()})
    after = parameters(load(checkpoint))
    assert all(same(after[name], before[name]) for name in before)


def test_an_encoder_is_ready_to_listen(custom: Checkpoint, own: Path) -> None:
    tensors = load_file(custom.codec_file)
    encoder = load(custom)
    assert not any(p.is_meta or p.requires_grad for p in encoder.parameters())
    assert not any(b.is_meta for b in encoder.buffers()) and not encoder.training
    assert encoder.config.window is None and load_encoder(custom, CPU, windowed=True).config.window == 250
    layer = "encoder.encoder_transformer.layers.0"
    assert same(encoder.blocks[0].norm_in.weight, tensors[f"{layer}.input_layernorm.weight"])
    assert same(encoder.blocks[0].scale_mlp, tensors[f"{layer}.mlp_layer_scale.scale"])
    unused = "encoder.quantizer.acoustic_residual_vector_quantizer.layers.3.codebook"
    tensors[f"{unused}.cluster_usage"][5] = 0.0
    replace_file(own / CODEC, tensors)
    table = load(open_checkpoint(own)).quantiser.tables[4]
    assert same(table, tensors[f"{unused}.embed_sum"] / tensors[f"{unused}.cluster_usage"].clamp(min=1e-5)[:, None])
    assert table.isfinite().all()
    replace_file(own / CODEC, {name: value.bfloat16() for name, value in tensors.items()})
    assert {p.dtype for p in load(open_checkpoint(own)).parameters()} == {torch.float32}


def test_configurations_that_cannot_be(own: Path) -> None:
    file = own / "speech_tokenizer" / "config.json"
    config: EncoderConfig = read_codec_config(file).encoder
    assert (config.window, config.eps, config.rope_theta) == (250, 1e-5, 10_000)
    assert (config.samples_per_position, config.samples_per_frame) == (960, 1920)
    kept = file.read_text()
    for path, value, words in (
        ("encoder_config.codebook_dim", 4, "both must be the same"),
        ("encoder_config.num_key_value_heads", 3, "2 heads over 3"),
        ("encoder_config.head_dim", 7, "the width be even"),
        ("encoder_config.num_quantizers", 12, "cannot keep 16"),
        ("encoder_config.num_semantic_quantizers", 17, "17 of them semantic"),
        ("encoder_config.norm_eps", GONE, "missing"),
        ("encoder_config.rope_theta", GONE, "missing"),
        ("encoder_config.sliding_window", 0, "above 0"),
    ):
        with pytest.raises(CheckpointError, match=words):
            read_codec_config(edit(file, path, value))
        file.write_text(kept)
