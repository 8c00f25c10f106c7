"""What the store promises, written down as plainly as possible: lists, dicts and straight rules.

Everything is kept whole (a fork copies its source's bytes), nothing is ever in flight.
"""

from __future__ import annotations

import bisect
import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from spark_durable.server.store import errors

Outcome = Any


@dataclass(eq=False)
class ModelStream:
    key: str
    content_type: str
    ttl_s: int | None
    ttl_inherited: bool
    accessed_at: float
    data: bytes = b""
    boundaries: list[int] = field(default_factory=lambda: [0])
    append_ends: list[int] = field(default_factory=lambda: [0])
    closed: bool = False
    closed_by: tuple[str, int, int] | None = None
    stream_seq: str | None = None
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    retained: int = 0
    snapshot: tuple[int, str, bytes] | None = None
    source: ModelStream | None = None
    origin: tuple[str, int, int] | None = None
    forks: int = 0
    soft_deleted: bool = False

    @property
    def json(self) -> bool:
        return self.content_type == "application/json"

    @property
    def tail(self) -> int:
        return len(self.data)

    def add(self, messages: list[bytes]) -> None:
        for message in messages:
            self.data += message + b",\n" if self.json else message
            self.boundaries.append(self.tail)
        self.append_ends.append(self.tail)


