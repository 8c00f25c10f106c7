"""Running one task's work without Spark: the same code, with the partition made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_durable.options import SinkOptions, read_options
from spark_durable.sink.identity import Place, WriteIdentity
from spark_durable.sink.plan import SinkPlan
from spark_durable.sink.prepare import prepare
from spark_durable.sink.task import TaskReport, run_task

ROWS = StructType([StructField("id", LongType()), StructField("name", StringType())])
ROUTED = StructType([*ROWS.fields, StructField("stream", StringType())])


def sink_plan(url: str, schema: StructType = ROWS, **options: object) -> SinkPlan:
    """The driver's part: options read, stream checked and created, cut fixed."""
    raw = {"path": url, **{name: str(value) for name, value in options.items()}}
    parsed = read_options(SinkOptions, raw)
    return SinkPlan(parsed, schema, prepare(parsed, schema, repeats=True).cut)


def batches(ids: Sequence[int], size: int = 100, **columns: list[Any]) -> list[pa.RecordBatch]:
    table = pa.table(
        {"id": pa.array(ids, pa.int64()), "name": [f"row {n}" for n in ids], **columns}
    )
    return table.to_batches(max_chunksize=size)


def write(
    plan: SinkPlan,
    ids: Sequence[int],
    *,
    partition: int = 0,
    batch: int = 3,
    query: str = "query",
    run: str | None = "run",
    **columns: list[Any],
) -> TaskReport:
    """One attempt of one task of a streaming query's micro-batch."""
    place = Place(WriteIdentity(query, batch), partition, run)
    return run_task(plan, place, iter(batches(ids, **columns)))
