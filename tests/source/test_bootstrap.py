"""Beginning from a snapshot, and beginning again when retention has passed a query."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_durable.protocol import DurableClient
from spark_durable.protocol.errors import DataLossError, OptionError
from spark_durable.source.bootstrap import State, before, begin, state
from spark_durable.source.offset_json import Begin, StreamMark
from spark_durable.source.position import Position
from spark_durable.source.tail import Tail
from tests.conftest import Server
from tests.source.harness import (
    START,
    MaxRows,
    Query,
    append_numbers,
    create,
    drain,
    numbers,
    values,
)
from tests.source.ursula_like import UrsulaLike


def publish(url: str, offset: str, value: Any, content_type: str = "application/json") -> None:
    with DurableClient() as client:
        client.publish_snapshot(url, offset, json.dumps(value).encode(), content_type=content_type)


@pytest.fixture(params=["embedded", "ursula"])
def url(request: pytest.FixtureRequest) -> str:
    """A stream on a server with snapshots: one that trims when they are published, one that does
    not."""
    if request.param == "embedded":
        server: Server = request.getfixturevalue("embedded")
        return create(server.stream("snap"))
    other: UrsulaLike = request.getfixturevalue("ursula")
    return create(f"{other.url}/bucket/snap")


# -- where a stream begins -----------------------------------------------------------------------


def test_begin_by_option() -> None:
    plain = Tail("0090")
    trimmed = Tail("0090", retained="0050", snapshot="0050")
    untrimmed = Tail("0090", retained="0000", snapshot="0050")
    assert begin("snapshot", "s", plain, later=False) == Begin(Position("-1"))
    assert begin("snapshot", "s", trimmed, later=False) == Begin(Position("0050"), "0050")
    assert begin("earliest", "s", trimmed, later=False) == Begin(Position("0050"))
    assert begin("earliest", "s", untrimmed, later=False) == Begin(Position("-1"))
    assert begin("latest", "s", trimmed, later=False) == Begin(Position("0090"))
    assert begin("latest", "s", trimmed, later=True) == Begin(Position("0050"), "0050")
    assert begin({"s": "0007"}, "s", plain, later=False) == Begin(Position("0007"))
    assert begin({"s": "now"}, "s", plain, later=False) == Begin(Position("0090"))
    assert begin({"t": "0007"}, "s", plain, later=False) == Begin(Position("-1"))
    with pytest.raises(OptionError, match="ends at 0090"):
        begin({"s": "0091"}, "s", plain, later=False)


@pytest.mark.parametrize(
    ("at", "tail", "expected"),
    [
        ("0050", Tail("0090", retained="0050"), State.READABLE),
        ("0049", Tail("0090", retained="0050"), State.TRIMMED),
        ("-1", Tail("0090", retained="0000"), State.READABLE),
        ("-1", Tail("0090", retained="0001"), State.TRIMMED),
        ("0049", Tail("0090", snapshot="0050"), State.UNSURE),
        ("0050", Tail("0090", snapshot="0050"), State.READABLE),
        ("0091", Tail("0090"), State.OTHER_LIFE),
        ("0050", Tail("0090", life="b"), State.OTHER_LIFE),
        ("0090", Tail("0090", retained="0090"), State.READABLE),
        ("0a", Tail("0b"), State.READABLE),
        ("0b", Tail("0a"), State.OTHER_LIFE),
    ],
)
def test_what_has_become_of_a_position(at: str, tail: Tail, expected: State) -> None:
    assert state(StreamMark(Position(at), life="a"), tail) is expected


def test_the_beginning_and_zero_are_the_same_place() -> None:
    assert not before("-1", "0000")
    assert before("-1", "0001")
    assert before("-1", "x")


# -- the first batch -----------------------------------------------------------------------------


def test_snapshot_then_updates(url: str) -> None:
    middle = append_numbers(url, 0, 30, padding=20)
    publish(url, middle, {"folded": 30})
    append_numbers(url, 30, 40)
    query = Query(url)
    rows, end = drain(query)
    assert [row["kind"] for row in rows] == ["snapshot"] + ["update"] * 10
    assert values(rows[:1]) == [{"folded": 30}]
    assert rows[0]["offset"] == middle
    assert numbers(rows[1:]) == list(range(30, 40))
    append_numbers(url, 40, 45)
    rows, _ = drain(query, end)
    assert numbers(rows) == list(range(40, 45))


def test_a_snapshot_at_the_tail_and_nothing_after_it(url: str) -> None:
    tail = append_numbers(url, 0, 5)
    publish(url, tail, {"folded": 5})
    query = Query(url)
    rows, end = drain(query)
    assert [row["kind"] for row in rows] == ["snapshot"]
    assert query.latest(end) == end
    append_numbers(url, 5, 7)
    rows, _ = drain(query, end)
    assert numbers(rows) == [5, 6]


def test_earliest_leaves_the_snapshot_out(url: str) -> None:
    middle = append_numbers(url, 0, 10)
    publish(url, middle, {"folded": 10})
    append_numbers(url, 10, 15)
    rows, _ = drain(Query(url, startingOffsets="earliest"))
    assert {row["kind"] for row in rows} == {"update"}
    assert numbers(rows)[-5:] == list(range(10, 15))


def test_under_a_limit_the_snapshot_comes_first(url: str) -> None:
    middle = append_numbers(url, 0, 10)
    publish(url, middle, {"folded": 10})
    append_numbers(url, 10, 35)
    rows, _ = drain(Query(url), limit=MaxRows(7))
    assert rows[0]["kind"] == "snapshot"
    assert numbers(rows[1:]) == list(range(10, 35))


def test_appends_and_snapshots_during_the_start(url: str) -> None:
    """What was resolved is in the end of the batch: neither order nor a newer snapshot matter."""
    first = append_numbers(url, 0, 20)
    publish(url, first, {"folded": 20})
    second = append_numbers(url, 20, 30)
    query = Query(url)
    end = query.latest()
    append_numbers(url, 30, 40)
    rows = query.rows(START, end)
    assert [row["kind"] for row in rows] == ["snapshot"] + ["update"] * 10
    publish(url, second, {"folded": 30})
    rows, _ = drain(query, end)
    assert numbers(rows) == list(range(30, 40))


def test_a_replay_of_the_first_batch_after_a_newer_snapshot(url: str) -> None:
    """The same rows where the server still has them, else an error; never other rows."""
    first = append_numbers(url, 0, 20)
    publish(url, first, {"folded": 20})
    second = append_numbers(url, 20, 30)
    end = Query(url).latest()
    rows = Query(url).rows(START, end)
    publish(url, second, {"folded": 30})
    append_numbers(url, 30, 31)
    if "/ds/" in url:  # publishing trims
        with pytest.raises(DataLossError, match=r"retention.*new checkpoint.*failOnDataLoss"):
            Query(url).rows(START, end)
    else:
        assert Query(url).rows(START, end) == rows


def test_a_superseded_snapshot_alone_is_replayed(embedded: Server) -> None:
    url = create(embedded.stream("snap"))
    first = append_numbers(url, 0, 20)
    publish(url, first, {"folded": 20})
    end = Query(url).latest()
    second = append_numbers(url, 20, 30)
    publish(url, second, {"folded": 30})
    rows = Query(url).rows(START, end)
    assert values(rows) == [{"folded": 20}]


def test_a_snapshot_that_is_gone_is_a_clear_error(ursula: UrsulaLike) -> None:
    url = create(f"{ursula.url}/bucket/snap")
    first = append_numbers(url, 0, 20)
    publish(url, first, {"folded": 20})
    append_numbers(url, 20, 25)
    end = Query(url).latest()
    stream = ursula.streams["/bucket/snap"]
    stream.snapshots.clear()
    stream.snapshots[int(first) + 1] = ("application/json", b"{}")
    stream.latest_snapshot = int(first) + 1
    with pytest.raises(DataLossError, match="replaced by a newer one"):
        Query(url).rows(START, end)


# -- retention -----------------------------------------------------------------------------------


def trim(url: str, request: pytest.FixtureRequest, offset: str, folded: int) -> None:
    publish(url, offset, {"folded": folded})
    if "/ds/" not in url:
        ursula: UrsulaLike = request.getfixturevalue("ursula")
        ursula.retain_from(url.removeprefix(ursula.url), offset)


def test_retention_passing_a_stopped_query(url: str, request: pytest.FixtureRequest) -> None:
    append_numbers(url, 0, 10)
    _, end = drain(Query(url))
    trimmed = append_numbers(url, 10, 30)
    trim(url, request, trimmed, 30)
    append_numbers(url, 30, 35)
    with pytest.raises(DataLossError) as lost:
        Query(url).latest(end)
    assert "retention" in str(lost.value)
    assert "new checkpoint" in str(lost.value)
    assert "failOnDataLoss" in str(lost.value)
    again = Query(url, failOnDataLoss="false")
    rows, later = drain(again, end)
    assert [row["kind"] for row in rows] == ["snapshot"] + ["update"] * 5
    assert values(rows[:1]) == [{"folded": 30}]
    assert numbers(rows[1:]) == list(range(30, 35))
    append_numbers(url, 35, 36)
    rows, _ = drain(again, later)
    assert numbers(rows) == [35]


def test_retention_passing_a_planned_batch(url: str, request: pytest.FixtureRequest) -> None:
    """The batch is in the checkpoint, its messages are gone: an error, or a way past it."""
    append_numbers(url, 0, 10)
    first, begun = drain(Query(url))
    middle = append_numbers(url, 10, 20)
    append_numbers(url, 20, 30)
    end = Query(url).latest(begun)
    trim(url, request, middle, 20)
    with pytest.raises(DataLossError, match="retention"):
        Query(url).rows(begun, end)
    lenient = Query(url, failOnDataLoss="false")
    rows = lenient.rows(begun, end)
    assert values(rows[:1]) == [{"folded": 20}]
    assert numbers(rows[1:]) == list(range(20, 30))
    assert first


def test_retention_passing_the_end_of_a_planned_batch(
    url: str, request: pytest.FixtureRequest
) -> None:
    append_numbers(url, 0, 10)
    _, begun = drain(Query(url))
    append_numbers(url, 10, 20)
    end = Query(url).latest(begun)
    later = append_numbers(url, 20, 30)
    trim(url, request, later, 30)
    append_numbers(url, 30, 33)
    lenient = Query(url, failOnDataLoss="false")
    assert lenient.rows(begun, end) == []
    rows, _ = drain(lenient, end)
    assert [row["kind"] for row in rows] == ["snapshot"] + ["update"] * 3
    assert numbers(rows[1:]) == [30, 31, 32]


def test_a_position_at_the_tail_survives_retention(
    url: str, request: pytest.FixtureRequest
) -> None:
    tail = append_numbers(url, 0, 10)
    _, end = drain(Query(url))
    trim(url, request, tail, 10)
    append_numbers(url, 10, 12)
    rows, _ = drain(Query(url), end)
    assert numbers(rows) == [10, 11]


# -- deleted, created again, closed --------------------------------------------------------------


def recreate(url: str) -> None:
    with DurableClient() as client:
        client.delete(url)
        client.create(url)


def test_created_again_is_noticed_by_its_incarnation(url: str) -> None:
    append_numbers(url, 0, 10)
    _, end = drain(Query(url))
    recreate(url)
    append_numbers(url, 100, 200)  # longer than its earlier life
    with pytest.raises(DataLossError, match="deleted and created again"):
        Query(url).latest(end)
    with pytest.raises(DataLossError, match="deleted and created again"):
        Query(url).rows(START, end)
    rows, _ = drain(Query(url, failOnDataLoss="false"), end)
    assert numbers(rows) == list(range(100, 200))


def test_created_again_is_noticed_by_its_tail(node: Server) -> None:
    url = create(node.stream("again"))
    append_numbers(url, 0, 10)
    _, end = drain(Query(url))
    recreate(url)
    append_numbers(url, 100, 103)
    with pytest.raises(DataLossError, match="deleted and created again"):
        Query(url).latest(end)
    rows, _ = drain(Query(url, failOnDataLoss="false"), end)
    assert numbers(rows) == [100, 101, 102]


def test_deleted(server: Server) -> None:
    url = create(server.stream("gone"))
    append_numbers(url, 0, 3)
    query = Query(url)
    _, end = drain(query)
    with DurableClient() as client:
        client.delete(url)
    with pytest.raises(DataLossError, match="does not exist any more"):
        query.latest(end)
    lenient = Query(url, failOnDataLoss="false")
    without = lenient.latest(end)
    assert lenient.rows(end, without) == []
    assert lenient.latest(without) == without


def test_closed_is_the_end_of_data(server: Server) -> None:
    url = create(server.stream("closed"))
    append_numbers(url, 0, 3)
    with DurableClient() as client:
        client.close_stream(url)
    query = Query(url, pollTimeout="50ms")
    rows, end = drain(query)
    assert numbers(rows) == [0, 1, 2]
    assert query.latest(end) == end
    with DurableClient() as client:
        client.delete(url)
    # nothing can have been appended since, so nothing is lost
    assert query.latest(end) == end
    assert Query(url, pollTimeout="50ms").latest(end) == end


def test_closed_after_it_was_read(server: Server) -> None:
    url = create(server.stream("closed"))
    append_numbers(url, 0, 3)
    query = Query(url, pollTimeout="50ms")
    _, end = drain(query)
    with DurableClient() as client:
        client.close_stream(url)
    assert query.latest(end) == end
    with DurableClient() as client:
        client.delete(url)
    assert query.latest(end) == end


# -- snapshots that overtake the start -------------------------------------------------------------


def test_a_newer_snapshot_before_the_first_batch_is_read(
    url: str, request: pytest.FixtureRequest
) -> None:
    first = append_numbers(url, 0, 20)
    publish(url, first, {"folded": 20})
    second = append_numbers(url, 20, 30)
    append_numbers(url, 30, 40)
    query = Query(url)
    end = query.latest()
    partitions = query.partitions(START, end)
    trim(url, request, second, 30)
    rows = query.read(partitions)
    assert values(rows[:1]) in ([{"folded": 20}], [{"folded": 30}])
    folded = values(rows[:1])[0]["folded"]
    assert numbers(rows[1:]) == list(range(folded, 40))
    append_numbers(url, 40, 42)
    rows, _ = drain(query, end)
    assert numbers(rows) == [40, 41]


def test_a_newer_snapshot_past_the_first_batch(url: str, request: pytest.FixtureRequest) -> None:
    append_numbers(url, 0, 20)
    query = Query(url)
    end = query.latest()
    partitions = query.partitions(START, end)
    later = append_numbers(url, 20, 30)
    trim(url, request, later, 30)
    append_numbers(url, 30, 33)
    rows = query.read(partitions)
    assert values(rows) == [{"folded": 30}]
    rows, end = drain(query, end)
    assert values(rows[:1]) == [{"folded": 30}]
    assert numbers(rows[1:]) == [30, 31, 32]
    # once the start is over, retention is an error again
    lost = append_numbers(url, 33, 40)
    rows, end = drain(query, end)
    append_numbers(url, 40, 50)
    last = append_numbers(url, 50, 51)
    trim(url, request, last, 51)
    append_numbers(url, 51, 52)
    with pytest.raises(DataLossError, match="retention"):
        query.latest(end)
    assert lost
