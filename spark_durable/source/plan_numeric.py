"""Planning where offsets count payload bytes: by subtraction from the tail alone.

Whether they do is seen on a response before it is relied upon, and every task holds every response
it uses against it again.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from spark_durable.protocol import DurableClient, Framing
from spark_durable.protocol.errors import BadRequestError, DataLossError, OptionError
from spark_durable.protocol.offsets import numeric
from spark_durable.source import loss
from spark_durable.source.ranges import ByteRange
from spark_durable.source.read_numeric import boundary_after, edge, fetch_messages, obeys_rule
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire

_PROBE_BYTES: Final = 1 << 12


class Style(Enum):
    """How a position that may lie inside a message leads to a boundary."""

    MESSAGES = "messages"  # the server aligns, or every newline ends a message
    ANYWHERE = "anywhere"  # the stream has no messages
    OPAQUE = "opaque"  # not at all: offsets cannot be computed with


def probe(wire: Wire, target: Target, start: str, *, json: bool) -> Style | None:
    """What one response shows of this server; None if it had nothing to show it by."""

    def ask(client: DurableClient) -> Style | None:
        with client.read(target.url, start, align_next=True, max_bytes=_PROBE_BYTES) as response:
            target.check_life(response)
            begun = numeric(response.start_offset)
            if not obeys_rule(response) or begun != numeric(start):
                return Style.OPAQUE
            if numeric(response.next_offset) == begun:
                return None
            if not json:
                return Style.ANYWHERE
            if response.aligned or response.framing is Framing.NDJSON:
                return Style.MESSAGES
            return Style.OPAQUE

    try:
        with loss.reading(target.name, start):
            return wire.call(ask)
    except DataLossError as error:
        if isinstance(error.__cause__, BadRequestError):
            return Style.OPAQUE  # a server that refuses parameters it does not know
        raise


def check_boundary(wire: Wire, target: Target, position: int) -> None:
    """Raises OptionError where a message is known not to start at ``position``."""

    def ask(client: DurableClient) -> bytes:
        with client.read(
            target.url, target.offset(position - 1), align_next=True, max_bytes=1
        ) as response:
            # A server that aligns refuses such an offset by itself.
            return b"\n" if response.aligned else response.read()[:1]

    if wire.call(ask) != b"\n":
        raise OptionError(
            f"startingOffsets: in stream {target.name} no message starts at "
            f"{target.offset(position)}. Take an offset as the server gave it, or one of the "
            "column offset."
        )


def cut_at_bytes(wire: Wire, target: Target, start: int, tail: int, size: int, style: Style) -> int:
    """A boundary at about ``size`` bytes after ``start``: the next one, so at least one message."""
    if style is Style.ANYWHERE:
        return min(tail, edge(wire, target, min(tail, start + max(1, size))))
    return boundary_after(wire, target, start + max(1, size), tail)


def cut_at_messages(
    wire: Wire, target: Target, start: int, tail: int, count: int
) -> tuple[int, int]:
    """Where ``count`` messages after ``start`` end, and how many there are if the tail comes first.

    Counting needs the bodies, so the driver reads what the batch will read.
    """
    counted = 0
    for body in fetch_messages(wire, target, ByteRange(start, tail, first=True, last=True)):
        span = body.span()
        if counted + len(span.messages) >= count:
            cut = span.slice(0, count - counted)
            return cut.end, count
        counted += len(span.messages)
    return tail, counted
