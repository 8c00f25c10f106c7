"""Bugs planted on purpose, to show that a run would find them.

Nothing in the product knows of them: a child process of a run asks `plant_from_environment` before
it begins, and only there is the variable read. Each plant takes one precaution of the product away.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

VARIABLE = "TESTS_CHAOS_PLANTED"

# How a plant changes the product: `setattr` in a child process, a test's own where it is undone.
Put = Callable[[Any, str, Any], None]


def plant_from_environment() -> None:
    name = os.environ.get(VARIABLE)
    if name:
        PLANTS[name](setattr)


def producer_state_not_durable(put: Put) -> None:
    """The log gets the append without its producer: after a crash nobody remembers the triple."""
    import msgspec

    from spark_durable.server.store import committer, records
    from spark_durable.server.store.journal import Change

    entry = committer.Committer._entry

    def without_producer(self: committer.Committer, change: Change) -> Any:
        if isinstance(change.record, records.Appended):
            change.record = msgspec.structs.replace(change.record, producer=None)
        return entry(self, change)

    put(committer.Committer, "_entry", without_producer)


def ack_before_fsync(put: Put) -> None:
    """The answer goes out while the log's bytes are still on their way to the disk."""
    from spark_durable.server.store import wal

    def hurried(self: wal.Log) -> None:
        length, count = self._unsynced
        self._position += length
        self._next_record += count
        self.written += length

    put(wal.Log, "sync", hurried)


def cut_by_position(put: Put) -> None:
    """Rows are cut into appends in whatever order the shuffle brought them, without a guard."""
    from spark_durable.sink import lane, task
    from spark_durable.sink.fingerprint import of_cut

    def unsorted(plan: Any, batches: Any) -> Iterator[Any]:
        return task._made(plan, batches)

    finish = lane.Lane.finish

    def by_position(self: lane.Lane, spool: Any) -> int:
        finish(self, spool)
        return of_cut(self._cut.limit)

    put(task, "messages_of", unsorted)
    put(lane.Lane, "finish", by_position)


def over_read(put: Put) -> None:
    """A task takes all that the answer holds, also what came after the end that was planned."""
    from spark_durable.source import read_numeric, spans

    fetch = read_numeric._fetch

    def generous(wire: Any, target: Any, position: int, align: bool, max_bytes: int) -> Any:
        return fetch(wire, target, position, align, max_bytes + (1 << 16))

    def everything(self: read_numeric.Body) -> spans.Span:
        span = spans.aligned_array(self.content, self.start)
        assert span.starts is not None
        low = int((span.starts < self.part.start).sum())
        return span.slice(low, len(span.messages))

    put(read_numeric, "_fetch", generous)
    put(read_numeric.Body, "span", everything)


PLANTS: dict[str, Callable[[Put], None]] = {
    "producer-state-not-durable": producer_state_not_durable,
    "ack-before-fsync": ack_before_fsync,
    "cut-by-position": cut_by_position,
    "over-read": over_read,
}
