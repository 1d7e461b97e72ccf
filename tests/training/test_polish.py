"""The decoder learns on; what the codes were settled with stays."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rhapsode.qwen3.torch.codec import CodecDecoder
from tests.training.stand_in import write_texts
from training import polish
from training.audio import SLOTS
from training.codec import Codec
from training.layout import BOOKS, DEEP_CODES, FRAME, read_configs
from training.listener import Listener
from training.polish import Matched, Polish


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Polish:
    monkeypatch.setattr(polish, "SEGMENT", 6)
    write_texts(tmp_path)
    torch.manual_seed(0)
    codec = Codec(read_configs(tmp_path / "checkpoint")[1], 5, "cpu")
    codec.publish()
    decoder = CodecDecoder(read_configs(tmp_path / "checkpoint")[1].decoder)
    decoder.load_state_dict(codec.decoder.state_dict())
    samples = torch.randint(-3000, 3000, (8, FRAME), dtype=torch.int16)
    codes = torch.randint(0, DEEP_CODES, (8, BOOKS), dtype=torch.int16)
    labels = torch.randint(0, 5, (8, SLOTS), dtype=torch.uint8)
    return Polish(decoder.train(), Listener(5), Matched(samples, codes, labels), "cpu", 1)


def weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def test_tables_stay_and_all_else_learns(made: Polish) -> None:
    before, judges = weights(made.decoder), weights(made.judges)
    made.rate.set(1e-3)
    made.weight.fill_(1.0)
    for _ in range(2):
        made.step()
    after = weights(made.decoder)
    still = {name for name in after if torch.equal(before[name], after[name])}
    assert still == {"quantiser.tables"}
    assert torch.equal(made.average.quantiser.tables, made.decoder.quantiser.tables)
    assert any(not torch.equal(value, judges[name]) for name, value in made.judges.state_dict().items())
    assert all(parameter.requires_grad for parameter in made.judges.parameters())


def test_the_average_follows_slowly(made: Polish) -> None:
    name = next(name for name, value in made.decoder.named_parameters() if value.dim() > 1 and "tables" not in name)
    before = weights(made.average)[name]
    made.rate.set(1e-3)
    made.step()
    slow, fast = weights(made.average)[name] - before, weights(made.decoder)[name] - before
    assert fast.abs().max() > 0
    torch.testing.assert_close(slow, 0.002 * fast, rtol=0.1, atol=1e-7)


def test_the_judges_count_as_much_as_their_weight(made: Polish) -> None:
    start, judges, found = weights(made.decoder), weights(made.judges), []
    made.rate.set(0.0)
    for weight in (0.0, 0.0, 1.0):
        made.decoder.load_state_dict(start)
        made.judges.load_state_dict(judges)
        made.weight.fill_(weight)
        torch.manual_seed(1)
        made.step()
        found.append(torch.cat([p.grad.flatten() for p in made.learned if p.grad is not None]))
    assert torch.equal(found[0], found[1]) and not torch.allclose(found[0], found[2], rtol=0.01)
