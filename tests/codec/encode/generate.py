"""Generates schemas, and values of them, the odd ones often."""

from __future__ import annotations

import random
import string
from decimal import Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
)

NAMES = [
    "a",
    "b c",
    'q"uote',
    "back\\nslash",
    "new\nline",
    "\x01",
    "ключ",
    "😀",
    "\u2028",
    "x.y",
    "",
]
INTERVALS = [DayTimeIntervalType(a, b) for a in range(4) for b in range(a, 4)]


def leaf_types() -> st.SearchStrategy[DataType]:
    fixed = [
        BooleanType(),
        ByteType(),
        ShortType(),
        IntegerType(),
        LongType(),
        FloatType(),
        DoubleType(),
        StringType(),
        DateType(),
        TimestampType(),
        TimestampNTZType(),
        TimeType(6),
        *INTERVALS,
    ]
    decimals = st.integers(1, 38).flatmap(
        lambda precision: st.builds(DecimalType, st.just(precision), st.integers(0, precision))
    )
    return st.sampled_from(fixed) | decimals


# The void type has nothing but nulls.
def struct_field(name: str, type_: DataType, nullable: bool) -> StructField:
    return StructField(name, type_, nullable or isinstance(type_, NullType))


def array_type(element: DataType, nullable: bool) -> ArrayType:
    return ArrayType(element, nullable or isinstance(element, NullType))


def map_type(key: DataType, value: DataType, nullable: bool) -> MapType:
    return MapType(key, value, nullable or isinstance(value, NullType))


def struct_types(fields: st.SearchStrategy[DataType], most: int) -> st.SearchStrategy[StructType]:
    names = st.lists(st.sampled_from(NAMES), unique=True, max_size=most)
    return names.flatmap(
        lambda names: st.tuples(
            *(st.builds(struct_field, st.just(name), fields, st.booleans()) for name in names)
        )
    ).map(lambda fields: StructType(list(fields)))


def value_types() -> st.SearchStrategy[DataType]:
    values = leaf_types() | st.sampled_from([BinaryType(), NullType()])
    return st.recursive(
        values,
        lambda inner: (
            st.builds(array_type, inner, st.booleans())
            | st.builds(map_type, leaf_types(), inner, st.booleans())
            | struct_types(inner, 3)
        ),
        max_leaves=4,
    )


class Values:
    """Draws values of a Spark type, the odd ones often."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def column(self, type_: DataType, nullable: bool, rows: int) -> list[Any]:
        share = self.random.choice([0, 0.1, 0.5, 1]) if nullable else 0
        return [None if self.random.random() < share else self.value(type_) for _ in range(rows)]

    def value(self, type_: DataType) -> Any:
        pick = self.random
        if isinstance(type_, StructType):
            return {f.name: self.column(f.dataType, f.nullable, 1)[0] for f in type_.fields}
        if isinstance(type_, ArrayType):
            return self.column(type_.elementType, type_.containsNull, pick.choice([0, 1, 2, 5]))
        if isinstance(type_, MapType):
            keys = {repr(key): key for key in self.column(type_.keyType, False, pick.randrange(4))}
            items = self.column(type_.valueType, type_.valueContainsNull, len(keys))
            return list(zip(keys.values(), items, strict=True))
        if isinstance(type_, DecimalType):
            digits = pick.choice([0, 1, pick.randrange(type_.precision), type_.precision])
            unscaled = pick.choice([-1, 1]) * pick.randrange(10**digits)
            return Decimal(f"{unscaled}E-{type_.scale}")
        if isinstance(type_, NullType):
            return None
        return getattr(self, f"_{type_.typeName()}")()

    def _integer_of(self, bits: int) -> int:
        edge = 1 << (bits - 1)
        return self.random.choice(
            [0, -1, edge - 1, -edge, self.random.randrange(-edge, edge), self.random.randrange(100)]
        )

    def _boolean(self) -> bool:
        return self.random.random() < 0.5

    def _byte(self) -> int:
        return self._integer_of(8)

    def _short(self) -> int:
        return self._integer_of(16)

    def _integer(self) -> int:
        return self._integer_of(32)

    def _long(self) -> int:
        return self._integer_of(64)

    def _double(self) -> float:
        pick = self.random
        odd = [0.0, -0.0, 1.0, 1e7, 9999999.0, 1e-3, 1e-4, 5e-324, 1.7976931348623157e308]
        odd += [float("nan"), float("inf"), float("-inf"), 2.0**53, 1e15, 1e16, 1e-5, 1e-6, 1e-7]
        drawn = [pick.random(), round(pick.uniform(-1e4, 1e4), 2), pick.gauss(0, 1) * 10**9]
        bits = np.array(pick.getrandbits(64), np.uint64).view(np.float64)
        return pick.choice([*drawn, *drawn, pick.choice(odd), float(bits)])

    def _float(self) -> float:
        with np.errstate(over="ignore"):
            return float(np.float32(self._double()))

    def _string(self) -> str:
        pick = self.random
        alphabet = pick.choice(
            [
                string.ascii_letters,
                '"\\/\b\f\n\r\t\x00\x1f\x7f',
                "aé€😀\u2028\u2029\ufffd\ufeff\x80\x9f",
            ]
        )
        return "".join(pick.choice(alphabet) for _ in range(pick.choice([0, 1, 3, 20])))

    def _binary(self) -> bytes:
        return self.random.randbytes(self.random.randrange(8))

    def _date(self) -> int:
        return self.random.choice([self.random.randrange(-40_000, 40_000), self._integer_of(32)])

    def _timestamp(self) -> int:
        pick = self.random
        day = 86_400_000_000
        return pick.choice(
            [
                pick.randrange(-60 * 365 * day, 60 * 365 * day),
                pick.randrange(-250 * 365 * day, 500 * 365 * day),
                pick.randrange(-1000, 1000),
                self._integer_of(64),
            ]
        )

    _timestamp_ntz = _timestamp

    def _daytimeinterval(self) -> int:
        return self.random.choice([self._timestamp(), self.random.randrange(10**8) * 1000])

    def _time(self) -> int:
        return self.random.choice([0, self.random.randrange(86_400), 86_399]) * 10**9 + (
            self.random.choice([0, 10**6 * self.random.randrange(1000), 999_999_000])
        )
