"""The relay on a real PostgreSQL: claims, fences, vocabularies, kills."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest
import requests
from pyspark.sql import SparkSession

from spark_durable.protocol.errors import LeaseLostError, RelayError
from spark_durable.publish import DurableStreamsPublisher
from spark_durable.publish.relay.engine import Relay
from spark_durable.publish.relay.policy import RelayPolicy, lane_number
from spark_durable.publish.relay.postgres.maintenance import PostgresMaintenance
from spark_durable.publish.relay.postgres.store import PostgresOutbox
from spark_durable.publish.relay.vocabulary import CLAIMED, DEBEZIUM, LOCKED, Vocabulary, vocabulary
from tests.conftest import Server
from tests.faults import PASS, FaultProxy, Kind
from tests.publish.conftest import read_messages, read_records
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


def insert(db: psycopg.Connection, table: str, events: Sequence[Given]) -> None:
    with db.cursor().copy(
        f"COPY {table} (event_id, event_type, ordering_key, payload, created_at) FROM STDIN"
    ) as copy:
        for event in events:
            created = START + timedelta(milliseconds=event.number)
            copy.write_row((event.event_id, "t", event.key, event.payload, created))


def states(db: psycopg.Connection, table: str) -> dict[str, tuple[str, int, str | None]]:
    rows = db.execute(f"SELECT event_id::text, status, attempts, last_error FROM {table}")
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


@pytest.fixture
def target(embedded: Server) -> str:
    return embedded.stream("pg")


def make(
    spark: SparkSession, dsn: str, table: str, url: str, relay_id: str = "r", **options: Any
) -> tuple[Relay, PostgresOutbox]:
    publisher = DurableStreamsPublisher(url)
    store = PostgresOutbox(spark, publisher, relay_id=relay_id, dsn=dsn, table=table, **options)
    return Relay(store, publisher, POLICY, relay_id=relay_id), store


def test_events_are_delivered_and_marked(
    spark: SparkSession, postgres: str, db: psycopg.Connection, outbox: str, target: str
) -> None:
    events = make_events(200, keys=10, poisoned=0, seed=1)
    insert(db, outbox, events)
    relay, _ = make(spark, postgres, outbox, target)
    report = relay.run_once()
    assert (report.delivered, report.dead, report.open) == (200, 0, 0)
    check_arrived(events, [json.loads(m) for m in read_messages(target)])
    assert {state[:2] for state in states(db, outbox).values()} == {("DELIVERED", 1)}
    left = db.execute(
        f"SELECT count(*) FROM {outbox} WHERE delivered_at IS NULL OR locked_by IS NOT NULL"
    ).fetchone()
    assert left == (0,)
    assert db.execute(f"SELECT count(*) FROM {outbox}_relay_plan").fetchone() == (0,)
    assert relay.run_once().idle


def test_two_relays_share_the_keys_and_not_a_key(
    spark: SparkSession, postgres: str, db: psycopg.Connection, outbox: str, target: str
) -> None:
    """What one has claimed the other does not see; together they deliver everything in order."""
    events = make_events(300, keys=40, poisoned=0, seed=2)
    insert(db, outbox, events)
    _, first = make(spark, postgres, outbox, target, "a", claim_shards=8)
    second_relay, second = make(spark, postgres, outbox, target, "b", claim_shards=100)
    ours, theirs = first.begin(), second.begin()
    assert ours.events
    assert theirs.events
    assert not {e.key for e in ours.events} & {e.key for e in theirs.events}
    assert len(ours.events) + len(theirs.events) == 300
    first.release(ours)
    second.release(theirs)
    second_relay.run_until_idle()
    check_arrived(events, [json.loads(m) for m in read_messages(target)])


def test_a_relay_that_lost_its_lease_writes_nothing(
    spark: SparkSession, postgres: str, db: psycopg.Connection, outbox: str, target: str
) -> None:
    insert(db, outbox, make_events(20, keys=3, poisoned=0, seed=3))
    _, late = make(spark, postgres, outbox, target, "late", lease_s=0.0)
    batch = late.begin()
    other, _ = make(spark, postgres, outbox, target, "other")
    assert other.run_once().delivered == 20
    with pytest.raises(LeaseLostError, match="lease"):
        late.commit_plan(batch, batch.events)
    with pytest.raises(LeaseLostError):
        late.commit_results(batch, [], batch.events)
    assert {state[0] for state in states(db, outbox).values()} == {"DELIVERED"}


def test_a_killed_relays_plan_is_repeated_by_the_next(
    spark: SparkSession, postgres: str, db: psycopg.Connection, outbox: str, target: str
) -> None:
    """Sent but not written down: the next relay repeats the same triples, and nothing doubles."""
    events = make_events(50, keys=5, poisoned=0, seed=4)
    insert(db, outbox, events)
    relay, store = make(spark, postgres, outbox, target, "a")

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    store.commit_results = killed  # type: ignore[method-assign]
    store.release = lambda batch: None  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        relay.run_once()
    assert {state[0] for state in states(db, outbox).values()} == {"DELIVERING"}
    store.close()
    again, _ = make(spark, postgres, outbox, target, "a")
    report = again.run_once()
    assert report.duplicates == 50
    check_arrived(events, [json.loads(m) for m in read_messages(target)])


@pytest.mark.parametrize("words", [LOCKED, CLAIMED], ids=["locked", "claimed"])
def test_both_vocabularies(
    spark: SparkSession,
    postgres: str,
    db: psycopg.Connection,
    outbox: str,
    target: str,
    words: Vocabulary,
) -> None:
    if words is CLAIMED:
        for old, new in (
            ("locked_by", "claimed_by"),
            ("locked_at", "claimed_at"),
            ("delivered_at", "published_at"),
        ):
            db.execute(f"ALTER TABLE {outbox} RENAME COLUMN {old} TO {new}")
    insert(db, outbox, make_events(5, keys=2, poisoned=0, seed=5))
    relay, _ = make(spark, postgres, outbox, target, vocabulary=words)
    assert relay.run_once().delivered == 5
    assert {state[0] for state in states(db, outbox).values()} == {words.delivered}


def test_debeziums_table_gets_the_columns_it_lacks(
    spark: SparkSession, postgres: str, db: psycopg.Connection, embedded: Server
) -> None:
    table = f"debezium_{uuid.uuid4().hex[:8]}"
    db.execute(
        f"CREATE TABLE {table} (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, "
        "aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb, seq serial)"
    )
    for number in range(6):
        db.execute(
            f"INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload) "
            "VALUES (gen_random_uuid(), 'order', %s, 'OrderPlaced', %s)",
            (f"o{number % 2}", json.dumps({"n": number, "k": f"o{number % 2}"})),
        )
    words = vocabulary("debezium", {"sequence": "seq"})
    base = embedded.stream("debezium")
    relay, _ = make(spark, postgres, table, f"{base}-{{destination}}", vocabulary=words)
    with pytest.raises(RelayError, match="init"):
        relay.run_once()
    maintenance = PostgresMaintenance(dsn=postgres, table=table, vocabulary=words)
    assert "status" in maintenance.init()
    assert maintenance.init() == []
    relay, _ = make(spark, postgres, table, f"{base}-{{destination}}", vocabulary=words)
    assert relay.run_once().delivered == 6
    arrived = [json.loads(message) for message in read_messages(f"{base}-order")]
    for key in ("o0", "o1"):
        numbers = [message["n"] for message in arrived if message["k"] == key]
        assert numbers == sorted(numbers)
    assert maintenance.counts() == {"DELIVERED": 6}
    assert DEBEZIUM.columns.sequence == ""


def test_bad_rows_end_as_dead_letters_and_the_rest_is_delivered(
    spark: SparkSession, postgres: str, db: psycopg.Connection, outbox: str, target: str
) -> None:
    good = make_events(10, keys=1, poisoned=0, seed=6)
    insert(db, outbox, good)
    bad = {
        "payload is null": (None, "PENDING"),
        "payload is not JSON": (b"{not json", "PENDING"),
        "payload is not UTF-8": (b'"\xff"', "PENDING"),
        "unknown status": (b"1", "HALTED"),
    }
    ids = {}
    for reason, (payload, status) in bad.items():
        ids[reason] = str(uuid.uuid4())
        db.execute(
            f"INSERT INTO {outbox} (event_id, event_type, ordering_key, payload, status) "
            "VALUES (%s, 't', 'key-0', %s, %s)",
            (ids[reason], payload, status),
        )
    relay, _ = make(spark, postgres, outbox, target)
    relay.run_until_idle()
    found = states(db, outbox)
    for reason, event_id in ids.items():
        status, _, error = found[event_id]
        assert status == "DEAD"
        assert reason in (error or "")
    check_arrived(good, [json.loads(m) for m in read_messages(target)])


def test_a_table_where_two_events_may_have_one_id_is_refused(
    spark: SparkSession, postgres: str, db: psycopg.Connection, outbox: str, target: str
) -> None:
    db.execute(f"ALTER TABLE {outbox} DROP CONSTRAINT {outbox}_pkey")
    insert(db, outbox, make_events(2, keys=1, poisoned=0, seed=7))
    relay, _ = make(spark, postgres, outbox, target)
    with pytest.raises(RelayError, match="primary key"):
        relay.run_once()


def test_replay_and_prune(
    spark: SparkSession, postgres: str, db: psycopg.Connection, outbox: str, embedded: Server
) -> None:
    url = embedded.stream("pg")
    events = make_events(6, keys=1, poisoned=2, seed=8)
    insert(db, outbox, events)
    with FaultProxy(embedded.url) as proxy:
        proxy.script = Faults(8, 0.0)
        relay, _ = make(spark, postgres, outbox, proxy.through(url))
        relay.run_until_idle()
        maintenance = PostgresMaintenance(dsn=postgres, table=outbox)
        assert maintenance.counts() == {"DELIVERED": 4, "DEAD": 2}
        dead = [event.event_id for event in events if event.poisoned]
        assert "400" in (states(db, outbox)[dead[0]][2] or "")
        assert maintenance.replay(dead[:1]) == 1
        proxy.script = lambda request: PASS  # the target takes it now
        relay.run_until_idle()
        assert maintenance.counts() == {"DELIVERED": 5, "DEAD": 1}
        assert maintenance.replay(None) == 1
        relay.run_until_idle()
    assert len(read_messages(url)) == 6
    assert maintenance.prune(event_ids=[dead[0]]) == 1
    with pytest.raises(RelayError, match="what to prune"):
        maintenance.prune()
    assert maintenance.prune(before=datetime(2000, 1, 1, tzinfo=timezone.utc)) == 0
    assert maintenance.prune(before=datetime(2100, 1, 1, tzinfo=timezone.utc)) == 5


def test_shards_are_the_same_in_the_database_and_here(
    postgres: str, db: psycopg.Connection
) -> None:
    for text in ("", "a", "key-17", "Grüße", "x" * 500):
        row = db.execute(
            "SELECT (('x' || substr(md5(%s), 1, 8))::bit(32)::int & 2147483647) %% 64", (text,)
        ).fetchone()
        assert row == (lane_number(text, "", 64),)


@pytest.fixture
def failing(embedded: Server) -> Iterator[tuple[FaultProxy, Faults]]:
    with FaultProxy(embedded.url) as proxy:
        faults = Faults(seed=11, share=0.1)
        proxy.script = faults
        yield proxy, faults


def survive_kills(
    db: psycopg.Connection,
    dsn: str,
    table: str,
    failing: tuple[FaultProxy, Faults],
    url: str,
    events: list[Given],
    kills: int,
) -> None:
    proxy, faults = failing
    insert(db, table, events)
    rng = random.Random(12)
    arguments = ["run", "--postgres", table, "--target", proxy.through(url)]
    arguments += ["--backoff", "20ms", "--max-backoff", "200ms", "--pause", "50ms"]
    batch = batch_size(events)
    arguments += ["--batch-events", str(batch), "--max-events", str(max(300, len(events) // 8))]
    done = 0
    for _ in range(kills):
        done += kill_in_the_middle(faults, rng.randint(3, batch), arguments, OUTBOX_DSN=dsn)
    assert done == kills, "the relay was done before it could be killed"
    faults.outage = True
    before = {event_id: state[1] for event_id, state in states(db, table).items()}
    code, _, err = run_to_end([*arguments, "--once"], OUTBOX_DSN=dsn)
    assert code == 3, err
    assert {i: s[1] for i, s in states(db, table).items()} == before, "an outage burned attempts"
    faults.outage = False
    code, reports, err = run_to_end(arguments, OUTBOX_DSN=dsn)
    assert code == 0, err
    assert reports
    found = states(db, table)
    for event in events:
        status, attempts, error = found[event.event_id]
        assert status == ("DEAD" if event.poisoned else "DELIVERED")
        if event.poisoned:
            assert attempts >= 1
            assert "400" in (error or "")
    assert proxy.seen(Kind.LOSE_ANSWER) > 0


def test_killed_again_and_again_every_event_arrives_once_in_order(
    postgres: str,
    db: psycopg.Connection,
    outbox: str,
    failing: tuple[FaultProxy, Faults],
    target: str,
) -> None:
    events = make_events(300, keys=30, poisoned=3, seed=13)
    survive_kills(db, postgres, outbox, failing, target, events, kills=2)
    check_arrived(events, [json.loads(m) for m in read_messages(target)])


def test_killed_again_and_again_topics_have_every_event_once_within_the_window(
    postgres: str,
    db: psycopg.Connection,
    outbox: str,
    failing: tuple[FaultProxy, Faults],
    embedded: Server,
) -> None:
    url = f"{embedded.url}/v0/topics/pg-{uuid.uuid4().hex[:8]}"
    requests.put(url, json={"idempotency_window_ms": 3_600_000}, timeout=10)
    events = make_events(200, keys=20, poisoned=2, seed=14)
    survive_kills(db, postgres, outbox, failing, url, events, kills=1)
    check_arrived(events, [json.loads(record["data"]) for record in read_records(url)])


@pytest.mark.long
@pytest.mark.timeout(5400)
def test_a_hundred_thousand_events_and_ten_kills(
    postgres: str,
    db: psycopg.Connection,
    outbox: str,
    failing: tuple[FaultProxy, Faults],
    target: str,
) -> None:
    events = make_events(100_000, keys=1000, poisoned=200, seed=15)
    survive_kills(db, postgres, outbox, failing, target, events, kills=10)
    check_arrived(events, [json.loads(m) for m in read_messages(target)])
