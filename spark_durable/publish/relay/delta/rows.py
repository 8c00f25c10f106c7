"""An open event's state as a row of the working set."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_durable.publish.relay.model import OpenEvent, Settled, Status

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("event_id", pa.string()),
    ("attempts", pa.int32()),
    ("available_at", pa.float64()),
    ("address", pa.string()),
    ("producer_id", pa.string()),
    ("epoch", pa.int64()),
    ("seq", pa.int64()),
    ("position", pa.int32()),
    ("cut", pa.int32()),
    ("ambiguous", pa.bool_()),
    ("problem", pa.string()),
    ("status", pa.string()),
    ("code", pa.string()),
    ("last_error", pa.string()),
    ("started_at", pa.float64()),
    ("finished_at", pa.float64()),
    ("receipt", pa.string()),
    ("settled_run", pa.int64()),
]
STATE = pa.schema(_FIELDS)


def sortable(value: Any) -> tuple[bool, Any]:
    """Nulls first, like Spark's own order."""
    return (value is not None, value)


def _row(event: OpenEvent, status: Status) -> dict[str, Any]:
    place = event.assignment
    return {
        "event_id": event.event_id,
        "attempts": event.attempts,
        "available_at": event.available_at,
        "address": place.address if place else None,
        "producer_id": place.producer_id if place else None,
        "epoch": place.epoch if place else None,
        "seq": place.seq if place else None,
        "position": place.position if place else None,
        "cut": event.cut,
        "ambiguous": event.ambiguous,
        "problem": event.problem,
        "status": status.value,
    }


def settled_row(item: Settled, run: int) -> dict[str, Any]:
    state = _row(item.event, item.status)
    if not item.recorded:
        return state
    outcome = item.outcome
    return state | {
        "code": outcome.code,
        "last_error": outcome.error,
        "started_at": outcome.started_at,
        "finished_at": outcome.finished_at,
        "receipt": outcome.receipt,
        "settled_run": run,
    }


def pending_row(event: OpenEvent) -> dict[str, Any]:
    return _row(event, Status.PENDING)
