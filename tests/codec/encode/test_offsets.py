from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampType

from spark_durable.codec.encode import EncodeOptions, JsonEncoder, check_schema
from spark_durable.codec.encode.offsets import offsets_at
from spark_durable.protocol.errors import OptionError
from tests.codec.encode.real_spark import RealSpark

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def offsets(zone: str, seconds: list[int]) -> list[int]:
    found = offsets_at(zone, np.array(seconds, np.int64) * SECOND).seconds()
    return [found] * len(seconds) if isinstance(found, int) else found.tolist()


def test_every_zone_has_the_offsets_of_zoneinfo() -> None:
    draw = random.Random(2)
    names = sorted(available_timezones() - {"Factory", "localtime", "EST", "MST", "HST", "ROC"})
    instants = [draw.randrange(-6_000_000_000, 12_000_000_000) for _ in range(200)]
    for name in draw.sample(names, 20):
        zone = ZoneInfo(name)
        local = [(EPOCH + timedelta(seconds=s)).astimezone(zone) for s in instants]
        assert offsets(name, instants) == [t.utcoffset() // timedelta(seconds=1) for t in local]


def test_the_second_of_a_change() -> None:
    # Los Angeles goes to summer time on 2024-03-10 at 10:00 UTC and back on 2024-11-03 at 09:00.
    spring, autumn = 1_710_064_800, 1_730_624_400
    found = offsets("America/Los_Angeles", [spring - 1, spring, autumn - 1, autumn])
    assert found == [-28800, -25200, -25200, -28800]


def test_rules_hold_for_ever() -> None:
    # 2800-07-01 and 2801-01-01 UTC, and 400,000 years later.
    cycle = 146_097 * 86_400
    summer, winter = 26_208_057_600, 26_223_955_200
    for cycles in 0, 1, 600:
        far = [summer + cycles * cycle, winter + cycles * cycle]
        assert offsets("Europe/Berlin", far) == [7200, 3600]


def test_zones_print_as_in_spark(real_spark: RealSpark) -> None:
    zones = ["UTC", "Z", "GMT", "UTC+3", "GMT-02:30", "+05:45", "-11", "+1:30", "PST", "EST", "IST"]
    zones += ["America/Los_Angeles", "Europe/London", "Europe/Dublin", "Europe/Berlin"]
    zones += ["Africa/Casablanca", "Asia/Gaza", "Asia/Kolkata", "Australia/Lord_Howe"]
    zones += ["America/Sao_Paulo", "Asia/Tehran", "Africa/Monrovia", "Pacific/Apia", "Asia/Kabul"]
    zones += ["America/St_Johns", "Antarctica/Troll", "Pacific/Kwajalein"]
    draw = random.Random(4)
    year = 365 * 86_400 * SECOND
    micros = [draw.randrange(-60 * year, 60 * year) for _ in range(300)]
    micros += [draw.randrange(-200 * year, 300 * year) for _ in range(100)]
    micros += [draw.randrange(-(2**63), 2**63) for _ in range(50)] + [0, -1, 2**63 - 1, -(2**63)]
    schema = StructType().add("t", TimestampType())
    frame = real_spark.frame(schema, [pa.array(micros, pa.timestamp("us", "UTC"))])
    texts = [F.to_json(F.struct("t"), {"timeZone": zone}).alias(zone) for zone in zones]
    written = real_spark.written(frame.select("t", *texts)).combine_chunks()
    batch = written.select(["t"]).to_batches()[0]
    for zone in zones:
        ours = JsonEncoder(schema, EncodeOptions(time_zone=zone)).encode(batch).to_pylist()
        assert ours == written.column(zone).to_pylist(), zone


def test_unknown_zone_is_refused_on_the_driver() -> None:
    with pytest.raises(OptionError, match=r"'Mars/Olympus' .*timeZone"):
        check_schema(StructType(), EncodeOptions(time_zone="Mars/Olympus"))
