from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DateType,
    IntegerType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_durable.codec.encode import EncodeOptions, JsonEncoder, check_schema
from spark_durable.protocol.errors import OptionError
from tests.codec.encode.generate import Values
from tests.codec.encode.real_spark import RealSpark

DATE_PATTERNS = [
    *("y", "yy", "yyy", "yyyy", "yyyyy", "yyyyyy", "M", "MM", "MMM", "MMMM", "L", "LL", "LLL"),
    *("LLLL", "d", "dd", "D", "DD", "DDD", "E", "EE", "EEE", "EEEE", "Q", "QQ", "QQQ", "QQQQ"),
    *("q", "qq", "qqq", "qqqq", "dd.MM.yyyy", "'it''s' yyyy", "''", "yyyy[-MM[-dd]]", "[yyyy"),
    *("yyyy年", "'\"' d '\\'", "yyyy['T'HH]MM", "yyyy-MM-dd[ HH:mm [XXX]]", "dMyy", "(d)"),
]
TIME_PATTERNS = [
    *("H", "HH", "k", "kk", "K", "KK", "h", "hh", "m", "mm", "s", "ss", "a", "hh:mm a"),
    *("S", "SS", "SSS", "SSSS", "SSSSS", "SSSSSS", "SSSSSSS", "SSSSSSSSS", "HHmmssSSS"),
    *("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "yyyy-MM-dd HH:mm:ss.SSSSSS"),
]
OFFSET_PATTERNS = [
    *("X", "XX", "XXX", "XXXX", "XXXXX", "x", "xx", "xxx", "xxxx", "xxxxx", "Z", "ZZ", "ZZZ"),
    *("ZZZZZ", "yyyy-MM-dd'T'HH:mm:ssXXX", "yyyyMMdd HHmmss.SSSx"),
]
SCHEMA = StructType().add("d", DateType()).add("n", TimestampNTZType()).add("t", TimestampType())
ALL_PATTERNS = DATE_PATTERNS + TIME_PATTERNS + OFFSET_PATTERNS


@pytest.mark.parametrize("zone", ["America/St_Johns", "Europe/London"])
def test_patterns_print_as_in_spark(
    real_spark: RealSpark, time_zone: Callable[[str], None], zone: str
) -> None:
    time_zone(zone)
    values = Values(17)
    rows = 150
    arrow = [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")]
    columns = [
        pa.array(values.column(field.dataType, True, rows), kind)
        for field, kind in zip(SCHEMA.fields, arrow, strict=True)
    ]
    frame = real_spark.frame(SCHEMA, columns)
    kinds = {
        "d": ("dateFormat", "date_format", DATE_PATTERNS),
        "n": ("timestampNTZFormat", "timestamp_ntz_format", DATE_PATTERNS + TIME_PATTERNS),
        "t": ("timestampFormat", "timestamp_format", ALL_PATTERNS),
    }
    texts = [
        F.to_json(F.struct(name), {option: pattern}).alias(f"{name}{number}")
        for name, (option, _, patterns) in kinds.items()
        for number, pattern in enumerate(patterns)
    ]
    written = real_spark.written(frame.select("*", *texts)).combine_chunks()
    for name, (_, option, patterns) in kinds.items():
        batch = written.select([name]).to_batches()[0]
        for number, pattern in enumerate(patterns):
            encoder = JsonEncoder(StructType([SCHEMA[name]]), EncodeOptions(**{option: pattern}))
            ours = encoder.encode(batch).to_pylist()
            assert ours == written.column(f"{name}{number}").to_pylist(), pattern


@pytest.mark.parametrize(
    ("option", "pattern", "says"),
    [
        ("timestamp_format", "yyyy-MM-dd G", "'G'"),
        ("timestamp_format", "z", "'z'"),
        ("timestamp_format", "VV", "'VV'"),
        ("timestamp_format", "OOOO", "'OOOO'"),
        ("timestamp_format", "ZZZZ", "'ZZZZ'"),
        ("timestamp_format", "F", "'F'"),
        ("timestamp_format", "YYYY", "'YYYY'"),
        ("timestamp_format", "yyyyyyy", "'yyyyyyy'"),
        ("timestamp_format", "ddd", "'ddd'"),
        ("timestamp_format", "SSSSSSSSSS", "'SSSSSSSSSS'"),
        ("timestamp_format", "MMMMM", "'MMMMM'"),
        ("timestamp_format", "yyyy]", "without"),
        ("timestamp_format", "yyyy'", "not closed"),
        ("timestamp_format", "{yyyy}", "reserved"),
        ("timestamp_ntz_format", "yyyy XXX", "a timestamp_ntz has not"),
        ("date_format", "yyyy HH", "a date has not"),
    ],
)
def test_patterns_that_cannot_be_followed_are_refused_on_the_driver(
    option: str, pattern: str, says: str
) -> None:
    with pytest.raises(OptionError) as refused:
        check_schema(SCHEMA, EncodeOptions(**{option: pattern}))
    assert says in str(refused.value)
    assert pattern in str(refused.value)


def test_pattern_of_a_type_that_does_not_occur_is_no_matter() -> None:
    check_schema(StructType().add("a", IntegerType()), EncodeOptions(timestamp_format="G"))
