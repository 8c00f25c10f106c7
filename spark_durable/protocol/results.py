"""What the operations return. All are values; those without a body pickle."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class ProducerTriple:
    """What makes an append repeatable: the server stores (id, epoch, seq) at most once."""

    id: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream as HEAD or create describes it; None where the server does not tell."""

    url: str
    content_type: str | None
    tail: str
    closed: bool = False
    ttl_s: int | None = None
    expires_at: str | None = None
    snapshot_offset: str | None = None
    retained_offset: str | None = None
    incarnation: str | None = None
    etag: str | None = None
    max_append_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class CreateResult:
    """``created`` is False when the stream was there with the same configuration."""

    created: bool
    info: StreamInfo


class AppendOutcome(Enum):
    """Both mean that the bytes are durable in the stream, once."""

    APPENDED = "appended"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class AppendResult:
    """``next_offset`` is None where a server does not repeat it for a duplicate.

    ``producer_seq`` is the highest seq the server has of this producer and epoch.
    """

    outcome: AppendOutcome
    next_offset: str | None = None
    closed: bool = False
    producer_epoch: int | None = None
    producer_seq: int | None = None


class ProbeState(Enum):
    """What the server knows of a producer, seen from one epoch."""

    UNKNOWN_PRODUCER = "unknown producer"  # nothing of this producer, in any epoch
    EPOCH_NOT_BEGUN = "epoch not begun"  # an older epoch is current
    EPOCH_CURRENT = "epoch current"  # this very epoch; `applied` seqs are in
    NEWER_EPOCH = "newer epoch"  # `current_epoch` has fenced this one
    CLOSED = "closed"  # the stream takes no appends any more


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """``applied`` counts the seqs of the probed epoch that are stored; None if not told."""

    state: ProbeState
    current_epoch: int | None = None
    applied: int | None = None
    final_offset: str | None = None


@dataclass(frozen=True, slots=True)
class BucketInfo:
    bucket_id: str
    streams: int


@dataclass(frozen=True, slots=True)
class ListedStream:
    """One row of a bucket's listing. ``tail_offset`` is as sent: a number or an offset token.

    The fields from ``next_offset`` on are what HEAD tells; None where a listing has less.
    """

    stream_id: str
    closed: bool
    content_type: str | None
    tail_offset: str | int | None
    created_at_ms: int | None = None
    last_write_at_ms: int | None = None
    next_offset: str | None = None
    incarnation: str | None = None
    retained_offset: str | None = None
    snapshot_offset: str | None = None


@dataclass(frozen=True, slots=True)
class StreamListing:
    """A page of a listing, sorted by stream id. Pass ``next_cursor`` as ``after`` for the next."""

    streams: tuple[ListedStream, ...]
    next_cursor: str | None
    has_more: bool


class Framing(Enum):
    """How the body of a read holds messages."""

    ARRAY = "array"  # one JSON array
    NDJSON = "ndjson"  # one JSON text a line; the last line may be cut
    BYTES = "bytes"  # no boundaries on the wire
