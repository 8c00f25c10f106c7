"""Finds, quickly, the messages on which a block foundered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructType,
)

from spark_durable.codec.buffers import Array, mask_of, pc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
# So many messages are tried at once: few enough that most groups have no suspect.
_GROUP = 20


class SuspectFinder:
    """Picks out messages that a block cannot take.

    It need not find all: what it misses costs time, never a wrong row.
    """

    def __init__(self, body: StructType) -> None:
        row = _struct(body)
        self._one: msgspec.json.Decoder[Any] = msgspec.json.Decoder(row)
        self._group: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[row])  # type: ignore[valid-type]
        self._undoubled = json.JSONDecoder(object_pairs_hook=_refuse_doubled).raw_decode
        self._names = [json.dumps(name, ensure_ascii=False) + ":" for name in body.names]

    def unlike_schema(self, messages: Array) -> list[int]:
        """Those that are not JSON or have values of another kind than their columns."""
        found = []
        for first, group in zip(range(0, len(messages), _GROUP), _arrays(messages), strict=True):
            members = messages.slice(first, _GROUP)
            try:
                if len(self._group.decode(group)) == len(members):
                    continue
            except _FAILURES:
                pass
            found += [first + i for i in _failing(self._one.decode, members.to_pylist())]
        return found

    def with_doubled_names(self, messages: Array) -> list[int]:
        """Those with an object that has a name twice."""
        # Where names are written plainly, a look at their number leaves few to be parsed.
        candidates = np.zeros(len(messages), np.bool_)
        for name in self._names:
            candidates |= mask_of(pc.greater(pc.count_substring(messages, name), 1))
        rows = np.flatnonzero(candidates)
        found = _failing(self._has_no_doubled, messages.take(pa.array(rows)).to_pylist())
        if found:
            return rows[found].tolist()  # type: ignore[no-any-return]
        return _failing(self._has_no_doubled, messages.to_pylist())

    def _has_no_doubled(self, message: bytes) -> None:
        self._undoubled(message.decode())


_FAILURES = (msgspec.MsgspecError, ValueError, RecursionError)


def _arrays(messages: Array) -> list[bytes]:
    """The messages as JSON arrays of a group each."""
    bounds = np.append(np.arange(0, len(messages), _GROUP), len(messages))
    groups = pa.LargeListArray.from_arrays(pa.array(bounds, pa.int64()), messages)
    elements = pc.binary_join(groups, pa.scalar(b",", pa.large_binary()))
    return [b"[%b]" % joined for joined in elements.to_pylist()]


def _failing(decode: Callable[[bytes], Any], messages: Iterable[bytes]) -> list[int]:
    failing = []
    for i, message in enumerate(messages):
        try:
            decode(message)
        except _FAILURES:
            failing.append(i)
    return failing


def _refuse_doubled(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise ValueError


def _struct(schema: StructType) -> type[msgspec.Struct]:
    # Any text can be a column's name; attributes need identifiers.
    names = {f"f{i}": field.name for i, field in enumerate(schema.fields)}
    fields = [
        (attribute, _kind(field.dataType) | None, None)
        for attribute, field in zip(names, schema.fields, strict=True)
    ]
    return msgspec.defstruct("Row", fields, rename=names, gc=False)


def _kind(dtype: DataType) -> Any:
    if isinstance(dtype, StructType):
        return _struct(dtype)
    if isinstance(dtype, ArrayType):
        return list[_kind(dtype.elementType) | None]  # type: ignore[misc]
    if isinstance(dtype, BooleanType):
        return bool
    if isinstance(dtype, (FloatType, DoubleType)):
        return float
    if isinstance(dtype, DecimalType):
        return int | float | str
    bits = _BITS.get(type(dtype))
    if bits is not None:
        return Annotated[int, msgspec.Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]
    return str
