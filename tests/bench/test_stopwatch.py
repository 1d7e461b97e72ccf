"""The stopwatch on a device that queues: handing work over takes no time, waiting for it does."""

from __future__ import annotations

import pytest

from rhapsode.bench.stopwatch import Seconds, Stages, Stopwatch


class Queueing:
    """Has a clock of its own, which stands still but for handing over and for waiting."""

    HANDING_OVER = 0.001

    def __init__(self) -> None:
        self.now, self._queued = 0.0, 0.0

    def submit(self, seconds: float) -> None:
        self.now += self.HANDING_OVER
        self._queued += seconds

    def synchronise(self) -> None:
        self.now, self._queued = self.now + self._queued, 0.0

    def read(self) -> float:
        return self.now


@pytest.fixture
def device() -> Queueing:
    return Queueing()


@pytest.fixture
def watch(device: Queueing) -> Stopwatch:
    return Stopwatch(device.synchronise, device.read)


def test_a_naive_clock_is_wrong(device: Queueing) -> None:
    """What the stopwatch is for: without waiting, seconds of work read as the time to hand it over."""
    start = device.read()
    device.submit(2.0)
    assert device.read() - start == pytest.approx(Queueing.HANDING_OVER)


def test_work_is_waited_for(device: Queueing, watch: Stopwatch) -> None:
    seconds, result = watch.time(lambda: device.submit(2.0) or "done")
    assert seconds == pytest.approx(2.0 + Queueing.HANDING_OVER)
    assert result == "done"


def test_what_was_queued_before_does_not_count(device: Queueing, watch: Stopwatch) -> None:
    device.submit(50.0)
    assert watch.time(lambda: device.submit(2.0))[0] == pytest.approx(2.0 + Queueing.HANDING_OVER)


def test_repeats_leave_the_warm_up_out(device: Queueing, watch: Stopwatch) -> None:
    work = iter([90.0, 80.0, 1.0, 4.0, 2.0])
    found = watch.repeat(lambda: device.submit(next(work)), warm_up=2, times=3)
    assert found.runs == pytest.approx([1.001, 4.001, 2.001])
    assert found.median == pytest.approx(2.001)
    assert found.spread == pytest.approx(3.0 / 2.001)


def test_each_stage_gets_its_own_time_and_the_sum_is_the_whole(device: Queueing, watch: Stopwatch) -> None:
    stages = Stages()

    def work() -> None:
        for _ in range(3):
            with watch.stage("short", stages):
                device.submit(0.5)
            with watch.stage("long", stages):
                device.submit(4.0)

    whole, _ = watch.time(work)
    assert stages.seconds == pytest.approx({"short": 1.503, "long": 12.003})
    assert stages.calls == {"short": 3, "long": 3}
    assert stages.total() == pytest.approx(whole)
    assert stages.total(["short"]) == pytest.approx(1.503)


def test_a_stage_within_a_stage_is_refused(watch: Stopwatch) -> None:
    stages = Stages()
    refused = pytest.raises(RuntimeError, match="inner begins within outer")
    with refused, watch.stage("outer", stages), watch.stage("inner", stages):
        pass
    with watch.stage("another", stages):  # and the stages can be used again
        pass
    assert set(stages.seconds) == {"outer", "another"}


def test_no_time_has_no_spread() -> None:
    assert Seconds((0.0, 0.0)).spread == 0.0
