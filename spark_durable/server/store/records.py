"""Every change of state is one of these records: what the log holds, and what replaying it needs.

A record says what was decided, never what is to be checked: replaying the same records in the same
order always gives the same state. Further kinds join by subclassing `Record` with a tag of their
own and handing their type and its handler to `State.handle`.
"""

from __future__ import annotations

import msgspec


class Record(msgspec.Struct, frozen=True, array_like=True):
    """Base of all records. Tags are part of the disk format: never reuse one."""


class StreamCreated(Record, frozen=True, array_like=True, tag=1):
    """A stream came into being; its first bytes, if any, travel as the record's payload."""

    stream: int
    key: str
    content_type: str
    at_ms: int
    ttl_s: int | None
    expires_at: float | None
    expires_at_text: str | None
    expiry_inherited: bool
    closed: bool
    fork: tuple[int, str, int, int, int] | None
    messages: int


class Appended(Record, frozen=True, array_like=True, tag=2):
    """Bytes, producer state and closure move in one step; the bytes are the record's payload."""

    stream: int
    offset: int
    at_ms: int
    messages: int
    new_segment: bool
    close: bool
    producer: tuple[str, int, int] | None
    stream_seq: str | None


class StreamDeleted(Record, frozen=True, array_like=True, tag=3):
    """Deleted by its owner or expired. With forks it stays for them, else it is gone."""

    stream: int
    at_ms: int


class BucketCreated(Record, frozen=True, array_like=True, tag=4):
    bucket: str
    at_ms: int


class BucketDeleted(Record, frozen=True, array_like=True, tag=5):
    bucket: str


class SnapshotPublished(Record, frozen=True, array_like=True, tag=6):
    """The snapshot's bytes are durable in their own file before this record is written."""

    stream: int
    offset: int
    content_type: str
    blob: str
    size: int
    checksum: int
    at_ms: int
