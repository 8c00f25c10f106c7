"""One topic over its stream: writes in groups, reads by seq, trims what nobody can read."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from spark_durable.server.store import AppendSpec, Store

from .entries import (
    Configured,
    Entry,
    Key,
    StoredRecord,
    Written,
    decode,
    decode_base,
    encode,
    encode_base,
)
from .errors import TopicError
from .model import MAX_BODY_BYTES, TopicConfig, WriteIn
from .state import TopicState

CONTENT_TYPE: Final = "application/octet-stream"
# One write fits into one append with room for its frame and the fields beside the records' text.
MAX_APPEND_BYTES: Final = MAX_BODY_BYTES + (16 << 20)
_FLUSH_BYTES: Final = 8 << 20
_READ_BYTES: Final = 1 << 20
# Trimming rewrites nothing, but it syncs a small file: worth it for this much.
_TRIM_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a write was given, now or by the write that first used its key."""

    first_seq: int
    last_seq: int
    head_seq: int
    deduped: bool


@dataclass(slots=True)
class _Queued:
    """A write or a change of configuration waiting for its flush."""

    records: list[StoredRecord]
    key: str | None
    digest: bytes | None
    config: TopicConfig | None
    done: asyncio.Future[Receipt] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def size(self) -> int:
        return sum(record.size for record in self.records)


@dataclass(frozen=True, slots=True)
class Page:
    """Records after a seq, and where to go on."""

    records: list[tuple[int, int, StoredRecord]]  # seq, time, record
    next_from_seq: int


