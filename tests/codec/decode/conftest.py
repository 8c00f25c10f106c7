"""Spark's own answer to compare with, and both answers in one plain form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from spark_durable.codec.decode import DecodeMode, DecodeOptions, JsonDecoder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

Rows = list[tuple[Any, ...]]


def plain(array: Any) -> list[Any]:
    """Values that compare with ``==`` whatever they are: Spark's integers for dates and times, text
    for floats (NaN, -0.0), pairs for map entries (doubled keys), bytes for strings."""
    kind = array.type
    if pa.types.is_date32(kind):
        return array.view(pa.int32()).to_pylist()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return array.view(pa.int64()).to_pylist()
    if pa.types.is_floating(kind):
        return [None if value is None else repr(value) for value in array.to_pylist()]
    if pa.types.is_string(kind):
        return array.view(pa.binary()).to_pylist()
    valid = array.is_valid().to_pylist()
    if pa.types.is_struct(kind):
        children = [plain(array.field(i)) for i in range(kind.num_fields)]
        return [tuple(c[i] for c in children) if valid[i] else None for i in range(len(array))]
    if pa.types.is_map(kind):
        items: list[Any] = list(zip(plain(array.keys), plain(array.items), strict=True))
    elif pa.types.is_list(kind):
        items = plain(array.values)
    else:
        return array.to_pylist()
    bounds = array.offsets.to_pylist()
    return [items[bounds[i] : bounds[i + 1]] if valid[i] else None for i in range(len(array))]


def rows_of(batch: pa.RecordBatch) -> Rows:
    return list(zip(*(plain(column) for column in batch.columns), strict=True))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of any size, so that few messages show what many would."""
    monkeypatch.setattr("spark_durable.codec.decode.decoder.SMALLEST_BLOCK", 1)


@pytest.fixture
def plain_rows() -> Callable[[pa.RecordBatch], Rows]:
    """The rows of a batch in a plain form."""
    return rows_of


@pytest.fixture
def decode() -> Callable[..., Rows]:
    """Decodes messages and returns plain rows."""

    def run(
        schema: StructType,
        messages: Sequence[bytes],
        mode: DecodeMode = DecodeMode.PERMISSIVE,
        time_zone: str = "UTC",
    ) -> Rows:
        decoder = JsonDecoder(schema, DecodeOptions(mode=mode, time_zone=time_zone))
        batch = decoder.decode(pa.array(messages, pa.binary())).batch
        batch.validate()
        assert batch.schema.equals(decoder.arrow_schema)
        return rows_of(batch)

    return run


@pytest.fixture
def from_json(spark: SparkSession) -> Iterator[Callable[..., Rows]]:
    """``from_json`` of the same messages, as plain rows."""
    from pyspark.sql import functions as F

    zone = spark.conf.get("spark.sql.session.timeZone")

    def run(schema: StructType, messages: Sequence[bytes], time_zone: str = "UTC") -> Rows:
        spark.conf.set("spark.sql.session.timeZone", time_zone)
        table = pa.table({"i": range(len(messages)), "v": pa.array(messages, pa.binary())})
        value = F.from_json(F.col("v").cast("string"), schema, {"mode": "PERMISSIVE"})
        frame = spark.createDataFrame(table).select("i", value.alias("row")).orderBy("i")
        answer = frame.toArrow().column("row")
        rows = plain(answer.combine_chunks())
        # A blank message has no row at all; its columns are all null, as a null struct's are.
        return [(None,) * len(schema.fields) if row is None else row for row in rows]

    yield run
    spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
