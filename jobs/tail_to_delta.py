"""Streams into a Delta table, exactly once.

    spark-submit --packages io.delta:delta-spark_4.2_2.13:4.4.0 jobs/tail_to_delta.py \\
        --url http://127.0.0.1:4437/ds/shop/orders --schema "id LONG, amount DOUBLE" \\
        --table /data/orders --checkpoint /data/orders-checkpoint

Stopped and started again with the same checkpoint it goes on where it was: Delta records each
micro-batch with its rows, and the source reads the same rows for the same batch.
"""

from __future__ import annotations

import argparse

from spark_durable import job
from spark_durable.options import SourceOptions, read_options


def arguments() -> argparse.ArgumentParser:
    parser = job.parser("Tail Durable Streams into a Delta table, exactly once.")
    job.add_source(parser, "--url", "url", "snapshot")
    parser.add_argument(
        "--schema",
        help="DDL of the messages, with _stream, _offset and _kind where wanted; without it the "
        "raw columns",
    )
    parser.add_argument("--table", required=True, help="path of the Delta table, or its name")
    parser.add_argument("--checkpoint", required=True, help="directory of the query's checkpoint")
    job.add_follow(parser, "1s")
    return parser


def tail_to_delta(arguments: argparse.Namespace, stop: job.Stop) -> None:
    source = job.source_options(arguments)
    checked = read_options(SourceOptions, {"url": arguments.url, **source})
    job.reach(checked, exists=not (checked.streams or checked.stream_pattern))
    spark = job.session("tail_to_delta", delta=True)
    reader = spark.readStream.format("durablestream").options(**source)
    if arguments.schema:
        reader = reader.schema(arguments.schema)
    writer = (
        reader.load(arguments.url)
        .writeStream.format("delta")
        .outputMode("append")
        .option("checkpointLocation", arguments.checkpoint)
    )
    writer = job.triggered(writer, arguments)
    is_path = "/" in arguments.table
    query = writer.start(arguments.table) if is_path else writer.toTable(arguments.table)
    stop.await_query(query)


if __name__ == "__main__":
    raise SystemExit(job.run(tail_to_delta, arguments()))
