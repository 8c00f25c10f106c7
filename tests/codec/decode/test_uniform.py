"""Reading by shape against reading by the parser: the same rows, or left to the parser."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_durable.codec.decode import DecodeMode, DecodeOptions, JsonDecoder, blocks
from spark_durable.codec.decode.scan import Messages
from spark_durable.codec.decode.skeleton import skeleton_of
from spark_durable.codec.decode.uniform import uniform_columns

ROWS = 40

NUMBERS = ["0", "7", "-0", "-0.0", "1.5", "0.25", "-12", "1e5", "1E+2", "0e0", "127", "128"]
LARGE = ["9223372036854775807", "9223372036854775808", "1e999", "1e-320", "3.4e38", "3.5e38"]
NO_NUMBERS = ["01", "-01", "00", "1.", "1.e5", "+1", "0x1F", "0x1p3", ".5", "-", "--1", "1e", "1e+"]
NO_NUMBERS += ["1_0", "inf", "NaN", "-NaN", "Infinity", "null", "true", "false", "tru", "nul"]
NO_NUMBERS += [
    "1,2",
    "1}",
    "{}",
    "[]",
    "1;2",
    "\uff11",
    "1f",
    "1d5",
    "1e5.5",
    "1-1",
    "1 ",
    " 1",
    "",
]
TEXTS = [
    "",
    "a",
    "hello world",
    "2024-01-02",
    "2024-01-02T03:04:05Z",
    "ü",
    "{",
    "}",
    ",",
    ":",
    "[1]",
]
ODD_TEXTS = ['a"b', "a\\\\b", "a\\u0041", "a\nb", "a\tb", '","b":"', "a\x00b", "\x7f", 'a\\"b']
TYPES: list[DataType] = [
    LongType(),
    ByteType(),
    DoubleType(),
    FloatType(),
    BooleanType(),
    StringType(),
    TimestampType(),
    DateType(),
]


def any_values() -> st.SearchStrategy[str]:
    """The text of a value, or of what is none; one of a string has its quotes."""
    quoted = st.sampled_from(TEXTS + ODD_TEXTS).map('"{}"'.format)
    bare = st.sampled_from(NUMBERS + LARGE + NO_NUMBERS)
    return st.one_of(quoted, bare, st.sampled_from(["true", "false"]))


@st.composite
def messages(draw: st.DrawFn) -> list[bytes]:
    """Messages of one shape, most of them: the same names and a value of the same kind each."""
    names = draw(
        st.lists(st.sampled_from(["a", "b", "long name", "é", ""]), min_size=1, max_size=4)
    )
    gap = draw(st.sampled_from(["", "", " "]))
    kinds = [draw(st.sampled_from(["text", "number", "flag", "object", "list"])) for _ in names]

    def plain(kind: str) -> st.SearchStrategy[str]:
        if kind == "text":
            return st.sampled_from(TEXTS).map('"{}"'.format)
        if kind == "number":
            return st.sampled_from(NUMBERS)
        if kind == "flag":
            return st.sampled_from(["true", "false"])
        if kind == "object":
            return st.builds(
                '{{"x":{},"y":"{}"}}'.format, st.sampled_from(NUMBERS), st.sampled_from(TEXTS)
            )
        return st.builds('["{}","{}"]'.format, st.sampled_from(TEXTS), st.sampled_from(TEXTS))

    def message(texts: list[str]) -> bytes:
        fields = [f'"{name}":{gap}{text}' for name, text in zip(names, texts, strict=True)]
        return ("{" + f",{gap}".join(fields) + "}").encode()

    pools = [draw(st.lists(plain(kind), min_size=1, max_size=4)) for kind in kinds]
    found = [
        message([pool[(row * 7 + at) % len(pool)] for at, pool in enumerate(pools)])
        for row in range(ROWS)
    ]
    for _ in range(draw(st.integers(0, 2))):
        row = draw(st.integers(0, ROWS - 1))
        if draw(st.booleans()):
            found[row] = message([draw(any_values()) for _ in names])
            continue
        text = bytearray(found[row])
        place = draw(st.integers(0, len(text) - 1))
        text[place : place + draw(st.integers(0, 2))] = draw(
            st.sampled_from([b"", b'"', b"x", b",", b"\\", b" ", b"}", b"1", b"-", b"\n"])
        )
        found[row] = bytes(text)
    return found


def schemas() -> st.SearchStrategy[StructType]:
    inner = StructType([StructField("x", DoubleType()), StructField("y", StringType())])
    kinds = st.sampled_from([*TYPES, ArrayType(StringType()), inner])
    names = st.lists(st.sampled_from(["a", "b", "long name", "é", "z"]), min_size=1, unique=True)
    return names.flatmap(
        lambda found: st.tuples(*[kinds] * len(found)).map(
            lambda types: StructType(
                [
                    *(StructField(name, kind) for name, kind in zip(found, types, strict=True)),
                    StructField("_corrupt_record", StringType()),
                ]
            )
        )
    )


def decoded(schema: StructType, texts: list[bytes]) -> list[str]:
    options = DecodeOptions(mode=DecodeMode.PERMISSIVE, time_zone="UTC")
    batch = JsonDecoder(schema, options).decode(pa.array(texts, pa.binary())).batch
    batch.validate(full=False)
    columns: list[Any] = [
        # Malformed messages need not be UTF-8. Two NaN are the same here.
        column.view(pa.binary()) if pa.types.is_string(column.type) else column
        for column in batch.columns
    ]
    return [repr(column.to_pylist()) for column in columns]


@given(schemas(), messages())
@settings(max_examples=600)
def test_the_same_rows_as_by_the_parser(schema: StructType, texts: list[bytes]) -> None:
    by_shape = decoded(schema, texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "uniform_columns", lambda *_: None)
        assert by_shape == decoded(schema, texts)


def columns(texts: list[str], **types: pa.DataType) -> list[Any] | None:
    found = uniform_columns(
        Messages.of(pa.array([text.encode() for text in texts], pa.binary())),
        pa.schema(list(types.items())),
    )
    return None if found is None else [column.to_pylist() for column in found]


def test_messages_of_one_shape_are_read_by_it() -> None:
    texts = [
        f'{{"n": {n}, "s":"text {n}","on":{str(n % 2 == 0).lower()},"o":{{"x":{n}.5}},'
        f'"l":["a{n}","b"],"none":[]}}'
        for n in range(ROWS)
    ]
    found = columns(
        texts,
        s=pa.string(),
        n=pa.int64(),
        on=pa.bool_(),
        o=pa.struct([("x", pa.float64()), ("absent", pa.string())]),
        l=pa.list_(pa.field("element", pa.string())),
        none=pa.list_(pa.field("element", pa.int64())),
        absent=pa.int8(),
    )
    rows = [json.loads(text) for text in texts]
    assert found is not None
    assert found[0] == [row["s"] for row in rows]
    assert found[1] == [row["n"] for row in rows]
    assert found[2] == [row["on"] for row in rows]
    assert found[3] == [{"x": row["o"]["x"], "absent": None} for row in rows]
    assert found[4] == [row["l"] for row in rows]
    assert found[5] == [[]] * ROWS
    assert found[6] == [None] * ROWS


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_json_does_not_call_a_number_is_left_to_the_parser(text: str) -> None:
    texts = ['{"a":1}'] * ROWS + [f'{{"a":{text}}}']
    assert columns(texts, a=pa.float64()) is None
    assert columns(texts, a=pa.int64()) is None
    assert columns(texts, b=pa.string()) is None, "not even where nobody asks for it"


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_strings_that_need_a_parser_are_left_to_it(text: str) -> None:
    texts = ['{"a":"b","b":"c"}'] * ROWS + [f'{{"a":"{text}","b":"c"}}']
    assert columns(texts, a=pa.string()) == ([["b"] * ROWS + [text]] if text == "\x7f" else None)


@pytest.mark.parametrize(
    "other",
    [
        '{"a":1,"c":2}',
        '{"b":2,"a":1}',
        '{"a":1}',
        '{"a":1,"b":2,"c":3}',
        '{"a":1,"b":2} ',
        '{"a":1,"b":2}}',
        '{"a":1,"b" 2}',
        '{"a":"1","b":2}',
        '{"a":1,"b":"2"}',
        "",
    ],
)
def test_one_message_of_another_shape_is_enough(other: str) -> None:
    plain = ['{"a":1,"b":2}'] * ROWS
    for texts in ([*plain, other], [*plain, other, *plain]):
        assert columns(texts, a=pa.int64(), b=pa.int64()) is None


@pytest.mark.parametrize(
    ("plain", "other"),
    [
        ('{"a":1,"b":"x"}', '{"a":1,"b":"x"}}'),
        ('{"a":1,"b":"x"}', '{"a":1,"b":"x" }'),
        ('{"a":1,"b":"x"}', '{"a":,"b":"x"}'),
        ('{"a":["x",true,"y"]}', '{"a":["x","y"]}'),  # the comma is before and after what is not
        ('{"a":["x",1,"y"]}', '{"a":["x","y"]}'),
    ],
)
def test_messages_are_of_the_shape_from_end_to_end(plain: str, other: str) -> None:
    for texts in ([plain] * ROWS + [other], [plain, other] * ROWS):
        assert columns(texts, c=pa.int64()) is None


def test_quotes_too_many_in_one_message_do_not_make_up_for_others() -> None:
    """As many quotes altogether as there should be."""
    plain, few, many = '{"a":"x"}', '{"a":1}', '{"a":"","b":""}'
    assert columns([plain] * ROWS + [few, few, many], a=pa.string()) is None
    assert columns([plain] * ROWS + [many, few, few], a=pa.string()) is None


def test_a_skeleton_is_the_message_without_its_values() -> None:
    found = skeleton_of(b'{"a": 1,"b":{"c":"x","d":[true,"y"]},"e":[]}')
    assert found is not None
    assert found.runs == (b'{"a": ', b',"b":{"c":"', b'","d":[', b',"', b'"]},"e":[]}')
    assert [(value.path, value.is_string) for value in found.values] == [
        (("a",), False),
        (("b", "c"), True),
        (("b", "d", 0), False),
        (("b", "d", 1), True),
    ]
    assert found.lengths == {("b", "d"): 2, ("e",): 0}
    assert found.objects == {(), ("b",)}
    assert skeleton_of(b'{"a":1,"a":2}') is None
    assert skeleton_of(b'{"a":"\\u0041"}') is None
    assert skeleton_of(b'{"a":') is None
