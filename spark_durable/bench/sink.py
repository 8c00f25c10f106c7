"""The sink beside its floors: a writer that drops its input, and one that only encodes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)

from spark_durable.bench.harness import Report, rate, ratio, take_turns
from spark_durable.codec.encode import EncodeOptions, JsonEncoder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spark_durable.bench.parties import Parties
    from spark_durable.bench.rows import RowShape


class FloorWriter(DataSourceArrowWriter):
    """Takes batches and sends nothing. With an encoder it makes the messages, and drops those."""

    def __init__(self, encoder: JsonEncoder | None) -> None:
        self._encoder = encoder

    def write(  # type: ignore[override]  # an Arrow writer is given batches
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        for batch in iterator:
            if self._encoder is not None:
                self._encoder.encode(batch)
        return WriterCommitMessage()


class FloorSink(DataSource):
    """``format("floor")``: what no sink in Python can be faster than."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        encodes = self.options.get("encode") == "true"
        return FloorWriter(JsonEncoder(schema, EncodeOptions()) if encodes else None)


def measure_floor(
    parties: Parties, shape: RowShape, rows: int, rounds: int, report: Report
) -> None:
    """Rows per second of each ``rowOrder``, of dropping and of encoding, from a cached frame."""
    parties.spark.dataSource.register(FloorSink)
    frame = shape.frame(parties.spark, rows, 2).cache()
    frame.count()

    def floor(encode: str) -> Callable[[], float]:
        writer = frame.write.format("floor").option("encode", encode).mode("append")
        return lambda: rate(lambda: writer.save(), rows)

    def sink(order: str) -> Callable[[], float]:
        writer = frame.write.format("durablestream").option("rowOrder", order).mode("append")
        return lambda: rate(lambda: writer.save(parties.fresh_stream()), rows)

    rates = take_turns(
        {
            "floor_dropped": floor("false"),
            "floor_encoded": floor("true"),
            "floor_keep": sink("keep"),
            "floor_trust": sink("trust"),
            "floor_sort": sink("sort"),
        },
        rounds,
    )
    frame.unpersist()
    report.rates.update(rates)
    dropped, encoded = rates["floor_dropped"], rates["floor_encoded"]
    detail = f"dropping {dropped.median / 1000:,.0f} k rows/s"
    report.add(ratio("sink_vs_floor", rates["floor_keep"], dropped, detail=detail))
    report.add(ratio("sink_trust_vs_floor", rates["floor_trust"], dropped, detail=detail))
    report.add(ratio("sink_sort_vs_floor", rates["floor_sort"], dropped, detail=detail))
    detail = f"encoding {encoded.median / 1000:,.0f} k rows/s"
    report.add(ratio("sink_vs_encoder", rates["floor_keep"], encoded, detail=detail))
