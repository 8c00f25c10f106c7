from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from spark_durable.options import SourceOptions
from spark_durable.protocol.errors import OptionError
from spark_durable.source.partition import Of
from spark_durable.source.rows import RowMaker
from spark_durable.source.schema import RAW_SCHEMA, arrow_schema, columns
from spark_durable.source.spans import listed

OPTIONS = SourceOptions(url="http://h/s")
OF = Of("orders", "application/json")


def schema(**fields: type) -> StructType:
    return StructType([StructField(name, kind()) for name, kind in fields.items()])


def test_raw_is_recognised() -> None:
    assert columns(RAW_SCHEMA).raw
    assert not columns(schema(value=StringType)).raw


def test_columns_about_the_message_stay_where_they_are() -> None:
    declared = schema(_kind=StringType, n=LongType, _offset=StringType, _stream=StringType)
    shape = columns(declared)
    assert shape.data.names == ["n"]
    batch = RowMaker(shape, OPTIONS, "UTC").rows(OF, listed([b'{"n": 1}'], "7"), "update")
    assert batch.schema == arrow_schema(declared)
    assert batch.to_pylist() == [{"_kind": "update", "n": 1, "_offset": "7", "_stream": "orders"}]


def test_raw_rows_have_the_schema_spark_expects() -> None:
    maker = RowMaker(columns(RAW_SCHEMA), OPTIONS, "UTC")
    batch = maker.rows(OF, listed([b"1", b"\xff"], "7"), "snapshot")
    assert batch.schema == arrow_schema(RAW_SCHEMA)
    assert batch.column("value").type == pa.binary()
    assert batch.column("value").to_pylist() == [b"1", b"\xff"]


def test_columns_about_the_message_are_strings() -> None:
    with pytest.raises(OptionError, match="_offset describes the message"):
        columns(schema(_offset=LongType))
