"""``spark.read``: from one set of offsets to another, planned once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_durable.options import SourceOptions
from spark_durable.protocol.errors import OptionError
from spark_durable.source.bootstrap import before
from spark_durable.source.discover import Place, check_named, place
from spark_durable.source.limits import Limit
from spark_durable.source.offset_json import SourceOffset
from spark_durable.source.partition import SourcePartition
from spark_durable.source.planner import Planner, Standing, next_offset
from spark_durable.source.read import PartReader
from spark_durable.source.schema import Columns, columns
from spark_durable.source.tail import Tails
from spark_durable.source.tasks import tasks
from spark_durable.source.wire import open_wire


class BatchReader(DataSourceReader):
    """Every message between the offsets, once. The ends are fixed when the first action plans;
    later actions on the same DataFrame read the same messages."""

    def __init__(self, options: SourceOptions, here: Place, shape: Columns) -> None:
        self._options = options
        self._place = here
        self._columns = shape

    def partitions(self) -> list[InputPartition]:
        with open_wire(self._options) as wire:
            planner = Planner(self._options, self._place, wire)
            tails = Tails(wire, self._place).look(())
            standings = [
                self._ended(standing) for standing in planner.standings({}, tails, first=True)
            ]
            exact = isinstance(self._options.ending_offsets, Mapping)
            moving = planner.with_news(standings)
            moved = planner.plan(moving, Limit(), exact=exact, final=True)
        start = SourceOffset(self._place.path, {})
        end = next_offset(self._place, standings, moved)
        planned: list[InputPartition] = list(tasks(start, end, self._options))
        # Spark takes an empty list for one partition without a value.
        return planned or [SourcePartition(())]

    def _ended(self, standing: Standing) -> Standing:
        """With the tail moved back to ``endingOffsets``, where it names the stream."""
        given, tail = self._options.ending_offsets, standing.tail
        if not isinstance(given, Mapping) or standing.name not in given:
            return standing
        end = given[standing.name]
        if before(tail.offset, end):
            raise OptionError(
                f"endingOffsets: stream {standing.name} ends at {tail.offset}, before the given "
                f"{end}. Offsets are those the server gave for this very stream."
            )
        if before(end, standing.start.anchor):
            raise OptionError(
                f"endingOffsets: stream {standing.name} would end at {end}, before it begins at "
                f"{standing.start} (startingOffsets; a snapshot begins at its own offset)."
            )
        return replace(standing, tail=replace(tail, offset=end, closed=False))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SourcePartition):
            raise TypeError(f"not a partition of this source: {type(partition).__name__}")
        return PartReader(self._options, self._place, self._columns).read(partition.parts)


def batch_reader(options: SourceOptions, schema: StructType) -> DataSourceReader:
    here = place(options)
    check_named(options.starting_offsets, here, "startingOffsets")
    check_named(options.ending_offsets, here, "endingOffsets")
    return BatchReader(options, here, columns(schema))
