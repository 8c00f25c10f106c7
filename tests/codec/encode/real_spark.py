"""Rows through a real Spark: what its Python writers receive, and what its ``to_json`` says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _sources() -> tuple[type[DataSource], type[DataSource]]:
    # Local classes travel to Spark's workers by value: the workers cannot import this module.
    class CapturingWriter(DataSourceArrowWriter):
        def __init__(self, path: str) -> None:
            self.path = path

        def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
            with pa.OSFile(self.path, "wb") as sink:
                first = next(iterator)
                with pa.ipc.new_stream(sink, first.schema) as stream:
                    for batch in itertools.chain([first], iterator):
                        stream.write_batch(batch)
            return WriterCommitMessage()

    class Capture(DataSource):
        @classmethod
        def name(cls) -> str:
            return "capture"

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
            return CapturingWriter(self.options["path"])

    class ReplayReader(DataSourceReader):
        def __init__(self, path: str) -> None:
            self.path = path

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            with pa.OSFile(self.path) as source:
                yield from pa.ipc.open_stream(source).read_all().to_batches()

    class Replay(DataSource):
        @classmethod
        def name(cls) -> str:
            return "replay"

        def reader(self, schema: StructType) -> DataSourceReader:
            return ReplayReader(self.options["path"])

    return Capture, Replay


class RealSpark:
    """Takes Arrow data into Spark and out again, the way a sink gets it."""

    def __init__(self, session: SparkSession, directory: Path) -> None:
        self.session = session
        self._directory = directory
        self._numbers = itertools.count()
        for source in _sources():
            session.dataSource.register(source)

    def frame(self, schema: StructType, columns: list[Any]) -> DataFrame:
        """A DataFrame of these Arrow arrays, one per field, of any value Spark can hold."""
        from pyspark.sql.pandas.types import to_arrow_schema

        path = self._path()
        # Python readers hand over instants in UTC, whatever the session's zone.
        arrow = to_arrow_schema(schema, timezone="UTC")
        batch = pa.RecordBatch.from_arrays(columns, schema=arrow)
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, arrow) as stream:
            stream.write_batch(batch)
        return self.session.read.format("replay").schema(schema).load(path)

    def written(self, frame: DataFrame) -> pa.Table:
        """The batches that a Python data source writer receives for this DataFrame."""
        path = self._path()
        frame.coalesce(1).write.format("capture").mode("append").save(path)
        with pa.OSFile(path) as source:
            return pa.ipc.open_stream(source).read_all()

    def _path(self) -> str:
        return str(self._directory / f"{next(self._numbers)}.arrow")
