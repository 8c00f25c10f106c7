"""Prints arrays of local dates and times by a compiled pattern."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from spark_durable.codec.buffers import Array, pc
from spark_durable.codec.encode.arrays import chosen
from spark_durable.codec.encode.offsets import Offsets
from spark_durable.codec.encode.pattern import Fraction, Lookup, Offset, Segment, Year
from spark_durable.codec.encode.text import Block, Text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_durable.codec.encode.text import Part

    Ints: TypeAlias = NDArray[np.integer[Any]]
    Piece: TypeAlias = str | NDArray[Any] | Array

_MICROS_PER_DAY = 86_400_000_000


@lru_cache(maxsize=256)
def _byte_table(texts: tuple[str, ...]) -> NDArray[Any] | None:
    """The texts as numpy bytes, or None if they differ in width.

    Two bytes go as one integer, which numpy moves faster than a string of two.
    """
    encoded = [text.encode() for text in texts]
    if len({len(text) for text in encoded}) != 1 or not encoded[0]:
        return None
    table = np.array(encoded)
    return table.view(np.uint16) if table.itemsize == 2 else table


_DIGITS = {
    count: cast("NDArray[Any]", _byte_table(tuple(f"{n:0{count}d}" for n in range(10**count))))
    for count in (1, 2, 3)
}


class Clock:
    """Dates and times of day, taken apart into the fields that patterns name.

    The calendar is the proleptic Gregorian one, for every year an Arrow date or timestamp holds.
    """

    def __init__(
        self,
        days: Ints,
        micros: Ints | None = None,
        offsets: Offsets | None = None,
    ) -> None:
        self._days = days
        self._micros = micros
        self._offsets = offsets

    @classmethod
    def of_local_micros(cls, micros: Ints, offsets: Offsets | None = None) -> Clock:
        """The clock at these microseconds since 1970 UTC, moved by their offsets if given."""
        days = micros // _MICROS_PER_DAY
        micros_of_day = micros - days * _MICROS_PER_DAY
        if offsets is not None and offsets.distinct != (0,):
            # Moved after the split: the sum may not fit into 64 bits near their ends.
            moved = micros_of_day + offsets.seconds() * 1_000_000
            carry = moved // _MICROS_PER_DAY
            days = days + carry
            micros_of_day = moved - carry * _MICROS_PER_DAY
        return cls(days, micros_of_day, offsets)

    def print(self, segments: tuple[Segment, ...]) -> Text:
        """The text of each row.

        What has one width becomes a block of memory; what varies (years past four digits, offsets
        of which some print as Z) becomes an array of its own.
        """
        parts: list[Part] = []
        template = b""
        columns: list[tuple[int, NDArray[Any]]] = []
        for segment in segments:
            for piece in self._pieces(segment):
                if isinstance(piece, str):
                    template += piece.encode()
                elif isinstance(piece, np.ndarray):
                    columns.append((len(template), piece))
                    template += bytes(piece.itemsize)
                else:
                    parts += [self._block(template, columns), piece]
                    template, columns = b"", []
        return Text((*parts, self._block(template, columns)))

    def _block(self, template: bytes, columns: list[tuple[int, NDArray[Any]]]) -> Part:
        return Block(len(self._days), template, tuple(columns)) if columns else template.decode()

    def _pieces(self, segment: Segment) -> list[Piece]:
        if isinstance(segment, str):
            return [segment]
        if isinstance(segment, Lookup):
            return [_look_up(segment.texts, getattr(self, segment.field) - segment.first)]
        if isinstance(segment, Fraction):
            digits = self._micros_of_second // 10 ** (6 - segment.start - segment.count)
            if segment.start:
                digits = digits % 10**segment.count
            return [_DIGITS[segment.count][digits]]
        if isinstance(segment, Offset):
            assert self._offsets is not None
            texts = tuple(segment.text(total) for total in self._offsets.distinct)
            codes = self._offsets.codes
            return [texts[0] if codes is None else _look_up(texts, codes)]
        return self._year_pieces(segment)

    def _year_pieces(self, segment: Year) -> list[Piece]:
        year = self.year
        if segment.width == 2:
            return [_DIGITS[2][np.abs(year) % 100]]
        if segment.width == 4 and len(year) and year.min() >= 0 and year.max() <= 9999:
            century = year // 100
            return [_DIGITS[2][century], _DIGITS[2][year - century * 100]]
        digits = pc.utf8_lpad(pc.cast(pa.array(np.abs(year)), pa.string()), segment.width, "0")
        plus = "+" if segment.width >= 4 else ""
        sign = (year >= 0) * 1 + (year >= 10**segment.width)
        return [chosen(["-", "", plus], sign), digits]

    @cached_property
    def _civil(self) -> tuple[Ints, Ints, Ints]:
        """Year, month and day. Counts from 0000-03-01, so that the leap day ends its year.

        Several times as fast as numpy's own datetime64, the more so in 32 bits.
        """
        since = self._days + 719_468
        if len(since) and since.max() < 2**31 and since.min() >= -(2**31):
            since = since.astype(np.int32)
        era = since // 146_097
        day_of_era = since - era * 146_097
        year_of_era = (
            day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
        ) // 365
        day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
        month = (5 * day_of_year + 2) // 153
        day = day_of_year - (153 * month + 2) // 5 + 1
        month = np.where(month < 10, month + 3, month - 9)
        return year_of_era + era * 400 + (month <= 2), month, day

    @property
    def year(self) -> Ints:
        return self._civil[0]

    @property
    def month(self) -> Ints:
        return self._civil[1]

    @property
    def quarter(self) -> Ints:
        return (self.month + 2) // 3

    @property
    def day(self) -> Ints:
        return self._civil[2]

    @property
    def day_of_year(self) -> Ints:
        new_year = self._days.astype("M8[D]").astype("M8[Y]").astype("M8[D]").astype(np.int64)
        return self._days - new_year + 1

    @property
    def weekday(self) -> Ints:
        return (self._days + 3) % 7 + 1

    @cached_property
    def _seconds_of_day(self) -> Ints:
        assert self._micros is not None
        return (self._micros // 1_000_000).astype(np.int32)

    @cached_property
    def _micros_of_second(self) -> Ints:
        assert self._micros is not None
        return (self._micros - self._seconds_of_day.astype(np.int64) * 1_000_000).astype(np.int32)

    @property
    def half_day(self) -> Ints:
        return self.hour // 12

    @cached_property
    def hour(self) -> Ints:
        return self._seconds_of_day // 3600

    @property
    def clock_hour(self) -> Ints:
        return (self.hour + 23) % 24 + 1

    @property
    def hour_of_half_day(self) -> Ints:
        return self.hour % 12

    @property
    def clock_hour_of_half_day(self) -> Ints:
        return (self.hour + 11) % 12 + 1

    @property
    def minute(self) -> Ints:
        return self._seconds_of_day // 60 - self.hour * 60

    @property
    def second(self) -> Ints:
        return self._seconds_of_day - self._seconds_of_day // 60 * 60


def _look_up(texts: tuple[str, ...], codes: Ints) -> NDArray[Any] | Array:
    """The text of each code: bytes if all texts are of one width, else Arrow strings."""
    table = _byte_table(texts)
    return chosen([*texts], codes) if table is None else table[codes]
