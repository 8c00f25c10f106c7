"""Spark takes the batches as they come from a Python data source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

COLUMNS = (
    "a tinyint, b smallint, c int, d bigint, e float, f double, g decimal(10,3), h boolean,"
    " i string, j binary, k date, l timestamp, m timestamp_ntz, n interval day to second,"
    " o array<struct<x:int,y:array<string>>>, p map<string,array<double>>,"
    " q struct<r:struct<s:decimal(38,18),t:timestamp>>, _corrupt_record string"
)
MESSAGES = [
    b'{"a":1,"b":2,"c":3,"d":4,"e":1.5,"f":-2.5,"g":1.25,"h":true,"i":"x","j":"QUJD",'
    b'"k":"2024-01-02","l":"2024-01-02T03:04:05.678Z","m":"2024-01-02T03:04:05.678",'
    b'"n":"1 02:03:04.5","o":[{"x":1,"y":["a",null]},null],"p":{"k":[1.5,null]},'
    b'"q":{"r":{"s":1.5,"t":"2024-01-02T03:04:05+01:00"}}}',
    b"{}",
    b'{"a":"wrong","c":7}',
    b'{"i":"\xff"}',
    b"nope \xff",
    b"",
]


def test_batches_reach_spark(
    spark: SparkSession,
    from_json: Callable[..., list[Any]],
    plain_rows: Callable[..., list[Any]],
) -> None:
    # Defined here so that Spark's workers get them by value.
    from pyspark.sql.datasource import DataSource, DataSourceReader

    messages = MESSAGES

    class Reader(DataSourceReader):
        def __init__(self, schema: Any) -> None:
            from spark_durable.codec.decode import DecodeOptions, JsonDecoder

            self.decoder = JsonDecoder(schema, DecodeOptions())

        def read(self, partition: Any) -> Any:
            import pyarrow as pa

            for _ in range(2):
                yield self.decoder.decode(pa.array(messages, pa.large_binary())).batch

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "decoded_messages"

        def reader(self, schema: Any) -> Reader:
            return Reader(schema)

    spark.dataSource.register(Source)
    schema = spark.createDataFrame([], COLUMNS).schema
    table = spark.read.format("decoded_messages").schema(schema).load().toArrow()
    got = plain_rows(table.combine_chunks().to_batches()[0])
    assert got == from_json(schema, MESSAGES) * 2
