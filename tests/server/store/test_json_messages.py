from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_durable.server.store import json_messages
from spark_durable.server.store.errors import BadJson

# a busy machine is no reason to fail
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
_floats = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | _floats | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@relaxed
@given(st.lists(values), st.sampled_from([None, 0, 2, "\t"]), st.booleans())
def test_an_array_is_flattened_one_level_and_each_message_keeps_its_text(
    messages: list[object], indent: int | str | None, ascii_only: bool
) -> None:
    body = json.dumps(messages, indent=indent, ensure_ascii=ascii_only).encode()
    stored, count = json_messages.encode(body)
    assert count == len(messages)
    assert [json.loads(each) for each in json_messages.split(stored)] == messages
    # as an array the stored form has its own length, and lines are messages
    assert stored.count(b"\n") == count
    if messages:
        array = b"[" + stored[:-2] + b"]"
        assert len(array) == len(stored)
        assert json.loads(array) == messages


@relaxed
@given(values.filter(lambda value: not isinstance(value, list)))
def test_a_value_that_is_no_array_is_one_message(value: object) -> None:
    stored, count = json_messages.encode(json.dumps(value).encode())
    assert count == 1
    assert [json.loads(each) for each in json_messages.split(stored)] == [value]


@pytest.mark.parametrize(
    "text",
    [
        b"12345678901234567890123456789",
        b"1.0",
        b"-0.0",
        b"1E+2",
        b"0.1000000000000000055511151231257827",
        b"1e999",
        rb'"\u0041\/"',
        '"é\u2028"'.encode(),
        b'{"b":1,"a":2,"b":3}',
        b'{ "a" :  1 }',
    ],
)
def test_numbers_and_text_are_kept_as_sent(text: bytes) -> None:
    assert json_messages.split(json_messages.encode(b"[" + text + b"]")[0]) == [text]
    assert json_messages.split(json_messages.encode(text)[0]) == [text]


def test_only_newlines_between_tokens_change() -> None:
    stored, count = json_messages.encode(b'[\n {"a":\n\t[1,\r\n2]},\n "x\\ny" ]\n')
    assert (stored, count) == (b'{"a": \t[1,\r 2]},\n"x\\ny",\n', 2)


def test_leading_white_space_does_not_hide_an_array() -> None:
    assert json_messages.encode(b" \r\n\t" * 3000 + b"[1,[2]]") == (b"1,\n[2],\n", 2)


@pytest.mark.parametrize("body", [bytearray(b"[1,2]"), memoryview(b"[1,2]"), b"[1,2]"])
def test_any_buffer_will_do(body: bytes) -> None:
    assert json_messages.encode(body) == (b"1,\n2,\n", 2)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "truncated"),
        (b"  ", "truncated"),
        (b"{", "truncated"),
        (b"[1,]", "trailing comma"),
        (b"[1] 2", "trailing characters"),
        (b"[01]", "invalid number"),
        (b"[NaN]", "invalid character"),
        (b"[-Infinity]", "invalid character"),
        (b"['a']", "invalid character"),
        (b'["a\nb"]', "invalid character"),
        (b'{"a":"\x00"}', "invalid character"),
        (b'["\xff"]', "not UTF-8 at byte 2"),
        (b'["\xed\xa0\x80"]', "not UTF-8 at byte 2"),
        (b'["\xc0\xaf"]', "not UTF-8"),
        (b"\xef\xbb\xbf[1]", "invalid character"),
        (rb'["\ud800"]', "surrogate"),
        (rb'["\udc00\ud800"]', "surrogate"),
        (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_what_is_not_json_is_refused_with_the_reason(body: bytes, reason: str) -> None:
    with pytest.raises(BadJson, match=reason):
        json_messages.encode(body)


@relaxed
@given(st.binary(max_size=60))
def test_no_bytes_pass_that_a_strict_parser_refuses(body: bytes) -> None:
    try:
        stored, count = json_messages.encode(body)
    except BadJson:
        return
    parsed = json.loads(body.decode())
    expected = parsed if isinstance(parsed, list) else [parsed]
    assert [json.loads(each) for each in json_messages.split(stored)] == expected
    assert count == len(expected)
