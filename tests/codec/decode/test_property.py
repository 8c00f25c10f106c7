"""Any schema, any messages: the decoder and ``from_json`` agree row by row.

One example is a schema and a few hundred messages for it, made by one seeded generator, so that one
Spark job answers for many. A failure names the message.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_durable.codec.decode import DecodeMode, DecodeOptions, JsonDecoder
from spark_durable.protocol.errors import BadRowError

Run = Callable[..., list[tuple[Any, ...]]]

SCALARS: list[DataType] = [
    BooleanType(),
    ByteType(),
    ShortType(),
    IntegerType(),
    LongType(),
    FloatType(),
    DoubleType(),
    StringType(),
    BinaryType(),
    DateType(),
    TimestampType(),
    TimestampNTZType(),
    DayTimeIntervalType(0, 3),
    DayTimeIntervalType(1, 2),
    DecimalType(5, 2),
    DecimalType(10, 0),
    DecimalType(18, 6),
    DecimalType(38, 18),
    DecimalType(38, 38),
]
BITS = {ByteType: 7, ShortType: 15, IntegerType: 31, LongType: 63}
NUMBERS = [
    "0", "-0", "1", "-1", "7", "127", "128", "255", "256", "-129", "32768", "2147483647",
    "2147483648", "9223372036854775807", "9223372036854775808", "123456789012345678901234567890",
    "1.0", "1.5", "-0.0", "1e2", "1E-3", "1.005", "999.995", "1e39", "1e400", "1e-400", "0.1",
    "123.456", "3.4028235677973366e38", "16777217", "9007199254740993", "1e-999999999",
]  # fmt: skip
# Text in the place of a value that JSON does not have there.
BROKEN = [
    "NaN", "Infinity", "-Infinity", "+INF", "-INF", "INF", "nan", "Inf", "-NaN", "01", "+1", ".5",
    "1.", "-", "1e", "tru", "nulll", "undefined", "'q'", '"un', "]", "}", ",", "#", "/*c*/1",
    "{bad}", "[1", r'"\q"', r'"\ud800"', "", '"a\tb"',
]  # fmt: skip
STRINGS = [
    *("", "x", "NaN", "Infinity", "-INF", "+INF", "INF", "1", "1.5", "true", "2024-01-02", "12345"),
    *("2024-01-02T03:04:05Z", "2024-1-2 3:4:5.123456789+05:30", "2024-01-02T03:04:05.123"),
    *("1999-12-31 23:59:59 Europe/Paris", "QUJD", "QQ==", "QQ", "Q", "1 02:03:04.5", "1,234.5"),
    *("INTERVAL '1 02:03:04' DAY TO SECOND", "05:06", "é€😀", "\ud83d", 'a"b\\c\n', "Inf, NaN"),
]  # fmt: skip
CUTS = ["", '"', "'", "{", "}", "[", "]", ",", ":", "\\", "x", "1", "-", ".", "e", "n", " ", "\n"]
CUTS += ["\x01", "é", "😀", "/", "\\u12"]


def scalar_or_nested(children: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    names = st.lists(st.sampled_from("xyza"), min_size=1, max_size=3, unique=True)
    return st.one_of(
        children.map(ArrayType),
        children.map(lambda value: MapType(StringType(), value)),
        st.builds(
            lambda fields, types: StructType(
                [StructField(f, t) for f, t in zip(fields, types, strict=False)]
            ),
            names,
            st.lists(children, min_size=3, max_size=3),
        ),
    )


TYPES = st.recursive(st.sampled_from(SCALARS), scalar_or_nested, max_leaves=4)
SCHEMAS = st.lists(TYPES, min_size=1, max_size=4).map(
    lambda types: StructType([StructField(n, t) for n, t in zip("abcd", types, strict=False)])
)


class MessageMaker:
    """``wrong`` is how likely a value is of another kind, ``broken`` how likely text is cut up."""

    def __init__(self, random: Random, wrong: float, broken: float) -> None:
        self.r = random
        self.wrong = wrong
        self.broken = broken

    def message(self, schema: StructType) -> bytes:
        text = self.object(schema)
        if self.r.random() < self.broken:
            for _ in range(self.r.randrange(1, 3)):
                at = self.r.randrange(len(text) + 1)
                text = text[:at] + self.r.choice(CUTS) + text[at + self.r.randrange(3) :]
        if self.r.random() < self.broken / 4:
            text = text[: self.r.randrange(len(text) + 1)]
        if self.r.random() < self.broken / 8:
            others = ["", " ", "null", "[]", "5", '"x"', f"[{text}]", text + text, text + " x"]
            text = self.r.choice([*others, f" {text} ", "\ufeff" + text])
        raw = text.encode("utf-8", "surrogatepass")
        if self.r.random() < self.broken / 8:
            at = self.r.randrange(len(raw) + 1)
            raw = raw[:at] + self.r.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x80"]) + raw[at:]
        return raw

    def object(self, schema: StructType) -> str:
        pairs = []
        for field in schema.fields:
            if self.r.random() < 0.1:
                continue
            for _ in range(1 + (self.r.random() < self.broken / 4)):
                colon = self.r.choice([":", ": ", " :"])
                pairs.append(self.string(field.name) + colon + self.value(field.dataType))
        if self.r.random() < 0.1:
            pairs.append(f'"extra":{self.anything(2) if self.broken else "[1,{}]"}')
        self.r.shuffle(pairs)
        return "{" + self.r.choice([",", ", "]).join(pairs) + "}"

    def string(self, text: str) -> str:
        if self.broken and self.r.random() < 0.05:
            return "'" + text.replace("\\", "").replace("'", "").replace("\n", "") + "'"
        return json.dumps(text, ensure_ascii="\ud83d" in text or self.r.random() < 0.5)

    def anything(self, depth: int) -> str:
        kind = self.r.random()
        if kind < 0.3:
            return self.r.choice(NUMBERS)
        if kind < 0.55:
            return self.string(self.r.choice(STRINGS))
        if kind < 0.65:
            return self.r.choice(["true", "false", "null"])
        if kind < 0.7 and self.broken:
            return self.r.choice(BROKEN)
        if not depth:
            return "1"
        if kind < 0.85:
            return (
                "[" + ",".join(self.anything(depth - 1) for _ in range(self.r.randrange(4))) + "]"
            )
        names = [self.string(self.r.choice("abcdxyz")) for _ in range(self.r.randrange(4))]
        return "{" + ",".join(f"{name}:{self.anything(depth - 1)}" for name in names) + "}"

    def value(self, dtype: DataType) -> str:
        r = self.r
        if r.random() < self.wrong:
            return self.anything(2)
        if r.random() < 0.08:
            return "null"
        if isinstance(dtype, StructType):
            return self.object(dtype)
        if isinstance(dtype, ArrayType):
            return (
                "[" + ",".join(self.value(dtype.elementType) for _ in range(r.randrange(4))) + "]"
            )
        if isinstance(dtype, MapType):
            names = [self.string(r.choice(["k", "é", "x"])) for _ in range(r.randrange(3))]
            return "{" + ",".join(f"{name}:{self.value(dtype.valueType)}" for name in names) + "}"
        return self.scalar(dtype)

    def scalar(self, dtype: DataType) -> str:
        r = self.r
        if isinstance(dtype, BooleanType):
            return r.choice(["true", "false"])
        if type(dtype) in BITS:
            top = 2 ** BITS[type(dtype)]
            return str(r.choice([0, -1, 5, top - 1, -top, r.randrange(-top, top)]))
        if isinstance(dtype, (FloatType, DoubleType)):
            number = repr(r.random() * 10 ** r.randrange(-5, 8))
            return r.choice([number, number, str(r.randrange(-(10**6), 10**6)), '"NaN"', "-0"])
        if isinstance(dtype, DecimalType):
            digits = r.randrange(dtype.precision - dtype.scale + 1)
            number = f"{r.randrange(10**digits)}.{r.randrange(10 ** (dtype.scale + 1))}"
            return r.choice([number, f'"{number}"', f"-{number}", "0.5", "12.345"])
        if isinstance(dtype, StringType):
            return self.string(r.choice(STRINGS if self.wrong else ["", "x", "é€😀", "a b"]))
        if isinstance(dtype, BinaryType):
            return json.dumps(base64.b64encode(r.randbytes(r.randrange(6))).decode())
        if isinstance(dtype, DayTimeIntervalType):
            if dtype.startField:
                return f'"{r.randrange(100)}:{r.randrange(60)}"'
            clock = f"{r.randrange(24)}:{r.randrange(60)}:{r.random() * 59:.6f}"
            return f'"{r.randrange(-99, 99)} {clock}"'
        day = f"{r.randrange(1, 9999):04}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}"
        if isinstance(dtype, DateType):
            return f'"{day}"'
        time = f"{r.randrange(24):02}:{r.randrange(60):02}:{r.randrange(60):02}"
        zone = r.choice(["", "Z", "+02:00"]) if isinstance(dtype, TimestampType) else ""
        return f'"{day}{r.choice("T ")}{time}{r.choice(["", ".123", ".123456"])}{zone}"'


def check(
    schema: StructType,
    seed: int,
    how: tuple[float, float],
    count: int,
    zone: str,
    from_json: Run,
    plain_rows: Run,
) -> None:
    """All three modes, the messages in blocks of several sizes."""
    maker = MessageMaker(Random(seed), *how)
    messages = [maker.message(schema) for _ in range(count)]
    with_corrupt = StructType([*schema.fields, StructField("_corrupt_record", StringType())])
    expected = from_json(with_corrupt, messages, zone)
    malformed = [row[-1] is not None for row in expected]
    permissive, failfast, dropping = (
        JsonDecoder(with_corrupt, DecodeOptions(mode, time_zone=zone)) for mode in DecodeMode
    )
    for start, end in blocks(maker.r, count):
        block = pa.array(messages[start:end], pa.binary())
        rows = plain_rows(permissive.decode(block).batch)
        for message, got, wanted in zip(
            messages[start:end], rows, expected[start:end], strict=True
        ):
            assert got == wanted, message
        kept = [
            i - start
            for i in range(start, end)
            if not malformed[i] and messages[i].strip(b" \t\r\n")
        ]
        dropped = dropping.decode(block)
        assert plain_rows(dropped.batch) == [rows[i] for i in kept]
        assert (range(end - start) if dropped.kept is None else dropped.kept.to_pylist()) == (
            range(end - start) if len(kept) == end - start else kept
        )
        if any(malformed[start:end]):
            with pytest.raises(BadRowError) as error:
                failfast.decode(block)
            assert error.value.facts["row"] == malformed[start:end].index(True)
        else:
            assert plain_rows(failfast.decode(block).batch) == rows


def blocks(random: Random, count: int) -> list[tuple[int, int]]:
    bounds = [0]
    while bounds[-1] < count:
        bounds.append(min(count, bounds[-1] + random.choice([1, 3, 20, 60, 200])))
    return list(pairwise(bounds))


# Mostly clean messages exercise the vectorised path, broken ones the per-row path.
HOW = st.sampled_from([(0.0, 0.0), (0.003, 0.01), (0.08, 0.25)])
ZONES = st.sampled_from(["UTC", "America/New_York", "+05:30"])
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
FLAT = StructType([StructField("a", LongType()), StructField("b", TimestampType())])


@settings(max_examples=8, deadline=None, suppress_health_check=QUIET)
@given(schema=SCHEMAS, seed=st.integers(0, 2**32), how=HOW, zone=ZONES)
@example(schema=FLAT, seed=1, how=(0.003, 0.01), zone="America/New_York")
def test_agrees_with_from_json(
    schema: StructType,
    seed: int,
    how: tuple[float, float],
    zone: str,
    from_json: Run,
    plain_rows: Run,
) -> None:
    check(schema, seed, how, 400, zone, from_json, plain_rows)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=150, deadline=None, suppress_health_check=QUIET)
@given(schema=SCHEMAS, seed=st.integers(0, 2**32), how=HOW, zone=ZONES)
def test_agrees_with_from_json_at_length(
    schema: StructType,
    seed: int,
    how: tuple[float, float],
    zone: str,
    from_json: Run,
    plain_rows: Run,
) -> None:
    check(schema, seed, how, 1_000, zone, from_json, plain_rows)
