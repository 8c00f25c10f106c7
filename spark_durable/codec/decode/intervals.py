"""Day-time intervals from strings, by the rules of Spark's cast."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_MICROS = {"DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_UNITS = tuple(_MICROS)
_LONG_MAX = 2**63 - 1
_TRIMMED = "".join(map(chr, range(0x21))) + "\x7f"
# How many digits the leading field may have; those that follow have one or two.
_LEADING_DIGITS = {"DAY": 9, "HOUR": 10, "MINUTE": 12, "SECOND": 13}
_SEPARATORS = {"HOUR": " ", "MINUTE": ":", "SECOND": ":"}
_FRACTION = r"(\.\d{1,9})?"
_SINGLE = r"([+|-])?(\d{1,13})" + _FRACTION


class MalformedInterval(ValueError):
    """Not an interval of this type."""


@dataclass(frozen=True, slots=True)
class IntervalParser:
    """Parses strings as ``INTERVAL start TO end``; ``start`` and ``end`` index DAY .. SECOND."""

    start: int
    end: int
    _plain: re.Pattern[str] = field(init=False, repr=False)
    _literal: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        units = _UNITS[self.start : self.end + 1]
        if len(units) == 1:
            body, suffix = _SINGLE, f"({units[0]})"
        else:
            body = rf"([+|-])?(\d{{1,{_LEADING_DIGITS[units[0]]}}})"
            body += "".join(rf"{_SEPARATORS[unit]}(\d{{1,2}})" for unit in units[1:])
            body += _FRACTION if units[-1] == "SECOND" else ""
            suffix = rf"{units[0]}\s+TO\s+{units[-1]}"
        flags = re.ASCII | re.IGNORECASE
        object.__setattr__(self, "_plain", re.compile(body, flags))
        object.__setattr__(
            self, "_literal", re.compile(rf"INTERVAL\s+([+|-])?'{body}'\s+{suffix}", flags)
        )

    def parse(self, text: str) -> int:
        """Microseconds. Raises :class:`MalformedInterval`."""
        trimmed = text.strip(_TRIMMED)
        signs: tuple[str | None, ...]
        if match := self._plain.fullmatch(trimmed):
            signs, fields = match.groups()[:1], match.groups()[1:]
        elif match := self._literal.fullmatch(trimmed):
            signs, fields = match.groups()[:2], match.groups()[2:]
        else:
            raise MalformedInterval(text)
        negative = signs.count("-") == 1
        if self.start == self.end:
            return self._single(negative, fields[0] or "", fields[1])
        return self._fields(-1 if negative else 1, fields)

    def _single(self, negative: bool, digits: str, fraction: str | None) -> int:
        unit = _UNITS[self.start]
        if unit != "SECOND":
            if fraction is not None or len(digits) > _LEADING_DIGITS[unit]:
                raise MalformedInterval(digits)
            # Spark multiplies without a check here, so a large count of days wraps around.
            wrapped = (-1 if negative else 1) * int(digits) * _MICROS[unit]
            return (wrapped + 2**63) % 2**64 - 2**63
        seconds = -int(digits) if negative else int(digits)
        if abs(seconds) > _LONG_MAX // _MICROS["SECOND"]:
            raise MalformedInterval(digits)
        micros = _micros_of_fraction(fraction)
        # The sign of the fraction is that of the whole seconds, and zero has none.
        return seconds * _MICROS["SECOND"] + (-micros if seconds < 0 else micros)

    def _fields(self, sign: int, fields: tuple[str | None, ...]) -> int:
        total = 0
        units = _UNITS[self.start : self.end + 1]
        for unit, digits in zip(units, fields, strict=False):
            limit = _LONG_MAX // _MICROS[unit]
            if unit != units[0]:
                limit = 23 if unit == "HOUR" else 59
            count = int(digits or 0)
            if count > limit:
                raise MalformedInterval(digits)
            total += count * _MICROS[unit]
        if units[-1] == "SECOND":
            total += _micros_of_fraction(fields[-1])
        if not -(2**63) <= sign * total < 2**63:
            raise MalformedInterval(str(total))
        return sign * total


def _micros_of_fraction(fraction: str | None) -> int:
    return int((fraction[1:] + "000000000")[:6]) if fraction else 0
