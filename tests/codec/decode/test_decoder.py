from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from spark_durable.codec.decode import Decoded, DecodeMode, DecodeOptions, JsonDecoder
from spark_durable.codec.decode.records import RecordReader
from spark_durable.codec.decode.trees import TreeReader
from spark_durable.protocol.errors import BadRowError, OptionError, UnsupportedTypeError

Run = Callable[..., list[tuple[Any, ...]]]

CORRUPT = StructField("_corrupt_record", StringType())
AB = StructType([StructField("a", LongType()), StructField("b", StringType())])
ABC = StructType([*AB.fields, CORRUPT])


def decoded(
    schema: StructType, messages: list[bytes | None], mode: DecodeMode = DecodeMode.PERMISSIVE
) -> Decoded:
    return JsonDecoder(schema, DecodeOptions(mode)).decode(pa.array(messages, pa.large_binary()))


@pytest.fixture
def no_slow_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, text: str) -> None:
        raise AssertionError(f"read one by one: {text}")

    monkeypatch.setattr(TreeReader, "read", fail)
    monkeypatch.setattr(RecordReader, "read", fail)


@pytest.mark.usefixtures("no_slow_rows")
def test_clean_messages_are_read_in_blocks() -> None:
    schema = StructType(
        [
            StructField("a", LongType()),
            StructField("t", TimestampType()),
            StructField("d", DecimalType(38, 18)),
            StructField("l", ArrayType(StructType([StructField("x", DoubleType())]))),
            CORRUPT,
        ]
    )
    messages: list[bytes | None] = [
        b'{"a":%d,"t":"2024-01-02T03:04:%02d.5+01:00","d":"0.%d","l":[{"x":0.5},null]}'
        % (i, i % 60, i)
        for i in range(1000)
    ]
    batch = decoded(schema, messages).batch
    assert batch.column("a").to_pylist() == list(range(1000))
    assert batch.column("_corrupt_record").null_count == 1000
    assert str(batch.column("t")[7].as_py()) == "2024-01-02 02:04:07.500000+00:00"


@pytest.mark.usefixtures("no_slow_rows")
def test_decimals_are_rounded_in_blocks() -> None:
    schema = StructType([StructField("a", DecimalType(4, 1))])
    texts = ["1.25", "-1.25", "1.2499", "999.94", '"7"', "1e2"]
    batch = decoded(schema, [f'{{"a":{text}}}'.encode() for text in texts]).batch
    rounded = [str(value) for value in batch.column(0).to_pylist()]
    assert rounded == ["1.3", "-1.3", "1.2", "999.9", "7.0", "100.0"]


def test_a_decimal_that_rounds_up_past_its_column(decode: Run) -> None:
    schema = StructType([StructField("a", DecimalType(4, 1)), CORRUPT])
    messages = [b'{"a":999.95}', b'{"a":-999.95}', b'{"a":1000}', b'{"a":1e15}', b'{"a":1}']
    assert [row[0] for row in decode(schema, messages)] == [None, None, None, None, 1]


