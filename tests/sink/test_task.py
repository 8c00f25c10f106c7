"""One task's work, attempt after attempt, against real servers."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from typing import Any

import pytest

from spark_durable.protocol import DurableClient
from spark_durable.protocol.errors import (
    BadRowError,
    ReplayMismatchError,
    StaleEpochError,
    StreamClosedError,
)
from spark_durable.sink.appender import DurableAppender, Sent
from spark_durable.sink.guard import Sender
from spark_durable.sink.identity import MAX_FINGERPRINT, Place, WriteIdentity, batch_of
from spark_durable.sink.plan import RunMark, SinkPlan
from spark_durable.sink.spool import Spool
from spark_durable.sink.task import TaskReport
from tests.conftest import Server
from tests.faults import Fault, FaultProxy, Kind, Request
from tests.sink.partitions import ROUTED, sink_plan, write
from tests.sink.streams import assert_exactly_once, exists, ids

ROWS = list(range(600))
SHUFFLED = random.Random(3).sample(ROWS, len(ROWS))
ORDERS = ["keep", "sort", "trust"]


def attempt(plan: SinkPlan, rows: list[int], *, batch: int = 3, **place: Any) -> TaskReport:
    """As in every micro-batch of a run but its first: no earlier run can have begun it."""
    return write(replace(plan, mark=RunMark("run", batch - 1)), rows, batch=batch, **place)


@pytest.mark.parametrize("order", ORDERS)
def test_a_second_attempt_adds_nothing(server: Server, order: str) -> None:
    plan = sink_plan(server.stream(), maxAppendBytes="2k", rowOrder=order)
    first, second = attempt(plan, ROWS), attempt(plan, ROWS)
    assert first.sent.appended > 5
    assert second.sent == Sent(appended=0, duplicates=first.sent.appended)
    assert first.fingerprint == second.fingerprint
    assert_exactly_once(ids(plan.options.url), ROWS)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", [Kind.REFUSE, Kind.LOSE_ANSWER])
def test_a_second_attempt_completes_what_the_first_left(
    server: Server, order: str, kind: Kind
) -> None:
    url = server.stream()
    failed: list[Request] = []

    def fail_once(request: Request) -> Fault:
        if request.is_append and request.headers.get("producer-seq") == "3" and not failed:
            failed.append(request)
            # 400 is final, so the task fails in the middle of its partition.
            return Fault(kind, status=400)
        return Fault()

    with FaultProxy(server.url, fail_once) as proxy:
        options = {"maxAppendBytes": "2k", "rowOrder": order}
        plan = sink_plan(proxy.through(url), **options)
        if kind is Kind.REFUSE:
            with pytest.raises(Exception, match="400"):
                attempt(plan, ROWS)
            assert 0 < len(ids(url)) < len(ROWS)
        attempt(plan, ROWS)
        assert failed
    assert_exactly_once(ids(url), ROWS)


def test_another_order_of_several_appends_is_refused_under_keep(server: Server) -> None:
    plan = sink_plan(server.stream(), maxAppendBytes="2k")
    attempt(plan, ROWS)
    with pytest.raises(ReplayMismatchError) as refused:
        attempt(plan, SHUFFLED)
    text = str(refused.value)
    for told in ("query/0", "batch 3", "rowOrder=sort", "acceptDoublesForBatch=3", "repeatable"):
        assert told in text
    assert_exactly_once(ids(plan.options.url), ROWS)


def test_another_order_is_the_same_under_sort(server: Server) -> None:
    plan = sink_plan(server.stream(), maxAppendBytes="2k", rowOrder="sort", orderBy="name")
    attempt(plan, ROWS)
    attempt(plan, SHUFFLED)
    found = ids(plan.options.url)
    assert_exactly_once(found, ROWS)
    assert found == sorted(ROWS, key=lambda n: f"row {n}")


def test_another_order_is_the_same_in_one_append(server: Server) -> None:
    plan = sink_plan(server.stream())
    attempt(plan, ROWS)
    assert attempt(plan, SHUFFLED).sent == Sent(duplicates=1)
    assert ids(plan.options.url) == ROWS


@pytest.mark.parametrize("order", ORDERS)
def test_another_cut_is_refused(server: Server, order: str) -> None:
    url = server.stream()
    attempt(sink_plan(url, maxAppendBytes="2k", rowOrder=order), ROWS)
    for cut in ("1k", "3k", "1m"):
        with pytest.raises(ReplayMismatchError):
            attempt(sink_plan(url, maxAppendBytes=cut, rowOrder=order), ROWS)
    assert_exactly_once(ids(url), ROWS)


@pytest.mark.parametrize("order", ["keep", "sort"])
@pytest.mark.parametrize("other", [ROWS[:-1], [*ROWS, 600], [*ROWS[:-1], 601]])
def test_other_rows_are_refused(server: Server, order: str, other: list[int]) -> None:
    for cut in ("2k", "1m"):
        plan = sink_plan(server.stream(), maxAppendBytes=cut, rowOrder=order)
        attempt(plan, ROWS)
        with pytest.raises(ReplayMismatchError):
            attempt(plan, other)
        assert_exactly_once(ids(plan.options.url), ROWS)


def test_a_zombie_of_an_older_batch_is_fenced(server: Server) -> None:
    plan = sink_plan(server.stream(), maxAppendBytes="2k")
    attempt(plan, ROWS, batch=4)
    with pytest.raises(StaleEpochError) as fenced:
        attempt(plan, [*range(1000, 1100)], batch=3)
    current = fenced.value.current_epoch
    assert current is not None
    assert batch_of(current) == 4
    for told in ("query/0", "batch 3", str(current), "Nothing was sent"):
        assert told in str(fenced.value)
    assert_exactly_once(ids(plan.options.url), ROWS)


def test_a_zombie_that_slept_through_its_probe_is_fenced_by_the_server(server: Server) -> None:
    plan = sink_plan(server.stream(), maxAppendBytes="2k")
    sender = Sender.of(plan.options.url, Place(WriteIdentity("query", 3), 0))
    with DurableClient() as client:
        zombie = DurableAppender(client, plan.options, sender)
        zombie.begin(77)
        attempt(plan, ROWS, batch=4)
        with pytest.raises(StaleEpochError, match="query/0"):
            zombie.send(b'[{"id":1000}]')
    assert_exactly_once(ids(plan.options.url), ROWS)


def test_batches_partitions_and_queries_do_not_meet(server: Server) -> None:
    plan = sink_plan(server.stream())
    for batch in (0, 1):
        attempt(plan, ROWS, batch=batch)
    attempt(plan, ROWS, batch=1, partition=1)
    attempt(plan, ROWS, batch=0, query="another")
    assert_exactly_once(ids(plan.options.url), ROWS * 4)


@pytest.mark.parametrize("order", ORDERS)
def test_accepting_doubles_sends_anew_and_only_that_batch(server: Server, order: str) -> None:
    url = server.stream()
    options: dict[str, Any] = {"maxAppendBytes": "2k", "rowOrder": order}
    attempt(sink_plan(url, **options), ROWS)
    other = [*ROWS, 600]
    accepting = sink_plan(url, acceptDoublesForBatch=3, **{**options, "maxAppendBytes": "3k"})
    attempt(accepting, other)
    assert_exactly_once(ids(url), [*ROWS, *other])
    # A retry of what was sent anew is a retry like any other.
    assert attempt(accepting, other).sent.appended == 0
    with pytest.raises(ReplayMismatchError):
        attempt(sink_plan(url, acceptDoublesForBatch=2, **options), other)
    assert_exactly_once(ids(url), [*ROWS, *other])


def test_two_attempts_that_probe_before_either_sends(server: Server) -> None:
    """The race that the guard leaves open under keep, and that sort does not have."""
    outcomes = set()
    for low_first in (True, False):
        url = server.stream()
        plan = sink_plan(url)
        sender = Sender.of(url, Place(WriteIdentity("query", 3), 0))
        low, high = 5, MAX_FINGERPRINT
        with DurableClient() as client:
            attempts = {
                fingerprint: DurableAppender(client, plan.options, sender)
                for fingerprint in (low, high)
            }
            for fingerprint, appender in attempts.items():
                appender.begin(fingerprint)
            attempts[low if low_first else high].send(b'[{"id":1}]')
            try:
                attempts[high if low_first else low].send(b'[{"id":1}]')
                outcomes.add("doubled")
            except StaleEpochError:
                outcomes.add("fenced")
        assert len(ids(url)) == (2 if low_first else 1)
    assert outcomes == {"doubled", "fenced"}
    # Under sort both attempts have one fingerprint, hence one epoch.
    plan = sink_plan(server.stream(), maxAppendBytes="2k", rowOrder="sort")
    assert attempt(plan, ROWS).fingerprint == attempt(plan, SHUFFLED).fingerprint


def test_a_retry_that_reads_from_disk_sends_the_same(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = sink_plan(server.stream(), maxAppendBytes="2k")
    attempt(plan, ROWS)
    monkeypatch.setattr("spark_durable.sink.task.SPOOL_BYTES", 5000)
    spilled: list[int] = []
    close = Spool.close
    monkeypatch.setattr(Spool, "close", lambda self: (spilled.append(self.on_disk), close(self)))
    assert attempt(plan, ROWS).sent.appended == 0
    assert spilled[0] > 5000


@pytest.mark.parametrize("order", ORDERS)
def test_routed_rows_are_once_in_their_streams_in_order(
    server: Server, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_durable.sink.task.OPEN_BYTES", 3000)
    base = server.stream().rsplit("/", 1)[0]
    names = {"streamColumn": "stream", "maxAppendBytes": "2k", "rowOrder": order}
    plan = sink_plan(base, ROUTED, **names, **({"orderBy": "id"} if order == "sort" else {}))
    prefix = server.stream().rsplit("/", 1)[1]
    columns = {"stream": [f"{prefix}-{n % 7} ä" for n in ROWS]}
    first = attempt(plan, ROWS, **columns)
    assert attempt(plan, ROWS, **columns).sent == Sent(duplicates=first.sent.appended)
    for n in range(7):
        assert ids(f"{base}/{prefix}-{n}%20%C3%A4") == ROWS[n::7]


def test_a_routed_stream_that_differs_is_refused_by_its_name(server: Server) -> None:
    base, _, name = server.stream().rpartition("/")
    plan = sink_plan(base, ROUTED, streamColumn="stream")
    attempt(plan, [1, 2], stream=[f"{name}a", f"{name}b"])
    with pytest.raises(ReplayMismatchError, match=f"{name}b"):
        attempt(plan, [1, 3], stream=[f"{name}a", f"{name}b"])
    assert [ids(f"{base}/{name}{s}") for s in "ab"] == [[1], [2]]


def test_an_empty_partition_asks_nothing(server: Server) -> None:
    with FaultProxy(server.url) as proxy:
        plan = sink_plan(proxy.through(server.stream()))
        asked = len(proxy.exchanges)
        report = attempt(plan, [])
        assert (report.rows, len(proxy.exchanges)) == (0, asked)


def test_one_probe_a_partition_and_one_request_an_append(server: Server) -> None:
    with FaultProxy(server.url) as proxy:
        plan = sink_plan(proxy.through(server.stream()), maxAppendBytes="2k")
        asked = len(proxy.exchanges)
        report = attempt(plan, ROWS)
        seqs = [exchange.request.headers["producer-seq"] for exchange in proxy.exchanges[asked:]]
        assert seqs == [str(2**53 - 1), *map(str, range(report.sent.appended))]


def test_a_closed_stream_is_told_as_such(server: Server) -> None:
    plan = sink_plan(server.stream())
    with DurableClient() as client:
        client.close_stream(plan.options.url)
    with pytest.raises(StreamClosedError, match="write to another stream"):
        attempt(plan, ROWS)


def test_a_bad_row_stops_the_partition_before_anything_is_sent(server: Server) -> None:
    base, _, name = server.stream().rpartition("/")
    plan = sink_plan(base, ROUTED, streamColumn="stream", maxAppendBytes="1k")
    names: list[Any] = [name] * 599 + [None]
    with pytest.raises(BadRowError, match="Row 599 of the partition"):
        attempt(plan, ROWS, stream=names)
    assert not exists(f"{base}/{name}")


def test_reports_pickle(server: Server) -> None:
    report = write(sink_plan(server.stream()), ROWS)
    assert report.held is not None  # the first batch of a run, as far as the task knows
    assert pickle.loads(pickle.dumps(report)) == report
