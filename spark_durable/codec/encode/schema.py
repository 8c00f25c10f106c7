"""From Spark's types to the writers of their text, and the types that have none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    MapType,
    StructType,
    UserDefinedType,
)

from spark_durable.codec.encode.keys import FloatKeyWriter, IntegerKeyWriter, StringKeyWriter
from spark_durable.codec.encode.nested import (
    ArrayWriter,
    FieldWriter,
    MapWriter,
    NullWriter,
    StructWriter,
)
from spark_durable.codec.encode.numbers import (
    DecimalWriter,
    FloatWriter,
    LongWriter,
    PlainWriter,
)
from spark_durable.codec.encode.offsets import known_zone
from spark_durable.codec.encode.pattern import compile_pattern
from spark_durable.codec.encode.strings import BinaryWriter, StringWriter, escape_text
from spark_durable.codec.encode.temporal import (
    DateWriter,
    DayTimeIntervalWriter,
    TimestampNtzWriter,
    TimestampWriter,
    TimeWriter,
)
from spark_durable.protocol.errors import UnsupportedTypeError

if TYPE_CHECKING:
    from spark_durable.codec.encode.options import EncodeOptions
    from spark_durable.codec.encode.text import ValueWriter

_DATE_PATTERN = "yyyy-MM-dd"
_TIMESTAMP_NTZ_PATTERN = f"{_DATE_PATTERN}'T'HH:mm:ss[.SSS]"
_TIMESTAMP_PATTERN = f"{_TIMESTAMP_NTZ_PATTERN}[XXXXX]"
# to_json writes null into fields of a table's column with a default, even when it ignores nulls.
_EXISTS_DEFAULT = "EXISTS_DEFAULT"

_REFUSED = {
    "YearMonthIntervalType": "Arrow has no form for it in Python: cast it to string or to integer",
    "CalendarIntervalType": "Spark keeps it out of data sources: cast it to string",
    "VariantType": "it arrives in Spark's internal encoding: send to_json(...) of it, or cast it",
    "GeometryType": "to_json has no text for it: send st_asbinary(...) of it",
    "GeographyType": "to_json has no text for it: send st_asbinary(...) of it",
}


def compile_schema(schema: StructType, options: EncodeOptions) -> StructWriter:
    """The writer of the schema's rows. Raises as :func:`check_schema` does."""
    return _Compiler(options).struct(schema, "")


def check_schema(schema: StructType, options: EncodeOptions) -> None:
    """Makes sure on the driver that every row of this schema can be encoded.

    Raises :class:`UnsupportedTypeError` naming the column and the way on, or :class:`OptionError`
    for a pattern or a time zone that cannot be followed as Spark would.
    """
    if options.time_zone is not None:
        known_zone(options.time_zone)
    compile_schema(schema, options)


@dataclass(frozen=True, slots=True)
class _Compiler:
    options: EncodeOptions

    def struct(self, schema: StructType, path: str) -> StructWriter:
        fields = []
        for field in schema.fields:
            keeps_null = not self.options.ignore_null_fields or _EXISTS_DEFAULT in field.metadata
            writer = self.value(field.dataType, f"{path}.{field.name}" if path else field.name)
            fields.append(FieldWriter(f'"{escape_text(field.name)}":', writer, keeps_null))
        return StructWriter(tuple(fields))

    def value(self, type_: DataType, path: str) -> ValueWriter:
        if isinstance(type_, UserDefinedType):
            return self.value(type_.sqlType(), path)
        if isinstance(type_, StructType):
            return self.struct(type_, path)
        if isinstance(type_, ArrayType):
            return ArrayWriter(self.value(type_.elementType, f"{path}[]"))
        if isinstance(type_, MapType):
            key = _key(type_.keyType, f"{path}.key")
            return MapWriter(key, self.value(type_.valueType, f"{path}.value"))
        if isinstance(type_, DayTimeIntervalType):
            return DayTimeIntervalWriter(type_.startField or 0, type_.endField or 0)
        writer = self._leaf(type(type_).__name__, path)
        if writer is None:
            raise _unsupported(type_, path)
        return writer

    def _leaf(self, type_name: str, path: str) -> ValueWriter | None:
        options = self.options
        match type_name:
            case "ByteType" | "ShortType" | "IntegerType" | "BooleanType":
                return PlainWriter()
            case "LongType":
                return LongWriter(path, options.big_numbers)
            case "DecimalType":
                return DecimalWriter(path, options.big_numbers)
            case "FloatType" | "DoubleType":
                return FloatWriter()
            case "StringType" | "CharType" | "VarcharType":
                return StringWriter()
            case "BinaryType":
                return BinaryWriter()
            case "NullType":
                return NullWriter()
            case "DateType":
                pattern = options.date_format or _DATE_PATTERN
                return DateWriter(compile_pattern(pattern, "date", "dateFormat"))
            case "TimestampType":
                pattern = options.timestamp_format or _TIMESTAMP_PATTERN
                segments = compile_pattern(pattern, "timestamp", "timestampFormat")
                return TimestampWriter(segments, options.time_zone)
            case "TimestampNTZType":
                pattern = options.timestamp_ntz_format or _TIMESTAMP_NTZ_PATTERN
                segments = compile_pattern(pattern, "timestamp_ntz", "timestampNTZFormat")
                return TimestampNtzWriter(segments)
            case "TimeType":
                return TimeWriter(compile_pattern("HH:mm:ss", "timestamp_ntz", "timeFormat"))
        return None


def _key(type_: DataType, path: str) -> ValueWriter:
    if isinstance(type_, UserDefinedType):
        return _key(type_.sqlType(), path)
    match type(type_).__name__:
        case "StringType" | "CharType" | "VarcharType":
            return StringKeyWriter()
        case "ByteType" | "ShortType" | "IntegerType" | "LongType" | "BooleanType" | "DecimalType":
            return PlainWriter()
        case "FloatType" | "DoubleType":
            return FloatKeyWriter()
        case "DateType":
            return IntegerKeyWriter(32)
        case "TimestampType" | "TimestampNTZType" | "DayTimeIntervalType" | "TimeType":
            return IntegerKeyWriter(64)
        case "NullType":
            return NullWriter()
    raise UnsupportedTypeError(
        f"Column {path!r}: a map's key of type {type_.simpleString()} has no repeatable text, since"
        " to_json prints an address or raw memory for it. Turn the key into a string, or the map"
        " into an array with map_entries(...).",
        column=path,
        type=type_.simpleString(),
    )


def _unsupported(type_: DataType, path: str) -> UnsupportedTypeError:
    reason = _REFUSED.get(type(type_).__name__, "this encoder does not know it: cast it to string")
    return UnsupportedTypeError(
        f"Column {path!r} of type {type_.simpleString()} cannot be sent as JSON; {reason}.",
        column=path,
        type=type_.simpleString(),
    )
