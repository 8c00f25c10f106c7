from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    CalendarIntervalType,
    DataType,
    GeometryType,
    IntegerType,
    MapType,
    StringType,
    StructType,
    UserDefinedType,
    VariantType,
    YearMonthIntervalType,
)

from spark_durable.codec.encode import EncodeOptions, JsonEncoder, check_schema
from spark_durable.protocol.errors import UnsupportedTypeError


@pytest.mark.parametrize(
    ("type_", "way"),
    [
        (YearMonthIntervalType(), "cast it to string"),
        (CalendarIntervalType(), "cast it to string"),
        (VariantType(), "to_json"),
        (GeometryType(0), "st_asbinary"),
    ],
)
def test_types_without_a_text_are_refused(type_: DataType, way: str) -> None:
    with pytest.raises(UnsupportedTypeError) as refused:
        check_schema(StructType().add("fine", IntegerType()).add("odd", type_), EncodeOptions())
    assert "'odd'" in str(refused.value)
    assert type_.simpleString() in str(refused.value)
    assert way in str(refused.value)
    assert refused.value.facts["column"] == "odd"
    pickle.loads(pickle.dumps(refused.value))


@pytest.mark.parametrize(
    "key", [BinaryType(), ArrayType(IntegerType()), StructType().add("a", IntegerType())]
)
def test_map_keys_without_a_repeatable_text_are_refused(key: DataType) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"'m.key'.*map_entries"):
        check_schema(StructType().add("m", MapType(key, IntegerType())), EncodeOptions())


def test_the_path_to_a_refused_type_is_named() -> None:
    variants = ArrayType(MapType(StringType(), VariantType()))
    schema = StructType().add("a", StructType().add("b", variants))
    with pytest.raises(UnsupportedTypeError, match=r"'a\.b\[\]\.value'"):
        check_schema(schema, EncodeOptions())
    with pytest.raises(UnsupportedTypeError, match=r"'a\.b\[\]\.value'"):
        JsonEncoder(schema, EncodeOptions())


class PointType(UserDefinedType):
    @classmethod
    def sqlType(cls) -> DataType:
        return ArrayType(IntegerType())


def test_user_defined_type_is_written_as_the_type_it_stands_on() -> None:
    schema = StructType().add("p", PointType()).add("m", MapType(StringType(), PointType()))
    points = pa.array([[1, 2], None], pa.list_(pa.int32()))
    maps = pa.array([[("a", [3])], []], pa.map_(pa.string(), pa.list_(pa.int32())))
    batch = pa.RecordBatch.from_arrays([points, maps], names=["p", "m"])
    ours = JsonEncoder(schema, EncodeOptions()).encode(batch)
    assert ours.to_pylist() == ['{"p":[1,2],"m":{"a":[3]}}', '{"m":{}}']
