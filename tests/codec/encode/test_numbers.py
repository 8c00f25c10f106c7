from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from spark_durable.codec.encode import EncodeOptions, JsonEncoder
from spark_durable.protocol.errors import BadRowError
from tests.codec.encode.generate import Values
from tests.codec.encode.real_spark import RealSpark


def encode(type_: DataType, values: pa.Array, options: EncodeOptions) -> list[str]:
    batch = pa.RecordBatch.from_arrays([values], names=["v"])
    encoder = JsonEncoder(StructType().add("v", type_), options)
    texts: list[str] = encoder.encode(batch).to_pylist()
    return texts


def test_floats_have_the_value_and_the_layout_of_java(real_spark: RealSpark) -> None:
    values = Values(7)
    doubles = [values.value(DoubleType()) for _ in range(3000)]
    doubles += [sign * 10.0**power for power in range(-30, 30) for sign in (1, -1, 3, 1.7)]
    doubles += [9.999999999999999e22, 1e23, 123456789012345680.0, 2.0**-1074, 0.1 + 0.2]
    with np.errstate(over="ignore"):
        floats = np.array(doubles).astype(np.float32)
    schema = StructType().add("d", DoubleType()).add("f", FloatType())
    frame = real_spark.frame(schema, [pa.array(doubles), pa.array(floats)])
    texts = [F.to_json(F.struct(F.col(name).alias("v"))).alias(f"j{name}") for name in ("d", "f")]
    written = real_spark.written(frame.select("*", *texts))
    for name, kind in ("d", np.float64), ("f", np.float32):
        (column,) = written.column(name).chunks
        ours = encode(schema[name].dataType, column, EncodeOptions())
        theirs = written.column(f"j{name}").to_pylist()
        for number, mine, sparks in zip(column.to_numpy(), ours, theirs, strict=True):
            if mine != sparks:
                # Java 17 prints digits beyond need for some values, later ones for none.
                assert kind(mine.removeprefix('{"v":').removesuffix("}")) == number
                assert len(mine) <= len(sparks)
                assert ("E" in mine) == ("E" in sparks)


def test_floats_of_every_day() -> None:
    values = pa.array([1.0, 19.99, 0.001, 0.00025, 9999999.0, 1e7, 123456789.5, -1e21, 1e-7, 3e100])
    assert [text[5:-1] for text in encode(DoubleType(), values, EncodeOptions())] == [
        *("1.0", "19.99", "0.001", "2.5E-4", "9999999.0", "1.0E7", "1.234567895E8", "-1.0E21"),
        *("1.0E-7", "3.0E100"),
    ]


def test_not_a_number_is_quoted_and_zero_keeps_its_sign() -> None:
    values = pa.array([float("nan"), float("inf"), float("-inf"), -0.0, None])
    assert encode(DoubleType(), values, EncodeOptions()) == [
        '{"v":"NaN"}',
        '{"v":"Infinity"}',
        '{"v":"-Infinity"}',
        '{"v":-0.0}',
        "{}",
    ]


