"""Rows to messages: a ``value`` column as it is, any other row as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from spark_durable.codec.encode import (
    EncodeOptions,
    JsonEncoder,
    check_json_values,
    check_schema,
)
from spark_durable.options import RowOrder, SinkOptions
from spark_durable.protocol.errors import BadRowError, OptionError, UnsupportedTypeError
from spark_durable.protocol.types import is_json
from spark_durable.sink.cut import BodyForm
from spark_durable.sink.order import sort_key

if TYPE_CHECKING:
    Array: TypeAlias = pa.Array[Any]

VALUE = "value"
# Rows are encoded in slices of about this size, so that fat rows do not multiply in memory.
_SLICE_BYTES = 32 << 20
_MOST_32_BIT = 2**31 - 1


def body_form(options: SinkOptions) -> BodyForm:
    if is_json(options.content_type):
        return BodyForm.ARRAY
    return BodyForm.CONCATENATED if options.concatenate else BodyForm.SINGLE


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of some rows; their streams where rows are routed; what they are sorted by."""

    texts: Array
    streams: Array | None
    keys: tuple[Array, ...]


class MessageMaker:
    """Makes messages of the batches of one schema.

    Built on the driver it checks the schema, in a task it does the work. Each message is preceded
    by ``separator``. The column that names the stream is not part of a message.
    """

    def __init__(self, schema: StructType, options: SinkOptions, separator: bytes = b"") -> None:
        self._form = body_form(options)
        self._separator = separator
        self._stream = None
        if options.stream_column is not None:
            self._stream = _find(schema, options.stream_column, "streamColumn")
            if not isinstance(schema[self._stream].dataType, StringType):
                raise OptionError(f"streamColumn: column {options.stream_column} is no string.")
        self._order = []
        if options.row_order is RowOrder.SORT:
            self._order = [_find(schema, name, "orderBy") for name in options.order_by or ()]
        for index in self._order:
            if isinstance(schema[index].dataType, ArrayType | MapType | StructType):
                raise OptionError(f"orderBy: column {schema[index].name} has no order.")
        self._data = [index for index in range(len(schema)) if index != self._stream]
        fields = [schema[index] for index in self._data]
        if not fields:
            raise UnsupportedTypeError("There is no column to send.")
        self._encoder = None
        if not _is_value(fields):
            encode = _encode_options(options)
            check_schema(StructType(fields), encode)
            self._encoder = JsonEncoder(StructType(fields), encode, before=separator.decode())

    def make(self, batch: pa.RecordBatch, first_row: int) -> Iterator[Messages]:
        """The batch's messages, in slices. ``first_row`` is where it begins in its partition."""
        slices = max(1, -(-batch.nbytes // _SLICE_BYTES))
        rows = max(1, -(-batch.num_rows // slices))
        for start in range(0, batch.num_rows, rows):
            try:
                yield self._make(batch.slice(start, rows))
            except BadRowError as bad:
                raise _placed(bad, first_row + start) from None

    def _make(self, batch: pa.RecordBatch) -> Messages:
        texts = self._texts(batch)
        streams = None
        if self._stream is not None:
            streams = batch.column(self._stream)
            _refuse(pc.is_null(streams), "its stream column is null")
            _refuse(pc.equal(streams, pa.scalar("", streams.type)), "its stream column is empty")
        keys = tuple(
            sort_key(batch.schema.names[index], batch.column(index)) for index in self._order
        )
        return Messages(texts, streams, keys)

    def _texts(self, batch: pa.RecordBatch) -> Array:
        if self._encoder is not None:
            return self._encoder.encode(batch.select(self._data))
        values = batch.column(self._data[0])
        if self._form is BodyForm.ARRAY:
            check_json_values(values)
        else:
            _refuse(pc.is_null(values), "its value is null")
            if self._form is BodyForm.SINGLE:
                nothing = pa.scalar("", values.type)
                _refuse(pc.equal(values, nothing), "a message of no bytes cannot be appended")
        return _preceded(values, self._separator)


def _preceded(texts: Array, separator: bytes) -> Array:
    if not separator:
        return texts
    # As bytes, for a binary column that holds no UTF-8 is not ours to judge.
    large = texts.nbytes + len(texts) * len(separator) > _MOST_32_BIT
    kind: Any = pa.large_binary() if large else pa.binary()
    joined: Array = pc.binary_join_element_wise(
        pa.scalar(separator, kind), texts.cast(kind), pa.scalar(b"", kind)
    )
    return joined


def _find(schema: StructType, name: str, option: str) -> int:
    """A column by name; in another case only if that is unambiguous, as in Spark."""
    names = schema.names
    if name in names:
        return names.index(name)
    folded = [index for index, other in enumerate(names) if other.lower() == name.lower()]
    if len(folded) != 1:
        raise OptionError(f"{option}: there is no column {name}. Columns: {', '.join(names)}.")
    return folded[0]


def _is_value(fields: list[StructField]) -> bool:
    return (
        len(fields) == 1
        and fields[0].name == VALUE
        and isinstance(fields[0].dataType, StringType | BinaryType)
    )


def _encode_options(options: SinkOptions) -> EncodeOptions:
    return EncodeOptions(
        ignore_null_fields=options.ignore_null_fields,
        timestamp_format=options.timestamp_format,
        date_format=options.date_format,
        timestamp_ntz_format=options.timestamp_ntz_format,
        big_numbers=options.big_numbers.value,
    )


def _refuse(bad: Array, reason: str) -> None:
    row = pc.index(bad, True).as_py()
    if row >= 0:
        raise BadRowError(
            f"Row {row} of the batch cannot be sent: {reason}. Filter such rows out.", row=row
        )


def _placed(bad: BadRowError, first_row: int) -> BadRowError:
    """The error with the row's place in its partition, which is what a user can look up."""
    row = bad.facts.get("row")
    if row is None:
        return bad
    facts = {**bad.facts, "row": first_row + row}
    return BadRowError(f"Row {first_row + row} of the partition: {bad.message}", **facts)
