"""Time zones by the names Spark accepts, and what instant a local time in one of them is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MICROS_PER_SECOND = 1_000_000
_MICROS_PER_DAY = 86_400 * _MICROS_PER_SECOND
_MAX_OFFSET = 18 * 3600
_ORDINAL_OF_1970 = date(1970, 1, 1).toordinal()
# The calendar with its weekdays repeats every 400 years, so a rule-based offset does too.
_CYCLE_DAYS = 146_097

# java.time.ZoneId.SHORT_IDS.
_SHORT_IDS = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
# Entries of a system's time zone directory that are no region of the JDK.
_NOT_REGIONS = frozenset({"EST", "Factory", "HST", "MST", "ROC", "localtime", "posixrules"})
_NOT_REGION_PREFIXES = ("posix/", "right/")
_REGION = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
_ONE_DIGIT_HOUR = re.compile(r"([+-])([0-9]):")
_ONE_DIGIT_MINUTE = re.compile(r"([+-])([0-9][0-9]):([0-9])$")
_HOURS = re.compile(r"(?P<sign>[+-])(?P<h>[0-9]{1,2})(?P<m>)(?P<s>)")
_OFFSET = re.compile(
    r"(?P<sign>[+-])(?P<h>[0-9]{2})(?P<colon>:?)(?P<m>[0-9]{2})(?:(?P=colon)(?P<s>[0-9]{2}))?"
)


@dataclass(frozen=True, slots=True)
class Zone:
    """A fixed offset in seconds, or a region by name."""

    offset: int | None
    region: str | None = None

    def to_utc(self, days: int, micros_of_day: int) -> int:
        """Microseconds since 1970 UTC of this local time, as ``java.time.ZonedDateTime.of``.

        A time that a change of offset skips or repeats is taken by the offset before the change.
        """
        offset = self.offset
        if offset is None:
            offset = self._offset_of_local(days, micros_of_day // _MICROS_PER_SECOND)
        return days * _MICROS_PER_DAY + micros_of_day - offset * _MICROS_PER_SECOND

    def _offset_of_local(self, days: int, seconds: int) -> int:
        assert self.region is not None
        ordinal = days + _ORDINAL_OF_1970
        if ordinal < 1:
            ordinal, seconds = 1, 0
        elif ordinal > date.max.toordinal():
            over = ordinal - date.max.toordinal()
            ordinal -= (over + _CYCLE_DAYS - 1) // _CYCLE_DAYS * _CYCLE_DAYS
        local = datetime.fromordinal(ordinal) + timedelta(seconds=seconds)
        offset = local.replace(tzinfo=_zone_info(self.region)).utcoffset()
        assert offset is not None
        return offset // timedelta(seconds=1)


@lru_cache(maxsize=1024)
def find_zone(name: str) -> Zone | None:
    """The zone Spark takes ``name`` for, None where Spark knows none."""
    name = _ONE_DIGIT_HOUR.sub(r"\g<1>0\2:", name, count=1)
    name = _ONE_DIGIT_MINUTE.sub(r"\1\2:0\3", name, count=1)
    name = _SHORT_IDS.get(name, name)
    if name == "Z":
        return Zone(0)
    if name[:1] in ("+", "-"):
        return _fixed(name)
    for prefix in ("UTC", "GMT", "UT"):
        if name == prefix:
            return Zone(0)
        if name.startswith(prefix) and name[len(prefix)] in "+-":
            return _fixed(name[len(prefix) :])
    return _region(name)


def _fixed(text: str) -> Zone | None:
    match = _OFFSET.fullmatch(text) or _HOURS.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = int(match["h"]), int(match["m"] or 0), int(match["s"] or 0)
    total = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > _MAX_OFFSET:
        return None
    return Zone(-total if match["sign"] == "-" else total)


def _region(name: str) -> Zone | None:
    if not _REGION.fullmatch(name) or name in _NOT_REGIONS or name.startswith(_NOT_REGION_PREFIXES):
        return None
    try:
        _zone_info(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    return Zone(None, name)


@lru_cache(maxsize=1024)
def _zone_info(name: str) -> ZoneInfo:
    return ZoneInfo(name)
