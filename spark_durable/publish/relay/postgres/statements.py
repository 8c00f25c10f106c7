"""The statements of the PostgreSQL store, composed once for a table and its vocabulary."""

from __future__ import annotations

from psycopg import sql

from spark_durable.publish.relay.postgres import schema
from spark_durable.publish.relay.postgres.schema import Names
from spark_durable.publish.relay.vocabulary import Vocabulary


class Statements:
    """``present`` are the outbox table's columns and their types, from the catalog."""

    def __init__(
        self, names: Names, vocabulary: Vocabulary, present: dict[str, str], shards: int
    ) -> None:
        self._names = names
        self._vocabulary = vocabulary
        self._present = present
        self._shard = schema.shard_of(vocabulary, present, shards)
        self._open = schema.is_open(vocabulary)
        self.claim = self._claim()
        self.planned_events = self._events(sql.SQL("p.event_id IS NOT NULL"), limited=False)
        waiting = sql.SQL("p.event_id IS NULL AND ({0} IS NULL OR {0} <= now())")
        self.waiting_events = self._events(
            waiting.format(self._column("available_at")), limited=True
        )
        self.next_due = self._next_due()
        self.lock = self._lock()
        self.payloads = self._payloads()
        self.mark = self._mark()

    def _claim(self) -> sql.Composed:
        """Shards with work that nobody else holds, those served longest ago first.

        What this relay held when it was killed is its own again at once.
        """
        due = sql.SQL(
            "SELECT DISTINCT {shard} AS shard FROM {outbox} o "
            "WHERE {open} AND ({available} IS NULL OR {available} <= now())"
        ).format(
            shard=self._shard,
            outbox=self._names.outbox,
            open=self._open,
            available=self._column("available_at"),
        )
        return sql.SQL(
            "WITH due AS ({due}), free AS (SELECT shard FROM {shards} "
            "WHERE (lease_until <= now() OR relay_id = %(relay)s) "
            "AND shard IN (SELECT shard FROM due) ORDER BY lease_until, shard "
            "LIMIT %(limit)s FOR UPDATE SKIP LOCKED) "
            "UPDATE {shards} s SET token = %(token)s, relay_id = %(relay)s, "
            "lease_until = now() + make_interval(secs => %(lease)s) "
            "FROM free WHERE s.shard = free.shard RETURNING s.shard"
        ).format(due=due, shards=self._names.shards)

    def _events(self, condition: sql.Composable, *, limited: bool) -> sql.Composed:
        """Open events of the claimed shards in their order, without payloads."""
        return sql.SQL(
            "SELECT o.{id}::text AS event_id, {type} AS event_type, {partition} AS partition_key, "
            "{key} AS ordering_key, {destination} AS destination, {size} AS size, "
            "{attempts} AS attempts, {status} AS status, "
            "coalesce(extract(epoch FROM {available}), 0)::float8 AS available_at, "
            "ARRAY[{order}] AS rank, p.address, p.producer_id, p.epoch, p.seq, p.position, p.cut, "
            "coalesce(p.ambiguous, false) AS ambiguous "
            "FROM {outbox} o LEFT JOIN {plan} p ON p.event_id = o.{id}::text "
            "WHERE {open} AND {shard} = ANY(%(shards)s) AND {condition} ORDER BY {order} {limit}"
        ).format(
            condition=condition,
            limit=sql.SQL("LIMIT %(limit)s" if limited else ""),
            id=self._id,
            type=self._text("event_type"),
            partition=self._text("partition_key"),
            key=schema.key_of(self._vocabulary, self._present),
            destination=self._text("destination"),
            size=sql.SQL("octet_length({})").format(self._payload()),
            attempts=self._column("attempts"),
            status=self._column("status"),
            available=self._column("available_at"),
            order=sql.SQL(", ").join(self._order()),
            outbox=self._names.outbox,
            plan=self._names.plan,
            open=self._open,
            shard=self._shard,
        )

    def _next_due(self) -> sql.Composed:
        """When the next planned event outside the claimed shards may be tried again."""
        return sql.SQL(
            "SELECT extract(epoch FROM min({available}))::float8 FROM {plan} p "
            "JOIN {outbox} o ON o.{id} = p.event_id::{kind} "
            "WHERE {open} AND NOT p.shard = ANY(%s) AND p.producer_id IS NOT NULL"
        ).format(
            available=self._column("available_at"),
            plan=self._names.plan,
            outbox=self._names.outbox,
            id=self._id,
            kind=sql.SQL(self._present[self._vocabulary.columns.event_id]),
            open=self._open,
        )

    def _lock(self) -> sql.Composed:
        return sql.SQL(
            "UPDATE {} o SET {} = %s, {} = %s, {} = now() WHERE o.{} = ANY(%s::{})"
        ).format(
            self._names.outbox,
            self._name("status"),
            self._name("locked_by"),
            self._name("locked_at"),
            self._id,
            self._ids(),
        )

    def _payloads(self) -> sql.Composed:
        return sql.SQL(
            "SELECT o.{id}::text AS event_id, {type} AS event_type, {payload} AS payload, "
            "{headers} AS headers, {partition} AS partition_key, {key} AS ordering_key, "
            "{destination} AS destination, {created} AS created_at FROM {outbox} o "
            "WHERE o.{id} = ANY(%s::{ids})"
        ).format(
            id=self._id,
            type=self._text("event_type"),
            payload=self._payload(),
            headers=self._text("headers"),
            partition=self._text("partition_key"),
            key=schema.key_of(self._vocabulary, self._present),
            destination=self._text("destination"),
            created=self._created(),
            outbox=self._names.outbox,
            ids=self._ids(),
        )

    def _mark(self) -> sql.Composed:
        """New states by event; what was not an attempt leaves the last error as it is."""
        return sql.SQL(
            "UPDATE {outbox} o SET {status} = m.status, {attempts} = m.attempts, "
            "{error} = CASE WHEN m.recorded THEN m.error ELSE o.{error} END, "
            "{available} = CASE WHEN m.available_at > 0 THEN to_timestamp(m.available_at) "
            "ELSE o.{available} END, {locked_by} = NULL, {locked_at} = NULL, "
            "{delivered} = CASE WHEN m.delivered THEN now() ELSE o.{delivered} END "
            "FROM unnest(%s::{ids}, %s::text[], %s::int[], %s::text[], %s::bool[], %s::float8[], "
            "%s::bool[]) AS m(event_id, status, attempts, error, recorded, available_at, delivered)"
            " WHERE o.{id} = m.event_id"
        ).format(
            outbox=self._names.outbox,
            status=self._name("status"),
            attempts=self._name("attempts"),
            error=self._name("last_error"),
            available=self._name("available_at"),
            locked_by=self._name("locked_by"),
            locked_at=self._name("locked_at"),
            delivered=self._name("delivered_at"),
            id=self._id,
            ids=self._ids(),
        )

    # -- parts ----------------------------------------------------------------------------------

    @property
    def _id(self) -> sql.Identifier:
        return self._name("event_id")

    def _name(self, role: str) -> sql.Identifier:
        return sql.Identifier(getattr(self._vocabulary.columns, role))

    def _column(self, role: str) -> sql.Identifier:
        return sql.Identifier("o", getattr(self._vocabulary.columns, role))

    def _ids(self) -> sql.SQL:
        # The type's name comes from the catalog, not from a user.
        return sql.SQL(self._present[self._vocabulary.columns.event_id] + "[]")

    def _text(self, role: str) -> sql.Composable:
        if getattr(self._vocabulary.columns, role) not in self._present:
            return sql.SQL("NULL::text")
        return sql.SQL("{}::text").format(self._column(role))

    def _payload(self) -> sql.Composable:
        if self._present[self._vocabulary.columns.payload] == "bytea":
            return self._column("payload")
        return sql.SQL("convert_to({}::text, 'UTF8')").format(self._column("payload"))

    def _created(self) -> sql.Composable:
        if self._vocabulary.columns.created_at not in self._present:
            return sql.SQL("NULL::timestamptz")
        return sql.SQL("{}::timestamptz").format(self._column("created_at"))

    def _order(self) -> list[sql.Composable]:
        """As text that sorts alike in the database and here."""
        parts: list[sql.Composable] = []
        for role in ("sequence", "created_at"):
            kind = self._present.get(getattr(self._vocabulary.columns, role))
            if kind is not None:
                parts.append(_sortable(self._column(role), kind))
        parts.append(sql.SQL('o.{}::text COLLATE "C"').format(self._id))
        return parts


def _sortable(column: sql.Identifier, kind: str) -> sql.Composed:
    if kind.startswith("timestamp"):
        pattern = sql.Literal("YYYY-MM-DD HH24:MI:SS.US")
        text = sql.SQL("to_char({}::timestamptz AT TIME ZONE 'UTC', {})").format(column, pattern)
    elif kind in ("smallint", "integer", "bigint", "numeric"):
        text = sql.SQL("lpad({}::numeric(38,0)::text, 40, '0')").format(column)
    else:
        text = sql.SQL("{}::text").format(column)
    return sql.SQL("coalesce({}, '') COLLATE \"C\"").format(text)
