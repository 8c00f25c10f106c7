"""Planning where neither offsets nor lengths tell anything: the driver reads what follows and
counts, once. The count is the position that a checkpoint keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spark_durable.protocol.errors import MalformedResponseError
from spark_durable.protocol.offsets import precedes
from spark_durable.source import loss
from spark_durable.source.follow import Bytes, Messages, ResponseEnd, Run, follow
from spark_durable.source.position import Position
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire

# Up to this size a batch that the driver had to read goes to its task inside the partition.
CARRY_BYTES: Final = 4 << 20

# Each step of a subtraction is shorter than the one before; a writer that outruns this many is
# faster than its server answers.
_MAX_SUBTRACTIONS: Final = 50


@dataclass(slots=True)
class Counted:
    """What was counted: exactly ``take`` units from ``start`` to ``at``."""

    start: Position
    at: Position
    take: int = 0
    size: int = 0
    to_tail: bool = False
    carried: list[bytes] | None = field(default_factory=list)  # None: too much to carry

    def add(self, units: list[bytes], count: int) -> None:
        self.take += count
        self.at = self.at.plus(count)
        for unit in units:
            self.size += len(unit)
        if self.carried is not None:
            self.carried += units
            if self.size > CARRY_BYTES:
                self.carried = None


class Counter:
    """Counts on from a position. Kept between triggers, it goes on in the response it holds open,
    so a backlog under a limit is read once, not once per batch."""

    def __init__(self, wire: Wire, target: Target, start: Position, *, json: bool) -> None:
        self._json = json
        self._events = follow(wire, target, start.anchor, Messages() if json else Bytes())
        self._skip = start.skip
        self._left: list[bytes] = []  # of the run in progress
        self.at = start
        self.exhausted = False

    def close(self) -> None:
        """Lets go of the response."""
        self.exhausted = True
        self._events.close()

    def count(self, max_units: int | None = None, max_bytes: int | None = None) -> Counted:
        """To the tail, or until a limit is reached. At least one unit, if there is one."""
        counted = Counted(self.at, self.at)
        while not self.exhausted:
            if not self._left and not self._next_run(counted):
                break
            units = self._within(counted, max_units, max_bytes)
            if not units:
                break
            counted.add(units, len(units) if self._json else sum(map(len, units)))
            self.at = counted.at
        counted.to_tail = self.exhausted
        return counted

    def _next_run(self, counted: Counted) -> bool:
        for event in self._events:
            if isinstance(event, ResponseEnd):
                self.at = counted.at = Position(event.following)
                continue
            self._left = self._unread(event)
            if self._left:
                return True
        self.exhausted = True
        return False

    def _unread(self, run: Run) -> list[bytes]:
        """Without what lies before the position this counter started from."""
        if not self._skip:
            return run.messages
        if self._json:
            units = run.messages[self._skip :]
            self._skip = max(0, self._skip - len(run.messages))
            return units
        chunk = b"".join(run.messages)
        left = chunk[self._skip :]
        self._skip = max(0, self._skip - len(chunk))
        return [left] if left else []

    def _within(
        self, counted: Counted, max_units: int | None, max_bytes: int | None
    ) -> list[bytes]:
        """As much of the run in progress as the limits allow; the rest stays."""
        units = self._left
        if not self._json:
            room = max_bytes if max_units is None else max_units
            chunk = b"".join(units)
            cut = len(chunk) if room is None else room - counted.take
            self._left = [chunk[cut:]] if cut < len(chunk) else []
            return [chunk[:cut]] if cut > 0 else []
        cut = len(units) if max_units is None else min(len(units), max_units - counted.take)
        if max_bytes is not None:
            size = counted.size
            for i in range(cut):
                if size >= max_bytes:
                    cut = i
                    break
                size += len(units[i])
        self._left = units[cut:]
        return units[:cut]


def units_between(
    wire: Wire, target: Target, first: str, last: str, *, json: bool, depth: int = 0
) -> int:
    """Messages (or bytes) between two offsets that the server gave.

    A response that reaches past ``last`` is counted whole, and what it has beyond is counted from
    ``last`` on and taken off.
    """
    if depth > _MAX_SUBTRACTIONS:
        raise MalformedResponseError(
            f"Stream {target.name} grows faster than what follows {last} can be counted. Read it "
            "up to its tail instead of to an offset in between."
        )
    total = 0
    reading = Messages() if json else Bytes()
    for event in follow(wire, target, first, reading):
        if not isinstance(event, ResponseEnd):
            total += reading.size(event.messages)
        elif event.following == last:
            return total
        elif precedes(last, event.following):
            beyond = units_between(wire, target, last, event.following, json=json, depth=depth + 1)
            return total - beyond
    raise loss.shorter(target.name, last)
