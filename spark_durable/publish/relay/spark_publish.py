"""A run on executors: planned events in, outcomes out, one action."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_durable.publish.contract import Event, OpenPublisher, Publisher, Verdict
from spark_durable.publish.relay.lanes import LaneRunner, PlannedEvent
from spark_durable.publish.relay.model import Assignment, Outcome
from spark_durable.publish.relay.policy import RelayPolicy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("event_id", pa.string()),
    ("verdict", pa.string()),
    ("code", pa.string()),
    ("error", pa.string()),
    ("duplicate", pa.bool_()),
    ("ambiguous", pa.bool_()),
    ("retry_after", pa.float64()),
    ("receipt", pa.string()),
    ("started_at", pa.float64()),
    ("finished_at", pa.float64()),
]
OUTCOMES = pa.schema(_FIELDS)

_OUTCOMES_DDL = (
    "event_id string, verdict string, code string, error string, duplicate boolean, "
    "ambiguous boolean, retry_after double, receipt string, started_at double, finished_at double"
)

# What a planned DataFrame must have: the event, and its place in the plan.
PLANNED_COLUMNS = (
    "event_id",
    "event_type",
    "payload",
    "headers",
    "partition_key",
    "ordering_key",
    "destination",
    "created_at",
    "attempts",
    "ambiguous",
    "address",
    "producer_id",
    "epoch",
    "seq",
    "position",
)


def publish_planned(
    planned: DataFrame, publisher: Publisher, policy: RelayPolicy, *, concurrency: int = 8
) -> list[Outcome]:
    """Sends a committed plan and returns what came of it. Runs exactly one action.

    A task that Spark retries sends the same bodies under the same triples, so on targets that
    deduplicate by them a retry stores nothing twice.
    """
    tasks = planned.sparkSession.sparkContext.defaultParallelism
    deadline = time.time() + policy.run_deadline_s
    sender = _sender(publisher, policy.max_attempts, deadline, concurrency)
    lanes = planned.select(*PLANNED_COLUMNS).repartition(tasks, "address", "producer_id")
    table = lanes.mapInArrow(sender, _OUTCOMES_DDL).toArrow()
    return [_outcome(row) for row in table.to_pylist()]


def _sender(
    publisher: Publisher, max_attempts: int, deadline: float, concurrency: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def send(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        planned = (_planned(row) for batch in batches for row in batch.to_pylist())
        with OpenPublisher(publisher) as opened:
            runner = LaneRunner(opened, max_attempts, deadline, concurrency)
            rows = [_row(outcome) for outcome in runner.run(planned)]
        yield pa.RecordBatch.from_pylist(rows, schema=OUTCOMES)

    return send


def _planned(row: dict[str, Any]) -> PlannedEvent:
    event = Event(
        event_id=row["event_id"],
        event_type=row["event_type"] or "",
        payload=row["payload"],
        headers=dict(row["headers"] or ()),
        partition_key=row["partition_key"],
        ordering_key=row["ordering_key"],
        destination=row["destination"],
        created_at=row["created_at"],
        attempts=row["attempts"],
    )
    place = Assignment(
        row["address"], row["producer_id"], row["epoch"], row["seq"], row["position"]
    )
    return PlannedEvent(event, place, row["ambiguous"])


def _row(outcome: Outcome) -> dict[str, Any]:
    row = {name: getattr(outcome, name) for name in OUTCOMES.names}
    row["verdict"] = outcome.verdict.value
    return row


def _outcome(row: dict[str, Any]) -> Outcome:
    return Outcome(**{**row, "verdict": Verdict(row["verdict"])})
