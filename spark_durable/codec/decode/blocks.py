"""Blocks of messages to columns: by where their values lie, or else by pyarrow's JSON reader.

The latter fails a whole block for one message it does not take. Then the messages at fault are
looked for, first by scans of each, then by halving; they are left to the per-row path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.json

from spark_durable.codec.buffers import Array, one_array
from spark_durable.codec.decode.restore import restorer_for
from spark_durable.codec.decode.scan import with_long_exponents, with_non_numbers
from spark_durable.codec.decode.schema import wire_schema
from spark_durable.codec.decode.suspects import SuspectFinder
from spark_durable.codec.decode.uniform import uniform_columns
from spark_durable.codec.messages import join_ndjson

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_durable.codec.decode.scan import Messages
    from spark_durable.codec.decode.schema import DecodeSchema

pj: Any = pyarrow.json

_BLOCK_BYTES = 1 << 20
# Fewer messages than this are read faster one by one.
SMALLEST_BLOCK = 32
_UNEXPECTED_FIELD = "unexpected field"
# Blocks read by the parser after one whose messages were not of one shape.
_PAUSE = 7


@dataclass(slots=True)
class BlockResult:
    """``columns[k]`` holds the messages ``rows[k]`` in order; ``left`` is for the per-row path.

    A message of ``rows`` may be in ``left`` too: its columns then do not count.
    """

    rows: list[NDArray[np.int64]] = field(default_factory=list)
    columns: list[list[Array]] = field(default_factory=list)
    left: list[NDArray[np.int64]] = field(default_factory=list)


class BlockReader:
    """Reads messages that :func:`~spark_durable.codec.decode.scan.fit_for_blocks` let through."""

    def __init__(self, schema: DecodeSchema, wire: pa.Schema) -> None:
        self._wire = wire
        self._restorers = [
            restorer_for(spark.dataType, arrow.type, schema.session)
            for spark, arrow in zip(schema.body.fields, schema.body_fields, strict=True)
        ]
        self._has_decimals = "decimal" in schema.body.simpleString()
        self._suspects = SuspectFinder(schema.body)
        # Asking for no other fields saves a look for what the reader would drop in silence.
        self._other_fields: Literal["error", "ignore"] = "error"
        # After a block that foundered the next one is scanned first: trouble comes in numbers.
        self._scan_first = False
        self._not_uniform = 0  # blocks to go until messages of one shape are expected again

    @classmethod
    def of(cls, schema: DecodeSchema) -> BlockReader | None:
        """None if some column can only be read row by row."""
        wire = wire_schema(schema.body)
        return None if wire is None else cls(schema, wire)

    def read(self, messages: Messages, rows: NDArray[np.int64]) -> BlockResult:
        """The columns of the messages at ``rows``."""
        result = BlockResult()
        messages = messages.take(rows)
        if self._scan_first:
            self._read_scanned(messages, rows, result)
        elif not self._read_whole(messages, rows, result):
            self._scan_first = True
            self._read_scanned(messages, rows, result)
        return result

    def _read_scanned(
        self, messages: Messages, rows: NDArray[np.int64], result: BlockResult
    ) -> None:
        found = self._suspects.unlike_schema(messages.array)
        self._scan_first = bool(found)
        messages, rows = _leave(messages, rows, found, result)
        if self._read_whole(messages, rows, result):
            return
        self._other_fields = "ignore"  # whatever the reader's error said
        found = self._suspects.with_doubled_names(messages.array)
        self._read_halves(*_leave(messages, rows, found, result), result)

    def _read_halves(
        self, messages: Messages, rows: NDArray[np.int64], result: BlockResult
    ) -> None:
        if self._read_whole(messages, rows, result):
            return
        if len(rows) < 2 * SMALLEST_BLOCK:
            result.left.append(rows)
            return
        for part in np.array_split(np.arange(len(rows)), 2):
            self._read_halves(messages.take(part), rows[part], result)

    def _read_whole(self, messages: Messages, rows: NDArray[np.int64], result: BlockResult) -> bool:
        """Whether these messages could be read as one block."""
        if self._has_decimals and len(rows):
            messages, rows = _leave(messages, rows, with_long_exponents(messages), result)
        if self._other_fields == "ignore":
            messages, rows = _leave(messages, rows, with_non_numbers(messages), result)
        if not len(rows):
            return True
        columns = self._uniform(messages) or self._parse(messages)
        if columns is not None:
            self._restore(columns, rows, result)
        return columns is not None

    def _uniform(self, messages: Messages) -> list[Array] | None:
        """The columns of messages of one shape. After others it is not tried for a while."""
        if self._not_uniform:
            self._not_uniform -= 1
            return None
        columns = uniform_columns(messages, self._wire)
        if columns is None:
            self._not_uniform = _PAUSE
        return columns

    def _parse(self, messages: Messages) -> list[Array] | None:
        """The columns of these messages, one row each; None if they do not all parse."""
        try:
            table = pj.read_json(
                pa.BufferReader(join_ndjson(messages.array)),
                # One thread: the executor's other cores have tasks of their own.
                pj.ReadOptions(
                    use_threads=False, block_size=max(_BLOCK_BYTES, int(messages.lengths.max()) + 1)
                ),
                pj.ParseOptions(
                    explicit_schema=self._wire, unexpected_field_behavior=self._other_fields
                ),
            )
        except pa.ArrowInvalid as error:
            if _UNEXPECTED_FIELD not in str(error) or self._other_fields == "ignore":
                return None
            self._other_fields = "ignore"
            return None if len(with_non_numbers(messages)) else self._parse(messages)
        # Each message begins and ends with a brace. Between "}" and "{" a newline cannot stand in
        # one value, so each message is one row or several; as many rows as messages means one each.
        if table.num_rows != len(messages):
            return None
        return [one_array(table.column(name)) for name in self._wire.names]

    def _restore(self, found: list[Array], rows: NDArray[np.int64], result: BlockResult) -> None:
        columns = []
        own_rows = np.arange(len(rows))
        for values, restore in zip(found, self._restorers, strict=True):
            column, failed = restore(values, own_rows)
            columns.append(column)
            if len(failed):
                result.left.append(rows[np.unique(failed)])
        result.rows.append(rows)
        result.columns.append(columns)


def _leave(
    messages: Messages,
    rows: NDArray[np.int64],
    left: list[int] | NDArray[np.int64],
    result: BlockResult,
) -> tuple[Messages, NDArray[np.int64]]:
    """The messages without those that are left to the per-row path."""
    if not len(left):
        return messages, rows
    result.left.append(rows[left])
    kept = np.delete(np.arange(len(rows)), left)
    return messages.take(kept), rows[kept]
