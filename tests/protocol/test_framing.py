"""The splitters: the same messages however a body is cut, and an error for what is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_durable.protocol import ArraySplitter, NdjsonSplitter, split_array
from spark_durable.protocol import framing as framing_module
from spark_durable.protocol.errors import MalformedResponseError
from spark_durable.protocol.framing import Splitter

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(['},{"', "],[", ',\n"', '\\"', "\\", "]", "\ud800", "é€𝄞"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
SPACES = ("", " ", "\n", "\t\r\n ")


@st.composite
def spelled(draw: st.DrawFn) -> tuple[list[bytes], bytes]:
    """Messages, and an array that holds them in one of the spellings JSON allows."""
    values = draw(st.lists(json_values, max_size=12))
    ascii_only = draw(st.booleans()) or any(
        "\ud800" in json.dumps(v, ensure_ascii=False) for v in values
    )
    indent = draw(st.sampled_from([None, None, 1]))
    texts = [json.dumps(v, ensure_ascii=ascii_only, indent=indent).encode() for v in values]
    pad = st.sampled_from(SPACES)
    body = draw(pad) + "["
    for i, text in enumerate(texts):
        body += ("," if i else "") + draw(pad) + text.decode() + draw(pad)
    body += "]" + draw(pad)
    return texts, body.encode()


@st.composite
def cut(draw: st.DrawFn, body: bytes) -> list[bytes]:
    places = sorted(draw(st.lists(st.integers(0, len(body)), max_size=10)))
    return [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]


def run(splitter: Splitter, pieces: list[bytes]) -> tuple[list[bytes], bytes]:
    messages = [message for piece in pieces for message in splitter.feed(piece)]
    return messages, splitter.finish()


def outcome(splitter: Splitter, pieces: list[bytes]) -> tuple[list[bytes], bytes] | str:
    try:
        return run(splitter, pieces)
    except MalformedResponseError:
        return "malformed"


@given(st.data())
@settings(max_examples=250, deadline=None)
def test_any_chunking_of_an_array_gives_its_messages_as_sent(data: st.DataObject) -> None:
    texts, body = data.draw(spelled())
    assert run(ArraySplitter(), data.draw(cut(body))) == (texts, b"")
    assert run(ArraySplitter(), [body[i : i + 1] for i in range(len(body))]) == (texts, b"")


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_the_scan_and_the_fast_path_agree(data: st.DataObject) -> None:
    texts, body = data.draw(spelled())
    pieces = data.draw(cut(body))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing_module, "_SCAN_AT", 0)  # scan whatever is left after each piece
        assert run(ArraySplitter(), pieces) == (texts, b"")
        patch.setattr(framing_module, "_SEPARATORS", ())  # and nothing but the scan
        assert run(ArraySplitter(), pieces) == (texts, b"")


garbage = st.binary(max_size=40) | st.lists(
    st.sampled_from(
        [b"[", b"]", b"{", b"}", b",", b'"', b"\\", b"1", b" ", b"\n", b"a", b":", b"\xff"]
    ),
    max_size=30,
).map(b"".join)


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_garbage_ends_the_same_way_however_it_is_cut(data: st.DataObject) -> None:
    body = data.draw(garbage)
    whole = outcome(ArraySplitter(), [body])
    assert outcome(ArraySplitter(), data.draw(cut(body))) == whole
    if not isinstance(whole, str):
        # Nothing is lost: the messages with their commas are the body within its brackets.
        inside = b"".join(body.split(b"[", 1)[1].rpartition(b"]")[0].split())
        assert b"".join(b",".join(whole[0]).split()) == inside


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_cut_array_is_never_taken_for_a_whole_one(data: st.DataObject) -> None:
    _, body = data.draw(spelled())
    end = data.draw(st.integers(0, len(body.rstrip()) - 1))
    assert outcome(ArraySplitter(), [body[:end]]) == "malformed"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"{}",
        b"1",
        b"[1",
        b"[1,]",
        b"[,1]",
        b"[1,,2]",
        b"[,]",
        b"[1}",
        b"[{]}]",
        b"[[1}]",
        b"[1]]",
        b"[1]x",
        b"[1],[2]",
        b'["a]',
        b"<html>",
        b"[}",
        b'{"error":1}',
    ],
)
def test_what_is_no_array_is_an_error(body: bytes) -> None:
    assert outcome(ArraySplitter(), [body]) == "malformed"
    assert outcome(ArraySplitter(), [body[i : i + 1] for i in range(len(body))]) == "malformed"


def test_numbers_keep_their_digits() -> None:
    texts = [b"12345678901234567890", b"1.0", b"1e400", b"-0", b"0.10"]
    assert split_array(b"[" + b",".join(texts) + b"]") == texts


def test_nesting_beyond_what_a_parser_recurses_into_is_split() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert split_array(b"[" + deep + b",1]") == [deep, b"1"]


def test_a_message_longer_than_every_buffer_is_split() -> None:
    long = json.dumps({"text": "x" * 3_000_000, "quoted": '\\"' * 500_000}).encode()
    body = b"[1," + long + b",2]"
    pieces = [body[i : i + 65_536] for i in range(0, len(body), 65_536)]
    assert run(ArraySplitter(), pieces) == ([b"1", long, b"2"], b"")


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_chunking_of_lines_gives_the_same_lines(data: st.DataObject) -> None:
    texts = [json.dumps(v).encode() for v in data.draw(st.lists(json_values, max_size=12))]
    ends = data.draw(st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
    body = b"".join(text + ends for text in texts)
    assert run(NdjsonSplitter(), data.draw(cut(body))) == (texts, b"")


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_lines_cut_by_a_cap_are_completed_by_the_next_body(data: st.DataObject) -> None:
    texts = [
        json.dumps(v, ensure_ascii=False).encode("utf-8", "surrogatepass")
        for v in data.draw(st.lists(json_values, min_size=1, max_size=8))
    ]
    bodies = data.draw(cut(b"".join(text + b"\n" for text in texts)))
    messages, carry = [], b""
    for body in bodies:
        splitter = NdjsonSplitter(carry)
        messages += splitter.feed(body)
        carry = splitter.finish()
    assert (messages, carry) == (texts, b"")


@given(garbage)
@settings(max_examples=150, deadline=None)
def test_no_byte_of_a_line_is_lost(body: bytes) -> None:
    messages, rest = run(NdjsonSplitter(), [body])
    assert b"".join(b"".join([*messages, rest]).split()) == b"".join(body.split())
