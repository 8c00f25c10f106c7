"""Many streams in one query: named, matching a pattern, coming and going."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from dataclasses import replace

import pytest

from spark_durable.protocol import DurableClient, StreamListing
from spark_durable.protocol.errors import DataLossError, NotFoundError, OptionError
from tests.conftest import Server
from tests.faults import FaultProxy
from tests.source.harness import (
    START,
    MaxBytes,
    MaxRows,
    Query,
    Row,
    append,
    append_numbers,
    create,
    drain,
    numbers,
)


@pytest.fixture
def bucket(embedded_server: str) -> str:
    """A bucket of its own: listings see nothing of other tests."""
    url = f"{embedded_server}/ds/b-{uuid.uuid4().hex[:12]}"
    with DurableClient() as client:
        client.create_bucket(url)
    return url


def by_stream(rows: list[Row]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        found[row["stream"]] += numbers([row])
    return dict(found)


def test_named_streams(server: Server) -> None:
    names = [f"a-{uuid.uuid4().hex}", f"b ü/{uuid.uuid4().hex}".replace("/", "_")]
    urls = [f"{server.base}/{name.replace(' ', '%20').replace('ü', '%C3%BC')}" for name in names]
    for i, url in enumerate(urls):
        create(url)
        append_numbers(url, i * 100, i * 100 + 10)
    query = Query(server.base, streams=json.dumps(names))
    rows, end = drain(query)
    assert by_stream(rows) == {names[0]: list(range(10)), names[1]: list(range(100, 110))}
    append_numbers(urls[1], 110, 112)
    rows, _ = drain(query, end)
    assert by_stream(rows) == {names[1]: [110, 111]}


def test_one_stream_becomes_several_from_the_same_checkpoint(server: Server) -> None:
    first, second = create(server.stream("one")), create(server.stream("two"))
    append_numbers(first, 0, 5)
    append_numbers(second, 50, 55)
    _, end = drain(Query(first))
    names = [url.rpartition("/")[2] for url in (first, second)]
    append_numbers(first, 5, 6)
    several = Query(server.base, streams=json.dumps(names), startingOffsets="latest")
    rows, end = drain(several, end)
    # the one that came later is read from its beginning, whatever the query was started with
    assert by_stream(rows) == {names[0]: [5], names[1]: list(range(50, 55))}
    with pytest.raises(DataLossError, match="no longer among the streams"):
        Query(server.base, streams=json.dumps(names[:1])).latest(end)
    fewer = Query(server.base, streams=json.dumps(names[:1]), failOnDataLoss="false")
    without = fewer.latest(end)
    append_numbers(first, 6, 7)
    rows, _ = drain(fewer, without)
    assert by_stream(rows) == {names[0]: [6]}


def test_a_missing_stream_is_a_clear_error(server: Server) -> None:
    url = server.stream("missing")
    with pytest.raises(NotFoundError, match=r"does not exist.*Create it"):
        Query(url).latest()


def test_a_pattern_picks_up_new_streams(bucket: str) -> None:
    for name in ("order-1", "order-2", "refund-1"):
        create(f"{bucket}/{name}")
        append_numbers(f"{bucket}/{name}", 0, 3)
    query = Query(bucket, streamPattern="order-.*", startingOffsets="latest")
    rows, end = drain(query)
    assert rows == []
    create(f"{bucket}/order-3")
    append_numbers(f"{bucket}/order-3", 30, 33)
    append_numbers(f"{bucket}/order-1", 3, 4)
    append_numbers(f"{bucket}/refund-1", 3, 4)
    rows, end = drain(query, end)
    assert by_stream(rows) == {"order-1": [3], "order-3": [30, 31, 32]}
    with DurableClient() as client:
        client.delete(f"{bucket}/order-2")
    with pytest.raises(DataLossError, match=r"order-2 does not exist any more"):
        query.latest(end)
    lenient = Query(bucket, streamPattern="order-.*", failOnDataLoss="false")
    append_numbers(f"{bucket}/order-3", 33, 34)
    rows, end = drain(lenient, end)
    assert by_stream(rows) == {"order-3": [33]}


def test_a_pattern_without_streams_waits_for_one(bucket: str) -> None:
    query = Query(bucket, streamPattern=".*")
    assert query.latest() == START
    create(f"{bucket}/first")
    append_numbers(f"{bucket}/first", 0, 2)
    rows, _ = drain(query)
    assert numbers(rows) == [0, 1]


def test_a_pattern_needs_a_listing(node: Server) -> None:
    with pytest.raises(OptionError, match="streamPattern needs a url that is a bucket's"):
        Query(node.base, streamPattern=".*").latest()


def test_a_pattern_on_a_missing_bucket(embedded_server: str) -> None:
    with pytest.raises(OptionError, match="ds/nowhere"):
        Query(f"{embedded_server}/ds/nowhere", streamPattern=".*").latest()


def test_a_listing_replaces_heads(bucket: str) -> None:
    names = [f"s-{n:03d}" for n in range(40)]
    for name in names:
        create(f"{bucket}/{name}")
        append_numbers(f"{bucket}/{name}", 0, 2)
    with FaultProxy(bucket) as proxy:
        query = Query(proxy.url, streams=json.dumps(names))
        end = query.latest()
        first = len(proxy.exchanges)
        assert query.latest(end) == end
        idle = len(proxy.exchanges) - first
    assert first <= 2  # the listing, and one look at how this server counts
    assert idle == 1
    rows = Query(bucket, streams=json.dumps(names)).rows(START, end)
    assert by_stream(rows) == {name: [0, 1] for name in names}


def test_a_listing_too_long_is_given_up(bucket: str) -> None:
    """Few streams of a large bucket are asked for one by one."""
    from spark_durable.source import tail

    names = [f"x-{n}" for n in range(20)]
    for name in names:
        create(f"{bucket}/{name}")
    with FaultProxy(bucket) as proxy:
        query = Query(proxy.url, streams=json.dumps(names))
        tails = query.driver._tails
        original = tails._page
        pages = iter(range(100))

        def endless(prefix: str | None, after: str | None) -> object:
            next(pages)
            return replace(original(prefix, after), has_more=True, next_cursor="x-0")

        tails._page = endless  # type: ignore[method-assign, assignment]
        assert query.latest() == START
        heads = [e for e in proxy.exchanges if e.request.method == "HEAD"]
        assert len(heads) == len(names)
    assert next(pages) <= max(2, len(names) // tail._NAMES_PER_PAGE)


@pytest.mark.parametrize("limit", [MaxRows(3), MaxBytes(40)])
def test_under_a_limit_every_stream_gets_its_turn(server: Server, limit: object) -> None:
    urls = [create(server.stream("turn")) for _ in range(5)]
    names = [url.rpartition("/")[2] for url in urls]
    for url in urls:
        append_numbers(url, 0, 10)
    query = Query(server.base, streams=json.dumps(names))
    start, seen = START, defaultdict(list)
    for batch in range(200):
        end = query.latest(start, limit)
        if end == start:
            break
        rows = query.rows(start, end)
        if isinstance(limit, MaxRows):
            assert len(rows) <= 3
        for name, found in by_stream(rows).items():
            seen[name] += found
        if batch == 4:
            assert len(seen) == 5  # nobody waits for the others to finish
        append_numbers(urls[0], 10 + batch, 11 + batch) if batch < 5 else None
        start = end
    expected = {name: list(range(10)) for name in names} | {names[0]: list(range(15))}
    assert dict(seen) == expected


def test_many_small_streams_share_tasks(bucket: str) -> None:
    names = [f"m-{n:03d}" for n in range(60)]
    for name in names:
        create(f"{bucket}/{name}")
        append(f"{bucket}/{name}", {"n": 1})
    query = Query(bucket, streamPattern=".*")
    end = query.latest()
    assert len(query.partitions(START, end)) == 1
    spread = Query(bucket, streamPattern=".*", minPartitions="6")
    assert len(spread.partitions(START, end)) >= 6
    assert len(spread.rows(START, end)) == 60


def test_an_idle_stream_holds_up_a_busy_one_only_briefly(server: Server) -> None:
    idle, busy = create(server.stream("idle")), create(server.stream("busy"))
    names = [url.rpartition("/")[2] for url in (idle, busy)]
    query = Query(server.base, streams=json.dumps(names), pollTimeout="30s")
    append_numbers(busy, 0, 1)
    end = query.latest()
    for n in range(1, 4):
        append_numbers(busy, n, n + 1)
        later = query.latest(end)  # would take 30 s if it waited for the idle one
        assert numbers(query.rows(end, later)) == [n]
        end = later


def test_a_listing_that_tells_only_tails(bucket: str) -> None:
    """As the extension's text has it: tails as numbers, and no word of lives or snapshots."""
    names = [f"p-{n:02d}" for n in range(20)]
    for name in names:
        create(f"{bucket}/{name}")
        append_numbers(f"{bucket}/{name}", 0, 2)
    with FaultProxy(bucket) as proxy:
        query = Query(proxy.url, streamPattern=".*")
        tails = query.driver._tails
        original = tails._page

        def plain(prefix: str | None, after: str | None) -> StreamListing:
            page = original(prefix, after)
            rows = tuple(
                replace(row, next_offset=None, incarnation=None, retained_offset=None)
                for row in page.streams
            )
            return replace(page, streams=rows)

        tails._page = plain  # type: ignore[method-assign]
        end = query.latest()
        heads = sum(e.request.method == "HEAD" for e in proxy.exchanges)
        assert len(names) <= heads <= len(names) + 1  # once each, and once for the width
        assert query.latest(end) == end
        assert sum(e.request.method == "HEAD" for e in proxy.exchanges) == heads
        assert by_stream(query.rows(START, end)) == {name: [0, 1] for name in names}
        with DurableClient() as client:
            client.delete(f"{bucket}/p-07")
            client.create(f"{bucket}/p-07")
        append_numbers(f"{bucket}/p-07", 0, 5)
        with pytest.raises(DataLossError, match="p-07 was deleted and created again"):
            query.latest(end)


def test_now_is_kept(server: Server) -> None:
    url = create(server.stream("now"))
    name = url.rpartition("/")[2]
    append_numbers(url, 0, 3)
    options = {"startingOffsets": json.dumps({name: "now"})}
    pinned = Query(url, **options).latest()
    append_numbers(url, 3, 5)
    rows, _ = drain(Query(url, **options), pinned)
    assert numbers(rows) == [3, 4]