@pytest.mark.parametrize(
    "bad", [b'{"a":"wrong","b":"kept"}', b'{"a":1,"a":2}', b'{"a":2', b'{"a":1.0}', b'{"b":7}']
)
def test_only_messages_at_fault_are_read_one_by_one(
    bad: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = TreeReader.read
    slow: list[str] = []

    def recorded(self: TreeReader, text: str) -> Any:
        slow.append(text)
        return read(self, text)

    monkeypatch.setattr(TreeReader, "read", recorded)
    messages: list[bytes | None] = [b'{"a":%d,"b":"x"}' % i for i in range(3000)]
    for i in range(0, 3000, 100):
        messages[i] = bad
    decoder = JsonDecoder(ABC, DecodeOptions())
    for _ in range(2):
        slow.clear()
        assert decoder.decode(pa.array(messages, pa.binary())).batch.num_rows == 3000
        assert slow == [bad.decode()] * 30


def test_unlisted_fields_whatever_the_error_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_durable.codec.decode.blocks._UNEXPECTED_FIELD", "other words")
    decoder = JsonDecoder(AB, DecodeOptions())
    messages = pa.array([b'{"a":%d,"z":1}' % i for i in range(500)], pa.binary())
    for _ in range(2):
        assert decoder.decode(messages).batch.column("a").to_pylist() == list(range(500))


@pytest.mark.parametrize("count", [1, 2, 50, 5000])
def test_a_bad_message_spoils_only_its_own_row(count: int) -> None:
    messages: list[bytes | None] = [b'{"a":%d,"b":"x"}' % i for i in range(count)]
    messages[count // 2] = b'{"a":"wrong","b":"kept"}'
    batch = decoded(ABC, messages).batch
    expected: list[int | None] = list(range(count))
    expected[count // 2] = None
    assert batch.column("a").to_pylist() == expected
    assert batch.column("b")[count // 2].as_py() == "kept"
    assert batch.column("_corrupt_record").null_count == count - 1


def test_doubled_names_among_many() -> None:
    messages: list[bytes | None] = [b'{"a":%d}' % i for i in range(2000)]
    for i in range(0, 2000, 100):
        messages[i] = b'{"a":1,"a":-%d}' % i
    batch = decoded(ABC, messages).batch
    assert batch.column("a").to_pylist() == [-i if i % 100 == 0 else i for i in range(2000)]
    assert batch.column("_corrupt_record").null_count == 2000


@pytest.mark.parametrize(
    "messages",
    [
        [b"null"] * 10,
        [b""] * 10,
        [b" \n"] * 10,
        [None] * 10,
        [b"{}"] * 10,
        [b'{"z":1}'] * 10,
        [b"5", b'"x"', b"[]", b"nope"],
    ],
)
def test_blocks_without_any_value(messages: list[bytes | None]) -> None:
    batch = decoded(ABC, messages).batch
    assert batch.num_rows == len(messages)
    assert batch.column("a").null_count == len(messages)


def test_few_messages_and_many_give_the_same(decode: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    messages = [b'{"a":1,"b":"x"}', b'{"a":-0,"z":[]}', b"nope", b'{"a":7}']
    in_a_block = decode(ABC, messages)
    monkeypatch.setattr("spark_durable.codec.decode.decoder.SMALLEST_BLOCK", 5)
    assert decode(ABC, messages) == in_a_block


def test_a_message_is_one_row(decode: Run) -> None:
    assert decode(AB, [b'{"a":1}{"a":2}', b'{"a":3}']) == [(1, None), (3, None)]
    assert decode(AB, [b'{"a":1}\n{"a":2}']) == [(1, None)]
    assert decode(ABC, [b"", b" "]) == [(None, None, None)] * 2


def test_rows_stay_with_their_messages() -> None:
    """As many rows as messages can also come from a message that holds two and one that is open."""
    messages: list[bytes | None] = [b'{"a":1}{"a":2}', b'{"a":3,"b":"}', b'{y"}', b'{"a":4}']
    batch = decoded(ABC, messages).batch
    assert batch.column("a").to_pylist() == [1, None, None, 4]
    assert batch.column("_corrupt_record").to_pylist() == [None, '{"a":3,"b":"}', '{y"}', None]


def test_a_message_larger_than_a_block(decode: Run) -> None:
    big = b"x" * 3_000_000
    rows = decode(ABC, [b'{"a":1}', b'{"a":2,"b":"' + big + b'"}', b'{"a":3}'])
    assert [row[0] for row in rows] == [1, 2, 3]
    assert rows[1][1] == big


def test_messages_of_several_lines(decode: Run) -> None:
    messages = [b'{\n  "a": %d,\n  "b": "x"\n}' % i for i in range(100)]
    messages[7] = b'{"a":7,"b":"x\ny"}'
    rows = decode(ABC, messages)
    assert rows[7] == (None, None, messages[7])
    assert [row for i, row in enumerate(rows) if i != 7] == [
        (i, b"x", None) for i in range(100) if i != 7
    ]


def test_unlisted_fields_hide_no_malformed_text(decode: Run) -> None:
    good, bad = b'{"a":1,"z":"Inf, NaN"}', b'{"a":1,"z":Inf}'
    assert decode(ABC, [good, bad, good]) == [(1, None, None), (None, None, bad), (1, None, None)]


def test_a_number_that_crashes_the_block_parser(decode: Run) -> None:
    schema = StructType([StructField("a", DecimalType(10, 2)), CORRUPT])
    for text in (b"1e-99999999", b'"1e-99999999"', b'"1\\u0065-99999999"', b'"1e-9\\u00399999999"'):
        assert decode(schema, [b'{"a":%s}' % text])[0][0] in (None, 0)


def test_slices_and_both_widths_of_offsets() -> None:
    messages = pa.array([b'{"a":%d}' % i for i in range(10)], pa.binary())
    decoder = JsonDecoder(AB, DecodeOptions())
    for array in (messages, messages.cast(pa.large_binary())):
        batch = decoder.decode(array.slice(3, 4)).batch
        assert batch.column("a").to_pylist() == [3, 4, 5, 6]
        assert decoder.decode(array.slice(0, 0)).batch.num_rows == 0


def test_the_corrupt_text_keeps_its_bytes() -> None:
    batch = decoded(ABC, [b"nope \xff\xfe"]).batch
    assert batch.column("_corrupt_record").view(pa.binary()).to_pylist() == [b"nope \xff\xfe"]


def test_another_corrupt_column() -> None:
    schema = StructType([StructField("bad", StringType()), *AB.fields])
    options = DecodeOptions(corrupt_column="bad")
    batch = JsonDecoder(schema, options).decode(pa.array([b"nope", b'{"bad":"x","a":1}'])).batch
    assert batch.column("bad").to_pylist() == ["nope", None]
    assert batch.column("a").to_pylist() == [None, 1]


def test_dropping_tells_what_is_kept() -> None:
    messages: list[bytes | None] = [b'{"a":1}', b"nope", b'{"a":"x"}', b"", b'{"a":2}']
    result = decoded(AB, messages, DecodeMode.DROPMALFORMED)
    assert result.batch.column("a").to_pylist() == [1, 2]
    assert result.kept is not None
    assert result.kept.to_pylist() == [0, 4]
    assert decoded(AB, [b'{"a":1}'], DecodeMode.DROPMALFORMED).kept is None


def test_failfast_names_the_first_malformed_message() -> None:
    messages: list[bytes | None] = [b'{"a":1}', b'{"a":"%s"}' % (b"y" * 500), b"nope"]
    with pytest.raises(BadRowError, match=r"number 1 .*PERMISSIVE") as error:
        decoded(AB, messages, DecodeMode.FAILFAST)
    assert error.value.facts == {"row": 1}
    assert len(str(error.value)) < 600


def test_no_columns() -> None:
    assert decoded(StructType([]), [b"{}", b"{}"]).batch.num_rows == 2
    kept = decoded(StructType([]), [b"{}", b"nope"], DecodeMode.DROPMALFORMED)
    assert kept.batch.num_rows == 1


def test_a_decoder_travels() -> None:
    decoder = JsonDecoder(ABC, DecodeOptions(DecodeMode.DROPMALFORMED, time_zone="Europe/Paris"))
    decoder.decode(pa.array([b'{"a":1,"z":2}']))
    again = pickle.loads(pickle.dumps(decoder))
    assert again.decode(pa.array([b"nope", b'{"a":1}'])).kept.to_pylist() == [1]
    assert again.arrow_schema.equals(decoder.arrow_schema)


@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        (CalendarIntervalType(), "c is declared as interval"),
        (VariantType(), "c is declared as variant"),
        (NullType(), "c is declared as void"),
        (ArrayType(NullType()), r"c\[\] is declared as void"),
        (MapType(IntegerType(), StringType()), "c is a map with keys of int"),
        (StructType([StructField("x", VariantType())]), r"c\.x is declared as variant"),
        (StructType([StructField("x", LongType()), StructField("x", LongType())]), "c.x twice"),
    ],
)
def test_types_that_json_cannot_fill(dtype: Any, said: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=said):
        JsonDecoder(StructType([StructField("c", dtype)]), DecodeOptions())


def test_the_corrupt_column_is_a_nullable_string() -> None:
    for field in (
        StructField("_corrupt_record", LongType()),
        StructField("_corrupt_record", StringType(), False),
    ):
        with pytest.raises(UnsupportedTypeError, match="nullable string"):
            JsonDecoder(StructType([field]), DecodeOptions())


def test_an_unknown_time_zone() -> None:
    with pytest.raises(OptionError, match="Middle/Earth"):
        JsonDecoder(AB, DecodeOptions(time_zone="Middle/Earth"))


class TestRequiredColumns:
    INNER = StructType([StructField("x", LongType(), nullable=False)])
    SCHEMA = StructType(
        [
            StructField("id", LongType(), nullable=False),
            StructField("s", INNER),
            StructField("l", ArrayType(INNER)),
            StructField("m", MapType(StringType(), LongType(), valueContainsNull=False)),
        ]
    )

    @pytest.mark.parametrize(
        ("message", "path"),
        [
            (b"{}", "id"),
            (b'{"id":null}', "id"),
            (b"nope", "id"),
            (b'{"id":1,"s":{}}', "s.x"),
            (b'{"id":1,"l":[null,{"x":1},{}]}', "l[].x"),
            (b'{"id":1,"m":{"k":null}}', "m{}"),
        ],
    )
    def test_a_missing_value_is_an_error(self, message: bytes, path: str) -> None:
        with pytest.raises(BadRowError, match=r"NOT NULL.*message number 1 ") as error:
            decoded(self.SCHEMA, [b'{"id":1}', message])
        assert error.value.facts == {"row": 1, "column": path}

    def test_nothing_is_asked_of_what_is_not_there(self) -> None:
        messages: list[bytes | None] = [b'{"id":1,"s":null,"l":[null]}', b'{"id":2,"s":{"x":1}}']
        batch = decoded(self.SCHEMA, messages).batch
        assert batch.column("id").to_pylist() == [1, 2]
        assert not batch.schema.field("id").nullable

    def test_dropped_messages_do_not_count(self) -> None:
        result = decoded(self.SCHEMA, [b"nope", b'{"id":5}'], DecodeMode.DROPMALFORMED)
        assert result.batch.column("id").to_pylist() == [5]
        with pytest.raises(BadRowError, match="message number 2 "):
            decoded(self.SCHEMA, [b"nope", b'{"id":5}', b"{}"], DecodeMode.DROPMALFORMED)
