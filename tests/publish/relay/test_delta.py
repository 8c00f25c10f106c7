"""The relay on real Delta tables: intake, attempts, bad rows, crashes between commits, kills."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_durable.protocol.errors import RelayError
from spark_durable.publish import DurableStreamsPublisher
from spark_durable.publish.relay.delta import store as delta_store
from spark_durable.publish.relay.delta.maintenance import DeltaMaintenance
from spark_durable.publish.relay.delta.store import DeltaOutbox
from spark_durable.publish.relay.engine import Relay
from spark_durable.publish.relay.policy import RelayPolicy
from spark_durable.publish.relay.vocabulary import vocabulary
from tests.conftest import Server
from tests.faults import FaultProxy, Kind
from tests.publish.conftest import read_messages
from tests.publish.relay.harness import (
    Faults,
    Given,
    batch_size,
    check_arrived,
    kill_in_the_middle,
    make_events,
    run_to_end,
)

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
POLICY = RelayPolicy(backoff_s=0.01, max_backoff_s=0.05, pause_s=0.05)
SCHEMA = (
    "event_id string, event_type string, ordering_key string, payload binary, created_at timestamp"
)


class Outbox:
    """An outbox in a directory of its own, and relays over it."""

    def __init__(self, spark: SparkSession, base: Path, url: str) -> None:
        self.spark = spark
        self.base = base
        self.url = url

    def path(self, name: str) -> str:
        return str(self.base / f"outbox_{name}")

    def rows(self, events: Sequence[Given]) -> DataFrame:
        table = pa.table(
            {
                "event_id": [e.event_id for e in events],
                "event_type": ["t"] * len(events),
                "ordering_key": [e.key for e in events],
                "payload": pa.array([e.payload for e in events], pa.binary()),
                "created_at": [START + timedelta(milliseconds=e.number) for e in events],
            }
        )
        return self.spark.createDataFrame(table)

    def append(self, rows: DataFrame) -> None:
        rows.coalesce(1).write.format("delta").mode("append").save(self.path("events"))

    def relay(self, url: str | None = None, **options: Any) -> tuple[Relay, DeltaOutbox]:
        publisher = DurableStreamsPublisher(url or self.url)
        store = DeltaOutbox(
            self.spark,
            publisher,
            relay_id=options.pop("relay_id", "r"),
            events=self.path("events"),
            attempts=self.path("attempts"),
            working=self.path("open"),
            **options,
        )
        return Relay(store, publisher, POLICY, relay_id="r"), store

    def maintenance(self, **options: Any) -> DeltaMaintenance:
        return DeltaMaintenance(
            self.spark,
            events=self.path("events"),
            attempts=self.path("attempts"),
            working=self.path("open"),
            **options,
        )

    def attempts(self) -> list[dict[str, Any]]:
        table = self.spark.read.format("delta").load(self.path("attempts"))
        return [row.asDict() for row in table.collect()]

    def arrived(self) -> list[dict[str, Any]]:
        return [json.loads(message) for message in read_messages(self.url)]


@pytest.fixture
def outbox(spark: SparkSession, tmp_path: Path, embedded: Server) -> Outbox:
    return Outbox(spark, tmp_path, embedded.stream("delta"))


def test_new_events_are_delivered_once_and_only_they_are_read(outbox: Outbox) -> None:
    events = make_events(300, keys=10, poisoned=0, seed=1)
    outbox.append(outbox.rows(events[:200]))
    relay, _ = outbox.relay()
    assert relay.run_once().delivered == 200
    assert relay.run_once().idle
    outbox.append(outbox.rows(events[200:]))
    restarted, _ = outbox.relay()
    report = restarted.run_once()
    assert (report.taken_in, report.delivered, report.open) == (100, 100, 0)
    check_arrived(events, outbox.arrived())
    attempts = outbox.attempts()
    assert len(attempts) == 300
    assert {(row["status"], row["attempt"]) for row in attempts} == {("DELIVERED", 1)}
    assert all(row["receipt"] and row["finished_at"] for row in attempts)
    # Producers' rows are as they wrote them, and the view says what became of each.
    assert outbox.maintenance().counts() == {"DELIVERED": 300}


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("plan", marks=pytest.mark.long),
        "sent",
        pytest.param("results", marks=pytest.mark.long),
    ],
)
def test_a_crash_between_two_commits_doubles_and_loses_nothing(
    outbox: Outbox, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = make_events(60, keys=5, poisoned=0, seed=2)
    outbox.append(outbox.rows(events))
    relay, store = outbox.relay()

    def die(*arguments: object) -> None:
        raise KeyboardInterrupt

    crash: dict[str, Callable[[], None]] = {
        "plan": lambda: monkeypatch.setattr(store, "planned", die),
        "sent": lambda: monkeypatch.setattr(store, "commit_results", die),
        "results": lambda: monkeypatch.setattr(store, "_append_attempts", die),
    }
    if where == "results":
        store.begin()  # creates the tables; what is recovered later is empty
    crash[where]()
    with pytest.raises(KeyboardInterrupt):
        relay.run_once()
    again, _ = outbox.relay()
    again.run_until_idle()
    check_arrived(events, outbox.arrived())
    attempts = outbox.attempts()
    assert sorted(row["event_id"] for row in attempts) == sorted(e.event_id for e in events)


def test_bad_rows_end_as_dead_letters_and_nothing_is_lost(outbox: Outbox) -> None:
    good = make_events(8, keys=1, poisoned=0, seed=3)
    columns = "event_id string, event_type string, ordering_key string, payload binary, "
    columns += "created_at timestamp, status string, headers string, destination string"
    unset = (None, None, None)
    same = ("dup", "t", "key-0", bytearray(b'{"n":100,"k":"z"}'), START, None, None, None)
    rows = [
        (e.event_id, "t", e.key, bytearray(e.payload), START + timedelta(seconds=e.number), *unset)
        for e in good
    ]
    rows += [
        (None, "t", "key-0", bytearray(b"1"), START, None, None, None),
        ("", "t", "key-0", bytearray(b"2"), START, None, None, None),
        ("null-payload", "t", "key-0", None, START, None, None, None),
        ("odd-status", "t", "key-0", bytearray(b"3"), START, "HALTED", None, None),
        ("not-json", "t", "key-0", bytearray(b"{nope"), START, None, None, None),
        ("final", "t", "key-0", bytearray(b"4"), START, "DELIVERED", None, None),
        same,
        same,
        ("dup", "t", "key-0", bytearray(b'"other"'), START + timedelta(days=1), None, None, None),
    ]
    outbox.append(outbox.spark.createDataFrame(rows, columns))
    relay, _ = outbox.relay()
    relay.run_until_idle()
    dead = {
        row["event_id"]: row["last_error"] for row in outbox.attempts() if row["status"] == "DEAD"
    }
    assert sum(name.startswith("row:") for name in dead) == 2
    assert "event_id is missing" in dead[next(name for name in dead if name.startswith("row:"))]
    assert "payload is null" in dead["null-payload"]
    assert "unknown status HALTED" in dead["odd-status"]
    assert "not JSON" in dead["not-json"]
    (conflict,) = [error for name, error in dead.items() if name.startswith("dup#")]
    assert "other content" in conflict
    assert len(dead) == 6
    arrived = outbox.arrived()
    assert [m for m in arrived if m["k"] == "z"] == [{"n": 100, "k": "z"}]
    check_arrived(good, [m for m in arrived if m["k"] != "z"])
    # The same id again, later: known, and not sent twice.
    outbox.append(outbox.spark.createDataFrame([same], columns))
    relay.run_until_idle()
    assert len(outbox.arrived()) == len(arrived)


def test_replay_prune_and_another_vocabulary(outbox: Outbox, embedded: Server) -> None:
    words = vocabulary("claimed", {"event_id": "id", "sequence": "position"})
    rows = [
        (
            f"e{n}",
            "t",
            bytearray(json.dumps({"n": n, "x": "poison" if n == 2 else ""}).encode()),
            9 - n,
        )
        for n in range(5)
    ]
    columns = "id string, event_type string, payload binary, position int"
    outbox.append(outbox.spark.createDataFrame(rows, columns))
    outbox.append(outbox.spark.createDataFrame([], columns))  # a commit without rows
    maintenance = outbox.maintenance(vocabulary=words)
    with FaultProxy(embedded.url) as proxy:
        proxy.script = Faults(1, 0.0)
        relay, _ = outbox.relay(proxy.through(outbox.url), vocabulary=words)
        relay.run_until_idle()
        assert maintenance.counts() == {"PUBLISHED": 4, "DEAD": 1}
        proxy.script = lambda request: Faults(1, 0.0)(
            type(request)(request.number, request.method, request.path, request.headers, 0)
        )
        assert maintenance.replay(["e2"]) == 1
        assert maintenance.counts() == {"PUBLISHED": 4, "PENDING": 1}
        assert maintenance.replay(None) == 0
        relay.run_until_idle()
    assert maintenance.counts() == {"PUBLISHED": 5}
    assert sorted(message["n"] for message in outbox.arrived()) == [0, 1, 2, 3, 4]
    with pytest.raises(RelayError, match="what to prune"):
        maintenance.prune()
    assert maintenance.prune(event_ids=["e0"]) == 1
    assert maintenance.prune(before=datetime(2100, 1, 1, tzinfo=timezone.utc)) == 4
    assert maintenance.counts() == {}
    # Deleted rows are no new events.
    assert relay.run_once().idle


@pytest.mark.long
def test_a_backlog_is_worked_off_in_chunks_in_order(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_store, "CHUNK_EVENTS", 50)
    monkeypatch.setattr(delta_store, "MAX_WORKING_EVENTS", 60)
    events = make_events(230, keys=7, poisoned=0, seed=4)
    outbox.append(outbox.rows(events))
    relay, _ = outbox.relay()
    first = relay.run_once()
    assert first.taken_in == 230
    assert first.delivered < 230
    again, _ = outbox.relay()
    again.run_until_idle()
    check_arrived(events, outbox.arrived())


def test_the_wrong_relay_or_table_is_refused(outbox: Outbox) -> None:
    outbox.append(outbox.rows(make_events(1, keys=1, poisoned=0, seed=5)))
    relay, _ = outbox.relay()
    relay.run_once()
    other, _ = outbox.relay(relay_id="another")
    with pytest.raises(RelayError, match="relay-id"):
        other.run_once()
    _, store = outbox.relay()
    store.events = type(store.events)(outbox.path("missing"))
    with pytest.raises(RelayError, match="no events table"):
        store.begin()


@pytest.fixture
def failing(embedded: Server) -> Iterator[tuple[FaultProxy, Faults]]:
    with FaultProxy(embedded.url) as proxy:
        faults = Faults(seed=21, share=0.1)
        proxy.script = faults
        yield proxy, faults


def survive_kills(
    outbox: Outbox, failing: tuple[FaultProxy, Faults], events: list[Given], kills: int
) -> None:
    proxy, faults = failing
    outbox.append(outbox.rows(events))
    rng = random.Random(22)
    arguments = ["run", "--delta", str(outbox.base), "--target", proxy.through(outbox.url)]
    arguments += ["--backoff", "20ms", "--max-backoff", "200ms", "--pause", "50ms"]
    batch = batch_size(events)
    arguments += ["--batch-events", str(batch), "--max-events", str(max(900, len(events) // 8))]
    done = 0
    for _ in range(kills):
        done += kill_in_the_middle(faults, rng.randint(3, batch), arguments)
    assert done == kills, "the relay was done before it could be killed"
    code, reports, err = run_to_end(arguments)
    assert code == 0, err
    assert reports
    state = {row["event_id"]: row for row in outbox.maintenance().state().collect()}
    for event in events:
        row = state[event.event_id]
        assert row["status"] == ("DEAD" if event.poisoned else "DELIVERED")
        if event.poisoned:
            assert "400" in row["last_error"]
    check_arrived(events, outbox.arrived())
    assert proxy.seen(Kind.LOSE_ANSWER) > 0


def test_killed_again_and_again_every_event_arrives_once_in_order(
    outbox: Outbox, failing: tuple[FaultProxy, Faults]
) -> None:
    survive_kills(outbox, failing, make_events(200, keys=20, poisoned=2, seed=23), kills=1)


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_a_hundred_thousand_events_and_ten_kills(
    outbox: Outbox, failing: tuple[FaultProxy, Faults]
) -> None:
    events = make_events(100_000, keys=1000, poisoned=200, seed=24)
    survive_kills(outbox, failing, events, kills=10)
