"""Writers of dates, times, timestamps and day-time intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spark_durable.codec.buffers import Array, pc
from spark_durable.codec.encode.arrays import chosen
from spark_durable.codec.encode.clock import Clock
from spark_durable.codec.encode.offsets import offsets_at
from spark_durable.codec.encode.text import Text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_durable.codec.encode.pattern import Segment
    from spark_durable.codec.encode.text import Part

_SECOND = 1_000_000
_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")
_UNITS = (86_400 * _SECOND, 3_600 * _SECOND, 60 * _SECOND)
_TWO_DIGITS = [f"{n:02d}" for n in range(60)]


@dataclass(frozen=True, slots=True)
class DateWriter:
    segments: tuple[Segment, ...]

    def write(self, values: Array) -> Text:
        days = _integers(values, pa.int32()).astype(np.int64)
        return Clock(days).print(self.segments).nulled(values).wrapped('"', '"')


@dataclass(frozen=True, slots=True)
class TimestampWriter:
    """Instants, printed in ``zone`` or, if that is None, in the zone of the Arrow column."""

    segments: tuple[Segment, ...]
    zone: str | None

    def write(self, values: Array) -> Text:
        micros = _integers(values, pa.int64())
        offsets = offsets_at(self.zone or values.type.tz, micros)
        clock = Clock.of_local_micros(micros, offsets)
        return clock.print(self.segments).nulled(values).wrapped('"', '"')


@dataclass(frozen=True, slots=True)
class TimestampNtzWriter:
    segments: tuple[Segment, ...]

    def write(self, values: Array) -> Text:
        clock = Clock.of_local_micros(_integers(values, pa.int64()))
        return clock.print(self.segments).nulled(values).wrapped('"', '"')


@dataclass(frozen=True, slots=True)
class TimeWriter:
    """Times of day: as many digits of the second as are not trailing zeros."""

    segments: tuple[Segment, ...]

    def write(self, values: Array) -> Text:
        nanos = _integers(values, pa.int64())
        whole = Clock(np.zeros_like(nanos), nanos // 1000).print(self.segments)
        fraction = _fraction(nanos % 1_000_000_000, 9)
        return Text((*whole.parts, fraction)).nulled(values).wrapped('"', '"')


@dataclass(frozen=True, slots=True)
class DayTimeIntervalWriter:
    """ANSI intervals. ``first`` and ``last`` count from 0, the day, to 3, the second."""

    first: int
    last: int

    def write(self, values: Array) -> Text:
        micros = _integers(values, pa.int64())
        # Unsigned, so that the smallest interval has an absolute value.
        rest = np.where(micros < 0, -micros.view(np.uint64), micros.view(np.uint64))
        parts: list[Part] = [chosen(["", "-"], (micros < 0) * 1)]
        for field in range(self.first, self.last + 1):
            if field > self.first:
                parts.append(" " if field == 1 else ":")
            if field < 3:
                amount = rest // np.uint64(_UNITS[field])
                rest = rest - amount * np.uint64(_UNITS[field])
            else:
                amount = rest // np.uint64(_SECOND)
            parts.append(_amount(amount, leading=field == self.first, padded=field > 0))
        if self.last == 3:
            parts.append(_fraction(rest % np.uint64(_SECOND), 6))
        unit = _FIELDS[self.first]
        if self.first != self.last:
            unit += f" TO {_FIELDS[self.last]}"
        return Text(tuple(parts)).nulled(values).wrapped("\"INTERVAL '", f"' {unit}\"")


def _integers(values: Array, storage: pa.DataType) -> NDArray[Any]:
    """The integers behind a temporal array; 0 in place of null."""
    integers = values.view(storage)
    if integers.null_count:
        integers = pc.fill_null(integers, 0)
    numbers: NDArray[Any] = integers.to_numpy(zero_copy_only=False)
    return numbers


def _amount(amount: NDArray[np.uint64], *, leading: bool, padded: bool) -> Array:
    if not leading:
        return chosen(_TWO_DIGITS, amount)
    digits = pc.cast(pa.array(amount), pa.string())
    return pc.utf8_lpad(digits, 2, "0") if padded else digits


def _fraction(digits: NDArray[Any], width: int) -> Array:
    """The decimal point and the digits without trailing zeros; nothing at all for zero."""
    if not digits.any():
        return pa.repeat(pa.scalar(""), len(digits))
    padded = pc.utf8_lpad(pc.cast(pa.array(digits), pa.string()), width, "0")
    texts = pc.binary_join_element_wise(".", padded, "")
    return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
