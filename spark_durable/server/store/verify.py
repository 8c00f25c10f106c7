"""Bit rot: compares every stored append and snapshot with the checksum it was acknowledged with."""

from __future__ import annotations

import zlib
from itertools import pairwise

from .blobs import Blobs
from .errors import CorruptStore
from .segments import Segment, Segments
from .state import State
from .streams import StoredSnapshot, Stream

# index entries looked at in one go
_ENTRIES = 4096


def verify(state: State, segments: Segments, blobs: Blobs) -> None:
    """Reads all streams, an append at a time, and all snapshots; raises at the first that is not as
    it was written."""
    for stream in state.by_id.values():
        stops = [*(segment.first for segment in stream.segments[1:]), stream.appends]
        for segment, stop in zip(stream.segments, stops, strict=False):
            for first in range(segment.first, stop, _ENTRIES):
                _check(stream, segments, segment, first, min(first + _ENTRIES, stop))
        for snapshot in (stream.written.snapshot, *(each for each, _ in stream.superseded)):
            if snapshot is not None:
                _check_snapshot(stream, snapshot, blobs)


def _check(stream: Stream, segments: Segments, segment: Segment, first: int, stop: int) -> None:
    entries = segments.entries(stream.id, segment, first, stop)
    start = segment.base
    if first > segment.first:
        (before,) = segments.entries(stream.id, segment, first - 1, first)
        start = before.end
    ends = [start, *(each.end for each in entries)]
    for (start, end), entry in zip(pairwise(ends), entries, strict=True):
        if _checksum(stream, segments, segment, start, end) != entry.checksum:
            raise CorruptStore(
                f"stream {stream.key!r} is damaged between the offsets {start} and {end}: these "
                "bytes were not acknowledged. Restore the data directory from a backup"
            )


def _check_snapshot(stream: Stream, snapshot: StoredSnapshot, blobs: Blobs) -> None:
    try:
        body = blobs.read(snapshot.blob)
    except FileNotFoundError:
        body = b""
    if len(body) != snapshot.size or zlib.crc32(body) != snapshot.checksum:
        raise CorruptStore(
            f"the snapshot of stream {stream.key!r} at offset {snapshot.offset} is damaged: "
            f"snapshots/{snapshot.blob} is not what was acknowledged. Restore the data directory "
            "from a backup"
        )


def _checksum(
    stream: Stream, segments: Segments, segment: Segment, start: int, end: int
) -> int | None:
    """The checksum of an append as it is stored; None when its bytes are not there."""
    if end <= start:
        return None
    content = bytearray(end - start)
    try:
        segments.read_into(stream.id, segment.base, start, memoryview(content))
    except EOFError:
        return None
    return zlib.crc32(content)
