"""What each kind of record does to the state, shows to readers, and takes back."""

from __future__ import annotations

import zlib

from . import records
from .model import Buffer, ProducerTriple
from .producers import ProducerState
from .segments import Entry, Segment, SegmentWrite
from .state import Bucket, State
from .streams import Edge, Fork, StoredSnapshot, Stream


def register(state: State) -> None:
    """Teaches a state the records of streams, buckets and snapshots."""
    state.handle(records.StreamCreated, Creation)
    state.handle(records.Appended, Append)
    state.handle(records.StreamDeleted, Deletion)
    state.handle(records.BucketCreated, BucketCreation)
    state.handle(records.BucketDeleted, BucketDeletion)
    state.handle(records.SnapshotPublished, SnapshotPublication)


class Creation:
    def __init__(self, state: State, record: records.StreamCreated, payload: Buffer) -> None:
        self._state = state
        self._record = record
        fork = None
        if record.fork is not None:
            source_id, source_key, anchor, sub_offset, at = record.fork
            fork = Fork(state.by_id[source_id], source_key, anchor, sub_offset, at)
        self._stream = stream = Stream(
            record.stream,
            record.key,
            record.content_type,
            created_at_ms=record.at_ms,
            ttl_s=record.ttl_s,
            expires_at=record.expires_at,
            expires_at_text=record.expires_at_text,
            expiry_inherited=record.expiry_inherited,
            fork=fork,
        )
        if fork is not None:
            inherited = fork.source.written
            for edge in (stream.written, stream.durable):
                edge.retained, edge.snapshot = inherited.retained, inherited.snapshot
            state.hold_blob(inherited.snapshot)
        self.write: SegmentWrite | None = None
        if payload:
            self.write = _extend(stream, payload, record.messages, new_segment=True)
        stream.written.closed = record.closed
        state.add(stream)

    def publish(self) -> None:
        stream = self._stream
        if self.write is not None:
            stream.durable.tail = self.write.entry.end
            stream.durable_appends = self.write.number + 1
        stream.durable.closed = self._record.closed
        stream.visible = True

    def undo(self) -> None:
        self._state.drop(self._stream)
        self._state.release_blob(self._stream.written.snapshot)


def _extend(stream: Stream, payload: Buffer, messages: int, *, new_segment: bool) -> SegmentWrite:
    start = stream.written.tail
    if new_segment:
        stream.segments.append(Segment(start, stream.appends))
    end = stream.written.tail = start + len(payload)
    entry = Entry(end, zlib.crc32(payload), messages)
    number = stream.appends
    stream.appends += 1
    return SegmentWrite(stream.id, stream.segments[-1], start, number, entry, payload)


class Append:
    __slots__ = ("_before", "_record", "_state", "_stream", "write")

    def __init__(self, state: State, record: records.Appended, payload: Buffer) -> None:
        self._state = state
        self._record = record
        self._stream = stream = state.by_id[record.stream]
        producer = record.producer
        self._before = (
            stream.written.tail,
            stream.written.closed,
            stream.closed_by,
            stream.stream_seq,
            stream.last_write_at_ms,
            stream.producers.get(producer[0]) if producer else None,
        )
        self.write: SegmentWrite | None = None
        if payload:
            self.write = _extend(stream, payload, record.messages, new_segment=record.new_segment)
        if producer:
            known = ProducerState(producer[1], producer[2], record.at_ms / 1000)
            stream.producers.set(producer[0], known)
        stream.last_write_at_ms = record.at_ms
        if record.stream_seq is not None:
            stream.stream_seq = record.stream_seq
        if record.close:
            stream.written.closed = True
            stream.closed_by = ProducerTriple(*producer) if producer else None
        state.changed_streams.add(stream.id)

    def publish(self) -> None:
        stream, durable = self._stream, self._stream.durable
        if self.write is not None:
            durable.tail = self.write.entry.end
            stream.durable_appends = self.write.number + 1
        if self._record.close:
            durable.closed = True
        if stream.waiters:
            stream.wake()

    def undo(self) -> None:
        stream, record = self._stream, self._record
        tail, closed, closed_by, stream_seq, last_write_at_ms, producer = self._before
        if self.write is not None:
            stream.appends -= 1
            if record.new_segment:
                stream.segments.pop()
        stream.written.tail, stream.written.closed = tail, closed
        stream.closed_by, stream.stream_seq = closed_by, stream_seq
        stream.last_write_at_ms = last_write_at_ms
        if record.producer:
            stream.producers.set(record.producer[0], producer)


