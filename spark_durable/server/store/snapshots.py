"""Snapshots: published at a message boundary, which from then on is the earliest offset kept."""

from __future__ import annotations

import zlib

from . import records
from .blobs import Blobs
from .core import Core
from .errors import (
    BadOffset,
    OffsetGone,
    SnapshotConflict,
    SnapshotMissing,
    StoreError,
    TooLarge,
)
from .journal import Change
from .model import Buffer, Snapshot
from .streams import StoredSnapshot, Stream


class Snapshots:
    def __init__(self, core: Core, blobs: Blobs) -> None:
        self._core = core
        self._blobs = blobs

    async def publish(self, key: str, offset: int, content_type: str, body: Buffer) -> None:
        limit = self._core.config.max_snapshot_bytes
        if len(body) > limit:
            raise TooLarge("a snapshot", len(body), limit)
        if not await self._is_new(key, offset, content_type, body):
            return
        self._core.journal.make_room(len(body))
        # the body becomes durable beside the log, so that appends go on meanwhile
        blob = await self._core.journal.aside(lambda: self._blobs.write(body))
        change = None
        try:
            if await self._is_new(key, offset, content_type, body):
                change = self._submit(key, offset, content_type, body, blob)
        finally:
            if change is None:
                self._core.state.trash.blob(blob)
        if change is not None:
            await change.wait()

    def _submit(self, key: str, offset: int, content_type: str, body: Buffer, blob: str) -> Change:
        stream = self._core.readable(key)
        record = records.SnapshotPublished(
            stream=stream.id,
            offset=offset,
            content_type=content_type,
            blob=blob,
            size=len(body),
            checksum=zlib.crc32(body),
            at_ms=int(self._core.now() * 1000),
        )
        stream.last_change = change = self._core.submit(record)
        return change

    async def _is_new(self, key: str, offset: int, content_type: str, body: Buffer) -> bool:
        while True:
            stream = self._core.readable(key, touch=True)
            try:
                new = self._check(stream, offset, content_type, body)
            except StoreError:
                if await self._core.settled(stream.last_change):
                    raise
            else:
                if new or await self._core.settled(stream.last_change):
                    return new

    def _check(self, stream: Stream, offset: int, content_type: str, body: Buffer) -> bool:
        """False when this very snapshot is the latest one already."""
        latest, tail = stream.written.snapshot, stream.durable.tail
        if offset < stream.written.retained:
            raise OffsetGone(stream.key, offset, stream.written.retained)
        if offset > tail:
            raise SnapshotConflict(f"offset {offset} is past stream {stream.key!r}'s tail {tail}")
        if latest is not None and latest.offset == offset:
            same = (latest.content_type, latest.size) == (content_type, len(body))
            if not same or self._blobs.read(latest.blob) != bytes(body):
                raise SnapshotConflict(
                    f"stream {stream.key!r} has another snapshot at offset {offset}"
                )
            return False
        if not self._core.reader.is_boundary(stream, offset):
            raise BadOffset(f"offset {offset} of stream {stream.key!r} lies inside a message")
        return True

    def get(self, key: str, offset: int | None) -> Snapshot:
        stream = self._core.readable(key, touch=True)
        candidates = [stream.durable.snapshot, *(each for each, _ in stream.superseded)]
        for stored in candidates:
            if stored is not None and offset in (None, stored.offset):
                return self.describe(stream, stored)
        raise SnapshotMissing(key, offset)

    async def delete(self, key: str, offset: int) -> None:
        latest = self._core.readable(key).durable.snapshot
        if latest is not None and latest.offset == offset:
            raise SnapshotConflict(
                f"the snapshot at offset {offset} is the latest: bootstrap cannot do without it"
            )
        raise SnapshotMissing(key, offset)

    def describe(self, stream: Stream, stored: StoredSnapshot) -> Snapshot:
        def read() -> bytes:
            try:
                return self._blobs.read(stored.blob)
            except FileNotFoundError:
                raise SnapshotMissing(stream.key, stored.offset) from None

        return Snapshot(stored.offset, stored.content_type, stored.size, stream.stat(), read)
