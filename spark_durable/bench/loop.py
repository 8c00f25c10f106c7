"""What people write without a connector: a request per row, from ``foreachPartition``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from spark_durable.bench.harness import Report, rate, ratio, take_turns
from spark_durable.bench.parties import Parties
from spark_durable.bench.rows import RowShape

if TYPE_CHECKING:
    from pyspark.sql import Row


def measure_loop(parties: Parties, shape: RowShape, rows: int, rounds: int, report: Report) -> None:
    """Rows per second of the sink beside such a loop. The loop gets fewer rows: it is slow."""
    few = max(200, rows // 1000)

    def sink() -> float:
        writer = shape.frame(parties.spark, rows, 2).write.format("durablestream")
        return rate(lambda: writer.mode("append").save(parties.fresh_stream()), rows)

    def loop() -> float:
        url = parties.fresh_stream()
        texts = shape.frame(parties.spark, few, 2).selectExpr("to_json(struct(*)) AS value")
        return rate(lambda: texts.foreachPartition(post_rows(url)), few)

    rates = take_turns({"loop": loop, "loop_sink": sink}, rounds)
    report.rates.update(rates)
    detail = f"loop {rates['loop'].median:,.0f} rows/s"
    report.add(ratio("sink_vs_loop", rates["loop_sink"], rates["loop"], detail=detail))


class post_rows:  # noqa: N801 - used as a function; a class because Spark pickles it
    """Posts each row by itself over one kept connection."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, rows: Iterable[Row]) -> None:
        import requests

        headers = {"Content-Type": "application/json"}
        with requests.Session() as session:
            session.put(self._url, headers=headers, timeout=10)
            for row in rows:
                session.post(
                    self._url, data=row.value.encode(), headers=headers, timeout=10
                ).raise_for_status()
