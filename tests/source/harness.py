"""The source without Spark around it: plan on a driver, read in the same process."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pyspark.sql.types import StructType

from spark_durable.options import SourceOptions, read_options
from spark_durable.protocol import DurableClient
from spark_durable.source.discover import place
from spark_durable.source.driver import Driver
from spark_durable.source.offset_json import initial_json
from spark_durable.source.partition import SourcePartition
from spark_durable.source.read import PartReader
from spark_durable.source.schema import RAW_SCHEMA, columns

Json = dict[str, Any]
Row = dict[str, Any]

START = initial_json()


class MaxBytes:
    """A read limit as Spark hands it over."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes


class MaxRows:
    def __init__(self, max_rows: int) -> None:
        self.max_rows = max_rows


class Query:
    """A streaming query's planning process and its tasks. A second one is a restart."""

    def __init__(self, url: str, *, schema: StructType = RAW_SCHEMA, **options: str) -> None:
        self.options: SourceOptions = read_options(
            SourceOptions, {"url": url, "pollTimeout": "10ms", "retryTimeout": "20s", **options}
        )
        self.place = place(self.options)
        self.columns = columns(schema)
        self.driver = Driver(self.options, self.place)

    def latest(self, start: Json = START, limit: object | None = None) -> Json:
        return through_json(self.driver.latest(start, limit))

    def partitions(self, start: Json, end: Json) -> list[SourcePartition]:
        return self.driver.partitions(start, end)

    def rows(self, start: Json, end: Json) -> list[Row]:
        """The rows of a batch, task by task."""
        return self.read(self.partitions(start, end))

    def read(self, partitions: Iterable[SourcePartition]) -> list[Row]:
        reader = PartReader(self.options, self.place, self.columns)
        found: list[Row] = []
        for partition in partitions:
            for batch in reader.read(partition.parts):
                found += batch.to_pylist()
        return found

    def close(self) -> None:
        self.driver.close()


def batches(
    query: Query, start: Json = START, limit: object | None = None, most: int = 10_000
) -> list[tuple[Json, Json]]:
    """(start, end) of every batch until nothing is new."""
    found = []
    for _ in range(most):
        end = query.latest(start, limit)
        if end == start:
            return found
        found.append((start, end))
        start = end
    raise AssertionError(f"still not done after {most} batches")


def drain(query: Query, start: Json = START, limit: object | None = None) -> tuple[list[Row], Json]:
    """All rows from ``start`` on, batch by batch, and where they end."""
    rows: list[Row] = []
    while True:
        end = query.latest(start, limit)
        if end == start:
            return rows, end
        rows += query.rows(start, end)
        start = end


def through_json(offset: Json) -> Json:
    """What a checkpoint does to an offset."""
    loaded: Json = json.loads(json.dumps(offset))
    return loaded


def values(rows: Iterable[Row]) -> list[Any]:
    return [json.loads(row["value"]) for row in rows]


def numbers(rows: Iterable[Row]) -> list[int]:
    return [json.loads(row["value"])["n"] for row in rows]


def append(url: str, *messages: Any) -> str:
    """One append, all messages in it. Returns the offset after it."""
    with DurableClient() as client:
        body = json.dumps(list(messages), separators=(",", ":")).encode()
        result = client.append(url, body)
        return result.next_offset or client.head(url).tail


def append_numbers(
    url: str, low: int, high: int, *, padding: int = 0, per_append: int = 100
) -> str:
    """``{"n": low} … {"n": high - 1}``, in several appends. Returns the offset after them."""
    offset = ""
    for first in range(low, high, per_append):
        chunk = range(first, min(high, first + per_append))
        offset = append(url, *({"n": n, "pad": "x" * (n * 37 % (padding + 1))} for n in chunk))
    return offset


def create(url: str, content_type: str = "application/json") -> str:
    with DurableClient() as client:
        client.create(url, content_type=content_type)
    return url
