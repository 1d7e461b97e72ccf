"""What a measurement came to, as values, and as JSON.

Knows the parts that other files measure. Measures and prints nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rhapsode.bench.alone import Codec, Lane
from rhapsode.bench.beside import Beside
from rhapsode.bench.counts import Counts
from rhapsode.bench.measure import StagePass, Whole
from rhapsode.bench.schedule import Plan
from rhapsode.bench.spread import Row
from rhapsode.bench.sweep import Sweep
from rhapsode.bench.ways import Tried

if TYPE_CHECKING:
    from rhapsode.bench.official import Against


@dataclass(frozen=True, slots=True)
class Read:
    """The book at the fastest format and slots, and what else was asked of the same model."""

    whole: Whole
    peak_mb: dict[str, float]
    stages: StagePass | None = None
    beside: Beside | None = None  # with the stages
    against: Against | None = None
    codec: Codec | None = None  # on one device
    lane: Lane | None = None  # where one slot is measured
    devices: tuple[Row, ...] = ()  # where the book was read on several


@dataclass(frozen=True, slots=True)
class Result:
    source: str
    machine: dict[str, str | int]
    book_lines: int
    book_hash: str
    sample_hash: str
    frame_rate: float
    scheduling: dict[str, dict[int, float]]  # by schedule and slots: useful share of the whole book, without a model
    counts: Counts
    sweep: Sweep
    whole: Whole
    stages: StagePass | None
    seats: Plan  # of the sample that was read
    peak_mb: dict[str, float]
    beside: Beside | None  # with the stages
    against: Against | None
    notes: tuple[str, ...]
    codec: Codec | None = None
    lane: Lane | None = None
    devices: tuple[Row, ...] = ()
    ways: tuple[Tried, ...] = ()

    def memory(self) -> dict[str, float]:
        """Bytes of weights, of keys and values, and of the peak above what was held before the model was made.

        `over`: the peak without keys and values, over the weights.
        """
        key = "device" if "device" in self.peak_mb else "process"
        before = 0.0 if key == "device" else self.peak_mb["before the model"]
        # Of several devices the peak is that of one.
        weights = self.sweep.weights_bytes[self.whole.format]
        kv = self.whole.kv_bytes // max(1, len(self.devices))
        peak = 1e6 * (self.peak_mb[key] - before)
        return {"weights": weights, "kv": kv, "peak": peak, "over": _short((peak - kv) / weights)}

    def as_json(self) -> dict[str, Any]:
        whole, ceiling = self.whole, self.sweep.ceiling
        found: dict[str, Any] = {
            "source": self.source,
            "machine": self.machine,
            "book": {"lines": self.book_lines, "hash": self.book_hash, "sample_hash": self.sample_hash},
            "scheduling": self.scheduling,
            "ceiling": {**asdict(ceiling), "counts": asdict(self.counts)},
            "formats": [
                {
                    "format": cell.format, "slots": cell.slots, "ms_lane_frame": _short(cell.ms_lane_frame),
                    "spread": _short(cell.step.spread),
                    "floor_ms": _short(1e3 * cell.floor_s / cell.slots), "x_floor": _short(cell.x_floor),
                }
                for cell in self.sweep.cells
            ],
            "deviation": {name: asdict(value) for name, value in self.sweep.deviations.items()},
            "weights_bytes": self.sweep.weights_bytes,
            "whole": {
                "format": whole.format, "slots": whole.slots, "schedule": whole.schedule, "lines": whole.lines,
                "seconds": _short(whole.seconds.median), "spread": _short(whole.seconds.spread),
                "runs": [_short(run) for run in whole.seconds.runs], "audio_s": _short(whole.audio_s),
                "rtf": _short(whole.rtf), "x": _short(whole.x), "x_total": _short(whole.x_total),
                "useful": _short(whole.useful), "steps": whole.steps, "kept_frames": whole.kept_frames,
                "lane_frames": whole.lane_frames, "prefills": whole.prefills,
                "kv_bytes": whole.kv_bytes, "warm_up_s": _short(whole.warm_up_s),
            },
            "peak_mb": self.peak_mb,
            "memory": self.memory(),
            "notes": list(self.notes),
        }  # fmt: skip
        if self.codec is not None:
            found["codec"] = self.codec.as_json()
        if self.lane is not None:
            found["lane"] = self.lane.as_json()
        if self.devices:
            found["devices"] = [row.as_json() for row in self.devices]
        if self.ways:
            found["ways"] = [one.as_json() for one in self.ways]
        if self.stages is not None:
            found["stages"] = asdict(self.stages)
        if self.beside is not None:
            found["beside"] = {**asdict(self.beside), "everything_s": whole.seconds.median + self.beside.seconds}
        if self.against is not None:
            found["against"] = self.against.as_json()
        return found


def _short(number: float) -> float:
    """Five digits: more are noise."""
    return float(f"{number:.5g}")