class Topic:
    """All methods run on the event loop. A write that returns is durable, its key included."""

    def __init__(self, store: Store, key: str, clock: Callable[[], float]) -> None:
        self._store = store
        self._key = key
        self._clock = clock
        self.state = TopicState()
        self._queue: list[_Queued] = []
        self._in_flight: dict[str, _Queued] = {}
        self._flusher: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Rebuilds the state from the stream, letting others run between pieces."""
        boot = self._store.bootstrap(self._key)
        if boot.snapshot is not None:
            self.state = TopicState(decode_base(boot.snapshot.read()))
        offset = boot.start
        for messages in boot.chunks:
            for message in messages:
                for _, entry in decode(message):
                    self.state.apply(entry, offset)
                offset += len(message)
            await asyncio.sleep(0)

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    async def write(self, write: WriteIn) -> Receipt:
        """Appends all records or none. A key remembered within the window appends nothing."""
        key = write.idempotency_key
        digest = (
            _digest(write) if key is not None and self.state.config.idempotency_strict else None
        )
        while key is not None:
            if (found := self.state.remembered(key, self.now_ms())) is not None:
                self._check_same(found, digest)
                return Receipt(found.first_seq, found.last_seq, found.head_seq, deduped=True)
            if (first := self._in_flight.get(key)) is None:
                break
            # The same key is on its way: wait for it, then it is remembered or has failed.
            await asyncio.wait([first.done])
        records = [
            StoredRecord(
                data=bytes(record.data),
                tag=record.tag,
                node=record.node if record.node is not None else write.node,
                meta=record.meta_bytes,
            )
            for record in write.records
        ]
        return await self._enqueue(_Queued(records, key, digest, None))

    async def configure(self, config: TopicConfig) -> None:
        await self._enqueue(_Queued([], None, None, config))

    def _check_same(self, found: Key, digest: bytes | None) -> None:
        if digest is not None and found.digest is not None and digest != found.digest:
            raise TopicError(
                409,
                "idempotency_key_reused",
                "this idempotency key was used for other records; use a new key for new records",
                {"first_seq": found.first_seq, "last_seq": found.last_seq},
            )

    async def _enqueue(self, queued: _Queued) -> Receipt:
        self._queue.append(queued)
        if queued.key is not None:
            self._in_flight[queued.key] = queued
        if self._flusher is None:
            self._flusher = asyncio.get_running_loop().create_task(self._flush_all())
        return await asyncio.shield(queued.done)

    async def _flush_all(self) -> None:
        """Flushes until the queue is empty: what comes in meanwhile shares the next append."""
        try:
            while self._queue:
                group = self._take_group()
                try:
                    await self._flush(group)
                except Exception as error:
                    for queued in group:
                        _fail(queued, error)
                finally:
                    for queued in group:
                        if queued.key is not None:
                            self._in_flight.pop(queued.key, None)
        finally:
            self._flusher = None

    def _take_group(self) -> list[_Queued]:
        count = size = 0
        while count < len(self._queue) and size < _FLUSH_BYTES:
            size += self._queue[count].size
            count += 1
        group, self._queue = self._queue[:count], self._queue[count:]
        return group

    async def _flush(self, group: list[_Queued]) -> None:
        now_ms = self.now_ms()
        self.state.evict(now_ms)
        entries: list[Entry] = []
        receipts: list[tuple[_Queued, Receipt]] = []
        next_seq, pending = self.state.next_seq, (0, 0)
        for queued in group:
            if queued.config is not None:
                earliest = self.state.earliest_seq
                entries.append(Configured(now_ms, earliest, queued.config.document()))
            elif self.state.full(len(queued.records), queued.size, pending):
                _fail(queued, _topic_full(self.state.config))
                continue
            else:
                entries.append(Written(now_ms, next_seq, queued.key, queued.digest, queued.records))
                next_seq += len(queued.records)
                pending = (pending[0] + len(queued.records), pending[1] + queued.size)
            first_seq = next_seq - len(queued.records)
            receipts.append((queued, Receipt(first_seq, next_seq - 1, next_seq - 1, False)))
        if not entries:
            return
        body = encode(entries)
        appended = await self._store.append(self._key, AppendSpec(CONTENT_TYPE, body))
        for entry in entries:
            self.state.apply(entry, appended.next_offset - len(body))
        for queued, receipt in receipts:
            if not queued.done.done():
                queued.done.set_result(receipt)
        await self._trim()

    async def _trim(self) -> None:
        """Lets go of appends below the first one that can still be read."""
        stat = self._store.stat(self._key)
        first = self.state.first_offset
        offset = stat.tail if first is None else first
        if offset - stat.retained < _TRIM_BYTES:
            return
        base = encode_base(self.state.base_at(offset))
        await self._store.publish_snapshot(self._key, offset, CONTENT_TYPE, base)

    def page(self, from_seq: int, limit: int) -> Page:
        """Up to ``limit`` records after ``from_seq``, and about a MiB at most."""
        self.state.evict(self.now_ms())
        first = max(from_seq + 1, self.state.earliest_seq)
        offset = self.state.append_of(first)
        found: list[tuple[int, int, StoredRecord]] = []
        if offset is not None and first <= self.state.head_seq:
            piece = self._store.read(self._key, offset, _READ_BYTES)
            while True:
                for _, entry in decode(bytes(piece.body)):
                    if isinstance(entry, Written):
                        found += _records_from(entry, first)
                if found or piece.up_to_date:
                    break
                piece = self._store.read(self._key, piece.end, _READ_BYTES)
        found = found[:limit]
        return Page(found, found[-1][0] if found else max(from_seq, first - 1))


def _records_from(entry: Written, first: int) -> list[tuple[int, int, StoredRecord]]:
    return [
        (entry.first_seq + index, entry.at_ms, record)
        for index, record in enumerate(entry.records)
        if entry.first_seq + index >= first
    ]


def _fail(queued: _Queued, error: Exception) -> None:
    if not queued.done.done():
        queued.done.set_exception(error)
        # The one who asked may have gone; an error nobody fetches is not worth a warning.
        queued.done.exception()


def _topic_full(config: TopicConfig) -> TopicError:
    return TopicError(
        422,
        "topic_full",
        "the topic is full and its discard policy is reject; nothing was appended",
        {"cap_records": config.cap_records, "cap_bytes": config.cap_bytes},
    )


def _digest(write: WriteIn) -> bytes:
    """The same for the same records, however their JSON is spelled."""
    records: list[Any] = [
        [json.loads(bytes(r.data)), r.tag, r.node, json.loads(bytes(r.meta))] for r in write.records
    ]
    text = json.dumps([write.node, records], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def configured(config: TopicConfig, now_ms: int) -> bytes:
    """The first entry of a new topic's stream."""
    return encode([Configured(now_ms, 1, replace(config).document())])
