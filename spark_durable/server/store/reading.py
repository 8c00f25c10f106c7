"""From offsets to bytes: message boundaries and ranges, across segments and forks.

Below its fork offset a fork reads its source's bytes, whatever has become of the source since.
On a JSON stream every message ends with a newline, and only messages do; elsewhere an append is a
message and the segment's index knows where it ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import json_messages
from .errors import BadOffset
from .segments import Segments
from .streams import Pin, Stream

# How far a search for a newline looks at a time: most messages are smaller.
_STEP = 16 << 10
_CHUNK_BYTES = 1 << 20


class Reader:
    def __init__(self, segments: Segments) -> None:
        self._segments = segments

    def fill(self, stream: Stream, start: int, view: memoryview) -> None:
        """Copies stored bytes from `start` on until the view is full."""
        while view:
            owner, limit = _owner(stream, start)
            at = owner.segment_at(start)
            stop = start + len(view) if limit is None else min(start + len(view), limit)
            for following in owner.segments[at + 1 : at + 2]:
                stop = min(stop, following.base)
            length = stop - start
            self._segments.read_into(owner.id, owner.segments[at].base, start, view[:length])
            start, view = stop, view[length:]

    def stored(self, stream: Stream, start: int, end: int) -> bytearray:
        buffer = bytearray(end - start)
        self.fill(stream, start, memoryview(buffer))
        return buffer

    def body(self, stream: Stream, start: int, end: int) -> bytes | bytearray:
        """The wire form of whole messages: an array on a JSON stream, else the bytes."""
        if start == end:
            return b"[]" if stream.json else b""
        buffer = bytearray(end - start)
        if not stream.json:
            self.fill(stream, start, memoryview(buffer))
            return buffer
        # the closing separator makes room for the brackets: same length, one copy
        buffer[0], buffer[-1] = b"["[0], b"]"[0]
        self.fill(stream, start, memoryview(buffer)[1:-1])
        return buffer

    def is_boundary(self, stream: Stream, offset: int) -> bool:
        return self.boundary_from(stream, offset) == offset

    def boundary_from(self, stream: Stream, offset: int) -> int:
        """The first message boundary at or after an offset that is not past the tail."""
        if offset in (0, stream.durable.tail):
            return offset
        owner, limit = _owner(stream, offset)
        if owner.fork is not None and owner.fork.at == offset:
            return offset
        found = self._own_boundary_from(owner, offset)
        return found if limit is None else min(found, limit)

    def _own_boundary_from(self, stream: Stream, offset: int) -> int:
        if stream.segments[stream.segment_at(offset)].base == offset:
            # what lies before it may be gone
            return offset
        if stream.json:
            return self._newline_from(stream, offset - 1) + 1
        return self._append_end(stream, offset)

    def append_boundary_after(self, stream: Stream, offset: int) -> int:
        """Where the append with the byte at `offset` ends, as this stream sees it."""
        owner, limit = _owner(stream, offset)
        found = self._append_end(owner, offset + 1)
        return found if limit is None else min(found, limit)

    def last_boundary(self, stream: Stream, start: int, limit: int) -> int:
        """The end of as many whole messages from `start` on as fit `limit` bytes, one at least."""
        end = start + limit
        if end >= stream.durable.tail:
            return stream.durable.tail
        found = self._last_boundary_in(stream, start, end)
        return found if found > start else self.boundary_from(stream, start + 1)

    def _last_boundary_in(self, stream: Stream, start: int, end: int) -> int:
        """The last message boundary in `(start, end]`, else `start`."""
        while stream.fork is not None and end < stream.fork.at:
            stream = stream.fork.source
        if stream.fork is not None and start < stream.fork.at:
            start = stream.fork.at
        if start == end:
            return start
        if stream.json:
            while end > start:
                low = max(start, end - _STEP)
                found = self.stored(stream, low, end).rfind(b"\n")
                if found >= 0:
                    return low + found + 1
                end = low
            return start
        at = stream.segment_at(end - 1)
        segment = stream.segments[at]
        complete = self._complete_appends(stream, at, end)
        if complete == segment.first:
            return max(start, segment.base)
        return max(start, self._segments.end(stream.id, segment, complete - 1))

    def message_ends(self, stream: Stream, start: int, end: int) -> list[int]:
        """Where the messages between two boundaries of a stream end; not for JSON streams."""
        ends: list[int] = []
        while start < end:
            owner, limit = _owner(stream, start)
            stop = end if limit is None else min(end, limit)
            at = owner.segment_at(start)
            first = self._complete_appends(owner, at, start)
            last = self._complete_appends(owner, at, stop)
            found = self._segments.entries(owner.id, owner.segments[at], first, last)
            # a fork may begin inside an append of its source
            ends += [each.end for each in found] or [stop]
            start = ends[-1]
        return ends

    def _newline_from(self, stream: Stream, offset: int) -> int:
        tail = stream.durable.tail
        while True:
            window = self.stored(stream, offset, min(offset + _STEP, tail))
            found = window.find(b"\n")
            if found >= 0:
                return offset + found
            if not window:
                raise BadOffset(f"offset {offset} lies past the last message")
            offset += len(window)

    def _append_end(self, stream: Stream, offset: int) -> int:
        """The first end of an own append at or after `offset`, which is past its first byte."""
        at = stream.segment_at(offset - 1)
        number = self._complete_appends(stream, at, offset - 1)
        return self._segments.end(stream.id, stream.segments[at], number)

    def _complete_appends(self, stream: Stream, at: int, offset: int) -> int:
        """The number of the first durable append of a segment that ends after `offset`."""
        segment = stream.segments[at]
        low, high = segment.first, stream.durable_appends
        if at + 1 < len(stream.segments):
            high = min(high, stream.segments[at + 1].first)
        while low < high:
            middle = (low + high) // 2
            if self._segments.end(stream.id, segment, middle) <= offset:
                low = middle + 1
            else:
                high = middle
        return low


def _owner(stream: Stream, offset: int) -> tuple[Stream, int | None]:
    """Whose byte lies at `offset` of a stream, and up to where the stream reads that one's."""
    limit: int | None = None
    while stream.fork is not None and offset < stream.fork.at:
        limit = stream.fork.at if limit is None else min(limit, stream.fork.at)
        stream = stream.fork.source
    return stream, limit


class MessageChunks:
    """Iterates over the messages of a range in lists of about a MiB; pins what is still to come."""

    def __init__(self, reader: Reader, stream: Stream, start: int, end: int) -> None:
        self._reader = reader
        self._stream = stream
        self._end = end
        self._pin = Pin(start)
        stream.pinned_by.add(self._pin)

    def __iter__(self) -> Iterator[list[bytes]]:
        return self

    def __next__(self) -> list[bytes]:
        start = self._pin.offset
        if start >= self._end:
            raise StopIteration
        end = min(self._reader.last_boundary(self._stream, start, _CHUNK_BYTES), self._end)
        stored = self._reader.stored(self._stream, start, end)
        self._pin.offset = end
        if self._stream.json:
            return json_messages.split(stored)
        view, base = memoryview(stored), start
        messages = []
        for stop in self._reader.message_ends(self._stream, start, end):
            messages.append(bytes(view[start - base : stop - base]))
            start = stop
        return messages
