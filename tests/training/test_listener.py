"""The recogniser that learns beside the codec: labels stand where they are said, and gradients go where they should."""

from __future__ import annotations

import torch

from training.audio import SLOTS
from training.layout import FRAME, SAMPLE_RATE
from training.listener import Listener, hearing_loss, recognition_loss


def tones(labels: torch.Tensor) -> torch.Tensor:
    """A tone for every label, each for its 20 ms: [rows, frames, SLOTS] -> [rows, samples]."""
    pitch = (300 + 400 * labels).flatten(1).repeat_interleave(FRAME // SLOTS, 1)
    return 0.1 * torch.sin(2 * torch.pi * torch.cumsum(pitch / SAMPLE_RATE, 1))


def test_it_learns_which_label_stands_where() -> None:
    torch.manual_seed(0)
    listener = Listener(3, width=24, layers=2)
    optimiser = torch.optim.Adam(listener.parameters(), 1e-2)
    labels = torch.randint(0, 3, (4, 12, 1)).expand(-1, -1, SLOTS)
    for _ in range(60):
        loss, _, right = recognition_loss(listener, tones(labels), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    other = torch.randint(0, 3, (4, 12, 1)).expand(-1, -1, SLOTS)
    with torch.no_grad():
        logits, _ = listener(tones(other))
    assert logits.shape == (4, 3, 12 * SLOTS)
    late, there, early = (
        float((logits.argmax(1).roll(shift, 1) == other.flatten(1)).float().mean()) for shift in (1, 0, -1)
    )
    assert right > 0.8 and there > 0.8, (right, there)
    assert there > 0.05 + max(late, early)


def test_it_pulls_at_what_was_made_and_not_at_what_was_said() -> None:
    torch.manual_seed(0)
    listener = Listener(3, width=24, layers=2)
    labels = torch.randint(0, 3, (1, 8, SLOTS))
    said = tones(labels).requires_grad_(True)
    made = (tones(labels).detach() + 0.02 * torch.randn(1, 8 * FRAME)).requires_grad_(True)
    _, seen, _ = recognition_loss(listener, said, labels)
    loss = hearing_loss(listener, made, labels, seen)
    loss.backward()
    assert made.grad is not None and made.grad.abs().max() > 0 and said.grad is None
    same = hearing_loss(listener, said, labels, seen)
    assert same.detach() < loss.detach()
