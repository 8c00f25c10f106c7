from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_durable.codec.messages import join_ndjson, split_array, split_lines, split_ndjson
from spark_durable.protocol.errors import MalformedResponseError

# Values as texts, so that what a parser would change (numbers, escapes, space) can be seen to stay.
SCALARS = st.sampled_from(
    [
        "1",
        "1.50",
        "-0",
        "1e400",
        "null",
        "true",
        '""',
        '"a,b"',
        '"]"',
        r'"\""',
        r'"\ud800"',
        '"é\\n"',
    ]
)
SPACE = st.sampled_from(["", "", "", " ", "\n", "\r\n", "\t"])


def containers(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    comma = st.sampled_from([",", ", ", ",\n"])
    arrays = st.tuples(comma, st.lists(values, max_size=3)).map(lambda t: f"[{t[0].join(t[1])}]")
    objects = st.tuples(comma, st.lists(values, max_size=3)).map(
        lambda t: "{" + t[0].join(f'"k":{value}' for value in t[1]) + "}"
    )
    return arrays | objects


VALUES = st.recursive(SCALARS, containers, max_leaves=6)


@given(
    values=st.lists(VALUES, max_size=6),
    separators=st.sampled_from([[","], [",\n"], [", "], [" ,"], [",", ",\n"], [" , ", ","]]),
    ends=st.tuples(SPACE, SPACE, SPACE, SPACE),
)
def test_the_elements_of_an_array(
    values: list[str], separators: list[str], ends: tuple[str, str, str, str]
) -> None:
    text = values[0] if values else ""
    for i, value in enumerate(values[1:]):
        text += separators[i % len(separators)] + value
    body = f"{ends[0]}[{ends[1]}{text}{ends[2]}]{ends[3]}".encode()
    assert split_array(body).to_pylist() == [value.encode() for value in values]
    assert split_array(memoryview(bytearray(body))).to_pylist() == [v.encode() for v in values]


@pytest.mark.parametrize("separator", [b",\n", b",", b", ", b",  "])
def test_many_elements(separator: bytes) -> None:
    values = [json.dumps({"id": i, "text": "},\n{" * (i % 3)}).encode() for i in range(1000)]
    messages = split_array(b"[" + separator.join(values) + b"]")
    assert messages.type == pa.large_binary()
    assert messages.to_pylist() == values


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"",
            b"{}",
            b"1",
            b"[1",
            b"1]",
            b"[1,]",
            b"[,1]",
            b"[1]x",
            b'["a]',
            b"[1}",
            b"[1]]",
            b"x[1]",
        ),
        *(rb'["\ud800",]', rb'["\ud800"', rb'["\ud800"]]', rb'["\ud800"}', rb'{"a":"\ud800"}'),
        *(rb'[{"a":"\ud800"]', rb'["\ud800",,1]', b"<html>[]</html>"),
    ],
)
def test_what_is_no_array(body: bytes) -> None:
    with pytest.raises(MalformedResponseError, match="not a JSON array"):
        split_array(body)


def test_deep_elements() -> None:
    deep = b"[" * 5000 + b"]" * 5000
    assert split_array(b"[1," + deep + b"]").to_pylist() == [b"1", deep]


@given(
    st.lists(st.binary(max_size=6).filter(lambda line: b"\n" not in line)), st.binary(max_size=4)
)
def test_lines(lines: list[bytes], rest: bytes) -> None:
    rest = rest.replace(b"\n", b"")
    found = split_lines(b"".join(line + b"\n" for line in lines) + rest, b"\n")
    assert found.messages.to_pylist() == lines
    assert found.remainder == rest


def test_lines_by_a_longer_separator() -> None:
    found = split_lines(b"a||b|c||||d|", b"||")
    assert found.messages.to_pylist() == [b"a", b"b|c", b""]
    assert found.remainder == b"d|"
    assert split_lines(b"", b"||").messages.to_pylist() == []


def test_ndjson() -> None:
    found = split_ndjson(b'{"a":1}\n{"a":2}\r\n\n  \n {"a":"\xff"}\t\n{"a"')
    assert found.messages.to_pylist() == [b'{"a":1}', b'{"a":2}', b'{"a":"\xff"}']
    assert found.remainder == b'{"a"'
    assert split_ndjson(b"").messages.to_pylist() == []
    assert split_ndjson(b"\n").messages.to_pylist() == []
    assert split_ndjson(b"1").remainder == b"1"


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_joined_messages_are_lines(values: list[str]) -> None:
    messages = pa.array([value.encode() for value in values], pa.binary())
    lines = join_ndjson(messages).to_pybytes().split(b"\n")
    if r"\ud800" not in "".join(values):  # such a message of several lines stays as it is
        assert [json.loads(line) for line in lines] == [json.loads(value) for value in values]
    plain = [value.encode() for value in values if "\n" not in value]
    assert [line for line in lines if line in plain][: len(plain)] == plain


def test_joining_changes_nothing_that_might_be_text() -> None:
    """A newline inside a string is no JSON; taking it out would make it some."""
    messages = pa.array([b'{"a":\n1.50}', b'"x\ny"', b"2"], pa.large_binary())
    assert join_ndjson(messages).to_pybytes() == b'{"a":1.50}\n"x\ny"\n2'
    assert join_ndjson(messages.slice(2)).to_pybytes() == b"2"
