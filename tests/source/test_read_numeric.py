"""Ranges anywhere in a stream: each message in exactly one of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_durable.options import SourceOptions
from spark_durable.protocol import DurableClient
from spark_durable.protocol.errors import DataLossError, MalformedResponseError
from spark_durable.server.embedded import EmbeddedServer
from spark_durable.source.ranges import ByteRange
from spark_durable.source.read_numeric import boundary_after, fetch_bytes, fetch_messages
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire
from tests.source.harness import append, create
from tests.source.ursula_like import UrsulaLike

WIRE = Wire(SourceOptions(url="http://h/s", retry_timeout=5))


@pytest.fixture(scope="module", params=["aligned", "lines"])
def long_stream(request: pytest.FixtureRequest) -> Iterator[tuple[Target, list[bytes], int]]:
    """A stream of messages from one byte to many times what one answer holds."""
    server: EmbeddedServer | UrsulaLike
    if request.param == "aligned":
        server = EmbeddedServer(max_read_bytes=300)
    else:
        server = UrsulaLike(cap=300)
    with server:
        url = create(f"{server.url}/v1/stream/long")
        values = [n if n % 3 else "x" * (n * n % 997) for n in range(200)]
        for low in range(0, 200, 20):
            append(url, *values[low : low + 20])
        with DurableClient() as client:
            tail = int(client.head(url).tail)
        texts = [json.dumps(value).encode() for value in values]
        yield Target("long", url, None, 20), texts, tail


def read(target: Target, low: int, high: int, tail: int, *, start: int = 0) -> list[bytes]:
    part = ByteRange(low, high, first=low == start, last=high == tail)
    found: list[bytes] = []
    for body in fetch_messages(WIRE, target, part):
        span = body.span()
        assert span.starts is not None
        assert all(low <= position < high for position in span.starts.tolist())
        found += span.messages.to_pylist()
    return found


def test_one_range(long_stream: tuple[Target, list[bytes], int]) -> None:
    target, texts, tail = long_stream
    assert read(target, 0, tail, tail) == texts


@settings(max_examples=25)
@given(data=st.data())
def test_cuts_anywhere(long_stream: tuple[Target, list[bytes], int], data: st.DataObject) -> None:
    target, texts, tail = long_stream
    inner = data.draw(st.sets(st.integers(1, tail - 1), max_size=5))
    cuts = [0, *sorted(inner), tail]
    found = [
        text for low, high in itertools.pairwise(cuts) for text in read(target, low, high, tail)
    ]
    assert found == texts


@settings(max_examples=20)
@given(data=st.data())
def test_a_boundary_is_found_from_anywhere(
    long_stream: tuple[Target, list[bytes], int], data: st.DataObject
) -> None:
    target, texts, tail = long_stream
    position = data.draw(st.integers(1, tail))
    boundary = boundary_after(WIRE, target, position, tail)
    assert position <= boundary <= tail
    assert (
        read(target, 0, boundary, boundary) + read(target, boundary, tail, tail, start=boundary)
        == texts
    )


def test_an_end_inside_a_message_is_an_error(long_stream: tuple[Target, list[bytes], int]) -> None:
    target, _, tail = long_stream
    inside = boundary_after(WIRE, target, 1, tail) + 1
    with pytest.raises(MalformedResponseError, match="ends inside a message"):
        read(target, 0, inside, inside)


def test_more_than_there_is_is_an_error(long_stream: tuple[Target, list[bytes], int]) -> None:
    target, _, tail = long_stream
    with pytest.raises(DataLossError, match="deleted and created again"):
        read(target, 0, tail + 5, tail + 5)


def test_another_life_is_an_error(long_stream: tuple[Target, list[bytes], int]) -> None:
    target, _, tail = long_stream
    other = Target(target.name, target.url, "another", 20)
    with pytest.raises(DataLossError, match="incarnation"):
        read(other, 0, tail, tail)


@pytest.mark.parametrize("kind", ["aligned", "anywhere"])
def test_bytes_have_no_boundaries_but_appends(kind: str) -> None:
    server = EmbeddedServer(max_read_bytes=50) if kind == "aligned" else UrsulaLike(cap=50)
    with server:
        with DurableClient() as client:
            url = create(f"{server.url}/v1/stream/bytes", "application/octet-stream")
            content = bytes(range(256)) * 2
            for low in range(0, 512, 37):
                client.append(url, content[low : low + 37], content_type="application/octet-stream")
        target = Target("bytes", url, None, 20)
        cuts = [0, 1, 100, 101, 250, 511, 512]
        parts = [
            b"".join(fetch_bytes(WIRE, target, ByteRange(low, high, low == 0, high == 512)))
            for low, high in itertools.pairwise(cuts)
        ]
        assert b"".join(parts) == content


def test_a_server_that_stops_counting_bytes_is_noticed(ursula: UrsulaLike) -> None:
    url = create(f"{ursula.url}/bucket/s")
    append(url, 1, 2, 3)
    target = Target("s", url, None, 20)
    stream = ursula.streams["/bucket/s"]
    tail = len(stream.data)

    class Longer(bytearray):
        def __getitem__(self, key: object) -> bytearray:  # type: ignore[override]
            return bytearray(super().__getitem__(key)) + b" "  # type: ignore[index]

    stream.data = Longer(stream.data)
    with pytest.raises(MalformedResponseError, match="counted payload bytes"):
        read(target, 0, tail, tail)
