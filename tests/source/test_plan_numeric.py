"""What a response shows of a server's offsets, and cuts by them."""

from __future__ import annotations

import pytest

from spark_durable.options import SourceOptions
from spark_durable.protocol.errors import DataLossError
from spark_durable.source.plan_numeric import Style, cut_at_bytes, cut_at_messages, probe
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire
from tests.conftest import Server
from tests.source.chained_like import ChainedLike
from tests.source.harness import append_numbers, create
from tests.source.ursula_like import UrsulaLike

WIRE = Wire(SourceOptions(url="http://h/s", retry_timeout=5))


def test_a_server_that_aligns(embedded: Server) -> None:
    url = create(embedded.stream("probe"))
    target = Target("s", url, None, 20)
    assert probe(WIRE, target, "-1", json=True) is None  # nothing to show it by
    append_numbers(url, 0, 5)
    assert probe(WIRE, target, "-1", json=True) is Style.MESSAGES


def test_a_server_of_lines(ursula: UrsulaLike) -> None:
    url = create(f"{ursula.url}/b/s")
    append_numbers(url, 0, 5)
    assert probe(WIRE, Target("s", url, None, 20), "-1", json=True) is Style.MESSAGES


def test_a_server_whose_offsets_have_frames(node: Server) -> None:
    url = create(node.stream("probe"))
    append_numbers(url, 0, 5)
    assert probe(WIRE, Target("s", url, None, 20), "-1", json=True) is Style.OPAQUE


def test_decimal_offsets_that_count_messages() -> None:
    """Numbers to look at, but their differences are not bytes."""
    with ChainedLike(cap=3, decimal=True) as server:
        url = create(f"{server.url}/b/s")
        append_numbers(url, 0, 5)
        assert probe(WIRE, Target("s", url, None, 9), "-1", json=True) is Style.OPAQUE


def test_retention_is_not_mistaken_for_a_kind_of_server(ursula: UrsulaLike) -> None:
    url = create(f"{ursula.url}/b/s")
    append_numbers(url, 0, 5)
    ursula.retain_from("/b/s", "10")
    with pytest.raises(DataLossError, match="retention"):
        probe(WIRE, Target("s", url, None, 20), "-1", json=True)


@pytest.mark.parametrize("kind", ["embedded", "ursula"])
def test_cuts(kind: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(kind)
    url = create(server.stream("cuts") if kind == "embedded" else f"{server.url}/b/cuts")
    tail = int(append_numbers(url, 0, 10))
    size = tail // 10
    target = Target("s", url, None, 20)
    style = Style.MESSAGES
    assert cut_at_bytes(WIRE, target, 0, tail, 1, style) == size
    assert cut_at_bytes(WIRE, target, 0, tail, size, style) == size
    assert cut_at_bytes(WIRE, target, 0, tail, size + 1, style) == 2 * size
    assert cut_at_bytes(WIRE, target, 3 * size, tail, 10**6, style) == tail
    assert cut_at_messages(WIRE, target, 0, tail, 4) == (4 * size, 4)
    assert cut_at_messages(WIRE, target, 8 * size, tail, 4) == (tail, 2)
