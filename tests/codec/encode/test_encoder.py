"""The encoder against Spark's own ``to_json``, text for text."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from spark_durable.codec.encode import EncodeOptions, JsonEncoder
from tests.codec.encode.generate import Values, struct_types, value_types
from tests.codec.encode.real_spark import RealSpark

ZONES = [
    "UTC",
    "America/Los_Angeles",
    "Europe/London",
    "Asia/Kolkata",
    "+05:45",
    "Australia/Sydney",
]
TIMESTAMP_FORMATS = [None, "yyyy/MM/dd HH:mm:ss.SSSSSS XX", "EEE, d MMM yy h:mm a", "D'\"'S"]

Case = tuple[StructType, EncodeOptions]


def cases() -> st.SearchStrategy[Case]:
    options = st.builds(
        EncodeOptions,
        ignore_null_fields=st.booleans(),
        timestamp_format=st.sampled_from(TIMESTAMP_FORMATS),
        date_format=st.sampled_from([None, "dd.MM.yyyy", "yy-DDD"]),
    )
    return st.tuples(struct_types(value_types(), 6), options)


def to_json_options(options: EncodeOptions) -> dict[str, str]:
    named = {
        "timestampFormat": options.timestamp_format,
        "dateFormat": options.date_format,
        "timestampNTZFormat": options.timestamp_ntz_format,
        "ignoreNullFields": str(options.ignore_null_fields).lower(),
    }
    return {name: value for name, value in named.items() if value is not None}


def encode(struct: pa.ChunkedArray, schema: StructType, options: EncodeOptions) -> list[str]:
    """The text of each row of a struct column, encoded as the rows of a batch."""
    texts: list[str] = []
    for chunk in struct.chunks:
        columns = [chunk.field(at) for at in range(chunk.type.num_fields)]
        names = [field.name for field in schema.fields]
        batch = pa.RecordBatch.from_arrays(columns, names=names)
        if not columns:
            batch = pa.RecordBatch.from_struct_array(chunk)
        encoder = pickle.loads(pickle.dumps(JsonEncoder(schema, options)))
        whole = encoder.encode(batch)
        assert whole.type == pa.string()
        assert not whole.null_count
        texts += whole.to_pylist()
        # Slices share buffers with the whole.
        assert encoder.encode(batch[3:-2]).equals(whole[3:-2])
        assert encoder.encode(batch[:0]).to_pylist() == []
    return texts


TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[-+.0-9E]+|[^"]')


def same_text(type_: DataType, ours: str, sparks: str) -> bool:
    """Equality of text, or of value where Java prints more digits of a float than are needed."""
    if ours == sparks:
        return True
    left, right = TOKEN.findall(ours), TOKEN.findall(sparks)
    others_alike = len(left) == len(right) and all(map(same_or_numbers, left, right))
    return others_alike and same_value(type_, parsed(ours), parsed(sparks))


def same_or_numbers(ours: str, sparks: str) -> bool:
    number = re.compile(r'"?-?[0-9]\.[0-9]+(E-?[0-9]+)?"?|"?-?[0-9]+\.[0-9]+"?')
    return ours == sparks or bool(number.fullmatch(ours) and number.fullmatch(sparks))


def parsed(text: str) -> Any:
    return json.loads(text, parse_float=str, parse_int=str, object_pairs_hook=list)


def same_value(type_: DataType, ours: Any, sparks: Any) -> bool:
    if ours == sparks:
        return True
    if isinstance(type_, FloatType):
        return np.float32(ours) == np.float32(sparks) and len(ours) <= len(sparks)
    if isinstance(type_, DoubleType):
        return float(ours) == float(sparks) and len(ours) <= len(sparks)
    if len(ours) != len(sparks):
        return False
    if isinstance(type_, ArrayType):
        return all(same_value(type_.elementType, *pair) for pair in zip(ours, sparks, strict=True))
    if isinstance(type_, MapType):
        return all(
            same_value(type_.keyType, mine[0], theirs[0])
            and same_value(type_.valueType, mine[1], theirs[1])
            for mine, theirs in zip(ours, sparks, strict=True)
        )
    if isinstance(type_, StructType):
        return all(
            mine[0] == theirs[0] and same_value(type_[mine[0]].dataType, mine[1], theirs[1])
            for mine, theirs in zip(ours, sparks, strict=True)
        )
    return False


def check_cases(real_spark: RealSpark, drawn: list[Case], seed: int, rows: int) -> None:
    """Every case is a column of one DataFrame, so that one Spark job judges them all."""
    values = Values(seed)
    frame_schema = StructType()
    columns = []
    for number, (schema, _) in enumerate(drawn):
        frame_schema.add(f"c{number}", schema, nullable=False)
        arrow = to_arrow_type(schema, timezone="UTC")
        columns.append(pa.array(values.column(schema, False, rows), arrow))
    frame = real_spark.frame(frame_schema, columns)
    texts = [
        F.to_json(f"c{number}", to_json_options(options)).alias(f"t{number}")
        for number, (_, options) in enumerate(drawn)
    ]
    written = real_spark.written(frame.select("*", *texts))
    for number, (schema, options) in enumerate(drawn):
        ours = encode(written.column(f"c{number}"), schema, options)
        sparks = written.column(f"t{number}").to_pylist()
        assert len(ours) == len(sparks) == rows
        for mine, theirs in zip(ours, sparks, strict=True):
            assert same_text(schema, mine, theirs), f"{schema.simpleString()}\n{mine}\n{theirs}"


def property_settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@property_settings(8)
@given(st.lists(cases(), min_size=6, max_size=12), st.sampled_from(ZONES), st.integers(0, 2**32))
def test_text_equals_to_json(
    real_spark: RealSpark,
    time_zone: Callable[[str], None],
    drawn: list[Case],
    zone: str,
    seed: int,
) -> None:
    time_zone(zone)
    check_cases(real_spark, drawn, seed, rows=40)


@pytest.mark.long
@pytest.mark.timeout(3600)
@property_settings(60)
@given(st.lists(cases(), min_size=10, max_size=20), st.sampled_from(ZONES), st.integers(0, 2**32))
def test_text_equals_to_json_at_length(
    real_spark: RealSpark,
    time_zone: Callable[[str], None],
    drawn: list[Case],
    zone: str,
    seed: int,
) -> None:
    time_zone(zone)
    check_cases(real_spark, drawn, seed, rows=200)


ONE_OF_EACH = """
    select cast(1 as tinyint) b, cast(2 as short) s, 3 i, 4L l, 1.5f f, 2.5D d, 1.50BD dec,
    true bo, 'x' st, cast('x' as binary) bi, date'2020-01-01' da,
    timestamp'2020-01-01 00:00:00.123456' ts, timestamp_ntz'2020-01-01 00:00:00.123456' tn,
    interval '1 02:03:04.5' day to second dt, interval '05' minute mi, time'01:02:03.4' ti,
    array(1, null) a, map('k', 1, 'n', null) m, named_struct('x', 1, 'y', cast(null as string)) ns,
    null nn, array() ea, map() em, named_struct() es, cast('c' as varchar(5)) vc,
    map(date'2020-01-01', array(timestamp'2020-01-01 00:00:00')) deep
