"""Buckets: namespaces that are created explicitly and deleted only when empty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from . import records
from .core import Core
from .errors import BucketExists, BucketNotEmpty, StreamLimit
from .model import BucketStat, ListedStream, StreamPage
from .state import Bucket
from .streams import Stream


class Buckets:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def create(self, name: str) -> None:
        buckets = self._core.state.buckets
        while name in buckets:
            if await self._core.settled(buckets[name].last_change):
                raise BucketExists(name)
        if len(buckets) >= self._core.config.max_streams:
            raise StreamLimit("buckets", self._core.config.max_streams)
        change = self._core.submit(records.BucketCreated(name, int(self._core.now() * 1000)))
        buckets[name].last_change = change
        await change.wait()

    def stat(self, name: str) -> BucketStat:
        bucket = self._core.bucket(name)
        return BucketStat(name, sum(1 for _ in self._listable(bucket, bucket.names)))

    def page(self, name: str, prefix: str, after: str | None, limit: int) -> StreamPage:
        bucket = self._core.bucket(name)
        found: list[ListedStream] = []
        for local, stream in self._listable(bucket, bucket.names_from(prefix, after)):
            if len(found) == limit:
                return StreamPage(tuple(found), next_cursor=found[-1].stream_id)
            found.append(listed(local, stream))
        return StreamPage(tuple(found), next_cursor=None)

    async def delete(self, name: str) -> None:
        bucket = self._core.bucket(name)
        now = self._core.now()
        for stream in list(bucket.members.values()):
            self._core.gone(stream, now)
        if bucket.members:
            kept = sum(1 for each in bucket.members.values() if each.soft_deleted)
            raise BucketNotEmpty(name, len(bucket.members) - kept, kept)
        await self._core.submit(records.BucketDeleted(name)).wait()

    def _listable(self, bucket: Bucket, names: Iterable[str]) -> Iterator[tuple[str, Stream]]:
        now = self._core.now()
        for local in names:
            stream = bucket.members[local]
            if listable(stream, now):
                yield local, stream


def listable(stream: Stream, now: float) -> bool:
    return stream.visible and not stream.soft_deleted and not stream.expired(now)


def listed(local: str, stream: Stream) -> ListedStream:
    durable = stream.durable
    return ListedStream(
        stream_id=local,
        incarnation=stream.id,
        closed=durable.closed,
        content_type=stream.content_type,
        tail=durable.tail,
        retained=durable.retained,
        snapshot_offset=durable.snapshot.offset if durable.snapshot else None,
        created_at_ms=stream.created_at_ms,
        last_write_at_ms=stream.last_write_at_ms,
    )
