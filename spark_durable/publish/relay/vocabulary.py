"""The words of an outbox table: which column holds what, and what its statuses are called. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from spark_durable.protocol.errors import OptionError
from spark_durable.publish.relay.model import Status


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns. An empty name means that the table has no such column.

    ``sequence`` orders the events of a key where ``created_at`` is too coarse.
    """

    event_id: str = "event_id"
    event_type: str = "event_type"
    payload: str = "payload"
    headers: str = "headers"
    partition_key: str = "partition_key"
    ordering_key: str = "ordering_key"
    destination: str = "destination"
    created_at: str = "created_at"
    sequence: str = ""
    available_at: str = "available_at"
    status: str = "status"
    attempts: str = "attempts"
    last_error: str = "last_error"
    locked_by: str = "locked_by"
    locked_at: str = "locked_at"
    delivered_at: str = "delivered_at"
    updated_at: str = "updated_at"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """One table's words."""

    columns: Columns = field(default_factory=Columns)
    pending: str = "PENDING"
    in_flight: str = "DELIVERING"
    delivered: str = "DELIVERED"
    dead: str = "DEAD"

    def word(self, status: Status) -> str:
        return {
            Status.PENDING: self.pending,
            Status.DELIVERED: self.delivered,
            Status.DEAD: self.dead,
        }[status]

    @property
    def words(self) -> tuple[str, ...]:
        return (self.pending, self.in_flight, self.delivered, self.dead)


LOCKED = Vocabulary()
CLAIMED = Vocabulary(
    Columns(locked_by="claimed_by", locked_at="claimed_at", delivered_at="published_at"),
    in_flight="CLAIMED",
    delivered="PUBLISHED",
)
# Debezium's outbox has no state of its own; the relay's columns are added beside it.
DEBEZIUM = Vocabulary(
    Columns(
        event_id="id",
        event_type="type",
        destination="aggregatetype",
        partition_key="aggregateid",
        ordering_key="aggregateid",
        headers="",
        created_at="",
    )
)

VOCABULARIES: Mapping[str, Vocabulary] = {
    "locked": LOCKED,
    "claimed": CLAIMED,
    "debezium": DEBEZIUM,
}


def vocabulary(name: str, overrides: Mapping[str, str]) -> Vocabulary:
    """A named vocabulary with single columns renamed, as in ``{"sequence": "position"}``."""
    if name not in VOCABULARIES:
        raise OptionError(f"unknown vocabulary {name!r}; known are {', '.join(VOCABULARIES)}")
    known = {column.name for column in fields(Columns)}
    for column in overrides:
        if column not in known:
            raise OptionError(f"unknown column {column!r}; known are {', '.join(sorted(known))}")
    found = VOCABULARIES[name]
    return replace(found, columns=replace(found.columns, **overrides))
