"""Spark's datetime patterns, compiled for printing.

The letters are those of ``java.time.format.DateTimeFormatter`` as Spark admits them, for its
default locale (en-US). Left out are G, F, z, V and O, whose text depends on the locale data or the
JDK behind Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from spark_durable.codec.encode.strings import escape_text
from spark_durable.protocol.errors import OptionError

FieldName: TypeAlias = Literal[
    "month",
    "quarter",
    "day",
    "day_of_year",
    "weekday",
    "half_day",
    "hour",
    "clock_hour",
    "hour_of_half_day",
    "clock_hour_of_half_day",
    "minute",
    "second",
]


@dataclass(frozen=True, slots=True)
class Lookup:
    """A field of few values: the text of value v is ``texts[v - first]``."""

    field: FieldName
    texts: tuple[str, ...]
    first: int


@dataclass(frozen=True, slots=True)
class Year:
    """``width`` letters y: two print the last two digits, four and more a + past their width."""

    width: int


@dataclass(frozen=True, slots=True)
class Fraction:
    """``count`` decimal digits of the second after the first ``start`` ones, cut, not rounded."""

    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Offset:
    """The UTC offset: with a colon or not, how precise, and what a zero offset prints as."""

    colon: bool
    minutes: Literal["if any", "always"]
    seconds: bool
    zero: str

    def text(self, total: int) -> str:
        hours, rest = divmod(abs(total), 3600)
        minutes, seconds = divmod(rest, 60)
        colon = ":" if self.colon else ""
        text = f"{'-' if total < 0 else '+'}{hours:02d}"
        printed = hours
        if self.minutes == "always" or (self.minutes == "if any" and minutes):
            text += f"{colon}{minutes:02d}"
            printed += minutes
            if self.seconds and seconds:
                text += f"{colon}{seconds:02d}"
                printed += seconds
        return text if printed else self.zero


Segment: TypeAlias = "str | Lookup | Year | Fraction | Offset"

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")

# letter -> field, first value, number of values
_NUMBERS: dict[str, tuple[FieldName, int, int]] = {
    "d": ("day", 1, 31),
    "H": ("hour", 0, 24),
    "k": ("clock_hour", 1, 24),
    "K": ("hour_of_half_day", 0, 12),
    "h": ("clock_hour_of_half_day", 1, 12),
    "m": ("minute", 0, 60),
    "s": ("second", 0, 60),
}
_DATE_LETTERS = frozenset("yMLdDEQq")
_TIME_LETTERS = frozenset("HkKhmsSa")
_OFFSET_LETTERS = frozenset("XxZ")
_LETTERS = {
    "date": _DATE_LETTERS,
    "timestamp_ntz": _DATE_LETTERS | _TIME_LETTERS,
    "timestamp": _DATE_LETTERS | _TIME_LETTERS | _OFFSET_LETTERS,
}
Kind: TypeAlias = Literal["date", "timestamp_ntz", "timestamp"]


def compile_pattern(pattern: str, kind: Kind, option: str) -> tuple[Segment, ...]:
    """The segments that print a value of this kind, as it stands within a JSON string.

    As in Java, a section in brackets is printed when the value has all its fields and left out
    otherwise; outside brackets a missing field is an error, raised here rather than at the first
    row. Raises :class:`OptionError` naming ``option``.
    """
    return _Parser(pattern, kind, option).parse()


class _Parser:
    def __init__(self, pattern: str, kind: Kind, option: str) -> None:
        self._pattern = pattern
        self._kind: Kind = kind
        self._option = option

    def parse(self) -> tuple[Segment, ...]:
        # Each open section: its segments, and whether the value has all fields seen so far.
        sections: list[tuple[list[Segment], bool]] = [([], True)]
        at = 0
        while at < len(self._pattern):
            char = self._pattern[at]
            segments = sections[-1][0]
            if char == "'":
                literal, at = self._quoted(at)
                segments.append(escape_text(literal))
                continue
            if char == "[":
                sections.append(([], True))
            elif char == "]":
                if len(sections) == 1:
                    raise self._error("has ']' without '['")
                self._close(sections)
            elif char in "{}#":
                raise self._error(f"has the reserved character {char!r}: put it in quotes")
            elif char.isascii() and char.isalpha():
                count = len(self._pattern[at:]) - len(self._pattern[at:].lstrip(char))
                compiled = self._letters(char, count)
                if char in _LETTERS[self._kind]:
                    segments.extend(compiled)
                elif len(sections) == 1:
                    raise self._error(f"asks for {char * count!r}, which a {self._kind} has not")
                else:
                    sections[-1] = (segments, False)
                at += count
                continue
            else:
                segments.append(escape_text(char))
            at += 1
        while len(sections) > 1:
            self._close(sections)
        return tuple(sections[0][0])

    @staticmethod
    def _close(sections: list[tuple[list[Segment], bool]]) -> None:
        segments, complete = sections.pop()
        if complete:
            sections[-1][0].extend(segments)

    def _quoted(self, start: int) -> tuple[str, int]:
        """The literal that begins at this quote, and where the pattern goes on."""
        text = ""
        at = start + 1
        while at < len(self._pattern):
            if self._pattern[at] != "'":
                text += self._pattern[at]
                at += 1
            elif self._pattern[at + 1 : at + 2] == "'":
                text += "'"
                at += 2
            else:
                return text or "'", at + 1
        raise self._error("has a quote that is not closed")

    def _letters(self, letter: str, count: int) -> tuple[Segment, ...]:
        if letter == "y" and count <= 6:
            return (Year(count),)
        if letter in "ML" and count <= 4:
            return (_named("month", count, _MONTHS),)
        if letter in "Qq" and count <= 4:
            if count == 3:
                return (Lookup("quarter", ("Q1", "Q2", "Q3", "Q4"), 1),)
            return (_named("quarter", count, _QUARTERS),)
        if letter == "E" and count <= 4:
            return (_named("weekday", max(count, 3), _WEEKDAYS),)
        if letter == "a" and count == 1:
            return (Lookup("half_day", ("AM", "PM"), 0),)
        if letter == "D" and count <= 3:
            return (_number("day_of_year", 1, 366, count),)
        if letter in _NUMBERS and count <= 2:
            return (_number(*_NUMBERS[letter], count),)
        if letter == "S" and count <= 9:
            fraction = tuple(Fraction(n, min(3, count - n)) for n in range(0, min(count, 6), 3))
            return (*fraction, "0" * (count - 6)) if count > 6 else fraction
        if letter in "Xx" and count <= 5:
            colon = count in (3, 5)
            zero = "Z" if letter == "X" else "+00:00" if colon else "+00" if count == 1 else "+0000"
            return (Offset(colon, "if any" if count == 1 else "always", count > 3, zero),)
        if letter == "Z" and count <= 3:
            return (Offset(False, "always", False, "+0000"),)
        if letter == "Z" and count == 5:
            return (Offset(True, "always", True, "Z"),)
        raise self._error(
            f"asks for {letter * count!r}, which cannot be printed as Spark does;"
            " the letters to choose from are y M L d D E Q q a H k K h m s S X x Z"
        )

    def _error(self, what: str) -> OptionError:
        return OptionError(f"{self._option}={self._pattern!r} {what}.", option=self._option)


def _number(field: FieldName, first: int, values: int, width: int) -> Lookup:
    return Lookup(field, tuple(f"{v:0{width}d}" for v in range(first, first + values)), first)


def _named(field: FieldName, count: int, names: tuple[str, ...]) -> Lookup:
    """One or two letters print the number, three the short name, four the full one."""
    if count <= 2:
        return _number(field, 1, len(names), count)
    return Lookup(field, names if count == 4 else tuple(name[:3] for name in names), 1)
