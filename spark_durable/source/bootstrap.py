"""Where the first batch of a stream begins, and whether a later position can still be read."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from spark_durable.protocol import DurableClient
from spark_durable.protocol.errors import (
    NotFoundError,
    NotSupportedError,
    OffsetGoneError,
    OptionError,
)
from spark_durable.protocol.headers import OFFSET_BEGINNING, OFFSET_NOW
from spark_durable.protocol.offsets import numeric, precedes
from spark_durable.source.offset_json import Begin, StreamMark
from spark_durable.source.position import Position
from spark_durable.source.tail import Tail
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire

SNAPSHOT = "snapshot"
EARLIEST = "earliest"
LATEST = "latest"


def begin(starting: str | Mapping[str, str], name: str, tail: Tail, *, later: bool) -> Begin:
    """Where a stream starts by the option ``startingOffsets``.

    ``later``: the stream came after the query had begun. It is then read from its beginning, not
    from its tail, or what it got before it was noticed would be lost.
    """
    if isinstance(starting, Mapping):
        given = starting.get(name)
        if given is not None and not later:
            return _given(given, name, tail)
        starting = SNAPSHOT
    if starting == LATEST and not later:
        return Begin(Position(tail.offset))
    if starting != EARLIEST and tail.snapshot is not None:
        return Begin(Position(tail.snapshot), snapshot=tail.snapshot)
    return Begin(Position(oldest(tail)))


def from_tail(starting: str | Mapping[str, str]) -> bool:
    """Whether a start is the moment it is asked for, and has to be kept."""
    return starting == LATEST or (isinstance(starting, Mapping) and OFFSET_NOW in starting.values())


def oldest(tail: Tail) -> str:
    """The first offset that can be read, as far as the server tells."""
    return tail.retained if tail.retained and numeric(tail.retained) != 0 else OFFSET_BEGINNING


def _given(offset: str, name: str, tail: Tail) -> Begin:
    if offset == OFFSET_NOW:
        return Begin(Position(tail.offset))
    if before(tail.offset, offset):
        raise OptionError(
            f"startingOffsets: stream {name} ends at {tail.offset}, before the given {offset}. "
            "Offsets are those the server gave for this very stream."
        )
    return Begin(Position(offset))


def begin_where_readable(wire: Wire, target: Target, tail: Tail, *, with_snapshot: bool) -> Begin:
    """For a beginning that the server answered with 410 although HEAD told of no retention."""
    try:
        found = wire.call(lambda client: _latest_snapshot(client, target))
    except (NotFoundError, NotSupportedError):
        return Begin(Position(oldest(tail)))
    return Begin(Position(found), snapshot=found if with_snapshot else None)


def _latest_snapshot(client: DurableClient, target: Target) -> str:
    with client.snapshot(target.url) as snapshot:
        return snapshot.offset


class State(Enum):
    """What has become of a position."""

    READABLE = "readable"
    UNSURE = "unsure"  # there is a newer snapshot; only a read tells whether it has trimmed
    TRIMMED = "trimmed"
    OTHER_LIFE = "other life"


def state(mark: StreamMark, tail: Tail) -> State:
    """As far as the tail's description tells, without another request."""
    at = mark.at.anchor
    if tail.described and mark.life is not None and tail.life not in (None, mark.life):
        return State.OTHER_LIFE
    if before(tail.offset, at):
        return State.OTHER_LIFE
    if not tail.described or not before(at, tail.offset):
        return State.READABLE
    if tail.retained is not None:
        return State.TRIMMED if before(at, tail.retained) else State.READABLE
    if tail.snapshot is not None and before(at, tail.snapshot):
        return State.UNSURE
    return State.READABLE


def readable(wire: Wire, target: Target, offset: str) -> bool:
    """Whether a GET at ``offset`` is answered, seen by its headers alone."""

    def ask(client: DurableClient) -> bool:
        with client.read(target.url, offset, max_bytes=1):
            return True

    try:
        return wire.call(ask)
    except OffsetGoneError:
        return False


def before(first: str, second: str) -> bool:
    """Whether ``first`` lies before ``second``; the beginning and a decimal zero are the same."""
    if first == second:
        return False
    low, high = numeric(first), numeric(second)
    if low is not None and high is not None:
        return low < high
    return precedes(first, second)
