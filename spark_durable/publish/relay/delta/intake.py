"""Taking new events into the working set: normalised, checked, each id once."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, BinaryType, MapType, NumericType, StructType

from spark_durable.protocol.errors import RelayError
from spark_durable.publish.relay.delta.tables import EVENT_DDL, STATE_COLUMNS, STATE_DDL
from spark_durable.publish.relay.vocabulary import Columns, Vocabulary

EVENT_COLUMNS = tuple(part.split()[0] for part in EVENT_DDL.split(", "))
_STATE_TYPES = {part.split()[0]: part.split()[1] for part in STATE_DDL.split(", ")}


def normalised(raw: DataFrame, vocabulary: Vocabulary, intake: Column) -> DataFrame:
    """Rows of any outbox shape as events of the working set. Rows already final are left out.

    A row without an id, without a payload or with a status nobody knows keeps its place with a
    ``problem``, under an id made from its content, so that it ends as a dead letter.
    """
    columns = vocabulary.columns
    _check_columns(raw, columns)
    event_id = sf.col(columns.event_id).cast("string")
    payload = _payload(raw, columns)
    text = {name: _optional(raw, columns, name).cast("string") for name in _TEXT}
    created = _optional(raw, columns, "created_at").cast("timestamp")
    headers = _headers(raw, columns)
    status = _optional(raw, columns, "status").cast("string")
    available = _optional(raw, columns, "available_at").cast("timestamp")
    key = sf.coalesce(text["ordering_key"], text["partition_key"])
    content = sf.sha2(
        sf.concat_ws(
            "\x1f",
            sf.coalesce(sf.base64(payload), sf.lit("∅")),
            *(sf.coalesce(text[name], sf.lit("∅")) for name in _TEXT),
        ),
        256,
    )
    problem = sf.coalesce(
        sf.when(event_id.isNull() | (event_id == ""), sf.lit("event_id is missing")),
        sf.when(payload.isNull(), sf.lit("payload is null")),
        sf.when(
            status.isNotNull() & ~status.isin(*vocabulary.words),
            sf.concat(sf.lit("unknown status "), status),
        ),
    )
    named = sf.when(
        event_id.isNull() | (event_id == ""),
        sf.concat(sf.lit("row:"), content, sf.lit(":"), sf.uuid()),
    ).otherwise(event_id)
    final = status.isin(vocabulary.delivered, vocabulary.dead)
    return raw.where(status.isNull() | ~final).select(
        named.alias("event_id"),
        text["event_type"].alias("event_type"),
        payload.alias("payload"),
        headers.alias("headers"),
        text["partition_key"].alias("partition_key"),
        key.alias("ordering_key"),
        text["destination"].alias("destination"),
        created.alias("created_at"),
        intake.cast("bigint").alias("intake"),
        _sequence(raw, columns).alias("sequence"),
        created.cast("double").alias("created_rank"),
        sf.coalesce(sf.length(payload), sf.lit(0)).cast("bigint").alias("size"),
        content.alias("fingerprint"),
        sf.coalesce(available.cast("double"), sf.lit(0.0)).alias("available_at"),
        problem.alias("problem"),
    )


_TEXT = ("event_type", "partition_key", "ordering_key", "destination")


def each_once(events: DataFrame, seen: DataFrame | None) -> DataFrame:
    """One row for each id. The same row again is dropped; another row under a used id is refused.

    ``seen`` holds ids and fingerprints of events that are open or were handled not long ago.
    """
    by_id = Window.partitionBy("event_id").orderBy(*ORDER)
    ranked = events.withColumn("_rank", sf.row_number().over(by_id)).withColumn(
        "_first", sf.first("fingerprint").over(by_id)
    )
    if seen is not None:
        known = seen.groupBy("event_id").agg(sf.first("fingerprint").alias("_known"))
        ranked = ranked.join(known, "event_id", "left")
    else:
        ranked = ranked.withColumn("_known", sf.lit(None).cast("string"))
    fresh = (sf.col("_rank") == 1) & sf.col("_known").isNull()
    original = sf.coalesce("_known", "_first")
    repeated = ~fresh & (original == sf.col("fingerprint"))
    refused = ~fresh
    return (
        ranked.where(~repeated)
        .withColumn(
            "problem",
            sf.when(
                refused,
                sf.concat(
                    sf.lit("another event with event_id "),
                    sf.col("event_id"),
                    sf.lit(" and other content came before it"),
                ),
            ).otherwise(sf.col("problem")),
        )
        .withColumn(
            "event_id",
            sf.when(
                refused,
                sf.concat("event_id", sf.lit("#"), sf.substring("fingerprint", 1, 12)),
            ).otherwise(sf.col("event_id")),
        )
        .drop("_rank", "_first", "_known")
        .dropDuplicates(["event_id"])
    )


# The order of events within a key: as committed, then as the producers numbered or dated them.
ORDER = ("intake", "sequence", "created_rank", "event_id")


def as_open(events: DataFrame, chunk: Column) -> DataFrame:
    """Adds the state of an event nobody has touched."""
    defaults = {"attempts": sf.lit(0), "ambiguous": sf.lit(False), "status": sf.lit("PENDING")}
    given = ("available_at", "problem")
    state = [
        sf.col(name)
        if name in given
        else defaults.get(name, sf.lit(None)).cast(_STATE_TYPES[name]).alias(name)
        for name in STATE_COLUMNS
    ]
    return events.select(*EVENT_COLUMNS, *state, chunk.cast("bigint").alias("chunk"))


def _check_columns(raw: DataFrame, columns: Columns) -> None:
    for name in (columns.event_id, columns.payload):
        if name not in raw.columns:
            raise RelayError(
                f"the events table has no column {name!r}; it has {', '.join(raw.columns)}. Choose "
                "the vocabulary, or name the column with --column"
            )


def _optional(raw: DataFrame, columns: Columns, name: str) -> Column:
    column = getattr(columns, name)
    return sf.col(column) if column and column in raw.columns else sf.lit(None)


def _payload(raw: DataFrame, columns: Columns) -> Column:
    """Bytes as they are; text as UTF-8; anything nested as the JSON that Spark makes of it."""
    kind = raw.schema[columns.payload].dataType
    column = sf.col(columns.payload)
    if isinstance(kind, BinaryType):
        return column
    if isinstance(kind, (StructType, MapType, ArrayType)):
        return sf.to_json(column, {"ignoreNullFields": "false"}).cast("binary")
    return column.cast("string").cast("binary")


def _headers(raw: DataFrame, columns: Columns) -> Column:
    if not columns.headers or columns.headers not in raw.columns:
        return sf.lit(None).cast("map<string,string>")
    kind = raw.schema[columns.headers].dataType
    if isinstance(kind, MapType):
        return sf.col(columns.headers).cast("map<string,string>")
    return sf.from_json(sf.col(columns.headers).cast("string"), "map<string,string>")


def _sequence(raw: DataFrame, columns: Columns) -> Column:
    """As text that sorts like the column: numbers padded, everything else as it is."""
    if not columns.sequence:
        return sf.lit("").cast("string")
    if columns.sequence not in raw.columns:
        raise RelayError(f"the events table has no column {columns.sequence!r} to order by")
    column = sf.col(columns.sequence)
    if isinstance(raw.schema[columns.sequence].dataType, NumericType):
        return sf.lpad(column.cast("decimal(38,0)").cast("string"), 40, "0")
    return column.cast("string")
