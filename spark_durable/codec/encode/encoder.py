"""Arrow batches to JSON, one object per row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from spark_durable.codec.buffers import Array
from spark_durable.codec.encode.schema import compile_schema
from spark_durable.protocol.errors import BadRowError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_durable.codec.encode.options import EncodeOptions


class JsonEncoder:
    """Encodes rows as Spark's ``to_json(struct(*))`` does, text for text.

    The text depends on nothing but the row, the schema and the options: a replayed row is the same
    bytes again. Where the text of ``to_json`` itself is not fixed: floats and doubles have equal
    value (Java before 19 prints more digits than needed for some), and times in a zone follow the
    time zone data of this Python, which may be newer or older than the JDK's, or tell more of the
    years before 1970. Spark's legacy settings (``legacy.timeParserPolicy=LEGACY``, negative decimal
    scales) are not followed.

    ``schema`` is the Spark schema of the batches; what Arrow does not tell (the fields of an
    interval, a column's default) comes from there. Picklable.
    """

    def __init__(self, schema: StructType, options: EncodeOptions, *, before: str = "") -> None:
        """``before`` precedes each row's text: there at no cost, unlike in a pass of its own."""
        self._writer = compile_schema(schema, options)
        self._before = before

    def encode(self, batch: pa.RecordBatch) -> pa.StringArray | pa.LargeStringArray:
        """One JSON object per row, none null.

        Raises :class:`BadRowError` naming the first row that ``bigNumbers`` refuses. The result has
        64-bit offsets only if the texts together are too long for 32.
        """
        try:
            texts: pa.StringArray | pa.LargeStringArray = self._encode(batch)
            return texts
        except BadRowError:
            row = self._first_bad_row(batch)
        try:
            self._encode(batch[row : row + 1])
        except BadRowError as bad:
            raise BadRowError(f"Row {row} of the batch: {bad}", **bad.facts, row=row) from None
        raise AssertionError("a row that cannot be sent within its batch can be sent alone")

    def _encode(self, batch: pa.RecordBatch) -> Array:
        try:
            text = self._writer.write_columns(batch.columns, batch.num_rows)
            return text.wrapped(self._before, "").joined(batch.num_rows)
        except pa.ArrowCapacityError:
            if batch.num_rows < 2:
                raise
        half = batch.num_rows // 2
        halves = [self._encode(batch[:half]), self._encode(batch[half:])]
        return pa.concat_arrays([part.cast(pa.large_string()) for part in halves])

    def _first_bad_row(self, batch: pa.RecordBatch) -> int:
        first, last = 0, batch.num_rows
        while last - first > 1:
            middle = (first + last) // 2
            try:
                self._encode(batch[first:middle])
            except BadRowError:
                last = middle
            else:
                first = middle
        return first
