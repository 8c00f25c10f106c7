"""What the store refuses, and why: one tree, each leaf with the facts an answer needs.

StoreError
├─ NotFound · SoftDeleted · BucketMissing · SnapshotMissing        nothing to work on
├─ AlreadyExists · ConfigMismatch · ForkSourceDeleted              taken, or not to be had
├─ BucketExists · BucketNotEmpty · StreamLimit
├─ BadJson · EmptyBody · BadOffset · TooLarge                      the request itself is wrong
├─ Closed · ContentTypeMismatch · SequenceRegression               refused by the stream's state
├─ StaleEpoch · SequenceGap · EpochStartsAtZero · ProducerLimit    refused by the producer's state
├─ OffsetGone · SnapshotConflict                                   refused by retention
├─ Overloaded ── DiskFull · MemoryFull                             nothing stored, try again later
├─ StoreFailed                                                     the disk cannot be trusted: stop
└─ CannotOpen ── DirectoryInUse · UnknownFormat · CorruptLog · CorruptStore

Each refusal leaves the stream as it was. Only `StoreFailed` has an unknown outcome.
"""

from __future__ import annotations


class StoreError(Exception):
    """Root of everything the store raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args, dict(self.__dict__)))


def _rebuild(
    cls: type[StoreError], args: tuple[object, ...], facts: dict[str, object]
) -> StoreError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(facts)
    return error


class NotFound(StoreError):
    """No stream at this key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"stream {key!r} does not exist; create it with PUT")


class SoftDeleted(StoreError):
    """The stream was deleted, its bytes live on for its forks."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"stream {key!r} was deleted and is kept only for its forks; "
            "its name is free again when the last fork is gone"
        )


class BucketMissing(StoreError):
    """Buckets are created explicitly, before their streams."""

    def __init__(self, bucket: str) -> None:
        super().__init__(f"bucket {bucket!r} does not exist; create it with PUT /ds/{bucket}")


class SnapshotMissing(StoreError):
    """No snapshot (any more) at this offset."""

    def __init__(self, key: str, offset: int | None) -> None:
        what = "no snapshot" if offset is None else f"no snapshot at offset {offset}"
        super().__init__(f"stream {key!r} has {what}")


class AlreadyExists(StoreError):
    """The key is held by a soft-deleted stream."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"stream {key!r} was deleted but its forks still need it: the name cannot be used "
            "until they are gone"
        )


class ForkSourceDeleted(StoreError):
    """The source of a fork was deleted; only the forks it already has may go on reading it."""

    def __init__(self, key: str) -> None:
        super().__init__(f"stream {key!r} was deleted and cannot be forked any more")


class ConfigMismatch(StoreError):
    """A stream exists at the key with another configuration."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(f"stream {key!r} already exists with another {what}")
        self.what = what


class BucketExists(StoreError):
    def __init__(self, bucket: str) -> None:
        super().__init__(f"bucket {bucket!r} already exists")


class BucketNotEmpty(StoreError):
    def __init__(self, bucket: str, live: int, kept_for_forks: int) -> None:
        parts = f"{live} streams"
        if kept_for_forks:
            parts += f" and {kept_for_forks} deleted ones that forks still need"
        super().__init__(f"bucket {bucket!r} still has {parts}; delete them first")


class StreamLimit(StoreError):
    """As many streams (or buckets) as the configuration allows."""

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(
            f"there are {limit} {what}, the configured limit; delete some, or let them expire"
        )
        self.limit = limit


class BadJson(StoreError):
    def __init__(self, reason: str) -> None:
        super().__init__(f"the body is not valid JSON: {reason}")


class EmptyBody(StoreError):
    def __init__(self, what: str = "an append without Stream-Closed needs a body") -> None:
        super().__init__(what)


class BadOffset(StoreError):
    """Past the tail, or not on a message boundary."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class TooLarge(StoreError):
    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} of {size} bytes is over the limit of {limit} bytes; split it")
        self.limit = limit


class Closed(StoreError):
    """The stream takes no more appends.

    `producer_epoch` and `producer_seq` are the last state of the asking producer on this stream:
    what it sent up to that sequence number is stored.
    """

    def __init__(
        self,
        key: str,
        final_offset: int,
        producer_epoch: int | None = None,
        producer_seq: int | None = None,
    ) -> None:
        super().__init__(f"stream {key!r} is closed at offset {final_offset}")
        self.final_offset = final_offset
        self.producer_epoch = producer_epoch
        self.producer_seq = producer_seq


class ContentTypeMismatch(StoreError):
    def __init__(self, key: str, expected: str, received: str | None) -> None:
        super().__init__(f"stream {key!r} holds {expected}, the request sends {received}")
        self.expected = expected


class SequenceRegression(StoreError):
    """Stream-Seq did not grow."""

    def __init__(self, last: str, received: str) -> None:
        super().__init__(f"Stream-Seq {received!r} is not greater than the last one, {last!r}")


class StaleEpoch(StoreError):
    """A newer instance of this producer has taken over."""

    def __init__(self, producer: str, current_epoch: int, received: int) -> None:
        super().__init__(
            f"producer {producer!r} is at epoch {current_epoch}; epoch {received} is fenced off"
        )
        self.current_epoch = current_epoch


class SequenceGap(StoreError):
    def __init__(self, producer: str, expected: int, received: int) -> None:
        super().__init__(
            f"producer {producer!r} must send sequence number {expected} next, not {received}"
        )
        self.expected = expected
        self.received = received


class EpochStartsAtZero(StoreError):
    def __init__(self, producer: str, epoch: int, received: int) -> None:
        super().__init__(
            f"producer {producer!r} opens epoch {epoch} with sequence number {received}; "
            "a new epoch starts at 0"
        )


class ProducerLimit(StoreError):
    def __init__(self, key: str, limit: int) -> None:
        super().__init__(
            f"stream {key!r} remembers {limit} producers, the configured limit; reuse producer "
            "ids, or wait until idle ones are forgotten"
        )
        self.limit = limit


class OffsetGone(StoreError):
    """The offset lies before what retention has kept."""

    def __init__(self, key: str, offset: int, retained: int) -> None:
        super().__init__(
            f"stream {key!r} is kept from offset {retained} on, offset {offset} is gone; "
            "start again from /bootstrap"
        )
        self.retained = retained


class SnapshotConflict(StoreError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class Overloaded(StoreError):
    """Nothing was stored; the same request may be sent again after `retry_after` seconds."""

    def __init__(self, reason: str, retry_after: int = 1) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class DiskFull(Overloaded):
    def __init__(self) -> None:
        super().__init__("the disk is full; nothing was stored", retry_after=5)


class MemoryFull(Overloaded):
    def __init__(self, limit: int) -> None:
        super().__init__(
            f"streams in memory hold {limit} bytes, the configured limit; nothing was stored. "
            "Delete some, or serve from a data directory",
            retry_after=5,
        )


class StoreFailed(StoreError):
    """A write could not be made durable. What was in flight may or may not survive a restart."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the store has stopped: {reason}; restart it, it recovers what was acknowledged"
        )


class CannotOpen(StoreError):
    """The store cannot start on this data directory as it is."""


class DirectoryInUse(CannotOpen):
    """Another process serves this data directory."""


class UnknownFormat(CannotOpen):
    """The directory was not written by a version that this one understands."""


class CorruptLog(CannotOpen):
    """The log is damaged before its end; starting would lose acknowledged changes."""


class CorruptStore(CannotOpen):
    """Acknowledged bytes are missing from the data directory."""
