"""A stream folded into a snapshot, while appends go on.

    spark-submit jobs/compact_stream.py --url http://127.0.0.1:4437/ds/shop/orders \\
        --schema "id LONG, amount DOUBLE" --key id

The fold covers everything before the tail seen at the start: the previous snapshot, if there is
one, and the updates after it. Updates that arrive meanwhile stay updates. Publishing replaces the
previous snapshot at once, and readers who are further behind are sent to the new one, so a message
that does not fit the schema is an error and fields outside of it are gone. A run that is cut off or
stopped has published nothing.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from spark_durable import job
from spark_durable.options import SourceOptions, read_options
from spark_durable.protocol import DurableClient, RetryPolicy
from spark_durable.protocol.errors import OptionError
from spark_durable.source.discover import place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Columns that say where a row came from; they order the fold and stay out of the snapshot.
POSITION = ("_stream", "_offset", "_kind")
MESSAGES = "messages"


def arguments() -> argparse.ArgumentParser:
    parser = job.parser("Fold a Durable Stream into a snapshot, while appends go on.")
    parser.add_argument("--url", required=True, help="the stream")
    parser.add_argument("--schema", required=True, help="DDL of its messages: what is kept of them")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--key", help="columns, separated by commas: the latest message per key stays")
    how.add_argument(
        "--sql",
        help=f"a query over the view `{MESSAGES}` that gives the snapshot; it sees the previous "
        "snapshot's rows like messages, with `snapshot` in the column _kind",
    )
    parser.add_argument(
        "--deleted",
        metavar="CONDITION",
        help="with --key: drop keys whose latest message fulfils this SQL condition",
    )
    return parser


def compact_stream(arguments: argparse.Namespace, stop: job.Stop) -> None:
    if arguments.deleted and not arguments.key:
        raise OptionError("--deleted goes with --key.")
    # What the parser cannot make sense of would otherwise be lost for good.
    given = {"mode": "FAILFAST", **job.options(arguments), "startingOffsets": "snapshot"}
    options = read_options(SourceOptions, {"url": arguments.url, **given})
    [name] = place(options).names or ()
    job.reach(options, exists=True)
    retry = RetryPolicy(deadline_s=options.retry_timeout)
    with DurableClient(options.client_settings()) as client:
        head = retry.run(lambda: client.head(arguments.url), resend_unknown=True)
        if head.snapshot_offset == head.tail:
            print(f"nothing to fold: the snapshot at {head.tail} is up to date")
            return
        spark = job.session("compact_stream")
        stop.on_request(spark.sparkContext.cancelAllJobs)
        messages = (
            spark.read.format("durablestream")
            .options(**given)
            .option("endingOffsets", json.dumps({name: head.tail}))
            .schema(", ".join([arguments.schema, *(f"{column} STRING" for column in POSITION)]))
            .load(arguments.url)
        )
        try:
            body, rows = as_array(fold(messages, arguments))
        except Exception:
            if not stop.requested:
                raise
        if stop.requested:
            print("stopped: nothing was published")
            return
        # The same body at the same offset is one snapshot, however often it is sent.
        retry.run(
            lambda: client.publish_snapshot(
                arguments.url, head.tail, body, content_type="application/json"
            ),
            resend_unknown=True,
        )
    print(f"{rows} rows, {len(body)} bytes, published as the snapshot at {head.tail}")


def fold(messages: DataFrame, arguments: argparse.Namespace) -> DataFrame:
    """What the stream amounts to: the user's query, or the latest message per key."""
    if arguments.sql:
        messages.createOrReplaceTempView(MESSAGES)
        return messages.sparkSession.sql(arguments.sql).drop(*POSITION)
    return latest(messages, [name.strip() for name in arguments.key.split(",")], arguments.deleted)


def latest(messages: DataFrame, keys: list[str], deleted: str | None) -> DataFrame:
    """The last message of each key. A message without a key would vanish: it is an error."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    for key in keys:
        missing = sf.raise_error(
            sf.concat(sf.lit(f"a message without {key} cannot be folded; it is at "), "_offset")
        )
        messages = messages.withColumn(key, sf.coalesce(key, missing))
    # "snapshot" sorts before "update" and offsets sort as text. Where messages share an offset,
    # what is left is the order they were read in.
    ordered = messages.withColumn("_read", sf.monotonically_increasing_id())
    newest = Window.partitionBy(*keys).orderBy(*map(sf.desc, ("_kind", "_offset", "_read")))
    found = ordered.withColumn("_rank", sf.row_number().over(newest)).where("_rank = 1")
    if deleted:
        found = found.where(f"NOT coalesce({deleted}, false)")
    return found.drop("_rank", "_read", *POSITION)


def as_array(rows: DataFrame) -> tuple[bytearray, int]:
    """The rows as one JSON array, and how many there are."""
    from pyspark.sql import functions as sf

    body, count = bytearray(b"["), 0
    for (text,) in rows.select(sf.to_json(sf.struct("*"))).toLocalIterator(prefetchPartitions=True):
        body += (b",\n" if count else b"") + text.encode()
        count += 1
    body += b"]"
    return body, count


if __name__ == "__main__":
    raise SystemExit(job.run(compact_stream, arguments()))
