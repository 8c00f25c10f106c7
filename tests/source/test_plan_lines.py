"""Streams without messages: lines, or whole ranges."""

from __future__ import annotations

import threading

import pytest

from spark_durable.protocol import DurableClient
from spark_durable.protocol.errors import OptionError
from tests.conftest import Server
from tests.faults import FaultProxy
from tests.source.harness import START, Json, MaxBytes, MaxRows, Query, Row, create, drain
from tests.source.ursula_like import UrsulaLike

TEXT = "text/plain"


@pytest.fixture(params=["embedded", "node", "ursula"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "ursula":
        other: UrsulaLike = request.getfixturevalue("ursula")
        return create(f"{other.url}/bucket/text", TEXT)
    server: Server = request.getfixturevalue(request.param)
    return create(server.stream("text"), TEXT)


def write(url: str, *texts: bytes) -> None:
    with DurableClient() as client:
        for text in texts:
            client.append(url, text, content_type=TEXT)


def lines(rows: list[dict[str, object]]) -> list[object]:
    return [row["value"] for row in rows]


def test_lines_across_appends(url: str) -> None:
    write(url, b"one\ntw", b"o\nthree\n", b"fo")
    query = Query(url, lineSep="\n")
    rows, end = drain(query)
    assert lines(rows) == [b"one", b"two", b"three"]
    assert query.latest(end) == end  # an unfinished line waits
    write(url, b"ur\n\nsix\n")
    rows, end = drain(query, end)
    assert lines(rows) == [b"four", b"", b"six"]
    assert {row["content_type"] for row in rows} == {TEXT}


def test_a_long_separator_across_appends(url: str) -> None:
    write(url, b"a\r", b"\nb", b"\r\nc\r", b"\n")
    rows, _ = drain(Query(url, lineSep="\r\n"))
    assert lines(rows) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("limit", [MaxRows(3), MaxBytes(10), MaxBytes(1)])
def test_limits_cut_between_lines(url: str, limit: object) -> None:
    expected = [b"line %d" % n for n in range(20)]
    text = b"".join(line + b"\n" for line in expected)
    write(url, *(text[i : i + 13] for i in range(0, len(text), 13)))
    query = Query(url, lineSep="\n", maxPartitionBytes="30")
    start, found = START, []
    while (end := query.latest(start, limit)) != start:
        rows = Query(url, lineSep="\n").rows(start, end)
        assert len(rows) <= 3
        found += lines(rows)
        start = end
    assert found == expected


def test_large_ranges_are_divided_between_lines(url: str) -> None:
    expected = [b"x" * (n % 50) for n in range(300)]
    text = b"".join(line + b"\n" for line in expected)
    write(url, *(text[i : i + 997] for i in range(0, len(text), 997)))
    query = Query(url, lineSep="\n", maxPartitionBytes="1k")
    end = query.latest()
    assert lines(query.rows(START, end)) == expected
    write(url, b"more\n")
    assert lines(Query(url, lineSep="\n").rows(START, end)) == expected


def test_the_last_line_of_a_closed_stream(url: str) -> None:
    write(url, b"one\ntwo")
    with DurableClient() as client:
        client.close_stream(url)
    rows, _ = drain(Query(url, lineSep="\n"))
    assert lines(rows) == [b"one", b"two"]


def test_without_a_separator_a_range_is_a_value(url: str) -> None:
    write(url, b"hello", b"world")
    query = Query(url)
    rows, end = drain(query)
    assert lines(rows) == [b"helloworld"]
    write(url, b"!")
    rows, _ = drain(query, end)
    assert lines(rows) == [b"!"]
    assert Query(url).rows(START, end)[0]["value"] == b"helloworld"


@pytest.mark.parametrize("limit", [None, MaxBytes(60), MaxRows(1)])
def test_long_content_comes_in_several_values(url: str, limit: object | None) -> None:
    content = bytes(range(256)) * 3
    write(url, *(content[i : i + 19] for i in range(0, len(content), 19)))
    rows, _ = drain(Query(url, maxPartitionBytes="100"), limit=limit)
    assert b"".join(row["value"] for row in rows) == content
    assert len(rows) >= 5
    assert all(len(row["value"]) <= 130 for row in rows)


def test_available_now_stops_at_what_was_there(url: str) -> None:
    write(url, b"one\n")
    query = Query(url, lineSep="\n")
    query.driver.fix_target()
    write(url, b"two\n")
    rows, _ = drain(query)
    assert lines(rows) == [b"one"]


def test_json_lines_need_a_separator_under_a_schema(url: str) -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    schema = StructType([StructField("n", LongType())])
    write(url, b'{"n":1}\n{"n":2}\n')
    rows, _ = drain(Query(url, schema=schema, lineSep="\n"))
    assert rows == [{"n": 1}, {"n": 2}]
    with pytest.raises(OptionError, match="lineSep"):
        drain(Query(url, schema=schema))


def test_pieces_of_one_answer_are_read_in_one_pass(node: Server) -> None:
    url = create(node.stream("text"), TEXT)
    expected = [b"line %d" % n for n in range(500)]
    write(url, b"".join(line + b"\n" for line in expected))
    with FaultProxy(url) as proxy:
        query = Query(proxy.url, lineSep="\n", maxPartitionBytes="500")
        end = query.latest()
        planning = len(proxy.exchanges)
        assert lines(query.rows(START, end)) == expected
        assert len(proxy.exchanges) - planning == 1


def test_ndjson_streams_have_lines_by_themselves(server: Server) -> None:
    kind = "application/x-ndjson"
    url = create(server.stream("ndjson"), kind)
    with DurableClient() as client:
        for text in (b'{"n":1}\n{"n"', b":2}\n", b'{"n":3}\n'):
            client.append(url, text, content_type=kind)
    rows, end = drain(Query(url))
    assert lines(rows) == [b'{"n":1}', b'{"n":2}', b'{"n":3}']
    query = Query(url, pollTimeout="10s")
    writer = threading.Timer(
        0.2, lambda: DurableClient().append(url, b'{"n":4}\n', content_type=kind)
    )
    writer.start()
    rows, _ = drain_once(query, end)
    assert lines(rows) == [b'{"n":4}']


def drain_once(query: Query, start: Json) -> tuple[list[Row], Json]:
    end = query.latest(start)
    return query.rows(start, end), end
