"""Spark 4.0 hands a streaming writer rows; since 4.1 it hands over Arrow batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import Row, StructType

# As many as Spark puts into an Arrow batch by default.
_ROWS = 10_000
_TIME_ZONE = "spark.sql.session.timeZone"


class WritesBatches(ABC):
    """What a writer of ours does, whatever Spark hands over."""

    @property
    @abstractmethod
    def schema(self) -> StructType: ...

    @abstractmethod
    def write_batches(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage: ...


class RowStreamWriter(WritesBatches, DataSourceStreamWriter):
    """For Spark 4.0: makes batches of the rows first."""

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        task = TaskContext.get()
        zone = None if task is None else task.getLocalProperty(_TIME_ZONE)
        return self.write_batches(to_batches(iterator, self.schema, zone))


if TYPE_CHECKING or not hasattr(datasource, "DataSourceStreamArrowWriter"):
    StreamWriterBase = RowStreamWriter
else:

    class StreamWriterBase(WritesBatches, datasource.DataSourceStreamArrowWriter):
        """For Spark 4.1 and later."""

        def write(self, iterator: Any) -> WriterCommitMessage:
            return self.write_batches(iterator)


def to_batches(
    rows: Iterator[Row], schema: StructType, time_zone: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows in Arrow batches, typed as Spark itself would hand them over."""
    from pyspark.sql.conversion import LocalDataToArrowConversion

    while chunk := list(islice(rows, _ROWS)):
        table = LocalDataToArrowConversion.convert(chunk, schema, use_large_var_types=False)
        if time_zone is not None:
            zoned = [pa.field(f.name, _zoned(f.type, time_zone)) for f in table.schema]
            table = table.cast(pa.schema(zoned))
        yield from table.combine_chunks().to_batches()


def _zoned(kind: pa.DataType, zone: str) -> pa.DataType:
    """The type with the session's zone on its timestamps, in which ``to_json`` prints them."""
    if isinstance(kind, pa.TimestampType) and kind.tz is not None:
        return pa.timestamp("us", zone)
    if isinstance(kind, pa.StructType):
        return pa.struct([pa.field(f.name, _zoned(f.type, zone)) for f in kind.fields])
    if isinstance(kind, pa.ListType):
        return pa.list_(_zoned(kind.value_type, zone))
    if isinstance(kind, pa.MapType):
        return pa.map_(_zoned(kind.key_type, zone), _zoned(kind.item_type, zone))
    return kind
