"""The relay's state in PostgreSQL."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import Connection, sql
from psycopg.rows import dict_row
from pyspark.sql import DataFrame, SparkSession

from spark_durable.protocol.errors import LeaseLostError, OptionError, RelayError
from spark_durable.publish.contract import Publisher
from spark_durable.publish.relay.model import OpenEvent, Settled, Status
from spark_durable.publish.relay.policy import lane_number
from spark_durable.publish.relay.postgres import schema
from spark_durable.publish.relay.postgres.schema import Names
from spark_durable.publish.relay.postgres.statements import Statements
from spark_durable.publish.relay.store import Batch, open_event
from spark_durable.publish.relay.vocabulary import LOCKED, Vocabulary

_PLANNED_FIELDS: list[tuple[str, pa.DataType]] = [
    ("event_id", pa.string()),
    ("event_type", pa.string()),
    ("payload", pa.binary()),
    ("headers", pa.map_(pa.string(), pa.string())),
    ("partition_key", pa.string()),
    ("ordering_key", pa.string()),
    ("destination", pa.string()),
    ("created_at", pa.timestamp("us", "UTC")),
    ("attempts", pa.int32()),
    ("ambiguous", pa.bool_()),
    ("address", pa.string()),
    ("producer_id", pa.string()),
    ("epoch", pa.int64()),
    ("seq", pa.int64()),
    ("position", pa.int32()),
]
_PLANNED = pa.schema(_PLANNED_FIELDS)


class PostgresOutbox:
    """Claims shards of ordering keys with SKIP LOCKED; several relays may work at once.

    Each relay has an id of its own. A claim is a lease: a relay that does not come back in
    ``lease_s`` loses its shards to the next one, which repeats the same plan. Results are written
    in one transaction with the check that the token is still the shards', so a relay that was late
    writes nothing.
    """

    def __init__(
        self,
        spark: SparkSession,
        publisher: Publisher,
        *,
        relay_id: str,
        dsn: str,
        table: str = "outbox",
        vocabulary: Vocabulary = LOCKED,
        shards: int = 64,
        claim_shards: int = 64,
        max_events: int = 20_000,
        lease_s: float = 180.0,
        replan: bool = False,
    ) -> None:
        self._spark = spark
        self._publisher = publisher
        self._relay_id = relay_id
        self._dsn = dsn
        self._names = Names(table)
        self._vocabulary = vocabulary
        self._shards = shards
        self._claim_shards = claim_shards
        self._max_events = max_events
        self._lease_s = lease_s
        self._replan = replan
        self._connection: Connection | None = None
        self._statements: Statements
        self._claimed: dict[str, list[int]] = {}

    # -- connection -----------------------------------------------------------------------------

    def _db(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._dsn)
            schema.check_table(self._connection, self._names, self._vocabulary)
            schema.create_relay_tables(self._connection, self._names, self._shards)
            present = schema.columns_of(self._connection, self._names)
            self._statements = Statements(self._names, self._vocabulary, present, self._shards)
            self._check_shards(self._connection)
        return self._connection

    def _check_shards(self, connection: Connection) -> None:
        row = connection.execute(
            sql.SQL("SELECT count(*) FROM {}").format(self._names.shards)
        ).fetchone()
        if row is None or row[0] != self._shards:
            raise RelayError(
                f"the relay tables beside {self._names.table} were made for "
                f"{row[0] if row else 0} shards, not {self._shards}; the number must stay, since "
                "other relays may hold some of them"
            )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    # -- beginning a run ------------------------------------------------------------------------

    def begin(self) -> Batch:
        db = self._db()
        token = uuid.uuid4().hex
        with db.transaction():
            claimed = self._claim(token)
            run = self._next_run()
        self._claimed = {token: claimed}
        events = self._load(claimed) if claimed else ()
        waiting = self._db().execute(self._statements.next_due, (claimed,)).fetchone()
        return Batch(run, events, token=token, next_due=waiting[0] if waiting else None)

    def _next_run(self) -> int:
        row = self._db().execute("SELECT nextval(%s)", (self._names.runs.as_string(self._db()),))
        found = row.fetchone()
        assert found is not None
        return int(found[0])

    def _claim(self, token: str) -> list[int]:
        """Shards with work that nobody holds, those served longest ago first."""
        given = {
            "limit": self._claim_shards,
            "token": token,
            "relay": self._relay_id,
            "lease": self._lease_s,
        }
        return sorted(row[0] for row in self._db().execute(self._statements.claim, given))

    def _load(self, claimed: list[int]) -> tuple[OpenEvent, ...]:
        """All planned events of the claimed shards, and the first of the others."""
        given = {"shards": claimed, "limit": self._max_events}
        with self._db().cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(self._statements.planned_events, given).fetchall()
            rows += cursor.execute(self._statements.waiting_events, given).fetchall()
        rows.sort(key=lambda row: row["rank"])
        return tuple(self._open_event(row) for row in rows)

    def _open_event(self, row: dict[str, Any]) -> OpenEvent:
        return open_event(row, self._publisher, self._problem(row), replan=self._replan)

    def _problem(self, row: dict[str, Any]) -> str | None:
        if row["size"] is None:
            return "payload is null"
        status = row["status"]
        if status is not None and status not in self._vocabulary.words:
            return f"unknown status {status}"
        return None

    # -- plan and results -----------------------------------------------------------------------

    def commit_plan(self, batch: Batch, assigned: Sequence[OpenEvent]) -> None:
        db = self._db()
        with db.transaction():
            self._fence(batch)
            self._write_plan(assigned)
            db.execute(
                self._statements.lock,
                (self._vocabulary.in_flight, batch.token, [e.event_id for e in assigned]),
            )
        self._replan = False

    def _write_plan(self, events: Sequence[OpenEvent]) -> None:
        """Replaces the plan rows of ``events``; those with nothing to remember lose theirs."""
        db = self._db()
        db.execute(
            sql.SQL("DELETE FROM {} WHERE event_id = ANY(%s)").format(self._names.plan),
            ([event.event_id for event in events],),
        )
        kept = [e for e in events if e.assignment is not None or e.cut is not None]
        with db.cursor().copy(
            sql.SQL(
                "COPY {} (event_id, shard, address, producer_id, epoch, seq, position, cut, "
                "ambiguous) FROM STDIN"
            ).format(self._names.plan)
        ) as copy:
            for event in kept:
                place = event.assignment
                copy.write_row(
                    (
                        event.event_id,
                        lane_number(event.key, event.event_id, self._shards),
                        *(
                            (place.address, place.producer_id, place.epoch, place.seq)
                            if place
                            else (None,) * 4
                        ),
                        place.position if place else None,
                        event.cut,
                        event.ambiguous,
                    )
                )

    def planned(self, batch: Batch, events: Sequence[OpenEvent]) -> DataFrame:
        by_id = {event.event_id: event for event in events}
        with self._db().cursor(row_factory=dict_row) as cursor:
            rows = [
                _planned_row(row, by_id[row["event_id"]])
                for row in cursor.execute(self._statements.payloads, (list(by_id),))
            ]
        return self._spark.createDataFrame(pa.Table.from_pylist(rows, schema=_PLANNED))

    def commit_results(
        self, batch: Batch, settled: Sequence[Settled], released: Sequence[OpenEvent]
    ) -> None:
        """One transaction: the fence, the marks, the plan, and the shards given back."""
        with self._db().transaction():
            self._fence(batch)
            self._mark(settled, released)
            ended = [_without_plan(item) for item in settled]
            self._write_plan([*ended, *released])
            self._give_back(batch)

    def _mark(self, settled: Sequence[Settled], released: Sequence[OpenEvent]) -> None:
        word = self._vocabulary.word
        rows = [
            (
                item.event.event_id,
                word(item.status),
                item.event.attempts,
                item.outcome.error if item.recorded else None,
                item.recorded,
                item.event.available_at,
                item.status is Status.DELIVERED,
            )
            for item in settled
        ]
        rows += [
            (e.event_id, self._vocabulary.pending, e.attempts, None, False, e.available_at, False)
            for e in released
        ]
        if not rows:
            return
        columns = [list(column) for column in zip(*rows, strict=True)]
        self._db().execute(self._statements.mark, columns)

    def _fence(self, batch: Batch) -> None:
        """Locks our shards' rows; raises when one of them has another token by now."""
        held = self._db().execute(
            sql.SQL("SELECT shard FROM {} WHERE token = %s FOR UPDATE").format(self._names.shards),
            (batch.token,),
        )
        if len(held.fetchall()) != len(self._claimed.get(batch.token, [])):
            raise LeaseLostError(
                f"relay {self._relay_id} held its shards longer than its lease of "
                f"{self._lease_s:g} s and another relay has taken some over. Nothing was written; "
                "the other repeats the same plan. Make the lease longer, or the runs smaller"
            )

    def _give_back(self, batch: Batch) -> None:
        self._db().execute(
            sql.SQL(
                "UPDATE {} SET token = NULL, relay_id = NULL, lease_until = now() WHERE token = %s"
            ).format(self._names.shards),
            (batch.token,),
        )

    def release(self, batch: Batch) -> None:
        if self._connection is None or self._connection.closed:
            return
        # Where the database is away the lease runs out by itself; what went wrong is told already.
        with suppress(psycopg.Error):
            self._give_back(batch)


