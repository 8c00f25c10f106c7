"""The columns of the source."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from spark_durable.protocol.errors import OptionError

# Without a schema. `value` is binary because a stream may hold any bytes; a JSON message is UTF-8.
# `offset` is where the message starts: given as a starting offset, reading begins with it. Where
# a server's offsets are not positions, it is the offset after which the message was read.
RAW_SCHEMA: Final = StructType(
    [
        StructField("stream", StringType()),
        StructField("offset", StringType()),
        StructField("kind", StringType()),
        StructField("content_type", StringType()),
        StructField("value", BinaryType()),
    ]
)

STREAM: Final = "_stream"
OFFSET: Final = "_offset"
KIND: Final = "_kind"
_META: Final = (STREAM, OFFSET, KIND)

KIND_SNAPSHOT: Final = "snapshot"
KIND_UPDATE: Final = "update"


@dataclass(frozen=True, slots=True)
class Columns:
    """A schema, divided into what comes out of a message and what is told about it."""

    schema: StructType
    raw: bool
    data: StructType  # without the columns that describe the message

    @property
    def wants_offset(self) -> bool:
        return self.raw or OFFSET in self.schema.names


def columns(schema: StructType) -> Columns:
    if schema == RAW_SCHEMA:
        return Columns(schema, True, StructType([]))
    for field in schema.fields:
        if field.name in _META and not isinstance(field.dataType, StringType):
            raise OptionError(
                f"Column {field.name} describes the message and is a string; the schema has it as "
                f"{field.dataType.simpleString()}."
            )
    data = StructType([field for field in schema.fields if field.name not in _META])
    return Columns(schema, False, data)


def arrow_schema(schema: StructType) -> pa.Schema:
    """As Spark expects it from a Python source: its first batch must equal it to the letter."""
    convert: Any = to_arrow_schema
    if "timezone" in inspect.signature(convert).parameters:  # from Spark 4.2 on
        found: pa.Schema = convert(schema, timezone="UTC")
    else:
        found = convert(schema)
    return found
