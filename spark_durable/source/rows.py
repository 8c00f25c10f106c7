"""Messages to rows, as Arrow batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_durable.options import SourceOptions
from spark_durable.source import schema as names
from spark_durable.source.partition import Of
from spark_durable.source.schema import Columns, arrow_schema
from spark_durable.source.spans import Span, padded


class RowMaker:
    """Turns spans of messages into batches of the declared schema, in order."""

    def __init__(self, columns: Columns, options: SourceOptions, time_zone: str) -> None:
        self._columns = columns
        self._schema = arrow_schema(columns.schema)
        self._decoder = None
        if not columns.raw:
            # Not for raw reads: it is not small.
            from spark_durable.codec.decode import DecodeMode, DecodeOptions, JsonDecoder

            decoding = DecodeOptions(
                mode=DecodeMode(options.mode.value),
                corrupt_column=options.corrupt_column,
                time_zone=time_zone,
            )
            self._decoder = JsonDecoder(columns.data, decoding)

    def rows(self, of: Of, span: Span, kind: str, width: int = 0) -> pa.RecordBatch:
        """``width``: digits of an offset where the span has positions."""
        if self._decoder is None:
            return self._raw(of, span, kind, width)
        decoded = self._decoder.decode(span.messages)
        count = decoded.batch.num_rows
        arrays: list[Any] = []
        for field in self._columns.schema.fields:
            if field.name == names.STREAM:
                arrays.append(pa.repeat(of.stream, count))
            elif field.name == names.KIND:
                arrays.append(pa.repeat(kind, count))
            elif field.name == names.OFFSET:
                offsets = _offsets(span, width)
                arrays.append(offsets if decoded.kept is None else offsets.take(decoded.kept))
            else:
                arrays.append(decoded.batch.column(field.name))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _raw(self, of: Of, span: Span, kind: str, width: int) -> pa.RecordBatch:
        count = len(span.messages)
        arrays = [
            pa.repeat(of.stream, count),
            _offsets(span, width),
            pa.repeat(kind, count),
            pa.repeat(of.content_type, count),
            span.messages,
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _offsets(span: Span, width: int) -> Any:
    if span.starts is None:
        return pa.repeat(span.anchor, len(span.messages))
    return padded(span.starts, width)
