"""The user's schema, checked, and in the two forms Arrow needs: as declared, and for the parser."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from spark_durable.codec.decode.scalars import scalar_for
from spark_durable.codec.zones import Zone, find_zone
from spark_durable.protocol.errors import OptionError, UnsupportedTypeError

if TYPE_CHECKING:
    from spark_durable.codec.decode.options import DecodeOptions

# Types that pyarrow's JSON reader gets right (but for what the restorers check afterwards). It
# reads all others as strings.
_READ_AS_THEY_ARE = (BooleanType, IntegralType, FloatType, DoubleType, StringType)
_DECIMAL128_DIGITS, _DECIMAL256_DIGITS = 38, 76
_ROUNDED_DIGITS = 6


@dataclass(frozen=True, slots=True)
class DecodeSchema:
    """``body`` is the schema without the column of corrupt records, ``corrupt`` its index."""

    arrow: pa.Schema
    body: StructType
    corrupt: int | None
    session: Zone

    @property
    def body_fields(self) -> list[pa.Field[Any]]:
        return [field for i, field in enumerate(self.arrow) if i != self.corrupt]


def compile_schema(schema: StructType, options: DecodeOptions) -> DecodeSchema:
    """Raises :class:`UnsupportedTypeError` or :class:`OptionError` for what cannot be decoded."""
    session = find_zone(options.time_zone)
    if session is None:
        raise OptionError(
            f"The time zone {options.time_zone!r} is not known here. Set spark.sql.session.timeZone"
            " to a region such as Europe/Berlin or an offset such as +01:00; where the system has"
            " no time zone data, install the tzdata package."
        )
    _check_struct(schema, "", session)
    corrupt = None
    if options.corrupt_column in schema.names:
        corrupt = schema.names.index(options.corrupt_column)
        _check_corrupt(schema.fields[corrupt])
    body = StructType([field for i, field in enumerate(schema.fields) if i != corrupt])
    return DecodeSchema(to_spark_arrow(schema), body, corrupt, session)


def to_spark_arrow(schema: StructType) -> pa.Schema:
    """The Arrow schema Spark compares the batches of a Python data source with."""
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # before Spark 4.2 UTC is what it gives


def wire_schema(body: StructType) -> pa.Schema | None:
    """What to ask pyarrow's JSON reader for, None if it cannot read such rows at all."""
    fields = _wire_fields(body)
    return None if fields is None else pa.schema(fields)


def _wire_fields(schema: StructType) -> list[tuple[str, pa.DataType]] | None:
    fields = []
    for field in schema.fields:
        wire = _wire_type(field.dataType)
        if wire is None:
            return None
        fields.append((field.name, wire))
    return fields or None


def _wire_type(dtype: DataType) -> pa.DataType | None:
    if isinstance(dtype, MapType):
        return None
    if isinstance(dtype, ArrayType):
        element = _wire_type(dtype.elementType)
        return None if element is None else pa.list_(pa.field("element", element))
    if isinstance(dtype, StructType):
        fields = _wire_fields(dtype)
        return None if fields is None else pa.struct(fields)
    if isinstance(dtype, DecimalType):
        return _wire_decimal(dtype.precision, dtype.scale)
    if not isinstance(dtype, _READ_AS_THEY_ARE):
        return pa.string()
    arrow: pa.DataType = to_spark_arrow(StructType([StructField("", dtype)])).field(0).type
    return arrow


def _wire_decimal(precision: int, scale: int) -> pa.DataType:
    """A decimal with room for digits that have to be rounded away.

    pyarrow compares the digits of a number with the precision, and only then brings the number to
    the scale. So precision and scale together must fit the type, or a number that is too large for
    the column would wrap around unnoticed.
    """
    room = (_DECIMAL128_DIGITS - precision - scale) // 2
    if room >= _ROUNDED_DIGITS:
        return pa.decimal128(precision + room, scale + room)
    room = min((_DECIMAL256_DIGITS - precision - scale) // 2, 2 * _ROUNDED_DIGITS)
    return pa.decimal256(precision + room, scale + room)


def _check_struct(schema: StructType, path: str, session: Zone) -> None:
    doubled = {name for name in schema.names if schema.names.count(name) > 1}
    if doubled:
        raise UnsupportedTypeError(
            f"The schema names {path}{min(doubled)} twice: give each column its own name."
        )
    for field in schema.fields:
        _check_type(field.dataType, path + field.name, session)


def _check_type(dtype: DataType, path: str, session: Zone) -> None:
    if isinstance(dtype, StructType):
        _check_struct(dtype, path + ".", session)
    elif isinstance(dtype, ArrayType):
        _check_type(dtype.elementType, path + "[]", session)
    elif isinstance(dtype, MapType):
        if not isinstance(dtype.keyType, StringType):
            raise UnsupportedTypeError(
                f"{path} is a map with keys of {dtype.keyType.simpleString()}: the names of a JSON"
                " object are strings. Declare the keys as string and cast them in the query."
            )
        _check_type(dtype.valueType, path + "{}", session)
    elif scalar_for(dtype, session) is None:
        raise UnsupportedTypeError(
            f"{path} is declared as {dtype.simpleString()}, which is not decoded from JSON here."
            " Declare it as string and convert it in the query."
        )


def _check_corrupt(field: StructField) -> None:
    if not isinstance(field.dataType, StringType) or not field.nullable:
        raise UnsupportedTypeError(
            f"{field.name} receives the text of malformed messages: declare it as a nullable"
            f" string, not as {field.dataType.simpleString()}."
        )
