"""How many lines side by side suit a PyTorch device, and how much sound at once: what its products gain from, and what
its memory holds.

Knows sizes from a configuration, and how much memory is free. Computes nothing.
"""

from __future__ import annotations

import math

import torch

from rhapsode import machine
from rhapsode.engine.decode import Policy
from rhapsode.qwen3 import shapes
from rhapsode.qwen3.config import CodecConfig, DecoderConfig, ModelConfig, TalkerConfig
from rhapsode.qwen3.limits import kv_bytes, longest_line
from rhapsode.qwen3.torch.codec import PIECE_FRAMES, context_frames
from rhapsode.qwen3.torch.formats import FORMATS
from rhapsode.qwen3.torch.stepper import WIDE

# Where each line more costs little of a step's time; `docs/bench.md` has the table for the CPU.
MOST = {"cpu": 64, "cuda": 512, "mps": 16}
NARROW = 16  # of a talker on the CPU whose weights fit into its caches: more gain nothing, and delay the first line
SHARE = 0.5  # of what is free, off CUDA: keys and values are not all that a step needs
# One line in a codec call on the CPU: nothing is gained by more, and a line's sound is then a function of its codes
# alone, to the bit, so that a resumed book ends with the same file.
CODEC_GROUP = {"cpu": 1, "cuda": 32, "mps": 4}

# On CUDA each of these is counted, since a card has no more than it has.
AT_REST = 1_000_000_000  # recorded steps, a prefill's rows, the libraries' own
GROUP_FRAMES = 8_192  # in one codec call: more keep no card busier
# Lines that are sorted before groups are cut from them, as far as there are slots. Of what the codec computes of a book
# in 512 slots 95% is kept so, and 87% with a shelf of one group.
SHELF = 256
CODEC_SHARE = 0.3  # of what is free, for the codec: beyond a piece of one line, lanes bring more
ALIVE = 4  # arrays of the widest kind that the codec holds at once
# A sixteenth of the slots is waited for: of a book of 6,200 lines in 512 slots 163 prefills in place of 1,066, and 2%
# more steps.
REFILL_SHARE = 16


def default_slots(
    talker: TalkerConfig,
    device: str,
    format: str,
    free: int | None = None,
    *,
    codec: DecoderConfig | None = None,
    positions: int | None = None,
) -> int:
    """Lanes for a talker whose weights are there; at least 1.

    free: bytes, where they are known beforehand. codec: that works beside them. positions: of the longest line, prompt
    and frames; None for a line that could not be longer.
    """
    kind = device.split(":")[0]
    most = NARROW if kind == "cpu" and talker.trunk.hidden < WIDE else MOST[kind]
    free = free_bytes(device) if free is None else free
    if free is None:
        return most
    lane = _lane_bytes(talker, format, positions)
    if kind == "cuda":
        return _even(min(most, max(0, free - AT_REST - _codec_bytes(codec, free)) // lane))
    fitting = int(SHARE * free) // lane
    return most if fitting >= most else _power_of_two(fitting)


def slots_before_loading(model: ModelConfig, device: str, format: str, codec: CodecConfig | None = None) -> int:
    """The same for weights that are yet to be loaded."""
    free = free_bytes(device)
    weights = sum(
        math.prod(one.shape) * (1 if format == "int8" else _width(format))
        for one in shapes.model_tensors(model).values()
        if one.component not in shapes.NOT_LOADED
    )
    if codec is not None:
        weights += sum(
            math.prod(one.shape) * torch.float32.itemsize
            for one in shapes.codec_tensors(codec).values()
            if one.component not in shapes.NOT_LOADED
        )
    left = None if free is None else max(0, free - weights)
    return default_slots(model.talker, device, format, left, codec=None if codec is None else codec.decoder)


def policy(
    talker: TalkerConfig,
    codec: DecoderConfig,
    device: str,
    format: str,
    slots: int,
    *,
    positions: int | None = None,
    free: int | None = None,
) -> Policy:
    """How much to begin at once with so many slots, which are yet to be allocated. Arguments as `default_slots`."""
    kind = device.split(":")[0]
    lines = CODEC_GROUP[kind]
    if kind != "cuda":
        return Policy(group_lines=lines)
    free = free_bytes(device) if free is None else free
    frames = GROUP_FRAMES
    if free is not None:
        left = max(free - AT_REST - slots * _lane_bytes(talker, format, positions), _codec_bytes(codec, free))
        frames = min(frames, left // frame_bytes(codec))
    shelf = min(SHELF, max(lines, slots))
    return Policy(refill=refill(device, slots), shelf_lines=shelf, group_lines=lines, group_frames=max(1, frames))


def refill(device: str, slots: int) -> int:
    """Free slots that are waited for before lines are admitted."""
    return max(1, slots // REFILL_SHARE) if device.startswith("cuda") else 1


def frame_bytes(codec: DecoderConfig) -> int:
    """What the codec works in for each frame of a group: the last stages have few channels and many steps."""
    widest, rate, channels = 0, math.prod(codec.upsampling_ratios), codec.channels
    for factor in codec.upsample_rates:
        rate, channels = rate * factor, channels // 2
        widest = max(widest, rate * channels)
    return ALIVE * widest * torch.float32.itemsize


def free_bytes(device: str) -> int | None:
    """Memory that may still be taken on a device; None where nobody says."""
    if device.startswith("cuda"):
        spare = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + spare
    return machine.free_bytes()


def _codec_bytes(codec: DecoderConfig | None, free: int) -> int:
    """What is left to the codec: its share, but at least a piece of a line, and no more than it makes use of."""
    share = int(CODEC_SHARE * max(0, free - AT_REST))
    if codec is None:
        return share
    frame = frame_bytes(codec)
    return min(max(share, (PIECE_FRAMES + context_frames(codec)) * frame), GROUP_FRAMES * frame)


def _lane_bytes(talker: TalkerConfig, format: str, positions: int | None) -> int:
    return kv_bytes(talker.trunk, longest_line() if positions is None else positions, _width(format))


def _even(slots: int) -> int:
    """What products on a card waste nothing with: from 128 on multiples of 64, from 32 on of 16."""
    for step in (64, 16):
        if slots >= 2 * step:
            return slots // step * step
    return _power_of_two(slots)


def _power_of_two(slots: int) -> int:
    """The largest that is no more; 1 where there is none."""
    return 1 << max(0, slots.bit_length() - 1)


def _width(format: str) -> int:
    """Bytes of a key or value; `auto`, as yet unknown, is taken for the widest."""
    return FORMATS.get(format, torch.float32).itemsize
