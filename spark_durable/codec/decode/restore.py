"""From what pyarrow's JSON reader gives to the declared columns, and the rows it got wrong.

A restorer takes the array of one column (or of the children of one) and the row that each of its
values belongs to. It returns the array in the declared type and the rows whose values need the
per-row path. It never fails, and never lets a value through that Spark would read otherwise.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_durable.codec.buffers import Array, mask_of, numpy_view, pc
from spark_durable.codec.decode.instants import (
    partly_plain,
    plain_dates,
    plain_instants,
    plain_local_times,
)
from spark_durable.codec.decode.scalars import BASE64, Mismatch, scalar_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_durable.codec.zones import Zone

    Rows: TypeAlias = NDArray[np.int64]
Restored: TypeAlias = "tuple[Array, Rows]"
Restorer: TypeAlias = "Callable[[Array, Rows], Restored]"

_NO_ROWS = np.empty(0, np.int64)


def restorer_for(dtype: DataType, target: Any, session: Zone) -> Restorer:
    """The restorer of values of ``dtype``, whose declared Arrow type is ``target``."""
    if isinstance(dtype, StructType):
        return _struct(dtype, target, session)
    if isinstance(dtype, ArrayType):
        return _list(dtype, target, session)
    if isinstance(dtype, (FloatType, DoubleType)):
        return _float
    if isinstance(dtype, DecimalType):
        return _decimal(target)
    if isinstance(dtype, BinaryType):
        return _binary
    scalar = scalar_for(dtype, session)
    assert scalar is not None
    if scalar.from_text is None or pa.types.is_string(target):
        return _as_it_is
    from_text = scalar.from_text

    def parse(text: str) -> int | None:
        try:
            value: int = from_text(text)
        except Mismatch:
            return None
        return value

    vectorised = _vectorised(dtype, session)

    def restore(array: Array, rows: Rows) -> Restored:
        restored = vectorised(array)
        if restored is not None:
            return restored, _NO_ROWS
        restored, failed = partly_plain(array, vectorised, parse, target)
        return restored, rows[failed]

    return restore


def _vectorised(dtype: DataType, session: Zone) -> Callable[[Array], Array | None]:
    if isinstance(dtype, DateType):
        return plain_dates
    if isinstance(dtype, TimestampType):
        return lambda array: plain_instants(array, session)
    if isinstance(dtype, TimestampNTZType):
        return plain_local_times
    return lambda array: None


def _as_it_is(array: Array, rows: Rows) -> Restored:
    return array, _NO_ROWS


def _float(array: Array, rows: Rows) -> Restored:
    """Spots -0.0, which Spark reads from ``-0.0`` but not from ``-0``, and what is not finite."""
    kind = np.dtype(f"i{array.type.bit_width // 8}")
    bits = numpy_view(array.buffers()[1], kind, len(array), array.offset)
    if len(bits) != len(array):  # no buffer: all null
        return array, _NO_ROWS
    sign = np.iinfo(kind).min
    exponent = 0x7FF0000000000000 if kind.itemsize == 8 else 0x7F800000
    odd = (bits == sign) | (bits & exponent == exponent)
    return array, rows[odd]


def _decimal(target: Any) -> Restorer:
    """Rounds, and spots numbers of too many digits for the column, which pyarrow lets through."""
    limit = 10 ** (target.precision - target.scale)

    def restore(array: Array, rows: Rows) -> Restored:
        try:
            return array.cast(target), _NO_ROWS
        except pa.ArrowInvalid:
            pass
        array, failed = _without_too_large(array, limit, rows)
        wide = pa.types.is_decimal256(array.type)
        widest: Any = (pa.decimal256 if wide else pa.decimal128)(
            76 if wide else 38, array.type.scale
        )
        rounded = pc.round(array.cast(widest), target.scale, round_mode="half_towards_infinity")
        rounded, rounded_up = _without_too_large(rounded, limit, rows)
        return rounded.cast(target), np.concatenate((failed, rounded_up))

    return restore


def _without_too_large(array: Array, limit: int, rows: Rows) -> Restored:
    bounds = pc.min_max(array)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None or (-limit < low and high < limit):
        return array, _NO_ROWS
    over = np.array([v is not None and abs(v) >= limit for v in array.to_pylist()])
    return pc.if_else(pa.array(over), pa.scalar(None, array.type), array), rows[over]


def _binary(array: Array, rows: Rows) -> Restored:
    plain = pc.match_substring_regex(array, f"^(?:{BASE64.pattern})$").fill_null(True)
    is_plain = mask_of(plain)
    if not is_plain.all():
        array = pc.if_else(plain, array, pa.scalar(None, array.type))
    decoded = [None if text is None else a2b_base64(text) for text in array.to_pylist()]
    return pa.array(decoded, pa.binary()), rows[~is_plain]


def _list(dtype: ArrayType, target: Any, session: Zone) -> Restorer:
    restore_element = restorer_for(dtype.elementType, target.value_type, session)

    def restore(array: Array, rows: Rows) -> Restored:
        offsets = array.offsets.to_numpy()
        first, last = int(offsets[0]), int(offsets[-1])
        values, failed = restore_element(
            array.values.slice(first, last - first), np.repeat(rows, np.diff(offsets))
        )
        mask = array.is_null() if array.null_count else None
        return (
            pa.ListArray.from_arrays(pa.array(offsets - first), values, type=target, mask=mask),
            failed,
        )

    return restore


def _struct(dtype: StructType, target: Any, session: Zone) -> Restorer:
    fields = [target.field(i) for i in range(target.num_fields)]
    restorers = [
        restorer_for(child.dataType, field.type, session)
        for child, field in zip(dtype.fields, fields, strict=True)
    ]

    def restore(array: Array, rows: Rows) -> Restored:
        restored = [restore(array.field(i), rows) for i, restore in enumerate(restorers)]
        mask = array.is_null() if array.null_count else None
        return (
            pa.StructArray.from_arrays([child for child, _ in restored], fields=fields, mask=mask),
            np.concatenate([failed for _, failed in restored]),
        )

    return restore
