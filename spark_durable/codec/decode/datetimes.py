"""Dates and timestamps from strings, by the rules of Spark's cast, which its JSON reader follows.

Results are Spark's internal values: days, or microseconds, since 1970-01-01. None means that Spark
takes the string for malformed.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from spark_durable.codec.zones import find_zone

if TYPE_CHECKING:
    from spark_durable.codec.zones import Zone

_MICROS_PER_SECOND = 1_000_000
_ORDINAL_OF_1970 = date(1970, 1, 1).toordinal()
_CYCLE_DAYS = 146_097
_FIRST_GREGORIAN_DAY = -141_427
_JULIAN_DAY_OF_1970 = 2_440_588
# What Spark trims: white space and ISO control characters that are one byte of UTF-8.
_TRIMMED = "".join(map(chr, range(0x21))) + "\x7f"
_JAVA_TRIMMED = "".join(map(chr, range(0x21)))
# The groups: hour, minute, second, fraction, zone.
_TIME = r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(\D.*)?)?)?"
# Sign, year, month, day, and those of the time.
_TIMESTAMP = re.compile(
    r"([+-])?(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T]" + _TIME + ")?)?)?", re.ASCII | re.DOTALL
)
_TIME_OF_TODAY = re.compile(r"(?:T|(?=\d+:))" + _TIME, re.ASCII | re.DOTALL)
_DATE = re.compile(
    r"([+-])?(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL
)
_INTEGER = re.compile(r"[+-]?\d+")


def parse_timestamp(text: str, session: Zone) -> int | None:
    """Microseconds since 1970 UTC. Strings without a zone are local to ``session``."""
    micros = _zoned_micros(text, session)
    if micros is None and "GMT" in text:
        micros = _zoned_micros(text.replace("GMT", ""), session)
    return micros


def parse_timestamp_ntz(text: str) -> int | None:
    """Microseconds since 1970-01-01 00:00 of the same clock. A zone, or no date, is malformed."""
    match = _TIMESTAMP.fullmatch(text.strip(_TRIMMED))
    if match is None:
        return None
    sign, year, month, day, *time, zone = match.groups()
    days, micros = _days_of(sign, year, month, day), _micros_of_day(*time)
    if zone is not None or days is None or micros is None:
        return None
    return _as_long(days * 86_400 * _MICROS_PER_SECOND + micros)


def parse_date(text: str) -> int | None:
    """Days since 1970-01-01. A bare integer that is no year counts days, as in Spark 1.5."""
    days = _parse_calendar_date(text)
    if days is None and "GMT" in text:
        days = _parse_calendar_date(text.replace("GMT", ""))
    if days is None and _INTEGER.fullmatch(text):
        count = int(text)
        if -(2**31) <= count < 2**31:
            days = _as_int(_julian_to_gregorian(count))
    return days


def days_from_civil(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01 of a proleptic Gregorian date of any year, None if there is none."""
    cycles, year_of_cycle = divmod(year, 400)
    try:
        ordinal = date(year_of_cycle + 400, month, day).toordinal()
    except ValueError:
        return None
    return ordinal - _ORDINAL_OF_1970 + (cycles - 1) * _CYCLE_DAYS


def _zoned_micros(text: str, session: Zone) -> int | None:
    trimmed = text.strip(_TRIMMED)
    match = _TIMESTAMP.fullmatch(trimmed)
    date_parts: tuple[str | None, ...] | None = None
    if match is not None:
        groups = match.groups()
        date_parts, groups = groups[:4], groups[4:]
    else:
        match = _TIME_OF_TODAY.fullmatch(trimmed)
        # A leading T is taken for the start of a time only where nothing was trimmed before it.
        if match is None or (trimmed[0] == "T" and text[0] != "T"):
            return None
        groups = match.groups()
    *time, zone_name = groups
    zone: Zone | None = session
    if zone_name is not None:
        zone = find_zone(zone_name.strip(_JAVA_TRIMMED))
    micros = _micros_of_day(*time)
    if zone is None or micros is None:
        return None
    days = _today_in(zone) if date_parts is None else _days_of(*date_parts)
    if days is None:
        return None
    return _as_long(zone.to_utc(days, micros))


def _parse_calendar_date(text: str) -> int | None:
    match = _DATE.fullmatch(text.strip(_TRIMMED))
    if match is None:
        return None
    days = _days_of(*match.groups())
    return None if days is None else _as_int(days)


def _days_of(sign: str | None, year: str | None, month: str | None, day: str | None) -> int | None:
    years = int(year or 0)
    return days_from_civil(-years if sign == "-" else years, int(month or 1), int(day or 1))


def _micros_of_day(
    hour: str | None, minute: str | None, second: str | None, fraction: str | None
) -> int | None:
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    micros = int((fraction + "000000")[:6]) if fraction else 0
    return (hours * 3600 + minutes * 60 + seconds) * _MICROS_PER_SECOND + micros


def _today_in(zone: Zone) -> int:
    # The local date at this instant: the largest one whose midnight in the zone has passed.
    now = datetime.now(timezone.utc)
    micros = (now - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)
    days = now.toordinal() - _ORDINAL_OF_1970 + 1
    while zone.to_utc(days, 0) > micros:
        days -= 1
    return days


def _julian_to_gregorian(days: int) -> int:
    """The day that has the same year, month and day in the proleptic Gregorian calendar.

    ``days`` counts in the calendar that is Julian before 1582-10-15. A Julian leap day that the
    Gregorian calendar lacks becomes the first of March.
    """
    if days >= _FIRST_GREGORIAN_DAY:
        return days
    # Richards' algorithm for the Julian calendar, with whole four-year cycles split off so that it
    # also holds for years before -4716.
    cycles, jdn = divmod(days + _JULIAN_DAY_OF_1970, 1461)
    e = 4 * (jdn + 1401 + 1461) + 3
    h = 5 * (e % 1461 // 4) + 2
    day = h % 153 // 5 + 1
    month = (h // 153 + 2) % 12 + 1
    year = e // 1461 - 4716 + (14 - month) // 12 + 4 * (cycles - 1)
    first = days_from_civil(year, month, 1)
    assert first is not None
    return first + day - 1


def _as_int(value: int) -> int | None:
    return value if -(2**31) <= value < 2**31 else None


def _as_long(value: int) -> int | None:
    return value if -(2**63) <= value < 2**63 else None
