"""Following a stream from an anchor, response by response, in constant memory.

For servers whose offsets say nothing but where to go on. A response that breaks off is asked for
again and what was already handed out is skipped: the content after an offset does not change.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final

from spark_durable.protocol import (
    ArraySplitter,
    DurableClient,
    Framing,
    NdjsonSplitter,
    ReadResponse,
)
from spark_durable.protocol.errors import MalformedResponseError
from spark_durable.protocol.offsets import precedes
from spark_durable.source import loss
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire

_CHUNK: Final = 1 << 20
_SPACE: Final = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive messages (or bytes) of the response that was asked for at ``anchor``."""

    anchor: str
    messages: list[bytes]


@dataclass(frozen=True, slots=True)
class ResponseEnd:
    """The response at ``anchor`` is complete, and the next one starts at ``following``."""

    anchor: str
    following: str
    to_tail: bool


@dataclass(frozen=True, slots=True)
class PlannedBody:
    """A response as it was when its batch was planned: this long, and up to this offset."""

    length: int
    following: str


class Messages:
    """The messages of a JSON stream. One that a response cuts off is completed by the next.

    Of a first response that reaches further than ``planned``, only the planned part is taken.
    """

    def __init__(self, planned: PlannedBody | None = None) -> None:
        self._planned = planned
        self._carry = b""
        self._rest = b""

    def open(self, response: ReadResponse) -> Iterator[list[bytes]]:
        framing = response.framing
        if framing is Framing.BYTES:
            raise MalformedResponseError(
                f"the stream was JSON when the query was planned, and is {response.content_type} "
                "now. Has it been deleted and created again?"
            )
        splitter = ArraySplitter() if framing is Framing.ARRAY else NdjsonSplitter(self._carry)
        chunks = response.chunks(_CHUNK)
        planned = self._planned
        if planned and precedes(planned.following, response.next_offset or planned.following):
            chunks = _planned_part(chunks, planned.length, framing)
        for chunk in chunks:
            if messages := splitter.feed(chunk):
                yield messages
        self._rest = splitter.finish()
        if self._rest and response.up_to_date:
            yield [self._rest.strip(_SPACE)]
            self._rest = b""

    def next_response(self) -> None:
        self._carry, self._planned = self._rest, None

    def size(self, units: list[bytes]) -> int:
        return len(units)

    def drop(self, units: list[bytes], count: int) -> list[bytes]:
        return units[count:]


class Bytes:
    """The content of a stream without message boundaries, in chunks."""

    def open(self, response: ReadResponse) -> Iterator[list[bytes]]:
        for chunk in response.chunks(_CHUNK):
            yield [chunk]

    def next_response(self) -> None:
        return None

    def size(self, units: list[bytes]) -> int:
        return sum(map(len, units))

    def drop(self, units: list[bytes], count: int) -> list[bytes]:
        return [b"".join(units)[count:]]


def _planned_part(chunks: Iterator[bytes], length: int, framing: Framing) -> Iterator[bytes]:
    """An array as it was when it had ``length`` bytes: where it was closed, a comma follows now."""
    left = length - 1
    for chunk in chunks:
        yield chunk[:left]
        after = chunk[left:].lstrip(_SPACE)[:1]
        left -= len(chunk)
        if left < 0 and after:
            if after != b"," or framing is not Framing.ARRAY:
                break
            yield b"]"
            return
        left = max(left, 0)
    raise MalformedResponseError(
        f"the first {length} bytes of the response no longer end between two messages. The server "
        "has changed what it gave before; nothing is read past it."
    )


class _Response:
    """One response, reopened as often as it breaks off."""

    def __init__(self, wire: Wire, target: Target, anchor: str, reading: Messages | Bytes) -> None:
        self._wire, self._target, self._anchor, self._reading = wire, target, anchor, reading
        self._response: ReadResponse | None = None
        self._units: Iterator[list[bytes]] = iter(())
        self._handed_out = 0
        self.following = anchor
        self.to_tail = False

    def __iter__(self) -> Iterator[list[bytes]]:
        try:
            while True:
                with loss.reading(self._target.name, self._anchor):
                    units = self._wire.call(self._advance)
                if units is None:
                    return
                if units:
                    yield units
        finally:
            self._close()

    def _advance(self, client: DurableClient) -> list[bytes] | None:
        try:
            skip = 0
            if self._response is None:
                skip = self._handed_out
                self._open(client)
            while True:
                units = next(self._units, None)
                if units is None:
                    return None
                size = self._reading.size(units)
                if size > skip:
                    fresh = self._reading.drop(units, skip) if skip else units
                    self._handed_out += size - skip
                    return fresh
                skip -= size
        except BaseException:
            self._close()
            raise

    def _open(self, client: DurableClient) -> None:
        response = client.read(self._target.url, self._anchor)
        self._response = response
        self._target.check_life(response)
        if response.next_offset is None:
            raise MalformedResponseError(
                f"Stream {self._target.name}: an answer without Stream-Next-Offset. Is the URL "
                "that of a Durable Streams server?"
            )
        self.following = response.next_offset
        self.to_tail = response.up_to_date
        self._units = self._reading.open(response)

    def _close(self) -> None:
        if self._response is not None:
            self._response.__exit__(None, None, None)
            self._response = None


def follow(
    wire: Wire, target: Target, anchor: str, reading: Messages | Bytes
) -> Generator[Run | ResponseEnd, None, None]:
    """What follows ``anchor``, to the tail as the last response sees it.

    When a response broke off and was asked for again, its end may lie further than at first; the
    end that is told is that of the body that was read to its end.
    """
    while True:
        response = _Response(wire, target, anchor, reading)
        for units in response:
            yield Run(anchor, units)
        yield ResponseEnd(anchor, response.following, response.to_tail)
        if response.to_tail or response.following == anchor:
            return
        anchor = response.following
        reading.next_response()
