"""What a person looking at the store wants to know beyond the protocol: read only, page by page.

Nothing here counts as a read of a stream, so looking does not extend a sliding expiry. Each call
costs as much as the page it returns (or, searching, as the names it compares), however much there
is. Producers are shown as the next append will find them, one that is in flight included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import Final

from .buckets import listable, listed
from .core import Core
from .model import BucketStat, ListedStream, StreamPage, StreamStat

# How many names one search request compares before it asks to be continued.
SCAN_NAMES: Final = 10_000
_MAX_SNAPSHOTS: Final = 100


@dataclass(frozen=True, slots=True)
class BucketPage:
    """`streams` of a bucket counts its members; `next_cursor` as in `StreamPage`."""

    buckets: tuple[BucketStat, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class ProducerStat:
    id: str
    epoch: int
    seq: int
    used_at_ms: int


@dataclass(frozen=True, slots=True)
class SnapshotStat:
    """`superseded_at_ms` None is the latest."""

    offset: int
    content_type: str
    size: int
    superseded_at_ms: int | None


@dataclass(frozen=True, slots=True)
class StreamDetail:
    """A stream with what hangs on it; `producers` is one page of `producer_count`."""

    stat: StreamStat
    appends: int
    forks: int
    readers: int
    producer_count: int
    producers: tuple[ProducerStat, ...]
    snapshots: tuple[SnapshotStat, ...]


class Inspection:
    def __init__(self, core: Core) -> None:
        self._core = core

    def unbucketed(self) -> int:
        """How many streams there are under the base protocol's root."""
        return len(self._core.state.unbucketed.members)

    def buckets(
        self, *, after: str | None, limit: int, only: frozenset[str] | None = None
    ) -> BucketPage:
        """Buckets in name order, or those of `only`."""
        state = self._core.state
        names = (
            name
            for name, bucket in state.buckets.items()
            if bucket.visible and (after is None or name > after) and (only is None or name in only)
        )
        # one more than asked for tells whether there are more
        found = nsmallest(limit + 1, names)
        page = found[:limit]
        return BucketPage(
            tuple(BucketStat(name, len(state.buckets[name].members)) for name in page),
            page[-1] if len(found) > limit else None,
        )

    def search(
        self,
        bucket: str | None,
        *,
        contains: str,
        after: str | None,
        limit: int,
        may_see: Callable[[str], bool] | None = None,
    ) -> StreamPage:
        """Streams of a bucket (None: of the base protocol's root) with `contains` in their names
        and with keys that the asker may see.

        In name order; a page may hold less than `limit`, even nothing, and still have a cursor.
        """
        home = self._core.state.unbucketed if bucket is None else self._core.bucket(bucket)
        now = self._core.now()
        found: list[ListedStream] = []
        last = after
        for compared, name in enumerate(home.names_from("", after)):
            if len(found) == limit or compared == SCAN_NAMES:
                return StreamPage(tuple(found), next_cursor=last)
            stream = home.members[name]
            if (
                contains in name
                and (may_see is None or may_see(stream.key))
                and listable(stream, now)
            ):
                found.append(listed(name, stream))
            last = name
        return StreamPage(tuple(found), next_cursor=None)

    def stream(self, key: str, *, skip_producers: int, max_producers: int) -> StreamDetail:
        stream = self._core.readable(key)
        latest = stream.durable.snapshot
        snapshots = [
            SnapshotStat(old.offset, old.content_type, old.size, int(since * 1000))
            for old, since in islice(reversed(stream.superseded), _MAX_SNAPSHOTS)
        ]
        if latest is not None:
            snapshots.insert(0, SnapshotStat(latest.offset, latest.content_type, latest.size, None))
        return StreamDetail(
            stat=stream.stat(),
            appends=stream.durable_appends,
            forks=len(stream.forks),
            readers=len(stream.waiters),
            producer_count=len(stream.producers),
            producers=tuple(
                ProducerStat(id, state.epoch, state.seq, int(state.used_at * 1000))
                for id, state in stream.producers.newest(skip_producers, max_producers)
            ),
            snapshots=tuple(snapshots),
        )
