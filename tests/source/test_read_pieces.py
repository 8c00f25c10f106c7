"""Pieces whose server answers differently than when they were planned."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_durable.options import SourceOptions
from spark_durable.protocol.errors import DataLossError, MalformedResponseError
from spark_durable.source.position import Piece, Unit
from spark_durable.source.read_pieces import fetch_bytes, fetch_messages
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire
from tests.conftest import Server
from tests.source.chained_like import ChainedLike, token
from tests.source.harness import append, create

WIRE = Wire(SourceOptions(url="http://h/s", retry_timeout=5))


@pytest.fixture(params=[",", ", ", ",\n"])
def server(request: pytest.FixtureRequest) -> Iterator[ChainedLike]:
    with ChainedLike(cap=4, separator=request.param) as server:
        yield server


def planned(server: ChainedLike) -> tuple[Target, Piece]:
    """A piece of four messages, as the chain would plan it."""
    url = create(f"{server.url}/b/s")
    append(url, *range(100, 112))
    body = "[" + server.separator.join(map(str, range(104, 108))) + "]"
    return Target("s", url), Piece(token(4), 0, len(body), Unit.BODY)


def read(target: Target, piece: Piece, end: str) -> list[bytes]:
    spans = fetch_messages(WIRE, target, (piece,), end)
    return [text for span in spans for text in span.messages.to_pylist()]


EXPECTED = [b"104", b"105", b"106", b"107"]


@pytest.mark.parametrize("cap", [1, 2, 4])
def test_as_planned_or_in_smaller_answers(server: ChainedLike, cap: int) -> None:
    target, piece = planned(server)
    server.cap = cap
    assert read(target, piece, token(8)) == EXPECTED


@pytest.mark.parametrize("cap", [5, 7, 100])
def test_in_larger_answers(server: ChainedLike, cap: int) -> None:
    target, piece = planned(server)
    server.cap = cap
    assert read(target, piece, token(8)) == EXPECTED


@pytest.mark.parametrize("change", [-1, 1, 2])
def test_a_length_that_no_longer_fits_is_an_error(server: ChainedLike, change: int) -> None:
    target, piece = planned(server)
    server.cap = 100
    wrong = Piece(piece.anchor, 0, piece.take + change, Unit.BODY)
    with pytest.raises(MalformedResponseError):
        read(target, wrong, token(8))


def test_answers_that_straddle_the_end_are_an_error(server: ChainedLike) -> None:
    target, piece = planned(server)
    server.cap = 3  # 104 105 106 · 107 108 109: nothing tells where the piece ends in the second
    with pytest.raises(MalformedResponseError, match="differently than when the batch was planned"):
        read(target, piece, token(8))


def test_a_stream_that_ends_before_is_an_error(server: ChainedLike) -> None:
    target, _ = planned(server)
    with pytest.raises(DataLossError, match="deleted and created again"):
        read(target, Piece(token(4), 0, 10_000, Unit.BODY), token(40))
    with pytest.raises(DataLossError, match="deleted and created again"):
        read(target, Piece(token(4), 2, 7, Unit.MESSAGES), token(13))


def test_counted_messages(server: ChainedLike) -> None:
    target, _ = planned(server)
    assert read(target, Piece(token(4), 2, 3, Unit.MESSAGES), "") == [b"106", b"107", b"108"]
    assert read(target, Piece("-1", 11, 1, Unit.MESSAGES), "") == [b"111"]


def test_bytes_of_several_pieces(node: Server) -> None:
    from spark_durable.protocol import DurableClient

    url = create(node.stream("bytes"), "text/plain")
    with DurableClient() as client:
        for text in (b"hello ", b"wor", b"ld", b"!"):
            client.append(url, text, content_type="text/plain")
    pieces = (Piece("-1", 2, 3, Unit.BYTES), Piece("-1", 5, 5, Unit.BYTES))
    assert list(fetch_bytes(WIRE, Target("s", url), pieces)) == [b"llo", b" worl"]
    with pytest.raises(DataLossError):
        list(fetch_bytes(WIRE, Target("s", url), (Piece("-1", 2, 100, Unit.BYTES),)))
