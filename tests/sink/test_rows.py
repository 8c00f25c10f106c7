"""The way of Spark 4.0, whose streaming writers are given rows, run on this Spark."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from spark_durable.datasource import DurableStreamDataSource
from spark_durable.sink.rows import RowStreamWriter
from spark_durable.sink.writer import DurableStreamWriter, StreamingWrite
from tests.conftest import Server
from tests.sink.streams import messages


class RowWriter(StreamingWrite, RowStreamWriter):
    pass


class RowDataSource(DurableStreamDataSource):
    @classmethod
    def name(cls) -> str:
        return "by_rows"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        made = super().streamWriter(schema, overwrite)
        assert isinstance(made, DurableStreamWriter)
        return RowWriter(made._plan, made._checkpoint)


def test_rows_become_the_same_messages(
    spark: SparkSession, embedded: Server, tmp_path: Path
) -> None:
    spark.dataSource.register(RowDataSource)
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    df = spark.range(0, 300, 1, 2).selectExpr(
        "id",
        "if(id % 3 = 0, null, timestamp_seconds(1700000000 + id)) as at",
        "named_struct('t', array(timestamp_seconds(id)), 'b', cast('x' as binary)) as nested",
        "map('a', timestamp_seconds(id)) as times",
        "cast(id as decimal(10, 2)) as money",
        "timestamp_ntz'2024-01-01 10:00:00' as local",
    )
    df.write.parquet(str(tmp_path / "in"))
    url = embedded.stream()
    query = (
        spark.readStream.schema(df.schema)
        .parquet(str(tmp_path / "in"))
        .writeStream.format("by_rows")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(url)
    )
    try:
        query.awaitTermination()
        expected = [row[0] for row in df.select(F.to_json(F.struct("*"))).collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert sorted(message.decode() for message in messages(url)) == sorted(expected)
