"""Kernels of talker and predictor against their plain twins, statement by statement where there is no card.

Sizes stand around the edges of tiles; what a kernel has no business with is NaN before and after.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rhapsode.qwen3.torch.kernels import has_triton, runs_on
from rhapsode.qwen3.torch.kernels.attention import FEW, MANY, Heads, attend_rows, attend_rows_plain
from rhapsode.qwen3.torch.kernels.choose import choose, choose_plain
from rhapsode.qwen3.torch.kernels.embed import embed, embed_plain
from rhapsode.qwen3.torch.kernels.gate import swiglu, swiglu_plain
from rhapsode.qwen3.torch.kernels.norm import add_norm, add_norm_plain
from rhapsode.qwen3.torch.kernels.prompt import keep_rows, keep_rows_plain
from rhapsode.qwen3.torch.kernels.random import uniforms
from rhapsode.qwen3.torch.sampling import Draw
from rhapsode.qwen3.torch.sampling import uniforms as plain_uniforms

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.skipif(not runs_on(DEVICE), reason="Triton is not installed")
TYPES = [torch.float32, torch.bfloat16]
# Run statement by statement, products of the matrix units are wrong in bfloat16.
PRODUCT_TYPES = [torch.float32, torch.float16, *([torch.bfloat16] if DEVICE.type == "cuda" else [])]
NAN = float("nan")


def numbers(*size: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(dtype).to(DEVICE)


def close(found: Tensor, wanted: Tensor) -> None:
    """Within rounding: two units in the last place of bfloat16, which the interpreter cuts off instead."""
    assert found.dtype is wanted.dtype and found.shape == wanted.shape
    far = 2e-6 if found.dtype is torch.float32 else 2**-6
    torch.testing.assert_close(found, wanted, rtol=far, atol=far)


def within(size: tuple[int, ...], like: Tensor) -> tuple[Tensor, Tensor]:
    """A tensor of NaN, and its whole, which goes on for as much on both sides."""
    count = int(torch.tensor(size).prod())
    whole = torch.full((3 * count,), NAN, dtype=like.dtype, device=like.device)
    part = whole[count : 2 * count].view(size)
    part.copy_(like)
    return part, whole


def untouched(whole: Tensor) -> bool:
    count = len(whole) // 3
    return bool(whole[:count].isnan().all() and whole[2 * count :].isnan().all())


def test_kernels_are_what_is_tested() -> None:
    assert has_triton() and runs_on(DEVICE)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("more", [True, False])
def test_norm(dtype: torch.dtype, width: int, more: bool) -> None:
    x, whole = within((5, width), numbers(5, width, dtype=dtype))
    plain = x.clone()
    added = numbers(5, width, dtype=dtype, seed=1) if more else None
    weight = numbers(width, dtype=dtype, seed=2)
    close(add_norm(x, added, weight, 1e-6), add_norm_plain(plain, added, weight, 1e-6))
    close(x, plain)
    assert untouched(whole)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [1, 7, 128, 1025])
def test_gate(dtype: torch.dtype, width: int) -> None:
    both = numbers(3, 2 * width, dtype=dtype)
    close(swiglu(both), swiglu_plain(both))


def attention(dtype: torch.dtype, new: int, positions: list[int], lanes: list[int], heads: Heads, length: int) -> None:
    """Both ways over slots in which nothing but what was written is a number."""
    rows, half = len(positions), heads.head_dim // 2
    slots = max(lanes) + 2
    keys, values = (torch.full((slots, heads.kv_heads, length, heads.head_dim), NAN, dtype=dtype) for _ in range(2))
    keys, values = keys.to(DEVICE), values.to(DEVICE)
    for lane, position in zip(lanes, positions, strict=True):
        keys[lane, :, :position] = numbers(heads.kv_heads, position, heads.head_dim, dtype=dtype, seed=lane)
        values[lane, :, :position] = numbers(heads.kv_heads, position, heads.head_dim, dtype=dtype, seed=lane + 99)
    angle = torch.rand(length, half, generator=torch.Generator().manual_seed(3)) * 6
    turn = angle.cos().to(dtype).to(DEVICE), angle.sin().to(dtype).to(DEVICE)
    norms = numbers(heads.head_dim, dtype=dtype, seed=4), numbers(heads.head_dim, dtype=dtype, seed=5)
    qkv = numbers(rows * new, heads.width, dtype=dtype, seed=6)
    at = torch.tensor(positions, device=DEVICE), torch.tensor(lanes, device=DEVICE)
    ours, plain = (keys, values), (keys.clone(), values.clone())
    found = attend_rows(qkv, norms, turn, *at, *ours, heads, new)
    wanted = attend_rows_plain(qkv, norms, turn, *at, *plain, heads, new)
    close(found, wanted)
    for one, other in zip(ours, plain, strict=True):
        assert (one.isnan() == other.isnan()).all(), "written where nothing should be, or not written"
        close(one.nan_to_num(), other.nan_to_num())
    assert found.isfinite().all()


@pytest.mark.parametrize("dtype", PRODUCT_TYPES)
@pytest.mark.parametrize("new", [1, 2])
def test_attention(dtype: torch.dtype, new: int) -> None:
    for block, length in ((FEW[0], 2 * FEW[0]), (MANY[0], 3 * MANY[0])):
        edges = [0, 1, block - 1, block, block + 1, length - new]
        attention(dtype, new, edges, [3, 0, 6, 1, 5, 2], Heads(6, 2, 32, 1e-6), length)


@pytest.mark.parametrize("dtype", PRODUCT_TYPES)
@pytest.mark.parametrize(("position", "new", "length"), [
    (0, 2, FEW[0]), (0, 1, FEW[0]), (2, 1, FEW[0]), (FEW[0] - 1, 1, FEW[0]), (0, 2, FEW[0] + 1), (3, 2, FEW[0]),
    (FEW[0] + 2, 1, FEW[0] + 3),
])  # fmt: skip
def test_attention_abreast(dtype: torch.dtype, position: int, new: int, length: int) -> None:
    """Beyond the few positions of a tile too, where it is the other way that is taken."""
    heads, rows = Heads(4, 2, 32, 1e-6), 3
    keys, values = (torch.full((rows + 1, 2, length, 32), NAN, dtype=dtype, device=DEVICE) for _ in range(2))
    keys[:rows, :, :position] = numbers(rows, 2, position, 32, dtype=dtype)
    values[:rows, :, :position] = numbers(rows, 2, position, 32, dtype=dtype, seed=1)
    turn = numbers(length, 16, dtype=dtype, seed=2), numbers(length, 16, dtype=dtype, seed=3)
    norms, qkv = (numbers(32, dtype=dtype, seed=4),) * 2, numbers(rows * new, heads.width, dtype=dtype, seed=5)
    ours, plain = (keys, values), (keys.clone(), values.clone())
    close(
        attend_rows(qkv, norms, turn, position, None, *ours, heads, new),
        attend_rows_plain(qkv, norms, turn, position, None, *plain, heads, new),
    )
    for one, other in zip(ours, plain, strict=True):
        assert (one.isnan() == other.isnan()).all()
        close(one.nan_to_num(), other.nan_to_num())


@pytest.mark.parametrize("heads", [Heads(1, 1, 16, 1e-6), Heads(4, 4, 16, 1e-6), Heads(8, 2, 64, 1e-5)])
def test_attention_of_other_heads(heads: Heads) -> None:
    attention(torch.float32, 1, [2, 40], [1, 0], heads, 41)


def test_attention_up_to_the_last_position() -> None:
    attention(torch.float32, 1, [47], [0], Heads(2, 1, 16, 1e-6), 48)
    attention(torch.float32, 2, [46], [0], Heads(2, 1, 16, 1e-6), 48)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("width", "start"), [(1, 0), (8, 0), (9, 5)])
def test_rows_of_prompts(dtype: torch.dtype, width: int, start: int) -> None:
    heads, length, slots = Heads(6, 3, 16, 1e-6), start + width, torch.tensor([2, 0], device=DEVICE)
    turn = numbers(length, 8, dtype=dtype), numbers(length, 8, dtype=dtype, seed=1)
    norms = numbers(16, dtype=dtype, seed=2), numbers(16, dtype=dtype, seed=3)
    qkv = numbers(2 * width, heads.width, dtype=dtype, seed=4)
    ours = [torch.full((4, 3, length, 16), NAN, dtype=dtype, device=DEVICE) for _ in range(2)]
    plain = [one.clone() for one in ours]
    found = keep_rows(qkv, norms, turn, slots, start, *ours, heads)
    close(found, keep_rows_plain(qkv, norms, turn, slots, start, *plain, heads))
    for one, other in zip(ours, plain, strict=True):
        assert (one.isnan() == other.isnan()).all()
        close(one.nan_to_num(), other.nan_to_num())
    with pytest.raises(ValueError, match="do not fit"):
        keep_rows(qkv, norms, turn, slots, start + 1, *ours, heads)


DRAWS = [
    Draw(True, 1.0, 0, 1.0),
    Draw(False, 0.9, 9, 1.0),
    Draw(False, 0.5, 1, 1.0),
    Draw(False, 0.7, 7, 0.8),
    Draw(False, 1.3, 16, 0.4),
    Draw(False, 1.0, 17, 1.0),
]


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("vocab", [1, 15, 33])
@pytest.mark.parametrize("dtype", TYPES)
def test_choice(draw: Draw, vocab: int, dtype: torch.dtype) -> None:
    """Few rows: a search for the likeliest takes long where statements are run one by one."""
    rows = 5
    logits, uniform = (
        numbers(rows, vocab, dtype=dtype) * 3,
        torch.rand(rows, 2, generator=torch.Generator().manual_seed(1)),
    )
    uniform = uniform.to(DEVICE)
    uniform[:2, 1] = torch.tensor([0.0, 1 - 2**-24])
    if vocab > 5:
        logits[3, 2:] = float("-inf")
    both = []
    for way in (choose, choose_plain):
        codes = torch.full((rows, 3), -7, dtype=torch.int64, device=DEVICE)
        trouble = torch.zeros(rows, dtype=torch.int32, device=DEVICE)
        way(logits, uniform[:, 1], draw, codes[:, 1], trouble)
        assert not trouble.any() and (codes[:, [0, 2]] == -7).all()
        both.append(codes[:, 1])
    # The largest number that is ever drawn lies within rounding of the end, where both may stop one apart.
    assert (both[0] == both[1])[torch.arange(rows) != 1].all() and both[0].min() >= 0 and both[0].max() < vocab
    assert logits[1, both[0][1]] > float("-inf")


@pytest.mark.parametrize("bad", [NAN, float("inf")])
@pytest.mark.parametrize("draw", DRAWS[:2])
def test_trouble_is_counted(bad: float, draw: Draw) -> None:
    """Whatever is chosen then, it is a code of the table."""
    logits = numbers(3, 40)
    logits[1, 7] = bad
    logits[2] = bad
    for way in (choose, choose_plain):
        codes = torch.full((3,), -7, dtype=torch.int64, device=DEVICE)
        trouble = torch.ones(3, dtype=torch.int32, device=DEVICE)
        way(logits, torch.full((3,), 0.5, device=DEVICE), draw, codes, trouble)
        assert trouble.tolist() == [1, 2, 41]
        assert codes.min() >= 0 and codes.max() < 40


def test_likelihoods_are_those_of_the_logits() -> None:
    """Below -16 a bfloat16 has one bit less behind the point: what is lost of it shifts the draw."""
    logits = torch.tensor([[-15.5, -15.75, -16.25, -17.0, -40.0]], dtype=torch.bfloat16, device=DEVICE)
    reached = logits.float().softmax(-1).cumsum(-1)[0]
    for place in range(3):
        for uniform, wanted in ((reached[place] - 2e-3, place), (reached[place] + 2e-3, place + 1)):
            code, trouble = (
                torch.zeros(1, dtype=torch.int64, device=DEVICE),
                torch.zeros(1, dtype=torch.int32, device=DEVICE),
            )
            choose(logits, uniform.view(1), Draw(False, 1.0, 4, 1.0), code, trouble)
            assert code.item() == wanted


def test_ties_go_to_the_first() -> None:
    codes, trouble = torch.zeros(1, dtype=torch.int64, device=DEVICE), torch.zeros(1, dtype=torch.int32, device=DEVICE)
    choose(
        torch.ones(1, 40, device=DEVICE),
        torch.full((1,), 0.3, device=DEVICE),
        Draw(False, 1.0, 10, 1.0),
        codes,
        trouble,
    )
    assert codes.item() == 3


@pytest.mark.parametrize("dtype", TYPES)
def test_embedding(dtype: torch.dtype) -> None:
    codes = torch.tensor([[8, 1], [0, 1], [3, 1]], device=DEVICE)[:, 0]
    table, deep = numbers(9, 33, dtype=dtype), numbers(9, 17, dtype=dtype, seed=1)
    total, whole = within((3, 33), numbers(3, 33, seed=2))
    plain = total.clone()
    assert (embed(codes, table, deep, total) == embed_plain(codes, table, deep, plain)).all()
    close(total, plain)
    assert untouched(whole)


def test_uniform_numbers_to_the_bit() -> None:
    words = torch.Generator().manual_seed(0)
    for rows, columns in ((1, 1), (5, 16), (33, 31)):
        seeds = torch.randint(1 << 32, (rows, 2), generator=words).to(DEVICE)
        counters = torch.randint(1 << 32, (rows, columns), generator=words).to(DEVICE)
        assert (uniforms(seeds, counters) == plain_uniforms(seeds, counters)).all()


def test_what_a_kernel_declares_is_supplied() -> None:
    x = numbers(4, 32)
    with pytest.raises(ValueError, match="weight has shape"):
        add_norm(x, None, numbers(31), 1e-6)
    with pytest.raises(ValueError, match="more has shape"):
        add_norm(x, numbers(3, 32), numbers(32), 1e-6)
    with pytest.raises(ValueError, match="one after the other"):
        add_norm(numbers(4, 64)[:, :32], None, numbers(32), 1e-6)
    with pytest.raises(ValueError, match="not contiguous"):
        swiglu(numbers(32, 4).t())
    with pytest.raises(ValueError, match="trouble has shape"):
        choose(
            x, numbers(4), DRAWS[0], torch.zeros(4, dtype=torch.int64, device=DEVICE), torch.zeros(3, dtype=torch.int32)
        )
    with pytest.raises(ValueError, match="among 256"):
        choose(
            numbers(4, 300), numbers(4), Draw(False, 1.0, 0, 1.0), torch.zeros(4, dtype=torch.int64, device=DEVICE),
            torch.zeros(4, dtype=torch.int32),
        )  # fmt: skip
    with pytest.raises(ValueError, match="deep has shape"):
        embed(torch.zeros(2, dtype=torch.int64), numbers(9, 8), numbers(8, 4), numbers(2, 8))


def test_attention_refuses_what_does_not_fit() -> None:
    heads, length = Heads(2, 1, 16, 1e-6), 24
    keys = numbers(2, 1, length, 16)
    at = torch.zeros(2, dtype=torch.int64, device=DEVICE)
    norms, turn = (numbers(16), numbers(16)), (numbers(length, 8), numbers(length, 8))
    qkv = numbers(2, heads.width)
    for wrong, message in (
        ({"qkv": numbers(2, heads.width - 1)}, "qkv has shape"),
        ({"qkv": numbers(3, heads.width)}, "positions has shape"),
        ({"turn": (numbers(length - 1, 8), turn[1])}, "23 positions"),
        ({"values": numbers(2, 1, length, 8)}, "values has shape"),
        ({"lanes": at[:1]}, "lanes has shape"),
        ({"heads": Heads(2, 1, 12, 1e-6), "keys": numbers(2, 1, length, 12)}, "shape|powers of two"),
        ({"new": 3, "qkv": numbers(6, heads.width)}, "not 3"),
        ({"positions": 3}, "abreast"),
        ({"positions": length, "lanes": None}, "abreast"),
        ({"positions": 0, "lanes": None, "qkv": numbers(3, heads.width)}, "abreast"),
        ({"lanes": None}, "are listed"),
    ):
        given = {
            "qkv": qkv, "norms": norms, "turn": turn, "positions": at, "lanes": at, "keys": keys,
            "values": keys.clone(), "heads": heads, "new": 1, **wrong,
        }  # fmt: skip
        with pytest.raises(ValueError, match=message):
            attend_rows(**given)  # type: ignore[arg-type]
