"""UTC offsets of instants in a time zone, as java.time finds them, for whole arrays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import numpy as np

from spark_durable.codec.zones import Zone, find_zone
from spark_durable.protocol.errors import OptionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_DAY = 86_400
# Time zone data knows no change of an offset before 1800, and none but yearly rules after 2400;
# the calendar with its weekdays repeats every 400 years.
_FIRST_YEAR, _RULES_YEAR = 1800, 2400
_CYCLE = 146_097 * _DAY
# No zone has changed its offset twice within four days; from 2100 on there are but rules, of which
# each holds for months.
_PROBE_DAYS, _RULE_PROBE_DAYS, _LAST_EXCEPTION_YEAR = 3, 20, 2100


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets of some instants: ``distinct[codes[i]]`` seconds; codes None means all alike."""

    distinct: tuple[int, ...]
    codes: NDArray[np.intp] | None = None

    def seconds(self) -> NDArray[np.int64] | int:
        if self.codes is None:
            return self.distinct[0]
        return np.array(self.distinct, np.int64)[self.codes]


def offsets_at(name: str, micros: NDArray[np.int64]) -> Offsets:
    """Offsets in the zone of this name at instants given in microseconds since 1970 UTC.

    What is known of regions is what Python's ``zoneinfo`` knows; Spark asks the JDK.
    """
    zone = known_zone(name)
    if zone.region is None:
        assert zone.offset is not None
        return Offsets((zone.offset,))
    if not len(micros):
        return Offsets((0,))
    instants = micros // 1_000_000
    if int(instants.max()) >= _start_of(_RULES_YEAR):
        rules = _start_of(_RULES_YEAR)
        instants = np.where(instants < rules, instants, (instants - rules) % _CYCLE + rules)
    years = _year_of(int(instants.min())), _year_of(int(instants.max()))
    starts, codes, distinct = _table(zone.region, *years)
    if len(distinct) == 1:
        return Offsets(distinct)
    # Before the first start the zone's first offset, local mean time, holds.
    periods = np.maximum(np.searchsorted(starts, instants, side="right") - 1, 0)
    return Offsets(distinct, codes[periods])


def known_zone(name: str) -> Zone:
    """The zone that Spark takes ``name`` for. Raises :class:`OptionError` if there is none."""
    zone = find_zone(name)
    if zone is None:
        raise OptionError(
            f"The time zone {name!r} is not known here. Set spark.sql.session.timeZone to a region"
            " such as Europe/Berlin or an offset such as +01:00; where the system has no time zone"
            " data, install the tzdata package."
        )
    return zone


def _start_of(year: int) -> int:
    return (datetime(year, 1, 1, tzinfo=timezone.utc) - _EPOCH) // timedelta(seconds=1)


def _year_of(instant: int) -> int:
    if instant < _start_of(_FIRST_YEAR):
        return _FIRST_YEAR
    return (_EPOCH + timedelta(seconds=instant)).year


@lru_cache(maxsize=64)
def _table(
    region: str, first_year: int, last_year: int
) -> tuple[NDArray[np.int64], NDArray[np.intp], tuple[int, ...]]:
    """Starts of the periods of one offset, the code of each, and the offset of each code."""
    starts: list[int] = []
    offsets: list[int] = []
    for year in range(first_year, last_year + 1):
        for start, offset in _changes(region, year):
            if not offsets or offset != offsets[-1]:
                starts.append(start)
                offsets.append(offset)
    distinct, codes = np.unique(np.array(offsets, np.int64), return_inverse=True)
    return np.array(starts, np.int64), codes.astype(np.intp), tuple(int(o) for o in distinct)


@lru_cache(maxsize=4096)
def _changes(region: str, year: int) -> tuple[tuple[int, int], ...]:
    """The offset at the start of the year, and each change within it, with its instant."""
    zone = ZoneInfo(region)

    def offset_at(instant: int) -> int:
        local = (_EPOCH + timedelta(seconds=instant)).astimezone(zone)
        return (local.utcoffset() or timedelta()) // timedelta(seconds=1)

    begin, end = _start_of(year), _start_of(year + 1)
    before, offset = begin, offset_at(begin)
    found = [(begin, offset)]
    days = _PROBE_DAYS if year < _LAST_EXCEPTION_YEAR else _RULE_PROBE_DAYS
    for probe in [*range(begin, end, days * _DAY), end - 1]:
        if (now := offset_at(probe)) != offset:
            low, high = before, probe
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset_at(middle) == offset else (low, middle)
            found.append((high, now))
            offset = now
        before = probe
    return tuple(found)
