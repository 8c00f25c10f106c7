"""What people write without a connector: an append per row, and a stream read message by message.

The rows go out of ``foreachPartition``, once through requests and once through the official Python
client, which also does the reading. The client is a peer of the benchmark only: where it is not
installed, its figures are left out, and that is told.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from spark_durable.bench.harness import Report, rate, ratio, take_turns
from spark_durable.bench.parties import Parties
from spark_durable.bench.rows import RowShape
from spark_durable.protocol.headers import CONTENT_TYPE_JSON

if TYPE_CHECKING:
    from pyspark.sql import Row


def measure_loop(parties: Parties, shape: RowShape, rows: int, rounds: int, report: Report) -> None:
    """Rows per second of sink and source beside such loops. Appending row by row is slow, and gets
    fewer rows."""
    few = max(200, rows // 1000)
    filled = parties.fresh_stream()

    def sink() -> float:
        writer = shape.frame(parties.spark, rows, 2).write.format("durablestream")
        return rate(lambda: writer.mode("append").save(parties.fresh_stream()), rows)

    def source() -> float:
        reader = parties.spark.read.format("durablestream").schema(shape.schema)
        read = reader.load(filled).write.format("noop").mode("overwrite")
        return rate(read.save, rows)

    def looped(append: Callable[[str], Callable[[Iterable[Row]], None]]) -> float:
        texts = shape.frame(parties.spark, few, 2).selectExpr("to_json(struct(*)) AS value")
        return rate(lambda: texts.foreachPartition(append(parties.fresh_stream())), few)

    cases = {"loop": lambda: looped(post_rows), "loop_sink": sink}
    if importlib.util.find_spec("durable_streams") is None:
        print("left out: the official client (pip install durable-streams)", file=sys.stderr)
    else:
        write = shape.frame(parties.spark, rows, 2).write.format("durablestream")
        write.mode("append").save(filled)
        cases |= {
            "client": lambda: looped(append_rows),
            "client_read": lambda: rate(lambda: read_all(filled, rows), rows),
            "client_source": source,
        }
    rates = take_turns(cases, rounds)
    report.rates.update(rates)
    for figure, ours, theirs in (
        ("sink_vs_loop", "loop_sink", "loop"),
        ("sink_vs_client", "loop_sink", "client"),
        ("source_typed_vs_client", "client_source", "client_read"),
    ):
        if theirs in rates:
            detail = f"{theirs} {rates[theirs].median:,.0f} rows/s"
            report.add(ratio(figure, rates[ours], rates[theirs], detail=detail))


class post_rows:  # noqa: N801 - used as a function; a class because Spark pickles it
    """Posts each row by itself over one kept connection."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, rows: Iterable[Row]) -> None:
        import requests

        headers = {"Content-Type": CONTENT_TYPE_JSON}
        with requests.Session() as session:
            session.put(self._url, headers=headers, timeout=10)
            for row in rows:
                session.post(
                    self._url, data=row.value.encode(), headers=headers, timeout=10
                ).raise_for_status()


class append_rows:  # noqa: N801 - as above
    """Appends each row by itself through the official client, which waits for each answer."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, rows: Iterable[Row]) -> None:
        from durable_streams import DurableStream

        with DurableStream.create(self._url, content_type=CONTENT_TYPE_JSON) as stream:
            for row in rows:
                stream.append(json.loads(row.value))


def read_all(url: str, expected: int) -> None:
    """Reads a stream to its end through the official client, message by message."""
    from durable_streams import stream

    with stream(url, live=False) as messages:
        found = sum(1 for _ in messages.iter_json())
    if found != expected:
        raise AssertionError(f"{found} messages of {expected}")
