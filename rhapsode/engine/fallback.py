"""Reading on where memory runs out: half of the lanes and of the codec's group, for all that was not handed out.

Knows the loop and how its stepper is made. Knows no device: that there is no room, the stepper says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from rhapsode.engine.decode import Again, Finished, Policy, decode
from rhapsode.engine.lanes import Reading
from rhapsode.engine.meter import Meter
from rhapsode.engine.stepper import OutOfRoom, Stepper


def decode_in_room(
    readings: Iterable[Reading],
    make: Callable[[int], Stepper],
    slots: int,
    again: Again,
    policy: Policy,
    meter: Meter,
    *,
    forget: Callable[[], None],
    tell: Callable[[str], None],
) -> Iterator[Finished]:
    """As `decode`, on what `make` makes for a number of slots, with fewer of them wherever there is no room.

    `forget` is called when a stepper is no more, and gives its memory back; `tell` hears of every change. A line that
    was under way begins anew, at its first attempt. Raises `OutOfRoom` where one lane is too many.
    """
    left = {reading.line: reading for reading in readings}
    while True:
        try:
            # No name here holds the stepper: it is gone with the loop.
            for finished in decode(left.values(), make(slots), again, policy, meter):
                del left[finished.line]
                yield finished
            return
        except OutOfRoom:
            if slots == 1 and policy.group_lines == 1:
                raise
        before, slots, policy = slots, max(1, slots // 2), _half(policy, alone=slots <= 2)
        forget()
        tell(_told(before, slots))


def _half(policy: Policy, *, alone: bool) -> Policy:
    """Half as much at once; with one lane a line at a time."""
    return replace(
        policy,
        refill=max(1, policy.refill // 2),
        shelf_lines=max(1, policy.shelf_lines // 2),
        group_lines=1 if alone else max(1, policy.group_lines // 2),
        group_frames=max(1, policy.group_frames // 2),
    )


def _told(before: int, after: int) -> str:
    if before == after:
        return "Memory ran out; lines go through the codec one at a time from here."
    return f"Memory ran out with {before} lines side by side; it goes on with {after}."
