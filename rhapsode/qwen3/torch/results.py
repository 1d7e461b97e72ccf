"""What a stepper on PyTorch hands to the host, without the device ever waiting for it: endings, codes and sound.

Knows streams, events and pinned memory. On a device that does not queue for us everything is there at once. Knows no
lane and no network: whose endings, codes and sound these are is the stepper's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from rhapsode.qwen3.room import in_room
from rhapsode.qwen3.torch.transfer import send


class Mail:
    """A small tensor on its way to the host, and which lines it speaks of."""

    def __init__(self, report: Tensor, admissions: tuple[int, ...]) -> None:
        """`report` is a copy: what it was made of may be written by the next step."""
        self.admissions = admissions
        self._report, self._arrived = report, None
        if report.device.type == "cuda":
            self._report = torch.empty(report.shape, dtype=report.dtype, pin_memory=True)
            self._report.copy_(report, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record(torch.cuda.current_stream(report.device))

    def read(self) -> list[list[int]]:
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._report.tolist()


class CodesReader:
    """The codes of lanes that ended, fetched beside whatever the device does meanwhile.

    Whoever asks has read the mail that told of the endings, so the codes were written before and nothing writes them
    again until the slot is given away; that can only be queued after `read` has returned, and then they are here.
    """

    def __init__(self, device: torch.device) -> None:
        # The copies wait for nothing on the device, least of all for the step in flight on the main stream.
        self._stream = torch.cuda.Stream(device, priority=-1) if device.type == "cuda" else None
        self._staging = torch.empty(0)

    def read(self, done: Tensor, ended: Mapping[int, int]) -> dict[int, np.ndarray]:
        """Rows of `done` [rows, frames, codebooks] by slot, each as long as `ended` says: [frames, codebooks]."""
        if self._stream is None:
            return {slot: done[slot, :frames].cpu().numpy().copy() for slot, frames in ended.items()}
        total = sum(ended.values())
        if len(self._staging) < total or self._staging.dtype != done.dtype:
            self._staging = torch.empty((2 * total, done.shape[2]), dtype=done.dtype, pin_memory=True)
        places, start = {}, 0
        with torch.cuda.stream(self._stream):
            for slot, frames in ended.items():
                places[slot] = slice(start, start + frames)
                # A row is contiguous on both sides: the copy engine does it, no kernel waits behind the step's.
                self._staging[places[slot]].copy_(done[slot, :frames], non_blocking=True)
                start += frames
            self._stream.synchronize()
        return {slot: self._staging[place].numpy().copy() for slot, place in places.items()}


class Sound:
    """Waveforms that may still be on their way."""

    def __init__(
        self,
        waves: Tensor,
        samples: Sequence[int],
        arrived: Callable[[], None] = lambda: None,
        mend: Callable[[int], np.ndarray] | None = None,
    ) -> None:
        """waves: on the host, [lines, time]. `arrived` returns when they are there; `mend` makes a line anew, that
        is not finite."""
        self._waves, self._samples, self._arrived, self._mend = waves, samples, arrived, mend

    @in_room
    def waves(self) -> list[np.ndarray]:
        """Float32 samples of each line; waits for them. To be called once."""
        self._arrived()
        # Copies: what they came in is used again.
        waves = [wave[:count].copy() for wave, count in zip(self._waves.numpy(), self._samples, strict=True)]
        if self._mend is not None:
            for line, wave in enumerate(waves):
                if not np.isfinite(wave.max(initial=0.0) - wave.min(initial=0.0)):
                    waves[line] = self._mend(line)[: len(wave)]
        return waves


class SoundRoom:
    """Runs the codec on batches of codes and brings its sound to the host."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._copies = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._spare: list[Tensor] = []  # pinned, flat

    def start(self, codec: Callable[[Tensor], Tensor], codes: np.ndarray, samples: Sequence[int]) -> Sound:
        """Queue codes [lines, frames, codebooks] for the codec. samples: those of each line that are its own.

        A codec that looks at its own sound, and so waits for it, may have a part that does not, called `unchecked`:
        that runs, and the whole only for lines whose sound is not finite.
        """
        if self._copies is None:
            return Sound(codec(send(codes, self.device)).float().cpu(), samples)
        # Between two steps: on a stream beside them it gains nothing, since either keeps the card busy.
        waves = getattr(codec, "unchecked", codec)(send(codes, self.device)).float()
        made = torch.cuda.Event()
        made.record(torch.cuda.current_stream(waves.device))
        flat = self._take(waves.numel())
        staging = flat[: waves.numel()].view(waves.shape)
        with torch.cuda.stream(self._copies):
            self._copies.wait_event(made)
            staging.copy_(waves, non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record()
        waves.record_stream(self._copies)  # its memory is not given away before it is copied

        def wait() -> None:
            arrived.synchronize()
            # The waves are copied before anything else is started, so the next group may have this.
            self._spare.append(flat)

        def mend(line: int) -> np.ndarray:
            with torch.inference_mode():
                found: np.ndarray = codec(send(codes[line : line + 1], self.device))[0].float().cpu().numpy()
            return found

        return Sound(staging, samples, wait, mend if hasattr(codec, "unchecked") else None)

    def _take(self, numbers: int) -> Tensor:
        """Pinned memory for so many numbers: of what came back, or new, and then what is too small goes."""
        fitting = [spare for spare in self._spare if len(spare) >= numbers]
        if fitting:
            found = min(fitting, key=len)
            self._spare = [spare for spare in self._spare if spare is not found]
            return found
        self._spare.clear()
        return torch.empty(numbers, dtype=torch.float32, pin_memory=True)
