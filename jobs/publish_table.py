"""A table into a stream, incrementally and exactly once.

    spark-submit jobs/publish_table.py --format parquet --path /data/orders \\
        --url http://127.0.0.1:4437/ds/shop/orders --checkpoint /data/publish-orders

Delta tables (with ``--packages io.delta:delta-spark_4.2_2.13:4.4.0``) and directories of Parquet,
JSON or CSV files are read as streams: each run publishes what was added since the last one. JDBC
tables are published by ranges of a growing column: a range is written down in the checkpoint
directory before it is sent, and repeated as it was if a run is cut off; rows that are committed
late, below what was published, are not seen. Rows go through ``repeatable``, because file splits
depend on the cluster's size: batches follow each other, the order inside one is not the table's.
"""

from __future__ import annotations

import argparse
import json
import uuid
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from spark_durable import job, repeatable
from spark_durable.options import SinkOptions, read_options
from spark_durable.protocol.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FILES = ("parquet", "json", "csv")


def arguments() -> argparse.ArgumentParser:
    parser = job.parser("Publish a table to a Durable Stream, incrementally and exactly once.")
    parser.add_argument("--format", choices=("delta", *FILES, "jdbc"), required=True)
    parser.add_argument("--path", required=True, help="the table's directory; for jdbc its name")
    parser.add_argument("--url", required=True, help="the stream")
    parser.add_argument("--checkpoint", required=True, help="directory that remembers progress")
    parser.add_argument(
        "--schema", help="DDL of the files; if left out it is inferred once, by the first run"
    )
    parser.add_argument("--jdbc-url", help="with --format jdbc: where the table is")
    parser.add_argument(
        "--growing-column", help="with --format jdbc: a whole-number column that only grows"
    )
    parser.add_argument(
        "--read-option",
        action="append",
        default=[],
        type=job.pair,
        metavar="NAME=VALUE",
        help="an option of the table's reader, such as header=true; may be repeated",
    )
    parser.add_argument(
        "--partitions", type=int, default=2, help="producers of one batch (default: 2)"
    )
    job.add_follow(parser, "10s")
    return parser


def publish_table(arguments: argparse.Namespace, stop: job.Stop) -> None:
    check(arguments)
    # Sorted, because the order after a shuffle is not repeatable.
    sink = {"rowOrder": "sort", **job.options(arguments)}
    job.reach(read_options(SinkOptions, {"url": arguments.url, **sink}))
    spark = job.session("publish_table", delta=arguments.format == "delta")
    if arguments.format == "jdbc":
        publish_ranges(spark, arguments, sink, stop)
        return
    reader = spark.readStream.format(arguments.format).options(**dict(arguments.read_option))
    if arguments.format in FILES:
        reader = reader.schema(arguments.schema or remembered_schema(spark, arguments))
    writer = (
        repeatable(reader.load(arguments.path), partitions=arguments.partitions)
        .writeStream.format("durablestream")
        .options(**sink)
        .option("checkpointLocation", arguments.checkpoint)
        .outputMode("append")
    )
    stop.await_query(job.triggered(writer, arguments).start(arguments.url))


def check(arguments: argparse.Namespace) -> None:
    of_jdbc = (arguments.jdbc_url, arguments.growing_column)
    if arguments.format == "jdbc" and not all(of_jdbc):
        raise OptionError("--format jdbc needs --jdbc-url and --growing-column.")
    if arguments.format != "jdbc" and any(of_jdbc):
        raise OptionError("--jdbc-url and --growing-column go with --format jdbc.")
    if arguments.schema and arguments.format not in FILES:
        raise OptionError(f"--schema is for {', '.join(FILES)}: the table has its own.")
    if arguments.partitions < 1:
        raise OptionError("--partitions must be at least 1.")


def remembered_schema(spark: SparkSession, arguments: argparse.Namespace) -> StructType:
    """The schema the first run inferred: files that come later must not change old messages."""
    from pyspark.sql.types import StructType

    file = job.StateFile(spark, arguments.checkpoint, "schema.json")
    known = file.read()
    if known is not None:
        return StructType.fromJson(json.loads(known))
    reader = spark.read.format(arguments.format).options(**dict(arguments.read_option))
    found = reader.load(arguments.path).schema
    file.write(found.json())
    return found


@dataclass(frozen=True, slots=True)
class Range:
    """One published range of the growing column: ``after`` is exclusive, ``up_to`` inclusive.

    ``app`` and ``version`` are the identity of its write, the same in every attempt.
    """

    app: str
    version: int
    after: int | None
    up_to: int
    done: bool


def publish_ranges(
    spark: SparkSession, arguments: argparse.Namespace, sink: dict[str, str], stop: job.Stop
) -> None:
    """Publishes what a JDBC table has gained, range by range. A stop waits for the range in hand,
    and one that is cut off is repeated as it was."""
    table = (
        spark.read.format("jdbc")
        .options(**dict(arguments.read_option))
        .option("url", arguments.jdbc_url)
        .option("dbtable", arguments.path)
        .load()
    )
    file = job.StateFile(spark, arguments.checkpoint, "range.json")
    while not stop.requested:
        text = file.read()
        last = None if text is None else Range(**json.loads(text))
        if last is not None and not last.done:
            send_range(table, arguments, sink, last)
            file.write(json.dumps(asdict(replace(last, done=True))))
            continue
        found = next_range(table, arguments.growing_column, last)
        if found is not None:
            file.write(json.dumps(asdict(found)))
        elif arguments.follow:
            stop.wait(arguments.interval)
        else:
            return


def next_range(table: DataFrame, column: str, last: Range | None) -> Range | None:
    """What the table has gained since ``last``; None if nothing."""
    newest: Any = table.selectExpr(f"max({column})").collect()[0][0]
    if newest is None:
        return None
    if last is None:
        return Range(f"publish_table/{uuid.uuid4()}", 0, None, int(newest), done=False)
    if int(newest) <= last.up_to:
        return None
    return Range(last.app, last.version + 1, last.up_to, int(newest), done=False)


def send_range(
    table: DataFrame, arguments: argparse.Namespace, sink: dict[str, str], found: Range
) -> None:
    column = arguments.growing_column
    rows = table.where(f"{column} <= {found.up_to}")
    if found.after is not None:
        rows = rows.where(f"{column} > {found.after}")
    (
        repeatable(rows, partitions=arguments.partitions)
        .write.format("durablestream")
        .options(**sink)
        .option("txnAppId", found.app)
        .option("txnVersion", found.version)
        .mode("append")
        .save(arguments.url)
    )


if __name__ == "__main__":
    raise SystemExit(job.run(publish_table, arguments()))
