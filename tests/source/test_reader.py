"""The reader as Spark's Python processes use it, of this release and of older ones."""

from __future__ import annotations

import pickle

import pytest

from spark_durable.options import SourceOptions, read_options
from spark_durable.source.offset_json import initial_json
from spark_durable.source.partition import SourcePartition
from spark_durable.source.schema import RAW_SCHEMA
from spark_durable.source.stream import StreamReader, stream_reader
from tests.conftest import Server
from tests.source.harness import append_numbers, create, numbers, through_json


def reader(url: str, **options: str) -> StreamReader:
    raw = {"url": url, "pollTimeout": "10ms", **options}
    made = stream_reader(read_options(SourceOptions, raw), RAW_SCHEMA)
    assert isinstance(made, StreamReader)
    return made


def read(made: StreamReader, start: dict[str, object], end: dict[str, object]) -> list[int]:
    """The rows of a batch, by a copy of the reader, as a task has it."""
    copy = pickle.loads(pickle.dumps(made))
    rows = [
        row
        for partition in made.partitions(start, end)
        for batch in copy.read(pickle.loads(pickle.dumps(partition)))
        for row in batch.to_pylist()
    ]
    return numbers(rows)


def test_a_spark_that_tells_no_start(server: Server) -> None:
    """Before 4.2 the reader has to remember it, and after a restart is told by a call."""
    url = create(server.stream("old"))
    append_numbers(url, 0, 5)
    first = reader(url, maxRecordsPerTrigger="3")
    start = first.initialOffset()
    seen = []
    for _ in range(2):
        end = through_json(first.latestOffset())
        seen.append(read(first, start, end))
        start = end
    assert seen == [[0, 1, 2], [3, 4]]
    assert first.latestOffset() == start
    append_numbers(url, 5, 7)
    restarted = reader(url)
    assert restarted.partitions(start, start) == []
    end = through_json(restarted.latestOffset())
    assert read(restarted, start, end) == [5, 6]


def test_the_initial_offset_is_constant(server: Server) -> None:
    url = create(server.stream("initial"))
    made = reader(url, startingOffsets="latest")
    before = made.initialOffset()
    append_numbers(url, 0, 5)
    assert made.initialOffset() == before == initial_json()


def test_the_default_limit_comes_from_the_options() -> None:
    assert reader("http://h/b/s").getDefaultReadLimit().__class__.__name__ == "ReadAllAvailable"
    assert reader("http://h/b/s", maxBytesPerTrigger="7").getDefaultReadLimit().max_bytes == 7
    assert reader("http://h/b/s", maxRecordsPerTrigger="7").getDefaultReadLimit().max_rows == 7


def test_a_foreign_partition_is_refused() -> None:
    from pyspark.sql.datasource import InputPartition

    with pytest.raises(TypeError, match="not a partition of this source"):
        reader("http://h/b/s").read(InputPartition(1))
    assert list(reader("http://h/b/s").read(SourcePartition(()))) == []


def test_stopping_and_going_on(server: Server) -> None:
    url = create(server.stream("stop"))
    append_numbers(url, 0, 2)
    made = reader(url)
    end = through_json(made.latestOffset(made.initialOffset(), None))
    made.stop()
    made.stop()
    assert read(made, made.initialOffset(), end) == [0, 1]
    made.commit(end)
