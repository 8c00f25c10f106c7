from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_durable.protocol.errors import MalformedResponseError
from spark_durable.source import spans

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
messages = st.lists(json_values.map(lambda v: json.dumps(v).encode()), min_size=1, max_size=30)


@given(messages, st.integers(0, 10**15))
def test_aligned_arrays(texts: list[bytes], position: int) -> None:
    body = b"[" + b",\n".join(texts) + b"]"
    span = spans.aligned_array(body, position)
    assert span.messages.to_pylist() == texts
    assert span.starts is not None
    # What is stored is each message and two bytes after it.
    stored = b"".join(text + b",\n" for text in texts)
    assert span.end == position + len(stored) == position + len(body)
    for start, text in zip(span.starts.tolist(), texts, strict=True):
        assert stored[start - position :].startswith(text + b",\n")


@given(messages, st.integers(0, 10**15), st.booleans())
def test_lines(texts: list[bytes], position: int, ended: bool) -> None:
    body = b"\n".join(texts) + (b"\n" if ended else b"")
    span = spans.lines(body, position)
    assert span.messages.to_pylist() == texts
    assert span.starts is not None
    assert span.end == position + len(body)
    for start, text in zip(span.starts.tolist(), texts, strict=True):
        assert body[start - position :].startswith(text)


def test_blank_lines_are_no_messages() -> None:
    span = spans.lines(b"\n1\n\n22\n", 100)
    assert span.messages.to_pylist() == [b"1", b"22"]
    assert span.starts is not None
    assert span.starts.tolist() == [101, 104]
    assert span.end == 107


@pytest.mark.parametrize(
    "body", [b"[1,\n2", b"1,\n2]", b"[1,\n\n2]", b"[1,\n,\n2]", b'[{"a":\n1}]']
)
def test_an_array_without_one_message_a_line_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedResponseError):
        spans.aligned_array(body, 0)


def test_the_empty_array() -> None:
    span = spans.aligned_array(b"[]", 7)
    assert (len(span.messages), span.end) == (0, 7)


def test_slices_know_where_they_end() -> None:
    span = spans.lines(b"1\n22\n333\n", 0)
    assert span.slice(0, 2).end == 5
    assert span.slice(1, 2).messages.to_pylist() == [b"22"]
    assert span.slice(1, 3).end == 9
    assert span.slice(0, 0).end == 0


@given(st.lists(st.integers(0, 2**62), max_size=20), st.integers(19, 25))
def test_offsets_are_padded(positions: list[int], width: int) -> None:
    shown = spans.padded(np.array(positions, np.int64), width)
    assert shown.to_pylist() == [f"{position:0{width}d}" for position in positions]
