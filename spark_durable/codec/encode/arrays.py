"""String arrays built and taken apart by their buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_durable.codec.buffers import Array, mask_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MOST_BYTES = 2**31 - 1


def spread(dense: Array, valid: Array) -> Array:
    """Puts the values of ``dense`` at the rows where ``valid`` is true; the others are null."""
    present = mask_of(valid)
    return dense.take(pa.array(np.cumsum(present) - 1, mask=~present))


def chosen(texts: Sequence[str], codes: NDArray[Any]) -> Array:
    """The text of each code."""
    return pa.array(texts, pa.string()).take(pa.array(codes))


def string_array(
    offsets: NDArray[np.integer[Any]], data: NDArray[np.uint8], nulls_of: Array | None = None
) -> Array:
    """A string array over raw buffers, null where ``nulls_of`` is. The bytes have to be UTF-8."""
    if len(data) > _MOST_BYTES:
        raise pa.ArrowCapacityError("the texts of a column do not fit into one Arrow array")
    offsets = offsets.astype(np.int32, copy=False)
    validity = None if nulls_of is None else _validity(nulls_of)
    return pa.Array.from_buffers(
        pa.string(),
        len(offsets) - 1,
        [validity, pa.py_buffer(offsets.data), pa.py_buffer(data.data)],
    )


def offsets_and_bytes(values: Array) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """The buffers behind a string or binary array, cut to it, offsets starting at 0."""
    _, offsets_buffer, data_buffer = values.buffers()
    if not len(values) or offsets_buffer is None:
        return np.zeros(len(values) + 1, np.int32), np.empty(0, np.uint8)
    width = np.int64 if has_wide_offsets(values) else np.int32
    offsets = np.frombuffer(offsets_buffer, width)[values.offset :][: len(values) + 1]
    start, end = int(offsets[0]), int(offsets[-1])
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return (offsets - start if start else offsets), data[start:end]


def has_wide_offsets(values: Array) -> bool:
    return pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)


def with_nulls_of(values: Array, texts: Array) -> Array:
    assert texts.offset == 0
    return pa.Array.from_buffers(texts.type, len(texts), [_validity(values), *texts.buffers()[1:]])


def _validity(values: Array) -> pa.Buffer | None:
    """The bits that say which rows are not null, from the first row on."""
    return values.is_valid().buffers()[1] if values.null_count else None
