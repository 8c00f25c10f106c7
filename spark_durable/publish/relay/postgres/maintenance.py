"""Looking at a PostgreSQL outbox, sending dead letters again, and letting go of what is done."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from psycopg import Connection, sql

from spark_durable.protocol.errors import RelayError
from spark_durable.publish.relay.postgres import schema
from spark_durable.publish.relay.postgres.schema import Names
from spark_durable.publish.relay.postgres.store import connect
from spark_durable.publish.relay.vocabulary import LOCKED, Vocabulary


class PostgresMaintenance:
    """Works beside running relays: it touches final rows only, one statement at a time."""

    def __init__(
        self, *, dsn: str, table: str, vocabulary: Vocabulary = LOCKED, shards: int = 64
    ) -> None:
        self._dsn = dsn
        self._names = Names(table)
        self._vocabulary = vocabulary
        self._shards = shards

    def init(self) -> list[str]:
        """Adds the relay's columns and tables; returns the columns that were missing."""
        with connect(self._dsn) as db, db.transaction():
            added = schema.add_state_columns(db, self._names, self._vocabulary)
            schema.create_relay_tables(db, self._names, self._shards)
            schema.check_table(db, self._names, self._vocabulary)
        return added

    def counts(self) -> dict[str, int]:
        statement = sql.SQL("SELECT {0}, count(*) FROM {1} GROUP BY {0}")
        with connect(self._dsn) as db:
            rows = db.execute(statement.format(self._column("status"), self._names.outbox))
            return {str(status): int(count) for status, count in rows}

    def replay(self, event_ids: Sequence[str] | None) -> int:
        """Opens dead events again with all their attempts; None means every dead one.

        A replayed event has the place in its key that its order gives it among the open ones.
        """
        statement = sql.SQL("UPDATE {} SET {} = %s, {} = 0, {} = now() WHERE {} = %s").format(
            self._names.outbox,
            self._column("status"),
            self._column("attempts"),
            self._column("available_at"),
            self._column("status"),
        )
        given: list[object] = [self._vocabulary.pending, self._vocabulary.dead]
        with connect(self._dsn) as db:
            return self._restricted(db, statement, given, event_ids)

    def prune(
        self,
        *,
        before: datetime | None = None,
        dead: bool = False,
        event_ids: Sequence[str] | None = None,
        vacuum_hours: float | None = None,
    ) -> int:
        """Deletes final events: those delivered ``before`` (dead ones: locked before), or by id."""
        if before is None and event_ids is None:
            raise RelayError("say what to prune: a time, or event ids")
        statuses = [self._vocabulary.delivered] + ([self._vocabulary.dead] if dead else [])
        statement = sql.SQL("DELETE FROM {} WHERE {} = ANY(%s)").format(
            self._names.outbox, self._column("status")
        )
        given: list[object] = [statuses]
        if before is not None:
            finished = sql.SQL(" AND coalesce({}, {}) < %s").format(
                self._column("delivered_at"), self._column("available_at")
            )
            statement, given = statement + finished, [*given, before]
        with connect(self._dsn) as db:
            count = self._restricted(db, statement, given, event_ids)
            if vacuum_hours is not None:
                db.execute(sql.SQL("VACUUM {}").format(self._names.outbox))
        return count

    def _restricted(
        self,
        db: Connection,
        statement: sql.Composed,
        given: list[object],
        event_ids: Sequence[str] | None,
    ) -> int:
        if event_ids is not None:
            chosen = sql.SQL(" AND {}::text = ANY(%s)").format(self._column("event_id"))
            statement, given = statement + chosen, [*given, list(event_ids)]
        return db.execute(statement, given).rowcount

    def _column(self, role: str) -> sql.Identifier:
        return sql.Identifier(getattr(self._vocabulary.columns, role))
