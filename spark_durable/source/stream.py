"""``spark.readStream``: the reader Spark asks on the driver, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spark_durable.options import SourceOptions
from spark_durable.protocol.errors import OptionError
from spark_durable.source import offset_json
from spark_durable.source.discover import Place, check_named, place
from spark_durable.source.driver import Driver
from spark_durable.source.partition import SourcePartition
from spark_durable.source.read import PartReader
from spark_durable.source.schema import Columns, columns
from spark_durable.worker import before_rows

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before Spark 4.2: no read limits, and AvailableNow runs as one batch
    SupportsTriggerAvailableNow = object  # type: ignore[assignment, misc]

Json = dict[str, Any]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Each message between two offsets exactly once, in stream order per stream.

    One instance plans, in one process for the life of the query; copies of it read in the tasks.
    All that a batch depends on is in its two offsets: after a crash a new instance plans the same.
    """

    def __init__(self, options: SourceOptions, here: Place, shape: Columns) -> None:
        self._options = options
        self._place = here
        self._columns = shape
        self._driver: Driver | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_driver": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        before_rows()

    @property
    def _planning(self) -> Driver:
        if self._driver is None:
            self._driver = Driver(self._options, self._place)
        return self._driver

    def initialOffset(self) -> Json:
        return offset_json.initial_json()

    def latestOffset(self, start: Json | None = None, limit: ReadLimit | None = None) -> Json:
        """Where the next batch ends; ``start`` itself when there is nothing new."""
        return self._planning.latest(start, limit)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        if self._options.max_records_per_trigger is not None:
            return ReadMaxRows(self._options.max_records_per_trigger)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> Json | None:
        return self._planning.report()

    def prepareForTriggerAvailableNow(self) -> None:
        self._planning.fix_target()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        return self._planning.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SourcePartition):
            raise TypeError(f"not a partition of this source: {type(partition).__name__}")
        return PartReader(self._options, self._place, self._columns).read(partition.parts)

    def commit(self, end: Json) -> None:
        """Nothing hangs on it: the last batch of a query is never committed."""

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None


def stream_reader(options: SourceOptions, schema: StructType) -> DataSourceStreamReader:
    if options.ending_offsets != "latest":
        raise OptionError("endingOffsets belongs to batch reads; a stream has no end.")
    here = place(options)
    check_named(options.starting_offsets, here, "startingOffsets")
    return StreamReader(options, here, columns(schema))
