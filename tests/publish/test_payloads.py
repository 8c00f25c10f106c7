"""Payloads inside JSON: in as they are, out as they were."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_durable.publish.contract import Event
from spark_durable.publish.payloads import BASE64, embedded, envelope, extracted, json_problem


@given(st.binary(max_size=200))
def test_any_bytes_come_back(payload: bytes) -> None:
    value, encoding = embedded(payload)
    json.loads(value)
    assert extracted(value, encoding) == payload


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_is_embedded_as_it_is(document: object) -> None:
    try:
        payload = json.dumps(document, ensure_ascii=False, indent=1).encode()
    except UnicodeEncodeError:
        return
    assert embedded(payload) == (payload, None)


@pytest.mark.parametrize("payload", [b"", b"{", b"NaN", b'"\xff"', b"[1,]", b"[" * 100_000])
def test_what_is_not_json_is_named(payload: bytes) -> None:
    assert json_problem(payload)
    assert embedded(payload)[1] == BASE64


def test_an_envelope_holds_metadata_and_the_payload_untouched() -> None:
    event = Event("e", "t", b'{"a": 1.50}', headers={"h": "v"}, partition_key="p")
    text = envelope(event)
    assert b'"payload":{"a": 1.50}' in text
    document = json.loads(text)
    assert document["event_id"] == "e"
    assert document["headers"] == {"h": "v"}
    assert document["partition_key"] == "p"
    assert "payload_encoding" not in document


def test_an_unknown_encoding_is_an_error() -> None:
    with pytest.raises(ValueError, match="rot13"):
        extracted(b'"x"', "rot13")
