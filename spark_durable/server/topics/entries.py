"""The entries of a topic's stream, as bytes: a disk format.

An append is a run of frames: four bytes of length, then a MessagePack array whose first element
tells the kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

_LENGTH: Final = 4


class StoredRecord(msgspec.Struct, frozen=True, array_like=True):
    data: bytes
    tag: str | None
    node: str | None
    meta: bytes | None

    @property
    def size(self) -> int:
        return len(self.data) + len(self.meta or b"")


class Written(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Records with their first seq, and the key that makes a repetition return the same seqs."""

    at_ms: int
    first_seq: int
    key: str | None
    digest: bytes | None
    records: list[StoredRecord]


class Configured(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The configuration from here on. What had been evicted before stays evicted."""

    at_ms: int
    earliest_seq: int
    config: dict[str, Any]


class Key(msgspec.Struct, frozen=True, array_like=True):
    """One remembered idempotency key."""

    key: str
    at_ms: int
    first_seq: int
    last_seq: int
    head_seq: int
    digest: bytes | None


class Base(msgspec.Struct, frozen=True, array_like=True):
    """What the trimmed beginning of a topic's stream amounted to."""

    next_seq: int
    earliest_seq: int
    config: dict[str, Any]
    keys: list[Key]


Entry = Written | Configured

_encoder: Final = msgspec.msgpack.Encoder()
_entries: Final = msgspec.msgpack.Decoder(Entry)
_bases: Final = msgspec.msgpack.Decoder(Base)


def encode(entries: Iterable[Entry]) -> bytes:
    """One append's body."""
    body = bytearray()
    for entry in entries:
        frame = _encoder.encode(entry)
        body += len(frame).to_bytes(_LENGTH, "big") + frame
    return bytes(body)


def decode(body: bytes) -> Iterator[tuple[int, Entry]]:
    """Each entry with the number of bytes up to its end."""
    view = memoryview(body)
    position = 0
    while position < len(view):
        start = position + _LENGTH
        position = start + int.from_bytes(view[position:start], "big")
        yield position, _entries.decode(view[start:position])


def encode_base(base: Base) -> bytes:
    return _encoder.encode(base)


def decode_base(body: bytes) -> Base:
    return _bases.decode(body)
