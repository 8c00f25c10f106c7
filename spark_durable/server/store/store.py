"""The store: streams, buckets and snapshots behind one facade, in memory or on disk.

A call that returns has made its change durable, producer state included; a call that raises has
changed nothing (but see `StoreFailed`). Readers see durable bytes only; of a deletion they learn at
once. All methods are called on the event loop's thread. Requests in flight count when the next one
is checked; a refusal or repetition that rests on them is answered once they are durable.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from . import appending, creation, records
from .blobs import Blobs
from .buckets import Buckets
from .core import Core
from .errors import BadOffset, ForkSourceDeleted, OffsetGone, SoftDeleted, StoreError, StreamLimit
from .inspection import Inspection
from .model import (
    Appended,
    AppendSpec,
    Bootstrap,
    BucketStat,
    Buffer,
    Created,
    CreateSpec,
    ForkSpec,
    ReadSlice,
    Snapshot,
    StoreConfig,
    StreamPage,
    StreamStat,
)
from .opening import Opened, open_parts
from .reading import MessageChunks
from .snapshots import Snapshots
from .streams import Stream


class Store:
    def __init__(self, config: StoreConfig, parts: Opened) -> None:
        self._core = Core(config, parts.state, parts.reader, parts.journal)
        self._release = parts.release
        self._buckets = Buckets(self._core)
        self._snapshots = Snapshots(self._core, Blobs(parts.files))
        self.inspection = Inspection(self._core)

    @classmethod
    def open(cls, config: StoreConfig) -> Store:
        """Opens what the configuration names, recovering it after a crash."""
        return cls(config, open_parts(config))

    async def close(self) -> None:
        """Settles what is in flight and ends all waits."""
        await self._core.journal.close()
        self._release()
        for stream in list(self._core.state.by_id.values()):
            stream.wake()

    async def create(self, key: str, spec: CreateSpec) -> Created:
        """Creates a stream, or finds the very same one there (`created=False`)."""
        core = self._core
        while True:
            now = core.now()
            core.require_bucket(key)
            existing = core.state.streams.get(key)
            if existing is None:
                break
            if existing.expired(now) and not existing.soft_deleted:
                core.expire(existing, now)
                continue
            try:
                creation.check_same(existing, spec)
            except StoreError:
                if await core.settled(existing.last_change):
                    raise
            else:
                if await core.settled(existing.last_change):
                    return Created(existing.stat(), created=False)
        if len(core.state.by_id) >= core.config.max_streams:
            raise StreamLimit("streams", core.config.max_streams)
        source = self._fork_source(spec.fork) if spec.fork else None
        record, payload = creation.plan(key, spec, source, core.reader, core.config, now)
        change = core.submit(record, payload)
        stream = core.state.streams[key]
        stream.last_change = change
        await change.wait()
        return Created(stream.stat(), created=True)

    def _fork_source(self, fork: ForkSpec) -> Stream:
        try:
            return self._core.readable(fork.source_key)
        except SoftDeleted:
            raise ForkSourceDeleted(fork.source_key) from None

    async def append(self, key: str, spec: AppendSpec) -> Appended:
        """Adds one body, closes the stream, or both in one step."""
        core = self._core
        while True:
            now = core.now()
            stream = core.live(key)
            try:
                decision = appending.decide(stream, spec, core.config, now)
            except StoreError:
                if await core.settled(stream.last_change):
                    raise
                continue
            stream.accessed_at = now
            if isinstance(decision, appending.Repetition):
                if await core.settled(stream.last_change):
                    return appending.repeated(stream, spec)
                continue
            record, payload = decision
            change = stream.last_change = core.submit(record, payload)
            await change.wait()
            return Appended(
                outcome="appended" if payload else "closed",
                next_offset=record.offset + len(payload),
                closed=spec.close,
                producer_epoch=spec.producer.epoch if spec.producer else None,
                producer_seq=spec.producer.seq if spec.producer else None,
            )

    async def delete(self, key: str) -> None:
        """Deletes a stream; while forks need its bytes it stays for them, out of reach."""
        stream = self._core.live(key)
        at_ms = int(self._core.now() * 1000)
        change = self._core.submit(records.StreamDeleted(stream=stream.id, at_ms=at_ms))
        stream.last_change = change
        await change.wait()

    def stat(self, key: str, *, touch: bool = False) -> StreamStat:
        """A stream's facts; `touch` counts as a read for its sliding expiry."""
        return self._core.readable(key, touch=touch).stat()

    def keys(self, prefix: str) -> list[str]:
        """The keys of all readable streams that begin with `prefix`."""
        now = self._core.now()
        return [
            key
            for key, stream in self._core.state.streams.items()
            if key.startswith(prefix)
            and stream.visible
            and not stream.soft_deleted
            and not stream.expired(now)
        ]

    def read(
        self, key: str, offset: int, limit: int, *, align: Literal["exact", "next"] = "exact"
    ) -> ReadSlice:
        """Whole messages from `offset` on: as many as `limit` bytes hold, one at least.

        The offset must be a message boundary; with `align="next"` any byte will do, and the slice
        starts at the boundary that follows.
        """
        stream = self._core.readable(key, touch=True)
        durable, reader = stream.durable, self._core.reader
        if offset < durable.retained:
            raise OffsetGone(key, offset, durable.retained)
        if offset > durable.tail:
            raise BadOffset(f"offset {offset} is past the tail {durable.tail} of stream {key!r}")
        start = reader.boundary_from(stream, offset)
        if start != offset and align == "exact":
            raise BadOffset(
                f"offset {offset} of stream {key!r} lies inside a message; use offsets as the "
                "server gave them"
            )
        end = reader.last_boundary(stream, start, limit)
        body = reader.body(stream, start, end)
        return ReadSlice(start, end, durable.tail, durable.closed, stream.stat(), body)

    async def wait(self, key: str, offset: int, timeout: float) -> None:
        """Returns when there is more past `offset`, on close or deletion, or after `timeout`."""
        stream = self._core.readable(key, touch=True)
        if stream.durable.tail > offset or stream.durable.closed:
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(timeout, _finish, waiter)
        stream.waiters.add(waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            stream.waiters.discard(waiter)
            stream.accessed_at = self._core.config.clock()

    def bootstrap(self, key: str) -> Bootstrap:
        """Snapshot and all that follows it, fixed as of now."""
        stream = self._core.readable(key, touch=True)
        durable = stream.durable
        latest = self._snapshots.describe(stream, durable.snapshot) if durable.snapshot else None
        chunks = MessageChunks(self._core.reader, stream, durable.retained, durable.tail)
        return Bootstrap(latest, durable.retained, durable.tail, stream.stat(), chunks)

    async def publish_snapshot(
        self, key: str, offset: int, content_type: str, body: Buffer
    ) -> None:
        """Makes `offset` the earliest one kept. The same snapshot again changes nothing."""
        await self._snapshots.publish(key, offset, content_type, body)

    def snapshot(self, key: str, offset: int | None = None) -> Snapshot:
        """The latest snapshot, or the one at an offset: superseded ones stay for a while."""
        return self._snapshots.get(key, offset)

    async def delete_snapshot(self, key: str, offset: int) -> None:
        """Always refused: the latest is needed for bootstrap, older ones count as gone."""
        await self._snapshots.delete(key, offset)

    async def create_bucket(self, bucket: str) -> None:
        await self._buckets.create(bucket)

    def bucket(self, bucket: str) -> BucketStat:
        return self._buckets.stat(bucket)

    def list_streams(
        self, bucket: str, *, prefix: str = "", after: str | None = None, limit: int = 1000
    ) -> StreamPage:
        """Up to `limit` streams of a bucket, sorted by name, from the first one after `after`."""
        return self._buckets.page(bucket, prefix, after, limit)

    async def delete_bucket(self, bucket: str) -> None:
        """Deletes a bucket without streams."""
        await self._buckets.delete(bucket)


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
