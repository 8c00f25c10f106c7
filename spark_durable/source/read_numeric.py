"""Reading byte ranges where offsets count payload bytes.

Every response is held against that rule before its content is used. A task takes the messages that
start in its range: where its range begins inside a message, the task before reads that one to its
end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_durable.protocol import DurableClient, Framing, ReadResponse
from spark_durable.protocol.errors import MalformedResponseError
from spark_durable.protocol.offsets import numeric
from spark_durable.source import loss, spans
from spark_durable.source.ranges import ByteRange
from spark_durable.source.spans import Span
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire

# What is asked for beyond a range to get its last message whole without another request.
_SLACK: Final = 1 << 16

# Bodies longer than this are read as a stream. Servers cap them far below.
_WHOLE_BODY: Final = 32 << 20


@dataclass(frozen=True, slots=True)
class Body:
    """Whole messages as they came, not yet split: fetching and splitting overlap."""

    target: Target
    part: ByteRange
    start: int
    content: bytes
    framing: Framing

    def span(self) -> Span:
        """The messages that start in the range. A range that ends inside a message is an error."""
        if self.framing is Framing.ARRAY:
            span = spans.aligned_array(self.content, self.start)
        else:
            span = spans.lines(self.content, self.start)
        part, starts = self.part, span.starts
        if starts is None:
            raise AssertionError("messages of numeric streams have positions")
        low, high = (int(i) for i in np.searchsorted(starts, [part.start, part.end]))
        if part.last and self.start < part.end <= span.end:
            boundary = int(starts[high]) if high < len(starts) else span.end
            if boundary != part.end:
                raise MalformedResponseError(
                    f"Stream {self.target.name}: the range planned up to "
                    f"{self.target.offset(part.end)} ends inside a message (the next boundary is "
                    f"{self.target.offset(boundary)}). The server has changed what it gave before; "
                    "nothing is read past it."
                )
        return span.slice(low, high)


def obeys_rule(response: ReadResponse) -> bool:
    """Whether the response's offsets differ by exactly its length, told by its headers alone."""
    start, end = numeric(response.start_offset), numeric(response.next_offset)
    if start is None or end is None or response.content_length is None:
        return False
    return end - start == response.content_length or (end == start and response.content_length <= 2)


def boundary_after(wire: Wire, target: Target, position: int, tail: int) -> int:
    """The first message boundary at or after a position of a JSON stream; ``tail`` is one."""
    if position >= tail:
        return tail
    with loss.reading(target.name, target.offset(position)):
        return wire.call(lambda client: _boundary(client, target, position))


def _boundary(client: DurableClient, target: Target, position: int) -> int:
    with client.read(target.url, target.offset(position), align_next=True, max_bytes=1) as response:
        target.check_life(response)
        start = numeric(response.start_offset)
        if response.aligned and start is not None:
            return start
    # A server of lines may be read from anywhere: the byte before a boundary is a newline.
    at = position - 1
    while True:
        with client.read(target.url, target.offset(at), max_bytes=_SLACK) as response:
            _require_rule(target, response)
            for chunk in response.chunks():
                found = chunk.find(b"\n")
                if found >= 0:
                    return at + found + 1
                at += len(chunk)
            if response.up_to_date:
                return at


def edge(wire: Wire, target: Target, position: int) -> int:
    """Where a read at or after a position of a stream without messages may begin: the next append
    on a server that aligns, else anywhere."""

    def ask(client: DurableClient) -> int:
        with client.read(
            target.url, target.offset(position), align_next=True, max_bytes=1
        ) as response:
            target.check_life(response)
            start = numeric(response.start_offset)
            return position if start is None else start

    with loss.reading(target.name, target.offset(position)):
        return wire.call(ask)


# -- bodies ---------------------------------------------------------------------------------------


def fetch_messages(wire: Wire, target: Target, part: ByteRange) -> Iterator[Body]:
    """Whole messages of a JSON stream, from the first boundary of the range to past its last."""
    position = part.start if part.first else part.start - 1
    base, carry = position, b""  # the beginning of a message that a response cut off
    searching = not part.first
    while position < part.end or (carry and base < part.end):
        room = part.end - position + (0 if part.last else _SLACK)
        # Past the end, a long message is fetched in steps that double.
        got = _fetch(wire, target, position, searching, room if room > 0 else _SLACK + len(carry))
        if got.following <= position:
            raise loss.shorter(target.name, target.offset(part.end))
        position = got.following
        if got.framing is Framing.ARRAY:
            searching = False
            yield Body(target, part, got.start, got.content, Framing.ARRAY)
            continue
        content, base = carry + got.content, got.start - len(carry)
        if searching:
            skipped = content.find(b"\n") + 1
            searching = skipped == 0
            skipped = skipped or len(content)
            base, content = base + skipped, content[skipped:]
        complete = len(content) if got.to_tail else content.rfind(b"\n") + 1
        if complete:
            yield Body(target, part, base, content[:complete], Framing.NDJSON)
        base, carry = base + complete, content[complete:]


def fetch_bytes(wire: Wire, target: Target, part: ByteRange) -> Iterator[bytes]:
    """The content of a range on a stream without message boundaries.

    A server that aligns reads only lets them begin at an append, so the edges of a range move to
    the next one; neighbouring ranges agree on where that is.
    """
    position = part.start if part.first else edge(wire, target, part.start)
    end = part.end if part.last else edge(wire, target, part.end)
    while position < end:
        got = _fetch(wire, target, position, False, end - position)
        if got.following <= position:
            raise loss.shorter(target.name, target.offset(end))
        yield got.content[: end - position]
        position = got.following


@dataclass(frozen=True, slots=True)
class _Got:
    start: int
    following: int
    content: bytes
    framing: Framing
    to_tail: bool  # the response ends where the stream does, so its last message is whole


def _fetch(wire: Wire, target: Target, position: int, align: bool, max_bytes: int) -> _Got:
    def attempt(client: DurableClient) -> _Got:
        with client.read(
            target.url, target.offset(position), align_next=align, max_bytes=max_bytes
        ) as response:
            return _content(target, response, max_bytes)

    with loss.reading(target.name, target.offset(position)):
        return wire.call(attempt)


def _content(target: Target, response: ReadResponse, wanted: int) -> _Got:
    start, following = _require_rule(target, response)
    framing = response.framing
    if framing is Framing.ARRAY or following - start <= _WHOLE_BODY:
        return _Got(start, following, response.read(), framing, response.up_to_date)
    # A server without a cap: no more than was asked for is kept, the rest is asked for again.
    content = bytearray()
    for chunk in response.chunks():
        content += chunk
        if len(content) >= min(wanted, _WHOLE_BODY):
            break
    return _Got(start, start + len(content), bytes(content), framing, False)


def _require_rule(target: Target, response: ReadResponse) -> tuple[int, int]:
    target.check_life(response)
    start, following = numeric(response.start_offset), numeric(response.next_offset)
    if not obeys_rule(response) or start is None or following is None:
        raise MalformedResponseError(
            f"Stream {target.name}: the answer from {response.start_offset} to "
            f"{response.next_offset} has {response.content_length} bytes. This server's offsets "
            "counted payload bytes when the query was planned and do not now: messages could be "
            "missed, so nothing is read. Has the server been replaced?"
        )
    return start, following
