from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_durable.codec.decode.scan import (
    Messages,
    fit_for_blocks,
    with_long_exponents,
    with_non_numbers,
)


def messages(*texts: bytes | None) -> Messages:
    return Messages.of(pa.array(texts, pa.large_binary()))


@pytest.mark.parametrize(
    "text", [None, b"", b"{", b"}", b"null", b"[{}]", b" {}", b"{} ", b'{"a":1} x', b'{"a":"\xff"}']
)
def test_what_does_not_look_like_an_object(text: bytes | None) -> None:
    assert fit_for_blocks(messages(b"{}", text, b'{"a":"\xc3\xa9"}')).tolist() == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":' + b"1" * 1001 + b"}",
        b'{"a":0.' + b"1" * 1001 + b"}",
        b'{"a":' + b"[" * 1000 + b"]" * 1000 + b"}",
        b'{"' + b"n" * 50_001 + b'":1}',
        b'{"' + b'\\"' * 50_001 + b'":1}',
        b'{"a":"' + b"n" * 20_000_001 + b'"}',
    ],
)
def test_what_may_pass_a_limit(text: bytes) -> None:
    for padding in (0, 1, 37, 99):
        before = b'{"a":"' + b"1" * padding + b'"}'
        assert not fit_for_blocks(messages(before, text, b"{}"))[1]


def test_long_messages_within_the_limits_pass() -> None:
    plain = b'{"a":"' + b"x" * 40_000 + b'","b":[' + b"1," * 9_000 + b"1]}"
    assert fit_for_blocks(messages(plain, b"{}")).all()


def test_non_numbers_in_the_place_of_values() -> None:
    found = with_non_numbers(
        messages(
            b'{"a":Inf}', b'{"a":"Inf"}', b'{"a":[1,-NaN]}', b'{"a": NaN}', b'{"Info":1}', b"{}"
        )
    )
    assert found.tolist() == [0, 2, 3]
    assert with_non_numbers(messages(b"{}")).tolist() == []
    assert with_non_numbers(messages()).tolist() == []


def test_long_exponents() -> None:
    found = with_long_exponents(
        messages(
            b'{"a":1e99}', b'{"a":1E-100}', b'{"a":"1\\u0065+5"}', b'{"e":123}', b'{"a":"\\u0041"}'
        )
    )
    assert found.tolist() == [1, 2]


def test_messages_are_seen_where_they_are() -> None:
    sliced = Messages.of(pa.array([b"ab", b"", b"cde", b"f"], pa.binary()).slice(1, 2))
    assert [sliced.message(i) for i in range(len(sliced))] == [b"", b"cde"]
    assert sliced.lengths.tolist() == [0, 3]
    assert sliced.take(np.array([1])).message(0) == b"cde"
