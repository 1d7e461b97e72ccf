"""One line as sound while it is still being read: a lane, and the codec in pieces that continue one another.

Knows how much each part of the codec sees of what came before. The sound is that of the whole line.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from rhapsode.engine.stepper import Ending, Request
from rhapsode.qwen3.limits import code_batch
from rhapsode.qwen3.torch.codec import KERNEL, CodecDecoder, Window, context_frames
from rhapsode.qwen3.torch.stepper import TorchStepper
from rhapsode.qwen3.torch.transfer import send

PIECES = (4, 8, 16, 25)  # frames; the last for all that follow. The first sound comes soon, later ones cost less


class CodecStream:
    """Codes of a line, piece by piece, to the sound that they have in the whole of it."""

    def __init__(self, codec: CodecDecoder) -> None:
        self.codec = codec
        self._device = next(codec.parameters()).device
        self._context = context_frames(codec.config)
        self._window = Window(codec.config.trunk.window)
        self._codes: list[np.ndarray] = []
        self._frames = 0  # so far
        self._vectors = self._recent = torch.zeros(0)  # the last ones: before the first convolution, after the trunk

    @torch.inference_mode()
    def __call__(self, codes: np.ndarray) -> np.ndarray:
        """Codes [frames, codebooks] that follow those before -> float32 samples [frames * samples_per_frame]."""
        config, codec = self.codec.config, self.codec
        batch = code_batch([codes], config.codebooks, config.codebook_size)
        self._codes.append(batch[0])
        start, frames = self._frames, batch.shape[1]
        self._frames += frames
        if not frames:
            return np.zeros(0, np.float32)
        vectors = codec.quantiser(send(batch, self._device))
        # More than the first convolution sees: what it makes of them is dropped.
        seen = vectors if not start else torch.cat((self._vectors, vectors), 1)
        self._vectors = seen[:, -KERNEL:]
        hidden = codec.conv_in(seen.transpose(1, 2)).transpose(1, 2)[:, -frames:]
        mixed = codec._mix(hidden, start, self._window)
        recent = mixed if not start else torch.cat((self._recent, mixed), 1)
        before = recent.shape[1] - frames
        self._recent = recent[:, -self._context :]
        wave: Tensor = codec.stages(codec.upsample(recent.transpose(1, 2)))[0, 0, before * config.samples_per_frame :]
        sound: np.ndarray = wave.float().clamp(-1.0, 1.0).cpu().numpy()
        return sound if np.isfinite(sound.max() - sound.min()) else self._anew(frames)

    def _anew(self, frames: int) -> np.ndarray:
        """The last frames in the whole of the line: a codec in half precision knows what to do for it."""
        codes = np.concatenate(self._codes)[None]
        whole: np.ndarray = self.codec(send(codes, self._device))[0].float().cpu().numpy()
        return whole[-frames * self.codec.config.samples_per_frame :]


class Streamer:
    """Lines one after the other through one lane."""

    def __init__(self, stepper: TorchStepper) -> None:
        """`stepper` has one slot."""
        self.stepper = stepper
        self.ending = Ending.RUNNING  # of the last line
        # A device that queues reports a step when the next one is queued.
        self._late = 0 if stepper.device.type == "cpu" else 1

    def __call__(self, request: Request) -> Iterator[np.ndarray]:
        """Float32 samples as they are there. Whoever has heard enough need not hear the rest.

        Raises `OutOfRoom`, and `ValueError` for a line that there was no room made for.
        """
        stepper, sound = self.stepper, CodecStream(self.stepper.codec)
        self.ending = Ending.RUNNING
        stepper.admit([(0, request)])
        sent = steps = pieces = 0
        while self.ending is Ending.RUNNING:
            stepper.step()
            steps += 1
            ended = stepper.finished()
            known = ended[0][1] if ended else steps - self._late
            self.ending = ended[0][2] if ended else Ending.RUNNING
            wanted = PIECES[min(pieces, len(PIECES) - 1)]
            if known > sent and (self.ending is not Ending.RUNNING or known - sent >= wanted):
                yield sound(stepper.drawn(0, sent, known))
                sent, pieces = known, pieces + 1
