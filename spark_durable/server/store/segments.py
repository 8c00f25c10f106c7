"""Where a stream's bytes lie: segment files, and beside each an index with one entry an append.

`streams/{id}/{base}.log` holds the bytes readers get, byte `offset - base` at that position.
`streams/{id}/{base}.idx` holds 16 bytes an append: where it ends, its checksum, its number of
messages. This module knows files only; what is committed is decided elsewhere.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence
from typing import NamedTuple

from .files import Files, OpenFiles
from .model import Buffer

ENTRY = struct.Struct("<QII")


class Segment(NamedTuple):
    """`base` is the offset of its first byte, `first` the number of its first append."""

    base: int
    first: int


class Entry(NamedTuple):
    end: int
    checksum: int
    messages: int


class SegmentWrite(NamedTuple):
    """One append on its way into its segment."""

    stream_id: int
    segment: Segment
    offset: int
    number: int
    entry: Entry
    payload: Buffer


def directory(stream_id: int) -> str:
    return f"streams/{stream_id:016x}"


def log_name(stream_id: int, base: int) -> str:
    return f"streams/{stream_id:016x}/{base:020d}.log"


def index_name(stream_id: int, base: int) -> str:
    return f"streams/{stream_id:016x}/{base:020d}.idx"


def _sizes(stream_id: int, segment: Segment, tail: int, appends: int) -> dict[str, int]:
    return {
        log_name(stream_id, segment.base): tail - segment.base,
        index_name(stream_id, segment.base): (appends - segment.first) * ENTRY.size,
    }


class Segments:
    """Reads and writes of segment files through a bounded set of open ones."""

    def __init__(self, files: Files, open_files: int) -> None:
        self._files = files
        self._open = OpenFiles(files, open_files)
        # written since the last checkpoint; the committer's own
        self._dirty: set[str] = set()

    def write(self, writes: Sequence[SegmentWrite]) -> None:
        """Puts appends where they belong, runs of the same segment in one call each."""
        start = 0
        while start < len(writes):
            stream_id, segment = writes[start].stream_id, writes[start].segment
            stop = start + 1
            while (
                stop < len(writes)
                and writes[stop].stream_id == stream_id
                and writes[stop].segment == segment
            ):
                stop += 1
            run = writes[start:stop]
            names = log_name(stream_id, segment.base), index_name(stream_id, segment.base)
            self._dirty.update(names)
            log, index = (self._open.get(name, create=True) for name in names)
            log.write(run[0].offset - segment.base, [each.payload for each in run])
            entries = b"".join([ENTRY.pack(*each.entry) for each in run])
            index.write((run[0].number - segment.first) * ENTRY.size, [entries])
            start = stop

    def cut(self, writes: Sequence[SegmentWrite]) -> None:
        """Takes writes back that did not all fit, so that their space is free again."""
        for each in reversed(writes):
            sizes = _sizes(each.stream_id, each.segment, each.offset, each.number)
            for name, size in sizes.items():
                with contextlib.suppress(FileNotFoundError):
                    file = self._open.get(name)
                    if file.size() > size:
                        file.truncate(size)

    def fit(self, stream_id: int, segment: Segment, tail: int, appends: int) -> None:
        """Cuts a segment's files to what was acknowledged; less than that is an `EOFError`."""
        for name, size in _sizes(stream_id, segment, tail, appends).items():
            try:
                file = self._open.get(name)
                present = file.size()
            except FileNotFoundError:
                present = 0
            if present < size:
                raise EOFError(f"{name} has {present} bytes, {size} were acknowledged")
            if present > size:
                file.truncate(size)

    def take_dirty(self) -> set[str]:
        dirty, self._dirty = self._dirty, set()
        return dirty

    def read_into(self, stream_id: int, base: int, offset: int, view: memoryview) -> None:
        self._open.get(log_name(stream_id, base)).read_into(offset - base, view)

    def entries(self, stream_id: int, segment: Segment, first: int, stop: int) -> list[Entry]:
        """What the index says about the appends `first` to `stop - 1` of a segment."""
        buffer = bytearray((stop - first) * ENTRY.size)
        index = self._open.get(index_name(stream_id, segment.base))
        index.read_into((first - segment.first) * ENTRY.size, memoryview(buffer))
        return [Entry(*each) for each in ENTRY.iter_unpack(buffer)]

    def end(self, stream_id: int, segment: Segment, number: int) -> int:
        """Where one append ends."""
        return self.entries(stream_id, segment, number, number + 1)[0].end

    def remove_segment(self, stream_id: int, base: int) -> None:
        names = {log_name(stream_id, base), index_name(stream_id, base)}
        self._open.forget(names.__contains__)
        for name in names:
            self._files.remove(name)

    def remove_stream(self, stream_id: int) -> None:
        prefix = directory(stream_id)
        self._open.forget(lambda name: name.startswith(prefix))
        self._files.remove(prefix)