"""
FIELDS = [
    ("b", pa.int8(), False),
    ("s", pa.int16(), False),
    ("i", pa.int32(), False),
    ("l", pa.int64(), False),
    ("f", pa.float32(), False),
    ("d", pa.float64(), False),
    ("dec", pa.decimal128(3, 2), False),
    ("bo", pa.bool_(), False),
    ("da", pa.date32(), False),
    ("ts", pa.timestamp("us", "America/Los_Angeles"), False),
    ("tn", pa.timestamp("us"), False),
    ("dt", pa.duration("us"), False),
    ("mi", pa.duration("us"), False),
    ("ti", pa.time64("ns"), False),
    ("a", pa.list_(pa.field("element", pa.int32())), False),
    ("nn", pa.null(), True),
    ("es", pa.struct([]), False),
]


@pytest.mark.parametrize("large", [False, True])
def test_what_a_writer_receives(
    real_spark: RealSpark, time_zone: Callable[[str], None], large: bool
) -> None:
    time_zone("America/Los_Angeles")
    setting = "spark.sql.execution.arrow.useLargeVarTypes"
    real_spark.session.conf.set(setting, str(large).lower())
    try:
        frame = real_spark.session.sql(ONE_OF_EACH)
        written = real_spark.written(frame)
    finally:
        real_spark.session.conf.unset(setting)
    for name, kind, nullable in FIELDS:
        assert written.schema.field(name).type == kind
        assert written.schema.field(name).nullable == nullable
    assert written.schema.field("st").type == (pa.large_string() if large else pa.string())
    assert written.schema.field("bi").type == (pa.large_binary() if large else pa.binary())
    for ignore in True, False:
        options = EncodeOptions(ignore_null_fields=ignore)
        text = F.to_json(F.struct("*"), to_json_options(options))
        (batch,) = written.to_batches()
        ours = JsonEncoder(frame.schema, options).encode(batch)
        assert ours.to_pylist() == [frame.select(text).first()[0]]


def test_column_with_a_default_keeps_its_nulls(real_spark: RealSpark) -> None:
    session = real_spark.session
    session.sql("create table with_default (a int default 5, b int) using parquet")
    try:
        session.sql("insert into with_default values (null, null), (1, 2)")
        frame = session.table("with_default")
        expected = sorted(row[0] for row in frame.select(F.to_json(F.struct("*"))).collect())
        (batch,) = real_spark.written(frame).combine_chunks().to_batches()
        ours = JsonEncoder(frame.schema, EncodeOptions()).encode(batch)
        assert sorted(ours.to_pylist()) == expected == ['{"a":1,"b":2}', '{"a":null}']
    finally:
        session.sql("drop table with_default")


def test_names_that_differ_in_case_only(real_spark: RealSpark) -> None:
    frame = real_spark.session.sql("select 1 as a, 2 as A, named_struct('b', 3, 'B', 4) as s")
    (batch,) = real_spark.written(frame).to_batches()
    ours = JsonEncoder(frame.schema, EncodeOptions()).encode(batch)
    assert ours.to_pylist() == ['{"a":1,"A":2,"s":{"b":3,"B":4}}']


def test_what_lies_beneath_a_null_is_not_looked_at() -> None:
    big = pa.array([1, 2**60, 3])
    hidden = pa.array([False, True, False])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), big, mask=hidden)
    structs = pa.StructArray.from_arrays([big], ["x"], mask=hidden)
    maps = pa.Array.from_buffers(
        pa.map_(pa.string(), pa.int64()),
        3,
        [pa.array([True, False, True]).buffers()[1], lists.buffers()[1]],
        children=[pa.StructArray.from_arrays([pa.array(["a", "b", "c"]), big], ["key", "value"])],
    )
    schema = (
        StructType().add("l", ArrayType(LongType())).add("s", StructType().add("x", LongType()))
    )
    schema.add("m", MapType(StringType(), LongType()))
    batch = pa.RecordBatch.from_arrays([lists, structs, maps], names=["l", "s", "m"])
    ours = JsonEncoder(schema, EncodeOptions(big_numbers="error")).encode(batch)
    assert ours.to_pylist() == [
        '{"l":[1],"s":{"x":1},"m":{"a":1}}',
        "{}",
        '{"l":[3],"s":{"x":3},"m":{"c":3}}',
    ]


def test_no_columns_at_all() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    assert JsonEncoder(StructType(), EncodeOptions()).encode(batch).to_pylist() == ["{}", "{}"]


def test_text_before_each_row() -> None:
    schema = StructType().add("a", LongType())
    batch = pa.RecordBatch.from_arrays([pa.array([1, None])], names=["a"])
    ours = JsonEncoder(schema, EncodeOptions(), before=",").encode(batch)
    assert ours.to_pylist() == [',{"a":1}', ",{}"]
    ours = JsonEncoder(StructType(), EncodeOptions(), before=",").encode(batch.select([]))
    assert ours.to_pylist() == [",{}"] * 2


@pytest.mark.long
def test_texts_that_need_64_bit_offsets() -> None:
    row = "x" * 2**20
    column = pa.array([row], pa.large_string()).take(pa.array([0] * 2100))
    batch = pa.RecordBatch.from_arrays([column], names=["v"])
    ours = JsonEncoder(StructType().add("v", StringType()), EncodeOptions()).encode(batch)
    assert ours.type == pa.large_string()
    assert len(ours) == 2100
    assert {ours[at].as_py() for at in (0, 1049, 1050, 2099)} == {f'{{"v":"{row}"}}'}
