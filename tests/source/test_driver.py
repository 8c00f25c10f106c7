"""Exactly once, in order, whatever the server's offsets and answers are like."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from spark_durable.protocol.errors import OptionError
from tests.conftest import Server
from tests.source.harness import (
    START,
    MaxBytes,
    MaxRows,
    Query,
    append,
    append_numbers,
    batches,
    create,
    drain,
    numbers,
    values,
)
from tests.source.ursula_like import UrsulaLike

NewStream = Callable[[], str]


def test_reads_all_then_what_comes_after(new_stream: NewStream) -> None:
    url = create(new_stream())
    append_numbers(url, 0, 500, padding=60)
    query = Query(url, maxPartitionBytes="4k")
    rows, end = drain(query)
    assert numbers(rows) == list(range(500))
    append_numbers(url, 500, 520)
    rows, end = drain(query, end)
    assert numbers(rows) == list(range(500, 520))
    assert query.latest(end) == end


@pytest.mark.parametrize("limit", [MaxBytes(700), MaxBytes(1), MaxRows(7), MaxRows(1000)])
def test_limits_cut_between_messages(new_stream: NewStream, limit: object) -> None:
    url = create(new_stream())
    append_numbers(url, 0, 120, padding=90)
    query = Query(url)
    seen = []
    for start, end in batches(query, limit=limit):
        rows = Query(url).rows(start, end)
        assert rows
        if isinstance(limit, MaxRows):
            assert len(rows) <= limit.max_rows
        else:
            assert sum(len(row["value"]) for row in rows) <= limit.max_bytes + 200
        seen += numbers(rows)
    assert seen == list(range(120))


@pytest.mark.parametrize("limit", [None, MaxBytes(900), MaxRows(33)])
def test_a_batch_reads_the_same_again_while_the_tail_moves(
    new_stream: NewStream, limit: object | None
) -> None:
    url = create(new_stream())
    query = Query(url, maxPartitionBytes="2k")
    recorded = []
    start, written = START, 0
    for size in (1, 40, 0, 3, 150, 2):
        append_numbers(url, written, written + size, padding=50)
        written += size
        for begun, end in batches(query, start, limit):
            recorded.append((begun, end, query.rows(begun, end)))
            start = end
    assert numbers(row for _, _, rows in recorded for row in rows) == list(range(written))
    append_numbers(url, written, written + 77, padding=50)
    for begun, end, rows in recorded:
        again = Query(url, maxPartitionBytes="2k").rows(begun, end)
        assert [row["value"] for row in again] == [row["value"] for row in rows]
        wide = Query(url).rows(begun, end)
        assert [row["value"] for row in wide] == [row["value"] for row in rows]


def test_nothing_new_is_the_same_offset_to_the_letter(new_stream: NewStream) -> None:
    url = create(new_stream())
    query = Query(url)
    assert query.latest(START) == START
    append_numbers(url, 0, 3)
    _, end = drain(query)
    for restarted in (query, Query(url)):
        for _ in range(3):
            assert json.dumps(restarted.latest(end)) == json.dumps(end)


def test_available_now_stops_at_what_was_there(new_stream: NewStream) -> None:
    url = create(new_stream())
    append_numbers(url, 0, 50, padding=30)
    query = Query(url)
    query.driver.fix_target()
    append_numbers(url, 50, 90, padding=30)
    rows, end = drain(query)
    assert numbers(rows) == list(range(50))
    again = Query(url)
    again.driver.fix_target()
    append_numbers(url, 90, 100)
    rows, end = drain(again, end, MaxRows(11))
    assert numbers(rows) == list(range(50, 90))


def test_latest_begins_where_the_query_was_started(new_stream: NewStream) -> None:
    url = create(new_stream())
    append_numbers(url, 0, 10)
    pinned = Query(url, startingOffsets="latest").latest()
    assert pinned != START
    append_numbers(url, 10, 20)
    rows, _ = drain(Query(url, startingOffsets="latest"), pinned)
    assert numbers(rows) == list(range(10, 20))
    # a replay of the first batch, after a crash before its end was stored
    assert Query(url, startingOffsets="latest").rows(START, pinned) == []


def test_an_offset_of_the_server_is_a_place_to_start(new_stream: NewStream) -> None:
    url = create(new_stream())
    middle = append_numbers(url, 0, 10)
    append_numbers(url, 10, 15)
    name = url.rpartition("/")[2]
    query = Query(url, startingOffsets=json.dumps({name: middle}))
    rows, _ = drain(query)
    assert numbers(rows) == list(range(10, 15))


def test_the_offset_column_is_a_place_to_start(new_stream: NewStream) -> None:
    url = create(new_stream())
    append_numbers(url, 0, 20, padding=20)
    rows, _ = drain(Query(url))
    name = url.rpartition("/")[2]
    offset = rows[13]["offset"]
    again, _ = drain(Query(url, startingOffsets=json.dumps({name: offset})))
    if len({row["offset"] for row in rows}) == len(rows):  # offsets are positions
        assert numbers(again) == list(range(13, 20))
    else:
        assert numbers(again)[-7:] == list(range(13, 20))


def test_strange_messages_keep_their_text(new_stream: NewStream) -> None:
    url = create(new_stream())
    strange = [
        None,
        [],
        {},
        [1, [2, {"a": ["},{", "\n", '"', "\\"]}]],
        "just a string, with a comma",
        "ünï\u2028çödé ☃ 𝄞",
        {"a": [{"b": 1}, {"c": 2}], "d": "x" * 5000},
        True,
        -1.5e10,
    ]
    append(url, *strange)
    for message in strange:
        append(url, message)
    rows, _ = drain(Query(url))
    assert values(rows) == strange + strange
    limited, _ = drain(Query(url), limit=MaxBytes(1))
    assert values(limited) == strange + strange


def test_waiting_ends_when_something_comes(new_stream: NewStream) -> None:
    url = create(new_stream())
    append_numbers(url, 0, 2)
    query = Query(url, pollTimeout="20s")
    end = query.latest()
    writer = threading.Timer(0.2, append_numbers, (url, 2, 4))
    writer.start()
    began = time.monotonic()
    later = query.latest(end)
    assert time.monotonic() - began < 15
    rows = query.rows(end, later)
    writer.join()
    assert numbers(rows) in ([2, 3], [2])
    assert Query(url).rows(end, later) == rows  # what was carried is what a task would read


def test_an_idle_wait_is_short(new_stream: NewStream) -> None:
    url = create(new_stream())
    query = Query(url, pollTimeout="300ms")
    query.latest()
    began = time.monotonic()
    assert query.latest() == START
    assert 0.25 < time.monotonic() - began < 5


def test_no_wait_under_available_now(new_stream: NewStream) -> None:
    url = create(new_stream())
    query = Query(url, pollTimeout="60s")
    query.driver.fix_target()
    began = time.monotonic()
    assert query.latest() == START
    assert time.monotonic() - began < 20


def test_lag_is_reported(new_stream: NewStream) -> None:
    url = create(new_stream())
    append_numbers(url, 0, 100)
    query = Query(url)
    end = query.latest(START, MaxRows(10))
    report = query.driver.report()
    assert report is not None
    assert report["lagStreams"] == 1
    assert list(report["tails"]) == [url.rpartition("/")[2]]
    drain(query, end)
    report = query.driver.report()
    assert report is not None
    assert report["lagStreams"] == 0


@pytest.mark.parametrize("kind", ["embedded", "ursula"])
def test_an_offset_inside_a_message_is_refused(kind: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(kind)
    url = create(server.stream("inside") if kind == "embedded" else f"{server.url}/b/inside")
    boundary = append_numbers(url, 0, 2)
    append_numbers(url, 2, 4)
    name = url.rpartition("/")[2]
    inside = f"{int(boundary) + 3:020d}"
    with pytest.raises(OptionError, match="startingOffsets"):
        Query(url, startingOffsets=json.dumps({name: inside})).latest()
    rows, _ = drain(Query(url, startingOffsets=json.dumps({name: boundary})))
    assert numbers(rows) == [2, 3]


def test_a_message_many_times_longer_than_an_answer(ursula: UrsulaLike) -> None:
    url = create(f"{ursula.url}/b/long")
    text = "x" * 200_000
    append(url, {"n": 0}, {"n": 1, "text": text}, {"n": 2})
    rows, end = drain(Query(url, maxPartitionBytes="10k"))
    assert numbers(rows) == [0, 1, 2]
    assert values(rows)[1]["text"] == text
    assert len(Query(url, maxPartitionBytes="10k").partitions(START, end)) > 10


def test_metadata_alone(server: Server) -> None:
    url = create(server.stream("meta"))
    append_numbers(url, 0, 3)
    schema = StructType([StructField("_stream", StringType()), StructField("_kind", StringType())])
    rows, _ = drain(Query(url, schema=schema))
    assert rows == [{"_stream": url.rpartition("/")[2], "_kind": "update"}] * 3
