"""Strings to dates and times, one by one and by column; Spark's own are in test_against_spark."""

from __future__ import annotations

import random
from datetime import datetime, timezone
from functools import partial

import pyarrow as pa
import pytest

from spark_durable.codec.decode.datetimes import parse_date, parse_timestamp, parse_timestamp_ntz
from spark_durable.codec.decode.instants import (
    partly_plain,
    plain_dates,
    plain_instants,
    plain_local_times,
)
from spark_durable.codec.decode.intervals import IntervalParser, MalformedInterval
from spark_durable.codec.zones import Zone, find_zone

UTC = Zone(0)


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        *(("Z", UTC), ("UTC", UTC), ("GMT", UTC), ("+01:30", Zone(5400)), ("-0130", Zone(-5400))),
        *(("+1", Zone(3600)), ("+1:3", Zone(3780)), ("UTC+1", Zone(3600)), ("EST", Zone(-18_000))),
        *(("+01:02:03", Zone(3723)), ("GMT+01:30", Zone(5400)), ("UT-5", Zone(-18_000))),
        *(("PST", Zone(None, "America/Los_Angeles")), ("Asia/Tokyo", Zone(None, "Asia/Tokyo"))),
        *(
            (name, None)
            for name in ("z", "", "+", "+123", "+18:01", "+00:60", "utc", "europe/paris")
        ),
        *((name, None) for name in ("posix/UTC", "localtime", "Factory", "../UTC", "UTC ", "1")),
    ],
)
def test_zones(name: str, zone: Zone | None) -> None:
    assert find_zone(name) == zone


def test_local_times_around_a_change_of_offset() -> None:
    zone = find_zone("America/New_York")
    assert zone is not None
    skipped = parse_timestamp("2024-03-10T02:30:00", zone)
    assert skipped == parse_timestamp("2024-03-10T03:30:00", zone)
    twice = parse_timestamp("2024-11-03T01:30:00", zone)
    assert twice == parse_timestamp("2024-11-03T01:30:00-04:00", zone)
    # Far years follow the rules of near ones, very early ones the first known offset.
    assert parse_timestamp("99999-07-01T00:00:00", zone) == parse_timestamp(
        "99999-07-01T00:00:00-04:00", zone
    )
    assert parse_timestamp("-0001-01-01T00:00:00", zone) == parse_timestamp(
        "-0001-01-01T00:00:00-04:56:02", zone
    )


def test_a_time_without_a_date_is_today() -> None:
    before = datetime.now(timezone.utc).date()
    micros = parse_timestamp("T10:20:30+02:00", UTC)
    after = datetime.now(timezone.utc).date()
    assert micros is not None
    found = datetime.fromtimestamp(micros / 1e6, timezone.utc)
    assert found.date() in (before, after) or abs((found.date() - before).days) <= 1
    assert found.strftime("%H:%M:%S") == "08:20:30"
    assert parse_timestamp(" T10:20:30", UTC) is None
    assert parse_timestamp_ntz("10:20:30") is None


def test_columns_agree_with_single_strings() -> None:
    r = random.Random(5)
    zones = [UTC, Zone(19_800), find_zone("Europe/London"), find_zone("America/Sao_Paulo")]
    for trial in range(600):
        low, high = r.choice([(1, 9999), (1970, 2036), (2020, 2025)])
        texts: list[str | None] = []
        suffix = r.choice(["", "Z", "+02:00", "-17:59", "+18:00", "+19:00"])
        for _ in range(r.randrange(1, 30)):
            text = f"{r.randrange(low, high):04}-{r.randrange(1, 13):02}-{r.randrange(1, 32):02}"
            if trial % 3:
                clock = f"{r.randrange(25):02}:{r.randrange(60):02}:{r.randrange(60):02}"
                text += r.choice("T ") + clock
                text += r.choice(["", "", ".5", ".123456", ".1234567"]) if trial % 2 else ".250"
                text += suffix if r.random() < 0.95 else "Z"
            if r.random() < 0.03:
                at = r.randrange(len(text))
                text = text[:at] + r.choice("0 :-Tx+") + text[at + 1 :]
            texts.append(text if r.random() < 0.95 else None)
        array = pa.array(texts, pa.string()).slice(r.randrange(len(texts)))
        texts = array.to_pylist()
        zone = r.choice(zones)
        assert zone is not None
        for column, single in (
            (plain_dates(array), parse_date),
            (plain_local_times(array), parse_timestamp_ntz),
            (plain_instants(array, zone), partial(parse_timestamp, session=zone)),
        ):
            if column is not None:
                kind = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
                wanted = [None if text is None else single(text) for text in texts]
                assert column.view(kind).to_pylist() == wanted, (texts, zone)


def test_a_few_odd_strings_among_plain_ones() -> None:
    texts: list[str | None] = [f"2024-01-02T03:04:{i % 60:02}Z" for i in range(500)]
    texts[3], texts[100], texts[499] = None, "n/a", "2024-1-2 3:4:5+1:00"
    parsed: list[str] = []

    def parse(text: str) -> int | None:
        parsed.append(text)
        return parse_timestamp(text, UTC)

    column, failed = partly_plain(
        pa.array(texts), partial(plain_instants, session=UTC), parse, pa.timestamp("us", "UTC")
    )
    wanted = [None if text is None else parse_timestamp(text, UTC) for text in texts]
    assert column.view(pa.int64()).to_pylist() == wanted
    assert failed.tolist() == [100]
    assert sorted(parsed) == ["2024-1-2 3:4:5+1:00", "n/a"]


def test_plain_columns_are_converted_as_a_whole() -> None:
    zone = find_zone("Europe/London")
    assert zone is not None
    assert plain_dates(pa.array(["2024-01-02", None])) is not None
    assert plain_instants(pa.array(["2024-01-02T03:04:05Z", None]), zone) is not None
    assert (
        plain_instants(pa.array(["2024-01-02 03:04:05.1", "2024-07-02 03:04:05"]), zone) is not None
    )
    # No offset is that far from UTC, to Java; Arrow would take it.
    far = pa.array(["2024-01-02T03:04:05+02:00", "2024-01-02T03:04:05+19:00"])
    assert plain_instants(far, zone) is None
    # In 2024 the clocks there skipped this time.
    assert plain_instants(pa.array(["2024-03-31T01:30:00"]), zone) is None


def test_intervals() -> None:
    parser = IntervalParser(0, 3)
    assert parser.parse("1 02:03:04.5") == 93_784_500_000
    assert parser.parse("INTERVAL -'1 02:03:04.5' DAY TO SECOND") == -93_784_500_000
    assert IntervalParser(3, 3).parse("-1.5") == -1_500_000
    for text in ("", "1", "1 25:00:00", "02:03:04", "INTERVAL '1 02' DAY TO HOUR"):
        with pytest.raises(MalformedInterval):
            parser.parse(text)
