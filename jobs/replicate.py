"""Streams from one server to another, exactly once, byte for byte.

    spark-submit jobs/replicate.py --from http://a:4437/ds/shop/orders \\
        --to http://b:4437/ds/shop/orders --checkpoint /data/replicate-orders

    spark-submit jobs/replicate.py --from http://a:4437/ds/shop --to http://b:4437/ds/shop \\
        --stream-pattern "session-.*" --checkpoint /data/replicate-sessions --follow

Messages keep their bytes and their order per stream, streams keep their names. The source plans the
same ranges for the same batch and the sink repeats the same producer triples, so a run that was cut
off adds nothing twice. Snapshots, closure and lifetimes are not copied, and a bucket at the target
must exist.
"""

from __future__ import annotations

import argparse
import os

from spark_durable import job
from spark_durable.options import SinkOptions, SourceOptions, read_options
from spark_durable.protocol import DurableClient

TARGET_TOKEN_VARIABLE = "SPARK_DURABLE_TARGET_TOKEN"  # noqa: S105 - a name, not a token


def arguments() -> argparse.ArgumentParser:
    parser = job.parser("Replicate Durable Streams from one server to another, exactly once.")
    job.add_source(parser, "--from", "source", "earliest")
    parser.add_argument(
        "--to", dest="target", required=True, help="a stream, or a base under which names are kept"
    )
    parser.add_argument(
        "--content-type",
        help="of the streams (default: that of the stream; application/json for several)",
    )
    parser.add_argument(
        "--target-token",
        help="bearer token of the target, which never gets that of the source; better in the "
        f"environment: {TARGET_TOKEN_VARIABLE}",
    )
    parser.add_argument(
        "--target-option",
        action="append",
        default=[],
        type=job.pair,
        metavar="NAME=VALUE",
        help="a further option of the sink; may be repeated",
    )
    parser.add_argument("--checkpoint", required=True, help="directory of the query's checkpoint")
    job.add_follow(parser, "0s")
    return parser


def replicate(arguments: argparse.Namespace, stop: job.Stop) -> None:
    # A stream that several tasks wrote at once would come out in another order.
    source = {
        "maxBytesPerTrigger": "256m",
        **job.source_options(arguments),
        "splitStreams": "false",
    }
    if "maxRecordsPerTrigger" in source:
        del source["maxBytesPerTrigger"]
    reading = read_options(SourceOptions, {"url": arguments.source, **source})
    several = bool(reading.streams or reading.stream_pattern)
    sink = target_options(arguments, several)
    writing = read_options(SinkOptions, {"url": arguments.target, **sink})
    job.reach(reading, exists=not several)
    job.reach(writing)
    content_type = arguments.content_type
    if content_type is None and not several:
        with DurableClient(reading.client_settings()) as client:
            content_type = client.head(arguments.source).content_type
    content_type = content_type or "application/json"
    spark = job.session("replicate")
    messages = (
        spark.readStream.format("durablestream")
        .options(**source)
        .load(arguments.source)
        .where("kind = 'update'")
        .where(same_type(content_type))
    )
    writer = (
        messages.select("value", *(["stream"] if several else []))
        .writeStream.format("durablestream")
        .options(**sink)
        .option("contentType", content_type)
        .option("checkpointLocation", arguments.checkpoint)
        .outputMode("append")
    )
    stop.await_query(job.triggered(writer, arguments).start(arguments.target))


def target_options(arguments: argparse.Namespace, several: bool) -> dict[str, str]:
    found = dict(arguments.target_option)
    token = arguments.target_token or os.environ.get(TARGET_TOKEN_VARIABLE)
    if token:
        found["token"] = token
    if several:
        found["streamColumn"] = "stream"
    return found


def same_type(content_type: str) -> str:
    """A condition that fails the query where a stream has another type: under a wrong one its
    bytes would be cut into other messages."""
    wanted = content_type.partition(";")[0].strip().lower().replace("'", "")
    return (
        f"if(lower(trim(split_part(content_type, ';', 1))) = '{wanted}', true, "
        "raise_error(concat('stream ', stream, ' is ', content_type, ': replicate it in a run of "
        "its own, with --content-type')))"
    )


if __name__ == "__main__":
    raise SystemExit(job.run(replicate, arguments()))
