"""The door Spark knocks on: ``format("durablestream")`` and its factories.

Spark builds this object in a worker on the driver at every ``load``, at every batch write and anew
for each micro-batch of a streaming write, so it holds nothing but options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from spark_durable.options import SinkOptions, SourceOptions, check_options, read_options
from spark_durable.protocol.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "durablestream"


class DurableStreamDataSource(DataSource):
    """Durable Streams as a Spark data source: batch and streaming, both ways."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        # Here, because an error raised in streamReader() is hidden behind a second one.
        check_options(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        from spark_durable.source.schema import RAW_SCHEMA

        read_options(SourceOptions, self.options)
        return RAW_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        from spark_durable.source.batch import batch_reader

        return batch_reader(read_options(SourceOptions, self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from spark_durable.source.stream import stream_reader

        return stream_reader(read_options(SourceOptions, self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from spark_durable.sink.writer import batch_writer

        options = read_options(SinkOptions, self.options)
        if overwrite:
            raise OptionError(
                "A stream only grows: mode('overwrite') is not supported. Use mode('append'), or "
                "write to a new stream."
            )
        return batch_writer(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from spark_durable.sink.writer import stream_writer

        options = read_options(SinkOptions, self.options)
        if overwrite:
            raise OptionError(
                "Output mode complete would append the whole result again in every micro-batch. "
                "Use append, or foreachBatch with txnAppId and txnVersion."
            )
        return stream_writer(options, schema, self.options.get("checkpointLocation"))


def register(spark: SparkSession) -> None:
    """Makes ``format("durablestream")`` known to a session.

    Needed only where Spark could not find the installed package by itself: after an install into a
    live session, or when the code runs from a source tree.
    """
    spark.dataSource.register(DurableStreamDataSource)
