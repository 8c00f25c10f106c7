"""JSON messages to record batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_durable.codec.buffers import Array
from spark_durable.codec.decode.blocks import SMALLEST_BLOCK, BlockReader, BlockResult
from spark_durable.codec.decode.options import Decoded, DecodeMode, DecodeOptions
from spark_durable.codec.decode.records import Malformed, RecordReader, Row
from spark_durable.codec.decode.required import check_required
from spark_durable.codec.decode.scan import Messages, fit_for_blocks
from spark_durable.codec.decode.schema import compile_schema
from spark_durable.codec.decode.text import decode_utf8
from spark_durable.codec.decode.trees import NotPlain, TreeReader
from spark_durable.protocol.errors import BadRowError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql.types import StructType

_SHOWN_CHARACTERS = 200


class JsonDecoder:
    """Decodes messages into rows of ``schema`` with the result of Spark's ``from_json``.

    The rows depend on nothing but the messages, the schema and the options (and, for strings that
    are a time without a date, on the day): a replayed batch gives the same rows. Picklable.
    """

    def __init__(self, schema: StructType, options: DecodeOptions) -> None:
        self._arguments = (schema, options)
        self._mode = options.mode
        self._schema = compile_schema(schema, options)
        self._blocks = BlockReader.of(self._schema)
        self._trees = TreeReader(self._schema.body, self._schema.session)
        self._records = RecordReader(self._schema.body, self._schema.session)

    def __reduce__(self) -> tuple[type[JsonDecoder], tuple[StructType, DecodeOptions]]:
        return JsonDecoder, self._arguments

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches: what Spark expects for the declared one."""
        return self._schema.arrow

    def decode(self, messages: pa.BinaryArray | pa.LargeBinaryArray) -> Decoded:
        """One row per message, or the kept ones.

        Raises :class:`BadRowError` for a malformed message under FAILFAST, and under every mode for
        a message that leaves a column empty which is declared NOT NULL.
        """
        view = Messages.of(messages)
        result, left = self._read_blocks(view)
        rows = _SlowRows(left)
        for row in left.tolist():
            rows.add(*self._read_row(view, row))
        if self._mode is DecodeMode.FAILFAST and rows.malformed:
            raise _malformed_error(view, min(rows.malformed))
        columns = self._assemble(len(view), result, rows)
        if self._schema.corrupt is not None:
            columns.insert(self._schema.corrupt, _corrupt_texts(view, rows.malformed))
        batch = _record_batch(columns, self._schema.arrow, len(view))
        kept = None
        if self._mode is DecodeMode.DROPMALFORMED and (dropped := rows.malformed + rows.blank):
            kept = pa.array(np.delete(np.arange(len(view)), dropped), pa.int64())
            batch = batch.take(kept)
        check_required(batch, kept)
        return Decoded(batch, kept)

    def _read_blocks(self, messages: Messages) -> tuple[BlockResult, NDArray[np.int64]]:
        """What could be read in blocks, and the rows that remain, in order."""
        if self._blocks is None or len(messages) < SMALLEST_BLOCK:
            return BlockResult(), np.arange(len(messages))
        fit = fit_for_blocks(messages)
        result = self._blocks.read(messages, np.flatnonzero(fit))
        return result, np.unique(np.concatenate([np.flatnonzero(~fit), *result.left]))

    def _read_row(self, messages: Messages, row: int) -> tuple[int, Row | None, bool]:
        """The row's index, its values (None for a blank message), and whether it is malformed."""
        if not messages.array[row].is_valid:
            return row, None, False
        text = decode_utf8(messages.message(row))
        try:
            try:
                return row, self._trees.read(text), False
            except NotPlain:
                return row, self._records.read(text), False
        except Malformed as malformed:
            return row, malformed.row or (None,) * len(self._schema.body.fields), True

    def _assemble(self, count: int, result: BlockResult, rows: _SlowRows) -> list[Array]:
        """The columns of all messages in order, from the blocks' and the rows'."""
        fields = self._schema.body_fields
        if len(result.rows) == 1 and len(result.rows[0]) == count and not len(rows.indices):
            return result.columns[0]
        slow = [
            pa.array(values, f.type) for values, f in zip(rows.columns(fields), fields, strict=True)
        ]
        place = np.empty(count, np.int64)
        parts = [*result.rows, rows.indices]
        place[np.concatenate(parts)] = np.arange(sum(map(len, parts)))
        order = pa.array(place)
        return [
            pa.concat_arrays([*(columns[i] for columns in result.columns), slow[i]]).take(order)
            for i in range(len(fields))
        ]


class _SlowRows:
    """Rows that were read one by one."""

    def __init__(self, indices: NDArray[np.int64]) -> None:
        self.indices = indices
        self.malformed: list[int] = []
        self.blank: list[int] = []
        self._rows: list[Row | None] = []

    def add(self, index: int, row: Row | None, malformed: bool) -> None:
        self._rows.append(row)
        if malformed:
            self.malformed.append(index)
        elif row is None:
            self.blank.append(index)

    def columns(self, fields: list[pa.Field[Any]]) -> list[list[Any]]:
        return [[None if row is None else row[i] for row in self._rows] for i in range(len(fields))]


def _corrupt_texts(messages: Messages, malformed: list[int]) -> Array:
    """The malformed messages as they came. Bytes that are not UTF-8 stay, as they do in Spark."""
    if not malformed:
        return pa.nulls(len(messages), pa.string())
    picked = np.full(len(messages), -1, np.int64)
    picked[malformed] = malformed
    indices: Array = pa.array(picked, mask=picked < 0)
    texts = messages.array.take(indices)
    return texts.cast(pa.binary()).view(pa.string())


def _record_batch(columns: list[Array], schema: pa.Schema, count: int) -> pa.RecordBatch:
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    rows: Array = pa.array([{}] * count, pa.struct([]))
    return pa.RecordBatch.from_struct_array(rows)


def _malformed_error(messages: Messages, row: int) -> BadRowError:
    text = decode_utf8(messages.message(row))
    shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
    return BadRowError(
        f"Malformed message (number {row} of this block) under mode FAILFAST: {shown!r}. To get"
        " malformed messages as nulls, with their text in the column _corrupt_record if the schema"
        " has one, set the option mode to PERMISSIVE; to leave them out, to DROPMALFORMED.",
        row=row,
    )
