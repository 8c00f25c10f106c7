"""Columns declared NOT NULL, at any depth: Spark trusts the declaration, so it must hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_durable.codec.buffers import Array, mask_of, pc
from spark_durable.protocol.errors import BadRowError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def check_required(batch: pa.RecordBatch, kept: pa.Int64Array | None) -> None:
    """Raises :class:`BadRowError` for the first message that lacks a value it must have."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        found = _first_missing(field, column, np.arange(len(batch)), field.name)
        if found is not None:
            row, path = found
            message = row if kept is None else kept[row].as_py()
            raise BadRowError(
                f"{path} is declared NOT NULL, but message number {message} of this block has no"
                " value for it. Declare it nullable (Spark's own JSON reader takes every column for"
                " nullable), or see to it that each message has it.",
                row=message,
                column=path,
            )


def _first_missing(
    field: pa.Field[Any], array: Array, rows: NDArray[np.int64], path: str
) -> tuple[int, str] | None:
    """The first of ``rows`` without a required value, and the path of that value.

    Values below a null parent are not asked for.
    """
    if not _has_required(field):
        return None
    if not field.nullable and array.null_count:
        first = pc.index(array.is_null(), True).as_py()
        return int(rows[first]), path
    if array.null_count and not pa.types.is_primitive(array.type):
        present = np.flatnonzero(mask_of(array.is_valid()))
        array, rows = array.take(pa.array(present)), rows[present]
    if pa.types.is_struct(array.type):
        children = [(f, array.field(i), f".{f.name}") for i, f in enumerate(array.type)]
    elif pa.types.is_map(array.type):
        children = [(array.type.item_field, array.items, "{}")]
        rows = np.repeat(rows, np.diff(array.offsets.to_numpy()))
    elif pa.types.is_list(array.type):
        children = [(array.type.value_field, array.values, "[]")]
        rows = np.repeat(rows, np.diff(array.offsets.to_numpy()))
    else:
        return None
    for child, values, step in children:
        found = _first_missing(child, values, rows, path + step)
        if found is not None:
            return found
    return None


def _has_required(field: pa.Field[Any]) -> bool:
    kind = field.type
    if not field.nullable:
        return True
    if pa.types.is_map(kind):
        return _has_required(kind.item_field)
    if pa.types.is_list(kind):
        return _has_required(kind.value_field)
    return pa.types.is_struct(kind) and any(_has_required(child) for child in kind)
