"""Stage `narrow`: the encoder's perceptrons, learned wide, become as narrow as the package can carry.

`python -m training.narrow --work W`. Reads W/codec.pt, W/checkpoint and the first speech of every speaker; writes
W/encoder.pt, which `export` takes in place of the encoder in W/codec.pt. Layer after layer, the units with the least
effect go, and what comes after the others is fitted anew by least squares to what all of them gave. The decoder and
the codes that the talker learned from stay as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from rhapsode.qwen3.torch.encoder import CodecEncoder, EncoderBlock
from training.audio import offsets, pieces, read_speech
from training.common import Work, load, save
from training.layout import NARROW, SPEAKERS, TEACHERS, read_configs

_MINUTES = 8.0  # of every speaker
_RIDGE = 1e-8  # of the mean square of the units: keeps the fit solvable where two of them say the same


@torch.no_grad()
def narrow(encoder: CodecEncoder, waves: Sequence[Tensor], units: int) -> tuple[CodecEncoder, list[float]]:
    """An encoder with `units` in every perceptron, in float32, and what each layer lost: the share of its size.

    waves [1, samples] each, at the codec's rate. `encoder` is changed: its layers come to give what the narrow ones do.
    """
    lost, kept = [], []
    for block in encoder.blocks:
        assert isinstance(block, EncoderBlock)
        active, down = _active(encoder, block, waves), block.down.weight.double()
        effect = active.square().mean(0).sqrt() * down.norm(dim=0)
        keep = effect.argsort(descending=True)[:units].sort().values
        wanted, some = active @ down.t(), active[:, keep]
        square = some.t() @ some
        square.diagonal().add_(_RIDGE * square.diagonal().mean())
        fitted = torch.linalg.solve(square, some.t() @ wanted)
        lost.append(float((some @ fitted - wanted).norm() / wanted.norm()))
        block.down.weight.zero_()
        block.down.weight[:, keep] = fitted.t().float()
        kept.append(keep)
    slim = CodecEncoder(replace(encoder.config, intermediate=units), encoder.quantiser.kept)
    weights = encoder.state_dict()
    for layer, keep in enumerate(kept):
        weights[f"blocks.{layer}.up.weight"] = weights[f"blocks.{layer}.up.weight"][keep]
        weights[f"blocks.{layer}.down.weight"] = weights[f"blocks.{layer}.down.weight"][:, keep]
    slim.load_state_dict(weights)
    return slim.eval(), lost


def _active(encoder: CodecEncoder, block: EncoderBlock, waves: Sequence[Tensor]) -> Tensor:
    """What the units of a block's perceptron give for all of the speech, [positions, units] float64."""
    seen: list[Tensor] = []
    hook = block.up.register_forward_hook(lambda _, given, made: seen.append(F.gelu(made)[0].double()))
    for wave in waves:
        encoder.hidden(wave)
    hook.remove()
    return torch.cat(seen)


def some_speech(work: Path, minutes: float) -> list[Tensor]:
    """The first utterances of every speaker, [1, samples] each, up to so many minutes."""
    waves: list[Tensor] = []
    for teacher in (TEACHERS[name] for name in SPEAKERS):
        speech, spoken = read_speech(pieces(work, teacher)[0]), 0.0
        starts = offsets(speech.frames).tolist()
        for start, stop in zip(starts, starts[1:], strict=False):
            if spoken < minutes * 60 * 12.5:
                waves.append(speech.samples[start:stop].reshape(1, -1).float() / 32768)
                spoken += stop - start
    return waves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--units", type=int, default=NARROW, help="of every perceptron, in place of what was learned")
    parser.add_argument("--minutes", type=float, default=_MINUTES, help="of every speaker to fit to")
    options = parser.parse_args()
    work = Work(options.work, "narrow")
    _, config = read_configs(options.work / "checkpoint")
    encoder = CodecEncoder(config.encoder, config.codebooks_kept).eval()
    encoder.load_state_dict({name: value.float() for name, value in load(options.work / "codec.pt")["encoder"].items()})
    waves = some_speech(options.work, options.minutes)
    with torch.no_grad():
        before = torch.cat([encoder(wave)[0] for wave in waves])
        slim, lost = narrow(encoder, waves, options.units)
        same = (torch.cat([slim(wave)[0] for wave in waves]) == before).float().mean(0)
    work.say(f"{config.encoder.intermediate} units to {options.units}; lost of each layer: {_listed(lost)}")
    work.say(f"codes as before, of books 0 1 3 7 15: {_listed(same[[0, 1, 3, 7, 15]].tolist())}")
    save({name: value.half() for name, value in slim.state_dict().items()}, options.work / "encoder.pt")
    work.done("narrow")


def _listed(shares: Sequence[float]) -> str:
    return " ".join(f"{share:.4f}" for share in shares)


if __name__ == "__main__":
    main()