class Deletion:
    write: SegmentWrite | None = None

    def __init__(self, state: State, record: records.StreamDeleted, payload: Buffer) -> None:
        self._state = state
        self._stream = stream = state.by_id[record.stream]
        self._gone: list[Stream] = []
        if stream.forks:
            stream.soft_deleted = True
            state.changed_streams.add(stream.id)
            return
        # the last fork takes with it whatever was kept for it only
        current: Stream | None = stream
        while current is not None:
            state.drop(current)
            self._gone.append(current)
            source = current.fork.source if current.fork else None
            current = source if source and source.soft_deleted and not source.forks else None

    def publish(self) -> None:
        state = self._state
        for stream in self._gone:
            for snapshot in [stream.written.snapshot, *(each for each, _ in stream.superseded)]:
                state.release_blob(snapshot)
            state.trash.stream(stream.id)
            stream.visible = False
        if self._gone:
            fork = self._gone[-1].fork
            state.trim(fork.source if fork else None)
        else:
            state.trim(self._stream)
        self._stream.wake()

    def undo(self) -> None:
        self._stream.soft_deleted = False
        for stream in reversed(self._gone):
            self._state.add(stream)


class BucketCreation:
    write: SegmentWrite | None = None

    def __init__(self, state: State, record: records.BucketCreated, payload: Buffer) -> None:
        self._state = state
        self._bucket = state.buckets[record.bucket] = Bucket(record.bucket, record.at_ms)
        state.changed_buckets.add(record.bucket)

    def publish(self) -> None:
        self._bucket.visible = True

    def undo(self) -> None:
        del self._state.buckets[self._bucket.name]


class BucketDeletion:
    write: SegmentWrite | None = None

    def __init__(self, state: State, record: records.BucketDeleted, payload: Buffer) -> None:
        self._state = state
        self._bucket = state.buckets.pop(record.bucket)
        state.changed_buckets.add(record.bucket)

    def publish(self) -> None:
        """A deleted bucket was out of sight at once."""

    def undo(self) -> None:
        self._state.buckets[self._bucket.name] = self._bucket


class SnapshotPublication:
    write: SegmentWrite | None = None

    def __init__(self, state: State, record: records.SnapshotPublished, payload: Buffer) -> None:
        self._state = state
        self._record = record
        self._stream = stream = state.by_id[record.stream]
        self._before = Edge(0, False, stream.written.retained, stream.written.snapshot)
        self._snapshot = StoredSnapshot(
            record.offset, record.content_type, record.blob, record.size, record.checksum
        )
        state.hold_blob(self._snapshot)
        state.attended.add(stream)
        if self._before.snapshot is not None:
            stream.superseded.append((self._before.snapshot, record.at_ms / 1000))
        stream.written.snapshot, stream.written.retained = self._snapshot, record.offset
        state.changed_streams.add(stream.id)

    def publish(self) -> None:
        stream = self._stream
        stream.durable.snapshot, stream.durable.retained = self._snapshot, self._record.offset
        self._state.trim(stream)

    def undo(self) -> None:
        stream = self._stream
        if self._before.snapshot is not None:
            stream.superseded.pop()
        stream.written.snapshot = self._before.snapshot
        stream.written.retained = self._before.retained
        self._state.release_blob(self._snapshot)
