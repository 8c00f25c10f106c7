"""What goes into the store and what comes out of it: plain values, no behaviour."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from .files import Files

Buffer = bytes | bytearray | memoryview
MIB = 1 << 20
DEFAULT_CONTENT_TYPE = "application/octet-stream"
MAX_PRODUCER_NUMBER = 2**53 - 1


def _ignore(error: Exception) -> None:
    """Every later call says so anyway."""


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """How a store is opened. `data_dir=None` keeps everything in memory."""

    data_dir: Path | None = None
    max_append_bytes: int = 32 * MIB
    max_snapshot_bytes: int = 256 * MIB
    max_pending_bytes: int = 128 * MIB
    # streams, deleted ones that forks still need included; as many buckets again
    max_streams: int = 1_000_000
    # in memory: what streams and snapshots may hold; None is half of the machine's memory
    max_memory_bytes: int | None = None
    max_producers: int = 100_000
    producer_idle_s: float = 7 * 86_400
    # how long a snapshot that is no longer the latest can still be read
    superseded_snapshot_s: float = 3_600
    # stream files: a new one is begun at this size, and that many are open at a time
    segment_bytes: int = 64 * MIB
    open_files: int = 256
    # compare all that is stored with its checksums before serving it: reads everything once
    verify: bool = False
    # the log: its files are preallocated, and a checkpoint is due after so much of it
    log_segment_bytes: int = 64 * MIB
    checkpoint_bytes: int = 128 * MIB
    # called on the loop when a sync has failed: what is served from then on may not be durable
    on_failure: Callable[[Exception], None] = field(default=_ignore, repr=False)
    clock: Callable[[], float] = field(default=time.time, repr=False)
    # the seam for tests that lose what was not synced
    files: Files | None = field(default=None, repr=False)


class ProducerTriple(NamedTuple):
    """Who sends, in which session, and the number of the request within it."""

    id: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class ForkSpec:
    """Where a new stream branches off. `offset=None` is the source's tail."""

    source_key: str
    offset: int | None = None
    sub_offset: int = 0


@dataclass(frozen=True, slots=True)
class CreateSpec:
    content_type: str | None = None
    ttl_s: int | None = None
    expires_at: datetime | None = None
    expires_at_text: str | None = None
    closed: bool = False
    body: Buffer = b""
    fork: ForkSpec | None = None


@dataclass(frozen=True, slots=True)
class AppendSpec:
    """One append. The body must stay as it is until the call returns."""

    content_type: str | None = None
    body: Buffer = b""
    producer: ProducerTriple | None = None
    stream_seq: str | None = None
    close: bool = False


@dataclass(frozen=True, slots=True)
class StreamStat:
    """A stream as its readers see it: durable bytes only."""

    key: str
    stream_id: int
    content_type: str
    json: bool
    tail: int
    retained: int
    closed: bool
    ttl_s: int | None
    expires_at_text: str | None
    snapshot_offset: int | None
    created_at_ms: int
    last_write_at_ms: int
    forked_from: str | None
    fork_offset: int | None


@dataclass(frozen=True, slots=True)
class Created:
    stat: StreamStat
    created: bool


@dataclass(frozen=True, slots=True)
class Appended:
    """`duplicate`: stored before, nothing written. `closed`: a close without a body.

    `producer_seq` is the highest sequence number accepted in `producer_epoch`.
    """

    outcome: Literal["appended", "duplicate", "closed"]
    next_offset: int
    closed: bool
    producer_epoch: int | None = None
    producer_seq: int | None = None


@dataclass(frozen=True, slots=True)
class ReadSlice:
    """Whole messages from `start` to `end`; `body` is the wire form (`[…]` on a JSON stream)."""

    start: int
    end: int
    tail: int
    closed: bool
    stat: StreamStat
    body: bytes | bytearray

    @property
    def up_to_date(self) -> bool:
        return self.end == self.tail


@dataclass(frozen=True, slots=True)
class BucketStat:
    bucket: str
    streams: int


@dataclass(frozen=True, slots=True)
class ListedStream:
    stream_id: str
    incarnation: int
    closed: bool
    content_type: str
    tail: int
    retained: int
    snapshot_offset: int | None
    created_at_ms: int
    last_write_at_ms: int


@dataclass(frozen=True, slots=True)
class StreamPage:
    """`next_cursor` is the last name of this page when there are more, else None."""

    streams: tuple[ListedStream, ...]
    next_cursor: str | None

    @property
    def has_more(self) -> bool:
        return self.next_cursor is not None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot's facts; `read()` gives its bytes, as long as it has not been collected."""

    offset: int
    content_type: str
    size: int
    stream: StreamStat
    read: Callable[[], bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Snapshot and what follows it, as of the call.

    `chunks` yields lists of whole messages, each list about a MiB at most (or one larger message),
    from `start` to `end`. What it still has to yield is kept from retention while it is alive.
    """

    snapshot: Snapshot | None
    start: int
    end: int
    stat: StreamStat
    chunks: Iterator[list[bytes]] = field(repr=False)
