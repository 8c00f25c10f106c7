"""All streams and buckets, and how records change them: the same code live and in recovery.

`apply` moves the written state at once and returns an `Effect`. Its `publish` is called when the
record is durable and shows the change to readers; its `undo` is called instead when the record
could not be stored. Undoing all that is in flight, newest first, restores the durable state.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from . import records
from .model import Buffer
from .segments import SegmentWrite
from .streams import StoredSnapshot, Stream

if TYPE_CHECKING:
    from .journal import Change

BUCKET_PREFIX = "/ds/"
STREAM_PREFIX = "/v1/stream/"


class Effect(Protocol):
    """What a record did; `write` is the append it brings to a segment file."""

    write: SegmentWrite | None

    def publish(self) -> None: ...

    def undo(self) -> None: ...


class Bucket:
    __slots__ = ("created_at_ms", "last_change", "members", "name", "names", "visible")

    def __init__(self, name: str, created_at_ms: int) -> None:
        self.name = name
        self.created_at_ms = created_at_ms
        self.members: dict[str, Stream] = {}
        self.names: list[str] = []
        self.visible = False
        self.last_change: Change | None = None

    def names_from(self, prefix: str, after: str | None) -> Iterator[str]:
        """Names that start with `prefix` and sort after `after`, in order."""
        start = bisect_left(self.names, prefix)
        if after is not None:
            start = max(start, bisect_right(self.names, after))
        for name in islice(self.names, start, None):
            if not name.startswith(prefix):
                return
            yield name

    def add(self, local: str, stream: Stream) -> None:
        self.members[local] = stream
        insort(self.names, local)

    def discard(self, local: str) -> None:
        if self.members.pop(local, None) is not None:
            del self.names[bisect_right(self.names, local) - 1]


def bucket_of(key: str) -> tuple[str, str] | None:
    """Bucket and local name of a key on the bucketed surface, None on the other."""
    if not key.startswith(BUCKET_PREFIX):
        return None
    bucket, _, local = key[len(BUCKET_PREFIX) :].partition("/")
    return bucket, local


class Trash(Protocol):
    """Takes what no reader can reach any more; called on publish, never before."""

    def stream(self, stream_id: int) -> None: ...

    def segment(self, stream_id: int, base: int) -> None: ...

    def blob(self, name: str) -> None: ...


Handler = Callable[["State", Any, Buffer], Effect]


class State:
    def __init__(self, trash: Trash) -> None:
        self.trash = trash
        self.streams: dict[str, Stream] = {}
        self.by_id: dict[int, Stream] = {}
        self.buckets: dict[str, Bucket] = {}
        # the streams outside of buckets, by name
        self.unbucketed = Bucket("", 0)
        self.blobs: Counter[str] = Counter()
        # what housekeeping has to look at: streams that expire or have had snapshots
        self.attended: set[Stream] = set()
        # what differs from the last checkpoint
        self.changed_streams: set[int] = set()
        self.changed_buckets: set[str] = set()
        self._handlers: dict[type[records.Record], Handler] = {}

    def handle(self, kind: type[records.Record], handler: Handler) -> None:
        """Registers what a kind of record does; the log decodes registered kinds only."""
        self._handlers[kind] = handler

    @property
    def kinds(self) -> tuple[type[records.Record], ...]:
        return tuple(self._handlers)

    def apply(self, record: records.Record, payload: Buffer = b"") -> Effect:
        return self._handlers[type(record)](self, record, payload)

    def add(self, stream: Stream) -> None:
        self.streams[stream.key] = self.by_id[stream.id] = stream
        if stream.fork is not None:
            stream.fork.source.forks.add(stream)
        if (home := self._home(stream.key)) is not None:
            home[0].add(home[1], stream)
        if stream.ttl_s is not None or stream.expires_at is not None:
            self.attended.add(stream)
        self.changed_streams.add(stream.id)

    def drop(self, stream: Stream) -> None:
        """Takes a stream out. Its name may be held by a successor already."""
        if self.streams.get(stream.key) is stream:
            del self.streams[stream.key]
            if (home := self._home(stream.key)) is not None:
                home[0].discard(home[1])
        del self.by_id[stream.id]
        self.attended.discard(stream)
        if stream.fork is not None:
            stream.fork.source.forks.discard(stream)
        self.changed_streams.add(stream.id)

    def _home(self, key: str) -> tuple[Bucket, str] | None:
        """Where a key is listed, and under which name; None for keys that no listing shows."""
        if key.startswith(STREAM_PREFIX):
            return self.unbucketed, key[len(STREAM_PREFIX) :]
        place = bucket_of(key)
        if place is None or place[0] not in self.buckets:
            return None
        return self.buckets[place[0]], place[1]

    def hold_blob(self, snapshot: StoredSnapshot | None) -> None:
        if snapshot is not None:
            self.blobs[snapshot.blob] += 1

    def release_blob(self, snapshot: StoredSnapshot | None) -> None:
        if snapshot is None:
            return
        self.blobs[snapshot.blob] -= 1
        if not self.blobs[snapshot.blob]:
            del self.blobs[snapshot.blob]
            self.trash.blob(snapshot.blob)

    def trim(self, stream: Stream | None) -> None:
        """Gives up leading segments that lie wholly below what anyone may still read."""
        while stream is not None:
            if len(stream.segments) > 1:
                needed = stream.needed_from()
                floor = stream.durable.tail if needed is None else needed
                while len(stream.segments) > 1 and stream.segments[1].base <= floor:
                    self.trash.segment(stream.id, stream.segments.pop(0).base)
                    self.changed_streams.add(stream.id)
            stream = stream.fork.source if stream.fork else None

    def drop_superseded(self, stream: Stream, until: float) -> None:
        """Collects snapshots that were superseded before `until`."""
        kept = [each for each in stream.superseded if each[1] > until]
        for snapshot, since in stream.superseded:
            if since <= until:
                self.release_blob(snapshot)
        if len(kept) != len(stream.superseded):
            stream.superseded = kept
            self.changed_streams.add(stream.id)