def test_decimals_of_every_scale(real_spark: RealSpark) -> None:
    draw = random.Random(3)
    schema = StructType()
    columns: list[Any] = []
    for precision in (1, 5, 9, 10, 18, 19, 37, 38):
        for scale in sorted({0, 1, 6, 7, precision // 2, precision} & set(range(precision + 1))):
            schema.add(f"d{precision}_{scale}", DecimalType(precision, scale))
            most = 10**precision - 1
            unscaled = [0, 1, -1, 10, most, -most, None]
            unscaled += [draw.randrange(10 ** draw.randrange(precision + 1)) for _ in range(13)]
            fitting = [None if n is None or abs(n) > most else n for n in unscaled]
            numbers = [None if n is None else Decimal(f"{n}E-{scale}") for n in fitting]
            columns.append(pa.array(numbers, pa.decimal128(precision, scale)))
    frame = real_spark.frame(schema, columns)
    written = real_spark.written(frame.select("*", F.to_json(F.struct("*")).alias("json")))
    batch = written.drop_columns("json").combine_chunks().to_batches()[0]
    ours = JsonEncoder(schema, EncodeOptions()).encode(batch)
    assert ours.to_pylist() == written.column("json").to_pylist()
    assert any("E-" in text for text in ours.to_pylist())


@pytest.mark.parametrize(
    ("type_", "value", "big"),
    [
        (LongType(), 2**53 - 1, False),
        (LongType(), 2**53, True),
        (LongType(), -(2**53) + 1, False),
        (LongType(), -(2**53), True),
        (LongType(), -(2**63), True),
        (DecimalType(38, 0), Decimal(2**53 - 1), False),
        (DecimalType(38, 0), Decimal(2**53), True),
        (DecimalType(38, 0), Decimal(-(2**53)), True),
        (DecimalType(20, 2), Decimal("9007199254740991.00"), False),
        (DecimalType(20, 2), Decimal("9007199254740992.00"), True),
        (DecimalType(20, 2), Decimal("1234567890123.45"), False),
        (DecimalType(20, 2), Decimal("12345678901234.56"), True),
        (DecimalType(38, 18), Decimal("1.500000000000000000"), False),
        (DecimalType(38, 18), Decimal("0.123456789012345678"), True),
        (DecimalType(38, 37), Decimal("0.0000000000000000000000000000000000001"), False),
        (DecimalType(38, 37), Decimal("1.0000000000000000000000000000000000001"), True),
        (DecimalType(38, 37), Decimal("-1.234567890123451E-8"), True),
        (DecimalType(15, 2), Decimal("9999999999999.99"), False),
    ],
)
def test_numbers_that_a_double_cannot_hold(type_: DataType, value: Any, big: bool) -> None:
    values = pa.array([value, None, value], to_arrow_type(type_))
    sent = encode(type_, values, EncodeOptions(big_numbers="send"))
    text = sent[0].removeprefix('{"v":').removesuffix("}")
    # Node, Python and Java read a number as a double and print the shortest digits of it.
    assert big or Decimal(repr(float(text))) == Decimal(text) == value
    quoted = encode(type_, values, EncodeOptions(big_numbers="string"))
    assert quoted == ([f'{{"v":"{text}"}}', "{}"] * 2)[:3] if big else quoted == sent
    if big:
        with pytest.raises(BadRowError, match=rf"Row 0 .*Column 'v' holds {text},.*bigNumbers"):
            encode(type_, values, EncodeOptions(big_numbers="error"))
    else:
        assert encode(type_, values, EncodeOptions(big_numbers="error")) == sent


def test_big_number_is_found_wherever_it_is() -> None:
    rows = [{"m": [("a", [{"x": 1}])]}] * 6
    rows[4] = {"m": [("a", [{"x": 1}, None]), ("b", None), ("c", [{"x": 2**60}])]}
    structs = ArrayType(StructType().add("x", LongType()))
    schema = StructType().add("m", MapType(StringType(), structs))
    kind = pa.map_(pa.string(), pa.list_(pa.struct([("x", pa.int64())])))
    batch = pa.RecordBatch.from_pylist(rows, pa.schema([("m", kind)]))
    holds = r"Row 4 .*'m.value\[\].x' holds 1152921504606846976"
    with pytest.raises(BadRowError, match=holds) as refused:
        JsonEncoder(schema, EncodeOptions(big_numbers="error")).encode(batch)
    assert refused.value.facts["row"] == 4
    quoted = JsonEncoder(schema, EncodeOptions(big_numbers="string")).encode(batch)
    assert quoted[4].as_py().endswith('"c":[{"x":"1152921504606846976"}]}}')


def test_floats_are_never_big() -> None:
    values = pa.array([2.0**60, 0.1234567890123456789])
    sent = encode(DoubleType(), values, EncodeOptions())
    assert encode(DoubleType(), values, EncodeOptions(big_numbers="error")) == sent
