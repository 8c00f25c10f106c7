"""The multipart parser: the same parts however the body is cut, an error where one is cut off."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spark_durable.protocol.errors import MalformedResponseError
from spark_durable.protocol.multipart import (
    MultipartParser,
    PartBegin,
    PartData,
    PartEnd,
    boundary_of,
)

BOUNDARY = b"b-1"
Part = tuple[dict[str, str], bytes]

# Bodies made of what a parser trips over: line ends, dashes, near misses of the boundary.
tricky = st.lists(
    st.sampled_from(
        [b"\r\n", b"\r", b"\n", b"--", b"-", b"b-", b"--b", b"\r\n--b-", b"x", b"\x00\xff"]
    ),
    max_size=12,
).map(b"".join)
bodies = st.binary(max_size=60) | tricky


def encoded(parts: list[tuple[str, bytes]], preamble: bytes = b"", epilogue: bytes = b"") -> bytes:
    out = preamble
    for content_type, body in parts:
        out += b"--" + BOUNDARY + b"\r\n"
        out += f"Content-Type: {content_type}\r\n\r\n".encode() + body + b"\r\n"
    return out + b"--" + BOUNDARY + b"--" + epilogue


def parsed(pieces: list[bytes], boundary: bytes = BOUNDARY) -> list[Part]:
    parser = MultipartParser(boundary)
    parts: list[Part] = []
    complete = True
    for piece in pieces:
        for event in parser.feed(piece):
            if isinstance(event, PartBegin):
                assert complete
                parts.append((event.headers, b""))
                complete = False
            elif isinstance(event, PartData):
                assert not complete
                assert event.data
                parts[-1] = (parts[-1][0], parts[-1][1] + event.data)
            else:
                assert isinstance(event, PartEnd)
                complete = True
    parser.finish()
    assert complete
    return parts


def outcome(pieces: list[bytes]) -> list[Part] | str:
    try:
        return parsed(pieces)
    except MalformedResponseError:
        return "malformed"


def cut(data: st.DataObject, body: bytes) -> list[bytes]:
    places = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    return [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_any_chunking_gives_the_parts_as_sent(data: st.DataObject) -> None:
    contents = data.draw(st.lists(bodies, max_size=6))
    assume(not any(b"\r\n--b-1" in b"\r\n" + c + b"\r\n" for c in contents))
    types = data.draw(
        st.lists(st.sampled_from(["application/json", "text/plain"]), min_size=6, max_size=6)
    )
    sent = list(zip(types, contents, strict=False))
    entity = encoded(
        sent,
        preamble=data.draw(st.sampled_from([b"", b"ignore me\r\n", b"\r\n"])),
        epilogue=data.draw(st.sampled_from([b"", b"\r\n", b"\r\nignore --b-1 me"])),
    )
    expected = [({"content-type": t}, c) for t, c in sent]
    assert parsed(cut(data, entity)) == expected
    assert parsed([entity[i : i + 1] for i in range(len(entity))]) == expected


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_an_entity_cut_before_its_closing_boundary_is_an_error(data: st.DataObject) -> None:
    entity = encoded(
        [("text/plain", c) for c in data.draw(st.lists(tricky, min_size=1, max_size=4))]
    )
    end = data.draw(st.integers(0, len(entity) - 1))
    assume(b"--b-1--" not in entity[:end])
    assert outcome(cut(data, entity[:end])) == "malformed"


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_garbage_ends_the_same_way_however_it_is_cut(data: st.DataObject) -> None:
    pieces = st.sampled_from(
        [b"--b-1", b"\r\n", b"--", b"A: b", b"A:", b" ", b":", b"\r\n\r\n", b"x", b"\x00", b"\t"]
    )
    entity = b"".join(data.draw(st.lists(pieces, max_size=25))) + data.draw(st.binary(max_size=5))
    assert outcome(cut(data, entity)) == outcome([entity])


def test_a_part_without_headers_and_parts_without_bodies() -> None:
    # The last form shares the line end of the headers with the boundary, as RFC 2046 allows.
    entity = b"--b-1\r\n\r\nbare\r\n--b-1\r\nA: 1\r\n\r\n\r\n--b-1\r\nA: 2\r\n\r\n--b-1--"
    expected: list[Part] = [({}, b"bare"), ({"a": "1"}, b""), ({"a": "2"}, b"")]
    assert parsed([entity]) == expected
    assert parsed([entity[i : i + 1] for i in range(len(entity))]) == expected


def test_padding_after_a_boundary_and_folded_headers_are_read() -> None:
    entity = b"--b-1 \t \r\nX: a\r\n  b\r\n\r\nbody\r\n--b-1--"
    assert parsed([entity]) == [({"x": "a b"}, b"body")]


@pytest.mark.parametrize(
    "entity",
    [
        b"",
        b"no boundary at all",
        b"--b-1",
        b"--b-1\r\n",
        b"--b-1x\r\n\r\nbody\r\n--b-1--",  # a boundary that goes on
        b"--b-1\r\nno colon\r\n\r\nbody\r\n--b-1--",
        b"--b-1" + b" " * 5000 + b"\r\n\r\nbody\r\n--b-1--",
        b"--b-1\r\nX: " + b"h" * 100_000 + b"\r\n\r\nbody\r\n--b-1--",
    ],
)
def test_malformed_entities_are_errors(entity: bytes) -> None:
    assert outcome([entity]) == "malformed"
    assert outcome([entity[i : i + 7] for i in range(0, len(entity), 7)]) == "malformed"


def test_the_buffer_stays_small_while_a_large_part_passes() -> None:
    parser = MultipartParser(BOUNDARY)
    list(parser.feed(b"--b-1\r\nA: b\r\n\r\n"))
    for _ in range(100):
        assert (
            sum(len(e.data) for e in parser.feed(b"y" * 10_000) if isinstance(e, PartData)) > 9_000
        )
        assert len(parser._buffer) < 20


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        ("multipart/mixed; boundary=abc", b"abc"),
        ('Multipart/Mixed; charset=x; boundary="a b:c"', b"a b:c"),
        ("multipart/mixed;boundary=abc", b"abc"),
    ],
)
def test_boundaries_are_found(content_type: str, boundary: bytes) -> None:
    assert boundary_of(content_type) == boundary


@pytest.mark.parametrize(
    "content_type", [None, "", "text/html", "multipart/mixed", "application/json; boundary=x"]
)
def test_other_content_types_are_refused(content_type: str | None) -> None:
    with pytest.raises(MalformedResponseError, match="multipart"):
        boundary_of(content_type)
