"""The statements of the PostgreSQL store, made once for a table and its vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection, sql

from spark_durable.protocol.errors import RelayError
from spark_durable.publish.relay.vocabulary import Vocabulary

# Columns the relay writes, with the type they get where the table lacks them.
STATE_TYPES = {
    "status": "text NOT NULL DEFAULT {pending}",
    "attempts": "integer NOT NULL DEFAULT 0",
    "last_error": "text",
    "available_at": "timestamptz",
    "locked_by": "text",
    "locked_at": "timestamptz",
    "delivered_at": "timestamptz",
}


@dataclass(frozen=True, slots=True)
class Names:
    """The outbox table and the relay's own tables beside it, in the same schema."""

    table: str

    def _identifier(self, suffix: str = "") -> sql.Identifier:
        *schema, name = self.table.split(".")
        return sql.Identifier(*schema, f"{name}{suffix}")

    @property
    def outbox(self) -> sql.Identifier:
        return self._identifier()

    @property
    def plan(self) -> sql.Identifier:
        return self._identifier("_relay_plan")

    @property
    def shards(self) -> sql.Identifier:
        return self._identifier("_relay_shards")

    @property
    def runs(self) -> sql.Identifier:
        return self._identifier("_relay_runs")

    @property
    def open_index(self) -> sql.Identifier:
        return sql.Identifier(f"{self.table.split('.')[-1]}_relay_open")


def create_relay_tables(connection: Connection, names: Names, shards: int) -> None:
    """Creates what is missing of the relay's own tables. The number of shards is fixed by this."""
    execute = connection.execute
    execute(
        sql.SQL(
            "CREATE TABLE IF NOT EXISTS {} (event_id text PRIMARY KEY, shard integer NOT NULL, "
            "address text, producer_id text, epoch bigint, seq bigint, position integer, "
            "cut integer, ambiguous boolean NOT NULL DEFAULT false)"
        ).format(names.plan)
    )
    execute(
        sql.SQL(
            "CREATE TABLE IF NOT EXISTS {} (shard integer PRIMARY KEY, token text, relay_id text, "
            "lease_until timestamptz NOT NULL DEFAULT '-infinity')"
        ).format(names.shards)
    )
    execute(sql.SQL("CREATE SEQUENCE IF NOT EXISTS {}").format(names.runs))
    execute(
        sql.SQL(
            "INSERT INTO {0} (shard) SELECT generate_series(0, %s - 1) "
            "WHERE NOT EXISTS (SELECT FROM {0}) ON CONFLICT DO NOTHING"
        ).format(names.shards),
        (shards,),
    )


def add_state_columns(connection: Connection, names: Names, vocabulary: Vocabulary) -> list[str]:
    """Adds the relay's columns to the outbox table; returns the names of those that were missing.

    With a constant default PostgreSQL changes its catalog only: no row is rewritten.
    """
    present = columns_of(connection, names)
    added = []
    for role, kind in STATE_TYPES.items():
        column = getattr(vocabulary.columns, role)
        if column and column not in present:
            typed = sql.SQL(kind).format(pending=sql.Literal(vocabulary.pending))
            statement = sql.SQL("ALTER TABLE {} ADD COLUMN {} {}")
            connection.execute(statement.format(names.outbox, sql.Identifier(column), typed))
            added.append(column)
    connection.execute(
        sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} ({}) WHERE {}").format(
            names.open_index,
            names.outbox,
            sql.Identifier(vocabulary.columns.event_id),
            is_open(vocabulary),
        )
    )
    return added


def columns_of(connection: Connection, names: Names) -> dict[str, str]:
    """The outbox table's columns and their types."""
    rows = connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        (names.outbox.as_string(connection),),
    ).fetchall()
    if not rows:
        raise RelayError(f"there is no table {names.table}")
    return {str(name): str(kind) for name, kind in rows}


def check_table(connection: Connection, names: Names, vocabulary: Vocabulary) -> None:
    """Refuses a table on which an event could not be told from another, or not be marked."""
    present = columns_of(connection, names)
    columns = vocabulary.columns
    for column in (columns.event_id, columns.payload):
        if column not in present:
            raise RelayError(
                f"table {names.table} has no column {column!r}; it has {', '.join(present)}. "
                "Choose the vocabulary, or name the column with --column"
            )
    missing = [
        getattr(columns, role) for role in STATE_TYPES if getattr(columns, role) not in present
    ]
    if missing:
        raise RelayError(
            f"table {names.table} lacks the columns {', '.join(missing)} that the relay writes: "
            "run the init command once, which adds them"
        )
    unique = connection.execute(
        "SELECT count(*) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid "
        "AND a.attnum = i.indkey[0] WHERE i.indrelid = to_regclass(%s) AND i.indisunique "
        "AND i.indpred IS NULL AND i.indnkeyatts = 1 AND a.attname = %s AND a.attnotnull",
        (names.outbox.as_string(connection), columns.event_id),
    ).fetchone()
    if not unique or not unique[0]:
        raise RelayError(
            f"column {columns.event_id!r} of {names.table} must be NOT NULL and unique: two events "
            "with one id could not be told apart. Make it the primary key"
        )


def is_open(vocabulary: Vocabulary) -> sql.Composed:
    """Rows that are not final. An unknown status is open, so that it ends as a dead letter."""
    status = sql.Identifier(vocabulary.columns.status)
    return sql.SQL("({0} IS NULL OR {0} NOT IN ({1}, {2}))").format(
        status, sql.Literal(vocabulary.delivered), sql.Literal(vocabulary.dead)
    )


def key_of(vocabulary: Vocabulary, present: dict[str, str], alias: str = "o") -> sql.Composable:
    """The ordering key as text: the ordering key, else the partition key, else NULL."""
    columns = vocabulary.columns
    names = [columns.ordering_key, columns.partition_key]
    parts = [
        sql.SQL("{}::text").format(sql.Identifier(alias, name)) for name in names if name in present
    ]
    if not parts:
        return sql.SQL("NULL::text")
    return sql.SQL("coalesce({})").format(sql.SQL(", ").join(parts))


def shard_of(vocabulary: Vocabulary, present: dict[str, str], shards: int) -> sql.Composed:
    """The same number as ``policy.lane_number`` gives."""
    return sql.SQL(
        "mod(('x' || substr(md5(coalesce({key}, o.{id}::text)), 1, 8))::bit(32)::int "
        "& 2147483647, {shards})"
    ).format(
        key=key_of(vocabulary, present),
        id=sql.Identifier(vocabulary.columns.event_id),
        shards=sql.Literal(shards),
    )
