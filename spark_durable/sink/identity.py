"""Who a task is to the server: producer ids, and epochs that hold batch and fingerprint."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from spark_durable.protocol.headers import MAX_SAFE_INTEGER

FINGERPRINT_BITS = 20
MAX_FINGERPRINT = (1 << FINGERPRINT_BITS) - 1
MAX_BATCH = MAX_SAFE_INTEGER >> FINGERPRINT_BITS


@dataclass(frozen=True, slots=True)
class WriteIdentity:
    """One write: of a query's micro-batch, of an application's version, or of this job alone.

    Every attempt of every task of the write has the same identity, and so has a replay of it
    (``repeats``) unless the identity was made up for a batch write without txnAppId.
    """

    writer: str
    batch: int
    repeats: bool = True
    prefix: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.batch <= MAX_BATCH:
            raise ValueError(f"batch {self.batch} does not fit into a producer epoch")

    @property
    def name(self) -> str:
        """What all producers of this writer have in common; fit for a header."""
        parts = [self.writer] if self.prefix is None else [self.prefix, self.writer]
        return "/".join(quote(part, safe="") for part in parts)

    def producer(self, partition: int) -> str:
        return f"{self.name}/{partition}"

    @property
    def closer(self) -> str:
        """The producer under which the driver closes the stream."""
        return f"{self.name}/close"

    def epoch(self, fingerprint: int) -> int:
        if not 0 <= fingerprint <= MAX_FINGERPRINT:
            raise ValueError(f"{fingerprint} is no fingerprint")
        return self.batch << FINGERPRINT_BITS | fingerprint

    @property
    def probe_epoch(self) -> int:
        """Below every epoch of this batch, above those before it; nobody ever sends under it."""
        return self.epoch(0)


@dataclass(frozen=True, slots=True)
class Place:
    """Which task this is. ``run`` is the streaming query's run; None in a batch write."""

    identity: WriteIdentity
    partition: int
    run: str | None = None


def batch_of(epoch: int) -> int:
    return epoch >> FINGERPRINT_BITS


def fingerprint_of(epoch: int) -> int:
    return epoch & MAX_FINGERPRINT