class Model:
    def __init__(self, clock: Any) -> None:
        self.clock = clock
        self.streams: dict[str, ModelStream] = {}
        self.buckets: set[str] = set()

    def restarted(self) -> None:
        for stream in self.streams.values():
            stream.accessed_at = self.clock()

    # finding

    def _expire(self, stream: ModelStream) -> None:
        if stream.soft_deleted or stream.ttl_s is None:
            return
        if self.clock() >= stream.accessed_at + stream.ttl_s:
            self._remove(stream)

    def sweep(self) -> None:
        for stream in list(self.streams.values()):
            self._expire(stream)

    def find(self, key: str) -> ModelStream:
        self.sweep()
        if key.startswith("/ds/") and key.split("/")[2] not in self.buckets:
            raise errors.BucketMissing(key)
        stream = self.streams.get(key)
        if stream is None:
            raise errors.NotFound(key)
        if stream.soft_deleted:
            raise errors.SoftDeleted(key)
        return stream

    def read_from(self, key: str) -> ModelStream:
        stream = self.find(key)
        stream.accessed_at = self.clock()
        return stream

    # changing

    def create(
        self,
        key: str,
        content_type: str | None,
        body: bytes = b"",
        ttl_s: int | None = None,
        closed: bool = False,
        fork: tuple[str, int | None, int] | None = None,
    ) -> tuple[bool, int]:
        self.sweep()
        if key.startswith("/ds/") and key.split("/")[2] not in self.buckets:
            raise errors.BucketMissing(key)
        existing = self.streams.get(key)
        if existing is not None:
            self._check_same(existing, content_type, ttl_s, closed, fork)
            return False, existing.tail
        stream = ModelStream(
            key, content_type or "application/octet-stream", ttl_s, False, self.clock()
        )
        if fork is not None:
            self._branch(stream, content_type, *fork)
        stream.closed = closed
        if body:
            messages = _messages(stream.json, body)
            if messages:
                stream.add(messages)
        if stream.source is not None:
            stream.source.forks += 1
        self.streams[key] = stream
        return True, stream.tail

    def _check_same(
        self,
        stream: ModelStream,
        content_type: str | None,
        ttl_s: int | None,
        closed: bool,
        fork: tuple[str, int | None, int] | None,
    ) -> None:
        if stream.soft_deleted:
            raise errors.AlreadyExists(stream.key)
        same_type = (
            content_type is None
            if fork and content_type is None
            else (content_type or "application/octet-stream") == stream.content_type
        )
        same_ttl = ttl_s == stream.ttl_s or (
            fork is not None and ttl_s is None and stream.ttl_inherited
        )
        same_fork = (fork is None and stream.origin is None) or (
            fork is not None
            and stream.origin is not None
            and (fork[0], fork[2]) == (stream.origin[0], stream.origin[2])
            and fork[1] in (None, stream.origin[1])
        )
        if not (same_type and same_ttl and same_fork and closed == stream.closed):
            raise errors.ConfigMismatch(stream.key, "something")

    def _branch(
        self, stream: ModelStream, content_type: str | None, source: str, at: int | None, sub: int
    ) -> None:
        try:
            origin = self.find(source)
        except errors.SoftDeleted:
            raise errors.ForkSourceDeleted(source) from None
        if content_type is None:
            stream.content_type = origin.content_type
        elif content_type != origin.content_type:
            raise errors.ContentTypeMismatch(source, origin.content_type, content_type)
        if stream.ttl_s is None:
            stream.ttl_s, stream.ttl_inherited = origin.ttl_s, True
        anchor = origin.tail if at is None else at
        if anchor > origin.tail:
            raise errors.BadOffset("past the tail")
        if anchor < origin.retained:
            raise errors.OffsetGone(source, anchor, origin.retained)
        if anchor not in origin.boundaries:
            raise errors.BadOffset("inside a message")
        cut = anchor
        if sub:
            index = bisect.bisect_right(origin.append_ends, anchor)
            if index == len(origin.append_ends):
                raise errors.BadOffset("nothing there")
            end = origin.append_ends[index]
            if stream.json:
                there = [each for each in origin.boundaries if anchor < each <= end]
                if sub > len(there):
                    raise errors.BadOffset("past the append")
                cut = there[sub - 1]
            else:
                cut = anchor + sub
                if cut > end:
                    raise errors.BadOffset("past the append")
        stream.origin = (source, anchor, sub)
        stream.source = origin
        stream.data = origin.data[:cut]
        stream.boundaries = [each for each in origin.boundaries if each < cut] + [cut]
        stream.append_ends = [each for each in origin.append_ends if each < cut] + [cut]
        stream.retained, stream.snapshot = origin.retained, origin.snapshot

    def append(
        self,
        key: str,
        body: bytes,
        content_type: str,
        producer: tuple[str, int, int] | None,
        stream_seq: str | None,
        close: bool,
    ) -> tuple[str, int, bool]:
        stream = self.find(key)
        if not body and not close:
            raise errors.EmptyBody()
        if stream.closed:
            if (producer is None and not body) or (producer and producer == stream.closed_by):
                stream.accessed_at = self.clock()
                return ("duplicate" if producer else "closed"), stream.tail, True
            raise errors.Closed(key, stream.tail)
        if body and content_type != stream.content_type:
            raise errors.ContentTypeMismatch(key, stream.content_type, content_type)
        if producer is not None and self._repeats(stream, *producer):
            stream.accessed_at = self.clock()
            return "duplicate", stream.tail, stream.closed
        if stream_seq is not None and stream_seq <= (stream.stream_seq or ""):
            raise errors.SequenceRegression(stream.stream_seq or "", stream_seq)
        messages = _messages(stream.json, body) if body else []
        if body and not messages:
            raise errors.EmptyBody()
        if messages:
            stream.add(messages)
        if producer is not None:
            stream.producers[producer[0]] = producer[1:]
        if stream_seq is not None:
            stream.stream_seq = stream_seq
        if close:
            stream.closed, stream.closed_by = True, producer
        stream.accessed_at = self.clock()
        return ("appended" if body else "closed"), stream.tail, stream.closed

    def _repeats(self, stream: ModelStream, name: str, epoch: int, seq: int) -> bool:
        if name not in stream.producers:
            if seq:
                raise errors.SequenceGap(name, 0, seq)
            return False
        current, last = stream.producers[name]
        if epoch < current:
            raise errors.StaleEpoch(name, current, epoch)
        if epoch > current:
            if seq:
                raise errors.EpochStartsAtZero(name, epoch, seq)
            return False
        if seq > last + 1:
            raise errors.SequenceGap(name, last + 1, seq)
        return seq <= last

    def delete(self, key: str) -> None:
        self._remove(self.find(key))

    def _remove(self, stream: ModelStream) -> None:
        if stream.forks:
            stream.soft_deleted = True
            return
        del self.streams[stream.key]
        source = stream.source
        if source is not None:
            source.forks -= 1
            if source.soft_deleted and not source.forks:
                self._remove(source)

    def publish_snapshot(self, key: str, offset: int, content_type: str, body: bytes) -> None:
        stream = self.read_from(key)
        if offset < stream.retained:
            raise errors.OffsetGone(key, offset, stream.retained)
        if offset > stream.tail:
            raise errors.SnapshotConflict("past the tail")
        if stream.snapshot is not None and stream.snapshot[0] == offset:
            if stream.snapshot != (offset, content_type, body):
                raise errors.SnapshotConflict("another one")
            return
        if offset not in stream.boundaries:
            raise errors.BadOffset("inside a message")
        stream.snapshot, stream.retained = (offset, content_type, body), offset

    def create_bucket(self, bucket: str) -> None:
        if bucket in self.buckets:
            raise errors.BucketExists(bucket)
        self.buckets.add(bucket)

    def delete_bucket(self, bucket: str) -> None:
        self.sweep()
        if bucket not in self.buckets:
            raise errors.BucketMissing(bucket)
        if any(key.startswith(f"/ds/{bucket}/") for key in self.streams):
            raise errors.BucketNotEmpty(bucket, 1, 0)
        self.buckets.remove(bucket)

    # reading

    def read(self, key: str, offset: int, limit: int, align: str) -> tuple[int, int, bytes]:
        stream = self.read_from(key)
        if offset < stream.retained:
            raise errors.OffsetGone(key, offset, stream.retained)
        if offset > stream.tail:
            raise errors.BadOffset("past the tail")
        start = next(each for each in stream.boundaries if each >= offset)
        if start != offset and align == "exact":
            raise errors.BadOffset("inside a message")
        later = [each for each in stream.boundaries if each > start]
        fitting = [each for each in later if each <= start + limit]
        end = fitting[-1] if fitting else later[0] if later else start
        content = stream.data[start:end]
        if stream.json:
            content = b"[" + content[:-2] + b"]"
        return start, end, content

    def messages(self, key: str) -> list[bytes]:
        stream = self.read_from(key)
        cuts = [each for each in stream.boundaries if each >= stream.retained]
        pieces = [stream.data[a:b] for a, b in pairwise(cuts)]
        return [each[:-2] for each in pieces] if stream.json else pieces

    def names(self, bucket: str) -> list[str]:
        self.sweep()
        prefix = f"/ds/{bucket}/"
        return sorted(
            key[len(prefix) :]
            for key, stream in self.streams.items()
            if key.startswith(prefix) and not stream.soft_deleted
        )


def _messages(is_json: bool, body: bytes) -> list[bytes]:
    if not is_json:
        return [body]
    try:
        value = json.loads(body)
    except ValueError:
        raise errors.BadJson("no") from None
    # bodies of the test are compact, so writing them again gives the same text
    values = value if isinstance(value, list) else [value]
    return [json.dumps(each, separators=(",", ":")).encode() for each in values]
