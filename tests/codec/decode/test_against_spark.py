"""Each corner of ``from_json``, decided by Spark itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_durable.codec.decode import DecodeMode, DecodeOptions, JsonDecoder

Run = Callable[..., list[tuple[Any, ...]]]


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


CORNERS: dict[str, tuple[str, list[str | bytes]]] = {
    "documents": (
        "a int, b int",
        [
            '{"a":1,"b":2}', "{}", "", "  ", "null", "[]", '[{"a":1}]', "5", '"x"', "true", "nope",
            '{"a":1}{"a":2}', '{"a":1} xyz', '{"a":1}]', ' {"a":1}\n', '{"a":1', '{"a":1,}', "{,}",
            '{"a":1,"b":x}', '{"a":x,"b":2}', '{"a" 1}', '{a:1}', "{'a':1,'b':2}", '\ufeff{"a":1}',
            '// c\n{"a":1}', '{"a":/*c*/1}', '#c\n{"a":1}', '{"a":1]', '{"A":1}', '{"a":\n\t1}',
            '{"a":1,"c":{"z":bad},"b":2}', '{"a":1,"c":[1,2,"b":2}', '{"a":1\x01,"b":2}', "{",
            '{"a":1,"a":2}', '{"a":1,"a":"x"}', '{"a":"x","a":3}', '{"\\u0061":7}', "\x1e{}",
        ],
    ),
    "integers": (
        "a tinyint, b smallint, c int, d bigint",
        [
            '{"a":127,"b":32767,"c":2147483647,"d":9223372036854775807}',
            '{"a":-128,"b":-32768,"c":-2147483648,"d":-9223372036854775808}',
            '{"a":128}', '{"a":255}', '{"a":256}', '{"a":-129}', '{"b":32768}', '{"b":-32769}',
            '{"c":2147483648,"d":1}', '{"d":9223372036854775808}', '{"d":-9223372036854775809}',
            '{"a":1.0}', '{"c":1e2}', '{"d":1.5}', '{"d":"1"}', '{"d":""}', '{"d":true}',
            '{"d":-0}',
            '{"d":01}', '{"d":+1}', '{"d":-}', '{"d":1.}', '{"d":.5}', '{"d":0x10}', '{"d":[1]}',
        ],
    ),
    "floats": (
        "a float, b double",
        [
            '{"a":1,"b":1}', '{"a":1.5,"b":-2.5e-3}', '{"a":"NaN","b":"NaN"}', '{"a":-0,"b":-0}',
            '{"a":"Infinity","b":"-Infinity"}', '{"a":"+INF","b":"-INF"}', '{"a":"+Infinity"}',
            '{"a":"INF","b":1}', '{"a":NaN,"b":Infinity}', '{"a":-Infinity,"b":-INF}', '{"a":Inf}',
            '{"a":+INF,"b":+Infinity}', '{"a":-NaN}', '{"a":1e39,"b":1e400}',
            '{"a":-1e39,"b":-1e400}',
            '{"a":1e-50,"b":1e-400}', '{"a":"1.5"}', '{"a":""}', '{"a":-0.0,"b":-0.0}',
            '{"b":true}',
            '{"a":16777217,"b":9007199254740993}', '{"a":16777219,"b":0.1}', '{"a":3.4028235e38}',
            '{"a":3.4028235677973366e38,"b":1.7976931348623157e308}',
            '{"b":1.7976931348623159e308}',
            '{"a":123456789012345678901234567890,"b":123456789012345678901234567890}',
            '{"a":1.00000017881393432617187499}', '{"a":1.00000017881393432617187500}',
            '{"a":1.00000017881393432617187501}', '{"a":1.401298464324817e-45,"b":4.9e-324}',
            '{"a":0.7e-45,"b":2.4e-324}', '{"z":Inf,"b":1}', '{"z":[NaN],"b":1}',
            '{"z":-NaN,"b":1}',
        ],
    ),
    "decimals": (
        "a decimal(5,2), b decimal(38,10), c decimal(5,5), d decimal(38,38), e decimal(38,0)",
        [
            '{"a":1,"b":1,"c":0.5,"d":0.25,"e":7}', '{"a":1.005,"b":1e5,"c":0.123456}', '{"c":1}',
            '{"a":999.995}', '{"a":999.994}', '{"a":1000}', '{"a":-999.995}', '{"a":-0.005,"b":-0}',
            '{"a":"1,2.5","b":"1e3"}', '{"a":"1.","b":".5","c":"-.5"}', '{"a":"","b":" 1"}',
            '{"a":"+1","b":"1_0"}', '{"a":"\uff11","b":"NaN"}', '{"a":NaN}', '{"a":true}',
            '{"a":0.004999999999999999999999}', '{"b":12345678901234567890123456789}',
            '{"b":1234567890123456789012345678.12345678905}', '{"b":0e500}', '{"a":1e-400}',
            '{"a":"1e-999999999"}', '{"a":"1e99999999999"}', '{"a":1e400}', '{"a":"0x1"}',
            '{"b":123456789012345678901234567890}', '{"d":1}',
            '{"d":0.12345678901234567890123456789}',
            '{"e":99999999999999999999999999999999999999}', '{"e":0.5}', '{"e":"1e37"}',
            '{"e":1e38}',
        ],
    ),
    "strings": (
        "a string, b int",
        [
            '{"a":"x"}', '{"a":""}', '{"a":null}', '{"a":1}', '{"a":1.50}', '{"a":1.0e10}',
            '{"a":-0}',
            '{"a":1e400}', '{"a":123456789012345678901234567890}', '{"a":-0.0}', '{"a":true}',
            '{"a": { "x" : 1.50 , "y":[1, 2 ,"\\u00e9\\n/\u00e9\\/"]}}', '{"a":[]}', '{"a":NaN}',
            '{"a":-INF}', '{"a":1e5}', '{"a":100000000.0}', '{"a":2e-3}', '{"a":0.001}',
            '{"a":1e-4}',
            '{"a":"\\ud800x"}', '{"a":"\\ud83d\\ude00"}', '{"a":{"b":"\\ud800"}}',
            '{"a":"\U0001f600"}',
            '{"a":{"b":1,"b":2}}', '{"a":{"x":"\U0001f600\\ud800\\udc00"}}',
            '{"a":["\\udc00\\ud800"]}',
            '{"a":["\\u0000\\u001f\\u007f\\u0080\\b\\f/"]}', '{"a":{"\u00e9\\"":1}}', '{"a":"\\q"}',
            '{"a":[1,2,"b":3}', '{"a":[1,,2],"b":3}', '{"a":{"x":1 "y":2},"b":3}', '{"a":["\\q"]}',
            '{"a":"x\ny","b":3}', "{\"a\":\"it\\'s\",\"b\":3}", "{'a':'it\\'s \"q\"','b':3}",
            b'{"a":"\xff\xfe\xc3","b":1}', b'{"a":"\xed\xa0\x80","b":1}', b'{"a":"\xed\xa0","b":1}',
            b'{"a":"\xf0\x9f\x98","b":1}', b'{"b":1,"\xff":2}', b'\xff{"b":1}', b'{"b":"\xff"}',
        ],
    ),
    "binary": (
        "a binary, b int",
        [
            '{"a":"QUJD","b":1}', '{"a":"QQ==","b":1}', '{"a":"Q","b":2}', '{"a":"QQ","b":2}',
            '{"a":"QQQ","b":2}', '{"a":"","b":2}', '{"a":"QQ=","b":2}', '{"a":"QQ=Q","b":2}',
            '{"a":"QU JD","b":2}', '{"a":"QUJD\nQUJD","b":2}', '{"a":"QUJD\\nQUJD","b":2}',
            '{"a":"QQ==QQ==","b":2}', '{"a":"\\u0051Q==","b":2}', '{"a":"QQ=\\u003d","b":2}',
            "{'a':'QQ==','b':2}", "{'a':'QQ','b':2}", "{'a':'QUJD\"','b':2}", '{"a":"****","b":2}',
            '{"a":5,"b":2}', '{"a":"QQ==', '{"a":"QR==","b":3}', '{"a":"Q-_Q","b":3}', '{"a":null}',
        ],
    ),
    "booleans": (
        "a boolean",
        ['{"a":true}', '{"a":false}', '{"a":"true"}', '{"a":1}', '{"a":tru}', '{"a":truex}'],
    ),
    "times": (
        "a timestamp, b timestamp_ntz, c date",
        [
            f'{{"a":"{text}","b":"{text}","c":"{text}"}}'
            for text in [
                "2024-01-02T03:04:05Z", "2024-01-02T03:04:05.123Z", "2024-01-02 03:04:05.123456789",
                "2024-01-02T03:04:05", "2024-01-02", "2024-1-2", "2024-01", "2024",
                "2024-1-2 3:4:5",
                "2024-01-02T03:04", "2024-01-02T03:04Z", "2024-01-02T03", "2024-01-02T",
                " 2024-01-02 ",
                "2024-01-02T03:04:05+05:30", "2024-01-02T03:04:05-8:00",
                "2024-01-02T03:04:05 UTC+1",
                "2024-01-02T03:04:05 Europe/Paris", "2024-01-02T03:04:05PST",
                "2024-01-02T03:04:05z",
                "2024-01-02T03:04:05+18:01", "2024-02-30", "2024-02-29T24:00:00",
                "2024-02-29T23:59:60",
                "0000-01-01", "-0044-03-15", "+12024-01-01", "9999-12-31T23:59:59.999999Z",
                "99999-01-01",
                "294247-01-10T04:00:54.775807Z", "294247-01-10T04:00:54.775808Z", "10000000-01-01",
                "1582-10-10", "123", "-5", "12345678", "-719165", "-141428", "GMT2024-01-02",
                "x", "",
                "2024-01-02T03:04:05GMT+01:30", "2024-01-02T03:04:05.", "2024-01-02T03:04:05.Z",
            ]
        ]
        + ['{"a":1700000000}', '{"a":-1}', '{"a":1.5}', '{"a":9223372036854775807}']
        + ['{"b":1}', '{"c":1}'],
    ),
    "intervals": (
        "a interval day to second, b interval hour, c interval second",
        [
            '{"a":"INTERVAL \'1 02:03:04.5\' DAY TO SECOND"}', '{"a":"1 02:03:04"}',
            '{"a":"-1 0:0:0.1"}',
            '{"a":"interval -\'-1 02:03:04\' day to second"}', '{"a":"1 24:00:00"}', '{"a":"1"}',
            '{"a":"106751991 04:00:54.775807"}', '{"a":"106751991 04:00:54.775808"}', '{"a":""}',
            '{"b":"5"}', '{"b":"INTERVAL \'5\' HOUR"}', '{"b":"9999999999"}', '{"b":"1.5"}',
            '{"b":5}',
            '{"c":"-0.5"}', '{"c":"1.5"}', '{"c":"9223372036854"}', '{"c":"9223372036855"}',
        ],
    ),
    "nesting": (
        "a struct<x:int,y:array<int>,z:map<string,int>>, b int",
        [
            '{"a":{"x":1,"y":[1,null],"z":{"k":1}},"b":1}', '{"a":{"x":"q","y":[1]},"b":1}',
            '{"a":{"x":1,"y":[1,"q",3],"z":{"k":1}},"b":1}', '{"a":{"x":1,"z":{"k":"1"}},"b":1}',
            '{"a":{"x":bad},"b":1}', '{"a":{"x":1,"y":[bad]},"b":1}',
            '{"a":{"x":1,"y":[1,bad]},"b":1}',
            '{"a":5,"b":1}', '{"a":[1,{"b":7}],"b":1}', '{"a":{"x":1},"a":{"y":[2]}}', '{"a":{}}',
            '{"b":3,"a":{"x":1,"y":[1 2]},"b":1}', '{"b":3,"a":{"x":1,"z":{"k":1,"k":2}}}',
            '{"b":3,"a":{"x" 1},"b":4}', '{"b":3,"a":{"q":"abc","x":1', '{"a":{"y":[[1]]},"b":1}',
            '{"a":{"y":[0.x,2]},"b":1}', '{"a":{"y":[1.5ex,2]},"b":1}', '{"a":{"y":[01,2]},"b":1}',
            '{"a":{"y":[\U0001f600,2]},"b":1}', '{"a":{"y":[true1,2]},"b":1}',
            '{"a":{"y":[-x2]},"b":1}',
        ],
    ),
    "arrays and maps of structs": (
        "l array<struct<x:int>>, m map<string,struct<x:int>>, b int",
        [
            '{"b":2,"m":{"k":{"x":"q"},"j":{"x":2}}}',
            '{"b":2,"m":{"k":{"x":q},"j":{"x":2}},"b":3}',
            '{"b":2,"l":[{"x":"q"},{"x":2}]}', '{"b":2,"l":[{"x":q},{"x":2}],"b":3}',
            '{"b":2,"l":[{"x":1},5,{"x":2}],"b":3}', '{"b":2,"l":{"x":1},"b":3}', '{"l":[null,{}]}',
            '{"b":2,"m":{"k":5,"j":{"x":2}},"b":3}', '{"m":{"k":{"x":1},"k":{"x":2}}}', '{"m":[]}',
        ],
    ),
    "limits": (
        "a string, b int",
        [
            *(f'{{"b":1,"z":{nested(n)},"b":2}}' for n in (998, 999, 1000, 1001)),
            *(f'{{"b":1,"a":{nested(n)},"b":2}}' for n in (999, 1000)),
            *(f'{{"b":1,"z":{"1" * n}}}' for n in (999, 1000, 1001, 5000)),
            *(f'{{"b":1,"z":0.{"1" * n}}}' for n in (999, 1000, 1001)),
            *(f'{{"b":1,"z":1.{"1" * n}e5}}' for n in (997, 998, 999)),
            *(f'{{"b":1,"{"n" * n}":2}}' for n in (49_999, 50_000, 50_001)),
            *(f'{{"b":1,"{chr(0x1F600) * n}":2}}' for n in (24_999, 25_000, 25_001)),
            f'{{"b":1,"a":"{"n" * 60_000}"}}',
            f'{{"b":1,"a":"{"q" * 3_000_000}"}}',
            f'{{"b":1,"a":[{"x" * 300},2]}}',
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("corner", "time_zone"),
    [*((corner, "UTC") for corner in CORNERS), ("times", "America/New_York")],
)
def test_corner(
    corner: str, time_zone: str, spark: SparkSession, decode: Run, from_json: Run
) -> None:
    columns, texts = CORNERS[corner]
    schema = spark.createDataFrame([], f"{columns}, _corrupt_record string").schema
    messages = [text.encode() if isinstance(text, str) else text for text in texts]
    expected = from_json(schema, messages, time_zone)
    together = decode(schema, messages, time_zone=time_zone)
    for message, got, wanted in zip(messages, together, expected, strict=True):
        assert got == wanted, message[:200]
    # Each alone: then nothing but the message itself keeps it from the vectorised path.
    for message, wanted in zip(messages, expected, strict=True):
        assert decode(schema, [message], time_zone=time_zone) == [wanted], message[:200]


def test_what_spark_drops_is_dropped(spark: SparkSession) -> None:
    columns, texts = CORNERS["nesting"]
    schema = spark.createDataFrame([], f"{columns}, i int").schema
    messages = [text[:1] + f'"i":{i},' + text[1:] for i, text in enumerate(texts)] + [" ", "null"]
    reader = spark.read.schema(schema).option("mode", "DROPMALFORMED")
    frame = reader.json(spark.sparkContext.parallelize(messages))
    kept_by_spark = [row.i for row in frame.collect()]
    decoder = JsonDecoder(schema, DecodeOptions(DecodeMode.DROPMALFORMED))
    decoded = decoder.decode(pa.array([m.encode() for m in messages], pa.binary()))
    assert decoded.kept is not None
    assert decoded.kept.to_pylist() == kept_by_spark
    assert decoded.batch.column("i").to_pylist() == kept_by_spark
    assert 0 < len(kept_by_spark) < len(messages)


def test_what_spark_fails_on_fails(spark: SparkSession, decode: Run) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import functions as F

    from spark_durable.protocol.errors import BadRowError

    schema = spark.createDataFrame([], "a int, b int").schema
    for text, fails in [('{"a":1}', False), ("", False), ('{"a":"x"}', True), ("null", True)]:
        frame = spark.createDataFrame([(text,)], "v string")
        strict = frame.select(F.from_json("v", schema, {"mode": "FAILFAST"}).alias("row"))
        if fails:
            with pytest.raises(Py4JJavaError, match="MALFORMED_RECORD_IN_PARSING"):
                strict.collect()
            with pytest.raises(BadRowError, match="FAILFAST"):
                decode(schema, [text.encode()], DecodeMode.FAILFAST)
        else:
            assert len(strict.collect()) == 1
            assert len(decode(schema, [text.encode()], DecodeMode.FAILFAST)) == 1


def test_without_a_corrupt_column(spark: SparkSession, decode: Run, from_json: Run) -> None:
    schema: StructType = spark.createDataFrame([], "a int, b int").schema
    messages = [b'{"a":1,"b":"x"}', b"nope", b'{"b":2}', b""]
    assert decode(schema, messages) == from_json(schema, messages)