def connect(dsn: str) -> Connection:
    """A connection that commits each statement outside a transaction. Errors hold no password."""
    try:
        return psycopg.connect(dsn, autocommit=True)
    except psycopg.ProgrammingError:
        raise OptionError("the PostgreSQL connection string is malformed") from None
    except psycopg.OperationalError as error:
        reason = " ".join(str(error).split())
        raise RelayError(f"PostgreSQL cannot be reached: {reason}") from None


def _planned_row(row: dict[str, Any], event: OpenEvent) -> dict[str, Any]:
    place = event.assignment
    assert place is not None
    headers = _headers(row["headers"])
    return row | {
        "payload": bytes(row["payload"]),
        "headers": list(headers.items()),
        "attempts": event.attempts,
        "ambiguous": event.ambiguous,
        "address": place.address,
        "producer_id": place.producer_id,
        "epoch": place.epoch,
        "seq": place.seq,
        "position": place.position,
    }


def _headers(text: str | None) -> dict[str, str]:
    """Header values as text; a table whose headers are no JSON object has none to send."""
    try:
        document = json.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(document, dict):
        return {}
    return {k: v if isinstance(v, str) else json.dumps(v) for k, v in document.items()}


def _without_plan(item: Settled) -> OpenEvent:
    """A final event has no plan to keep."""
    if item.status is Status.PENDING:
        return item.event
    return OpenEvent(item.event.event_id, "", item.event.key, 0)
