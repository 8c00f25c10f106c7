"""A stream in memory: its configuration, how far it has got, who depends on it.

Two edges: `written` includes what is on its way to the disk, and appends are checked against it;
`durable` is what readers see. They meet whenever nothing is in flight.
"""

from __future__ import annotations

import asyncio
import math
import weakref
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from .model import DEFAULT_CONTENT_TYPE, ProducerTriple, StreamStat
from .producers import Producers
from .segments import Segment

if TYPE_CHECKING:
    from .journal import Change


@lru_cache(256)
def media_type(content_type: str | None) -> str:
    """What counts when content types are compared: no parameters, no case."""
    return (content_type or DEFAULT_CONTENT_TYPE).split(";", 1)[0].strip().lower()


class StoredSnapshot(NamedTuple):
    offset: int
    content_type: str
    blob: str
    size: int
    checksum: int


class Fork(NamedTuple):
    """Where a stream branched off: as asked (`anchor`, `sub_offset`) and as resolved (`at`)."""

    source: Stream
    source_key: str
    anchor: int
    sub_offset: int
    at: int


@dataclass(slots=True)
class Edge:
    tail: int
    closed: bool = False
    retained: int = 0
    snapshot: StoredSnapshot | None = None


class Stream:
    __slots__ = (
        "__weakref__",
        "accessed_at",
        "appends",
        "closed_by",
        "content_type",
        "created_at_ms",
        "durable",
        "durable_appends",
        "expires_at",
        "expires_at_text",
        "expiry_inherited",
        "fork",
        "forks",
        "id",
        "json",
        "key",
        "last_change",
        "last_write_at_ms",
        "pinned_by",
        "producers",
        "segments",
        "soft_deleted",
        "stream_seq",
        "superseded",
        "ttl_s",
        "visible",
        "waiters",
        "written",
    )

    def __init__(
        self,
        id: int,
        key: str,
        content_type: str,
        *,
        created_at_ms: int,
        ttl_s: int | None = None,
        expires_at: float | None = None,
        expires_at_text: str | None = None,
        expiry_inherited: bool = False,
        fork: Fork | None = None,
    ) -> None:
        start = fork.at if fork else 0
        self.id = id
        self.key = key
        self.content_type = content_type
        self.json = media_type(content_type) == "application/json"
        self.ttl_s = ttl_s
        self.expires_at = expires_at
        self.expires_at_text = expires_at_text
        self.expiry_inherited = expiry_inherited
        self.created_at_ms = created_at_ms
        self.last_write_at_ms = created_at_ms
        self.accessed_at = created_at_ms / 1000
        self.fork = fork
        self.forks: set[Stream] = set()
        self.soft_deleted = False
        self.visible = False

        self.written = Edge(start)
        self.durable = Edge(start)
        self.closed_by: ProducerTriple | None = None
        self.stream_seq: str | None = None
        self.producers = Producers()
        self.appends = 0
        self.durable_appends = 0
        self.segments: list[Segment] = []
        self.superseded: list[tuple[StoredSnapshot, float]] = []

        # in memory only: who waits for more, what is in flight, who reads old bytes
        self.waiters: set[asyncio.Future[None]] = set()
        self.last_change: Change | None = None
        self.pinned_by: weakref.WeakSet[Pin] = weakref.WeakSet()

    def expired(self, now: float) -> bool:
        """A reader waiting at the tail keeps a sliding window open, never an absolute one."""
        if self.expires_at is not None and now >= self.expires_at:
            return True
        return self.ttl_s is not None and not self.waiters and now >= self.accessed_at + self.ttl_s

    def segment_at(self, offset: int) -> int:
        """The index of the segment with the byte at `offset`."""
        return bisect_right(self.segments, offset, key=lambda segment: segment.base) - 1

    def needed_from(self) -> int | None:
        """The lowest offset of own bytes anyone may still ask for; None when nobody can."""
        needed: list[int] = []
        # forks, and forks of forks, as far as each of them reads this stream's bytes
        readers: list[tuple[Stream, float]] = [(self, math.inf)]
        while readers:
            reader, limit = readers.pop()
            starts = [pin.offset for pin in reader.pinned_by]
            if not reader.soft_deleted:
                starts.append(reader.durable.retained)
            needed += [start for start in starts if start < limit]
            for fork in reader.forks:
                if fork.fork is not None:
                    readers.append((fork, min(limit, fork.fork.at)))
        return min(needed, default=None)

    def wake(self) -> None:
        waiters, self.waiters = self.waiters, set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def stat(self) -> StreamStat:
        durable = self.durable
        return StreamStat(
            key=self.key,
            stream_id=self.id,
            content_type=self.content_type,
            json=self.json,
            tail=durable.tail,
            retained=durable.retained,
            closed=durable.closed,
            ttl_s=self.ttl_s,
            expires_at_text=self.expires_at_text,
            snapshot_offset=durable.snapshot.offset if durable.snapshot else None,
            created_at_ms=self.created_at_ms,
            last_write_at_ms=self.last_write_at_ms,
            forked_from=self.fork.source_key if self.fork else None,
            fork_offset=self.fork.at if self.fork else None,
        )


class Pin:
    """Keeps a stream's bytes from `offset` on out of retention's reach while it is alive."""

    __slots__ = ("__weakref__", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
