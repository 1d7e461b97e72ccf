"""The codec decoder by itself: pieces against whole, how far back a sample reaches, what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from rhapsode.qwen3.checkpoint import Checkpoint
from rhapsode.qwen3.limits import Limits
from rhapsode.qwen3.torch import codec as codec_module
from rhapsode.qwen3.torch.codec import PIECE_FRAMES, CausalConv, CausalUpsample, CodecDecoder, SnakeBeta, context_frames
from rhapsode.qwen3.torch.load import Model
from rhapsode.qwen3.torch.stepper import TorchStepper
from rhapsode.types import Sampling

TOLERANCE = 1e-5  # of the peak
FRAMES = 70


@pytest.fixture(scope="module")
def decoder(custom_model: Model) -> CodecDecoder:
    return custom_model.codec


def random_codes(frames: int, rows: int = 1, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 64, (rows, frames, 16)))


@torch.inference_mode()
def decode(decoder: CodecDecoder, codes: Tensor, piece: int = PIECE_FRAMES) -> np.ndarray:
    return decoder(codes, piece).numpy()


def deviation(ours: np.ndarray, whole: np.ndarray) -> float:
    assert ours.shape == whole.shape
    peak = float(np.abs(whole).max())
    assert 0.02 < peak < 1.0, "nothing may hide in silence or behind the clamp"
    return float(np.abs(ours - whole).max()) / peak


@pytest.fixture(scope="module")
def whole(decoder: CodecDecoder) -> np.ndarray:
    return decode(decoder, random_codes(FRAMES, rows=2), piece=FRAMES)


@pytest.mark.parametrize("piece", [1, 3, 7, 16, 64, FRAMES - 1])
def test_pieces_sound_as_the_whole(decoder: CodecDecoder, whole: np.ndarray, piece: int) -> None:
    assert deviation(decode(decoder, random_codes(FRAMES, rows=2), piece), whole) <= TOLERANCE


def test_a_line_longer_than_a_piece(decoder: CodecDecoder) -> None:
    codes = random_codes(PIECE_FRAMES + 30)
    assert deviation(decode(decoder, codes), decode(decoder, codes, piece=len(codes[0]))) <= TOLERANCE


@pytest.mark.parametrize(("stretch", "before"), [(64, 1), (64, 7), (1920, 40), (100_000, 100_000)])
def test_stretches_sound_as_layer_after_layer(
    decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch, stretch: int, before: int
) -> None:
    """What goes through a chain of layers at once is what goes through one after the other."""
    codes = random_codes(11, rows=2)
    layers = decoder(codes).detach().numpy()  # with gradients every layer is a call of its own
    monkeypatch.setattr(codec_module, "STRETCH", stretch)
    monkeypatch.setattr(codec_module, "STRETCH_UP", before)
    assert deviation(decode(decoder, codes), layers) <= TOLERANCE


def test_fewer_frames_of_context_are_heard(
    decoder: CodecDecoder, whole: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough = context_frames(decoder.config)
    for context, fits in ((enough, True), (enough + 3, True), (enough // 2, False), (1, False), (0, False)):
        monkeypatch.setattr(codec_module, "context_frames", lambda _, context=context: context)
        found = deviation(decode(decoder, random_codes(FRAMES, rows=2), 16), whole)
        assert (found <= TOLERANCE) is fits, f"{context} frames of context: deviation {found}"


def test_the_context_is_how_far_a_sample_reaches(decoder: CodecDecoder) -> None:
    """A change before the context does not reach a sample through the convolutions; one at its far end does."""
    context, per_frame = context_frames(decoder.config), decoder.config.samples_per_frame
    mixed = torch.randn(1, 30, decoder.config.latent, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    double = CodecDecoder(decoder.config).double()
    double.load_state_dict(decoder.state_dict())
    with torch.inference_mode():
        before = double.stages(double.upsample(mixed.transpose(1, 2)))[0, 0]
        mixed[:, 5] += 100.0
        changed = double.stages(double.upsample(mixed.transpose(1, 2)))[0, 0] != before
    frames = changed.view(30, per_frame).any(1).nonzero().flatten().tolist()
    assert frames[0] == 5, "nothing reaches back in time"
    assert 5 + context - 1 <= frames[-1] <= 5 + context


def test_the_window_bounds_what_the_transformer_keeps(decoder: CodecDecoder, whole: np.ndarray) -> None:
    """A window wide enough for all frames sounds different: the narrow one is really in use, in pieces as well."""
    wide = CodecDecoder(replace(decoder.config, trunk=replace(decoder.config.trunk, window=FRAMES)))
    wide.load_state_dict(decoder.state_dict())
    codes = random_codes(FRAMES, rows=2)
    assert deviation(decode(wide, codes, FRAMES), whole) > 100 * TOLERANCE
    assert deviation(decode(wide, codes, 7), decode(wide, codes, FRAMES)) <= TOLERANCE


def test_the_future_is_not_heard(decoder: CodecDecoder, whole: np.ndarray) -> None:
    codes = random_codes(FRAMES, rows=2)
    codes[:, 40:] = random_codes(FRAMES - 40, rows=2, seed=9)
    ours = decode(decoder, codes, FRAMES)
    heard = 40 * decoder.config.samples_per_frame
    assert deviation(ours[:, :heard], whole[:, :heard]) <= TOLERANCE
    assert deviation(ours, whole) > 100 * TOLERANCE


def test_loud_sound_is_clamped(custom_model: Model) -> None:
    loud = CodecDecoder(custom_model.codec.config)
    loud.load_state_dict(custom_model.codec.state_dict())
    with torch.no_grad():
        loud.stages[-1].weight.mul_(1000)
    wave = decode(loud, random_codes(5))
    assert wave.min() == -1.0 and wave.max() == 1.0


# ------------------------------------------------------------------ the stepper's door to it


@pytest.fixture(scope="module")
def stepper(custom_model: Model, custom: Checkpoint) -> TorchStepper:
    return TorchStepper(
        custom_model.talker, custom_model.predictor, custom_model.codec, Sampling(), slots=1, limits=Limits(8, 8),
        sample_rate=custom.codec.sample_rate,
    )  # fmt: skip


@pytest.mark.parametrize("bad", [-1, 64, 2048])
def test_codes_out_of_range_are_refused_loudly(stepper: TorchStepper, bad: int) -> None:
    codes = random_codes(6)[0].numpy()
    codes[3, 15] = bad
    with pytest.raises(ValueError, match=f"(from|to) {bad}.*hold 0 to 63"):
        stepper.vocode([random_codes(9)[0].numpy(), codes])


def test_empty_lines_give_no_samples(stepper: TorchStepper) -> None:
    nothing, something = np.zeros((0, 16), np.int32), random_codes(4)[0].numpy()
    assert stepper.vocode([]).waves() == []
    assert [len(wave) for wave in stepper.vocode([nothing, nothing]).waves()] == [0, 0]
    waves = stepper.vocode([nothing, something, nothing]).waves()
    assert [len(wave) for wave in waves] == [0, 4 * 1920, 0]
    assert all(wave.dtype == np.float32 and wave.ndim == 1 for wave in waves)


def test_a_line_in_a_group_sounds_as_alone(stepper: TorchStepper) -> None:
    lines = [random_codes(frames, seed=frames)[0].numpy() for frames in (1, 40, 17)]
    for line, wave in zip(lines, stepper.vocode(lines).waves(), strict=True):
        assert deviation(wave, stepper.vocode([line]).waves()[0]) <= TOLERANCE


# ------------------------------------------------------------------ parts


def test_snake_beta_is_its_formula() -> None:
    generator = torch.Generator().manual_seed(3)
    snake = SnakeBeta(5).double()
    with torch.no_grad():
        snake.alpha.copy_(torch.randn(5, generator=generator))
        snake.beta.copy_(torch.randn(5, generator=generator))
    x = torch.randn(2, 5, 11, generator=generator, dtype=torch.float64)
    a, b = snake.alpha.exp()[None, :, None], snake.beta.exp()[None, :, None]
    torch.testing.assert_close(snake(x), x + torch.sin(a * x) ** 2 / (b + 1e-9), rtol=1e-12, atol=1e-12)
    assert (snake(x) - x >= 0).all()


@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 1), (7, 1), (7, 9)])
def test_causal_convolution_is_its_sum(kernel: int, dilation: int) -> None:
    torch.manual_seed(1)
    conv = CausalConv(2, 3, kernel, dilation=dilation).double()
    x = torch.randn(1, 2, 20, dtype=torch.float64)
    wanted = conv.bias[:, None].expand(3, 20).clone()
    for t in range(20):
        for k in range(kernel):
            at = t - (kernel - 1 - k) * dilation
            if at >= 0:
                wanted[:, t] += conv.weight[:, :, k] @ x[0, :, at]
    torch.testing.assert_close(conv(x)[0], wanted)


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (4, 2), (16, 8), (6, 3)])
@pytest.mark.parametrize("time", [1, 2, 9])
def test_causal_upsampling_is_a_cut_transposed_convolution(kernel: int, stride: int, time: int) -> None:
    generator = torch.Generator().manual_seed(kernel)
    weight = torch.randn(5, 3, kernel, generator=generator, dtype=torch.float64)
    bias = torch.randn(3, generator=generator, dtype=torch.float64)
    x = torch.randn(2, 5, time, generator=generator, dtype=torch.float64)
    wanted = torch.nn.functional.conv_transpose1d(x, weight, bias, stride=stride)[..., : time * stride]
    upsample = CausalUpsample(5, 3, kernel, stride).double()
    with torch.no_grad():
        upsample.weight.copy_(CausalUpsample.adopt(weight))
        upsample.bias.copy_(bias)
    torch.testing.assert_close(upsample(x), wanted, rtol=1e-12, atol=1e-12)


def test_upsampling_that_is_not_built_is_refused() -> None:
    with pytest.raises(ValueError, match="a kernel of 5 over a stride of 2"):
        CausalUpsample(4, 2, 5, 2)
