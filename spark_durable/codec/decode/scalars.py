"""Scalar values of Spark's types from JSON scalars, as Spark's JSON reader converts them.

One :class:`Scalar` per column type. Values are what :func:`pyarrow.array` takes for the column's
Arrow type, with dates, timestamps and intervals as the integers Spark holds.
"""

from __future__ import annotations

import re
import struct
from binascii import a2b_base64
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.types import (
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
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from spark_durable.codec.decode.datetimes import parse_date, parse_timestamp, parse_timestamp_ntz
from spark_durable.codec.decode.intervals import IntervalParser, MalformedInterval

if TYPE_CHECKING:
    from spark_durable.codec.zones import Zone

Value: TypeAlias = Any


class Mismatch(Exception):
    """This JSON value has no place in this column; Spark takes the record for malformed."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """How each kind of JSON scalar becomes a value. A kind without a function is a mismatch.

    ``from_real`` gets the number's text.
    """

    from_text: Callable[[str], Value] | None = None
    from_int: Callable[[int], Value] | None = None
    from_real: Callable[[str], Value] | None = None
    from_bool: Callable[[bool], Value] | None = None


_NON_NUMBERS = {
    "NaN": float("nan"),
    "+INF": float("inf"),
    "+Infinity": float("inf"),
    "Infinity": float("inf"),
    "-INF": float("-inf"),
    "-Infinity": float("-inf"),
}
_FLOAT_OVERFLOW = 2.0**128
# java.math.BigDecimal's grammar; both it and Python take any Unicode decimal digit.
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
# Java fails to round a number whose scale is further away than this from the column's.
_MAX_SCALE = 646_456_993
_DECIMAL_CONTEXT = Context(prec=80, Emax=10**17, Emin=-(10**17))
BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII)


def scalar_for(dtype: DataType, session: Zone) -> Scalar | None:
    """The conversion into ``dtype``, None if that is no scalar type that JSON can fill."""
    if isinstance(dtype, StringType):
        return Scalar(plain_text, str, double_text, bool_text)
    if isinstance(dtype, BinaryType):
        return Scalar(from_text=decode_base64)
    if isinstance(dtype, DecimalType):
        convert = partial(_decimal, dtype.precision, dtype.scale)
        return Scalar(
            lambda text: convert(text.replace(",", "")), lambda value: convert(str(value)), convert
        )
    if isinstance(dtype, TimestampType):
        return Scalar(
            lambda text: _known(parse_timestamp(text, session)), from_int=_seconds_to_micros
        )
    if isinstance(dtype, DayTimeIntervalType):
        return Scalar(
            from_text=partial(_interval, IntervalParser(dtype.startField, dtype.endField))
        )
    return _SCALARS.get(type(dtype))


def plain_text(text: str) -> str:
    """The string as Java encodes it in UTF-8, where a lone surrogate becomes a question mark."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def double_text(text: str) -> str:
    """A number with a fraction or an exponent, in a string column: the double as JSON text."""
    value = _real(text)
    if value != value or value in (float("inf"), float("-inf")):
        return f'"{java_double(value)}"'
    return java_double(value)


def bool_text(value: bool) -> str:
    return "true" if value else "false"


def java_double(value: float) -> str:
    """``Double.toString`` of Java 19 and later: the shortest digits that give the value back."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent
    prefix = "-" if sign else ""
    if value == 0:
        return prefix + "0.0"
    if -3 < point <= 7:
        if point <= 0:
            return f"{prefix}0.{'0' * -point}{text}"
        return f"{prefix}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    return f"{prefix}{text[0]}.{text[1:] or '0'}E{point - 1}"


def decode_base64(text: str) -> bytes:
    """Base64 in its plain form. What else Spark takes, it takes by the state of its parser."""
    if not BASE64.fullmatch(text):
        raise Mismatch
    return a2b_base64(text)


def float32(text: str) -> float:
    """The nearest float of a number's text, rounded once."""
    value = _real(text)
    if value != value or abs(value) in (0.0, float("inf")):
        return value
    low = _truncated_float32(abs(value))
    if low == abs(value):
        return value
    high = _next_float32(low)
    middle = (low + high) / 2
    if abs(value) != middle:
        nearest = low if abs(value) < middle else high
    else:
        # The double is a tie between two floats, the number itself need not be.
        exact = abs(Fraction(text))
        up = exact > Fraction(middle) or (exact == Fraction(middle) and _is_odd_float32(low))
        nearest = high if up else low
    if nearest == _FLOAT_OVERFLOW:
        nearest = float("inf")
    return nearest if value > 0 else -nearest


def _real(text: str) -> float:
    special = _NON_NUMBERS.get(text)
    return float(text) if special is None else special


def _truncated_float32(value: float) -> float:
    """The largest float (or 2^128, which is none) that is not above a positive double."""
    if value >= _FLOAT_OVERFLOW:
        return _FLOAT_OVERFLOW
    rounded: float = struct.unpack("<f", struct.pack("<f", _below_overflow(value)))[0]
    if rounded > value:
        rounded = _bits_to_float32(_float32_to_bits(rounded) - 1)
    return rounded


def _below_overflow(value: float) -> float:
    return min(value, 3.4028234663852886e38)


def _next_float32(value: float) -> float:
    if value == _FLOAT_OVERFLOW:
        return float("inf")
    bits = _float32_to_bits(value) + 1
    return _FLOAT_OVERFLOW if bits == 0x7F800000 else _bits_to_float32(bits)


def _is_odd_float32(value: float) -> bool:
    return value != _FLOAT_OVERFLOW and _float32_to_bits(value) % 2 == 1


def _float32_to_bits(value: float) -> int:
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return bits


def _bits_to_float32(bits: int) -> float:
    value: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return value


def _whole(low: int, high: int) -> Scalar:
    def convert(value: int) -> int:
        if not low <= value <= high:
            raise Mismatch
        return value

    return Scalar(from_int=convert)


def _byte(value: int) -> int:
    # Jackson takes unsigned bytes too and gives them their signed twin.
    if not -128 <= value <= 255:
        raise Mismatch
    return value - 256 if value > 127 else value


def _non_number(text: str) -> float:
    value = _NON_NUMBERS.get(text)
    if value is None:
        raise Mismatch
    return value


def _decimal(precision: int, scale: int, text: str) -> Decimal:
    if not _DECIMAL.fullmatch(text):
        raise Mismatch
    try:
        value = Decimal(text)
    except ArithmeticError:  # an exponent of more than 18 digits
        raise Mismatch from None
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    if abs(exponent) > _MAX_SCALE or (value and value.adjusted() > precision - scale):
        raise Mismatch
    if not value:
        return Decimal(0).scaleb(-scale)
    rounded = value.quantize(
        Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=_DECIMAL_CONTEXT
    )
    if len(rounded.as_tuple().digits) > precision:
        raise Mismatch
    return rounded


def _seconds_to_micros(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise Mismatch
    # Spark multiplies without a check, so seconds past the range of a timestamp wrap around.
    return (value * 1_000_000 + 2**63) % 2**64 - 2**63


def _interval(parser: IntervalParser, text: str) -> int:
    try:
        return parser.parse(text)
    except MalformedInterval:
        raise Mismatch from None


def _known(value: int | None) -> int:
    if value is None:
        raise Mismatch
    return value


_SCALARS: dict[type[DataType], Scalar] = {
    BooleanType: Scalar(from_bool=bool),
    ByteType: Scalar(from_int=_byte),
    ShortType: _whole(-(2**15), 2**15 - 1),
    IntegerType: _whole(-(2**31), 2**31 - 1),
    LongType: _whole(-(2**63), 2**63 - 1),
    FloatType: Scalar(_non_number, lambda value: float32(str(value)), float32),
    DoubleType: Scalar(_non_number, lambda value: _real(str(value)), _real),
    DateType: Scalar(from_text=lambda text: _known(parse_date(text))),
    TimestampNTZType: Scalar(from_text=lambda text: _known(parse_timestamp_ntz(text))),
}
