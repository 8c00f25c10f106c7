"""The log: every change, in order, in frames that are synced before anyone is answered.

A frame holds the records of one group commit. Its checksum covers the directory's salt, the
segment's number and the frame's position, so bytes of a recycled segment, or bytes a client sent,
never pass for a frame. A frame is written only after the one before it is durable: a bad frame at
the end is a torn write nobody was told about, a bad one *before* a good one is corruption.

    wal/{number}.log    named after its first record; preallocated, and recycled under a new name
    frame               magic, length, records, number of the first record, checksum, records
    record              length of its description, length and checksum of its payload, both

The frame's checksum covers a payload by way of that payload's own, which is known already.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .errors import CorruptLog
from .files import File, Files
from .model import Buffer

DIRECTORY = "wal"
_FRAME = struct.Struct("<4sIIQI")
_PLACE = struct.Struct("<8sQQ")
_RECORD = struct.Struct("<III")
_MAGIC = b"\xd5WA\x1f"
# below this it is cheaper to copy than to hand many small parts to the kernel
_JOIN_BELOW = 64 << 10
# recycled segments kept for later; a checkpoint sets about this many free
_KEEP_FREE = 2


class Entry(NamedTuple):
    """A record on its way into the log."""

    description: bytes
    payload: Buffer = b""
    checksum: int = 0


class Logged(NamedTuple):
    """A record as it comes out of the log."""

    number: int
    description: memoryview
    payload: memoryview


@dataclass(slots=True)
class _LogSegment:
    number: int
    file: File
    size: int


def _segment_name(number: int) -> str:
    return f"{DIRECTORY}/{number:016x}.log"


class Log:
    """The writing end. Not thread-safe: it belongs to the committer."""

    def __init__(self, files: Files, salt: bytes, segment_bytes: int, next_record: int) -> None:
        """Starts in a fresh segment."""
        self._files = files
        self._salt = salt
        self._segment_bytes = segment_bytes
        self._next_record = next_record
        self._position = 0
        self._segments: list[_LogSegment] = []
        self._free: list[str] = []
        self._unsynced = (0, 0)
        # bytes in all, ever
        self.written = 0

    @property
    def next_record(self) -> int:
        return self._next_record

    def write(self, entries: Sequence[Entry]) -> None:
        """Writes one frame. It counts after `sync`; until then the next one takes its place."""
        parts: list[Buffer] = []
        described = []
        for description, payload, checksum in entries:
            head = _RECORD.pack(len(description), len(payload), checksum) + description
            described.append(head)
            parts += (head, payload)
        length = sum(map(len, parts))
        segment = self._segment_for(_FRAME.size + length)
        header = (_MAGIC, length, len(entries), self._next_record)
        total = _checksum(self._salt, segment.number, self._position, header, described)
        frame = _joined([_FRAME.pack(*header, total), *parts])
        segment.file.write(self._position, frame)
        self._unsynced = (_FRAME.size + length, len(entries))

    def sync(self) -> None:
        """Makes the frame durable. When this fails nobody knows what the disk holds."""
        length, count = self._unsynced
        self._segments[-1].file.sync()
        self._position += length
        self._next_record += count
        self.written += length

    def release(self, applied: int) -> None:
        """Recycles segments whose records all have numbers up to `applied`."""
        while len(self._segments) > 1 and self._segments[1].number <= applied + 1:
            done = self._segments.pop(0)
            if done.size == self._segment_bytes and len(self._free) < _KEEP_FREE:
                self._free.append(_segment_name(done.number))
            else:
                self._files.remove(_segment_name(done.number))

    def _segment_for(self, length: int) -> _LogSegment:
        if self._segments and self._position + length <= self._segments[-1].size:
            return self._segments[-1]
        if self._segments and self._segments[-1].number == self._next_record:
            # an empty one that is too small
            self._segments.pop()
        size = max(length, self._segment_bytes)
        name = _segment_name(self._next_record)
        if self._free and size == self._segment_bytes:
            self._files.rename(self._free.pop(), name)
            file = self._files.open(name, create=False)
        else:
            file = self._files.open(name, create=True)
            try:
                file.allocate(size)
            except OSError:
                self._files.remove(name)
                raise
        # the name has to last before anything in the file can count
        file.sync()
        self._files.sync_directory(DIRECTORY)
        self._segments.append(_LogSegment(self._next_record, file, size))
        self._position = 0
        return self._segments[-1]


def _joined(parts: Sequence[Buffer]) -> list[Buffer]:
    """The same bytes in fewer parts: small ones joined, large payloads left in place."""
    joined: list[Buffer] = []
    small: list[Buffer] = []
    for part in parts:
        if len(part) < _JOIN_BELOW:
            small.append(part)
        else:
            joined += (b"".join(small), part)
            small = []
    joined.append(b"".join(small))
    return joined


def _checksum(
    salt: bytes,
    segment: int,
    position: int,
    header: tuple[bytes, int, int, int],
    described: Sequence[Buffer],
) -> int:
    start = _PLACE.pack(salt, segment, position) + _FRAME.pack(*header, 0)
    return zlib.crc32(b"".join([start, *described]))


class LogReader:
    """The reading end, for recovery: all frames in order, up to the end or to the damage."""

    def __init__(self, files: Files, salt: bytes) -> None:
        self._files = files
        self._salt = salt
        self._segments = [int(name[:16], 16) for name in files.list(DIRECTORY)]

    def remove(self) -> None:
        """Removes the log. Only when a checkpoint includes all of it."""
        for number in self._segments:
            self._files.remove(_segment_name(number))

    def records(self, after: int) -> Iterator[Logged]:
        """Records with numbers above `after`; raises `CorruptLog` where some must be missing."""
        expected = after + 1
        for number in self._segments:
            content = self._read(number)
            position = 0
            while True:
                frame = self._frame(number, content, position)
                if frame is None:
                    break
                first, records, end = frame
                if first > expected:
                    raise CorruptLog(
                        f"the log jumps to record {first} in {_segment_name(number)} at byte "
                        f"{position}; records from {expected} on are missing"
                    )
                for each, logged in enumerate(records):
                    if first + each > after:
                        yield Logged(first + each, *logged)
                expected, position = max(expected, first + len(records)), end
            self._check_rest(number, content, position, expected)
            del content

    def _check_rest(self, number: int, content: memoryview, position: int, expected: int) -> None:
        """After the first bad frame of a segment nothing newer may follow in it."""
        whole = content.obj
        assert isinstance(whole, bytearray)
        found = whole.find(_MAGIC, position + 1)
        while found >= 0:
            frame = self._frame(number, content, found)
            if frame is not None and frame[0] > expected:
                raise CorruptLog(
                    f"{_segment_name(number)} is damaged at byte {position}: record {expected} is "
                    f"unreadable but record {frame[0]} follows at byte {found}. Restore the data "
                    "directory from a backup, or remove the file to give up what it holds"
                )
            found = whole.find(_MAGIC, found + 1)

    def _read(self, number: int) -> memoryview:
        file = self._files.open(_segment_name(number), create=False)
        content = bytearray(file.size())
        file.read_into(0, memoryview(content))
        return memoryview(content)

    def _frame(
        self, number: int, content: memoryview, position: int
    ) -> tuple[int, list[tuple[memoryview, memoryview]], int] | None:
        """First record's number, records and end of a good frame; None for anything else."""
        start = position + _FRAME.size
        if start > len(content):
            return None
        magic, length, count, first, checksum = _FRAME.unpack_from(content, position)
        end = start + length
        if magic != _MAGIC or end > len(content):
            return None
        described, records = [], []
        at = start
        for _ in range(count):
            if at + _RECORD.size > end:
                return None
            description, payload, payload_checksum = _RECORD.unpack_from(content, at)
            middle = at + _RECORD.size + description
            if middle + payload > end or zlib.crc32(content[middle:][:payload]) != payload_checksum:
                return None
            described.append(content[at:middle])
            records.append((content[at + _RECORD.size : middle], content[middle:][:payload]))
            at = middle + payload
        header = (magic, length, count, first)
        if at != end or checksum != _checksum(self._salt, number, position, header, described):
            return None
        return first, records, end
