"""Sending a plan to a target that asks for patience, against a real server. No Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from spark_durable.publish import DurableStreamsPublisher, Event, Verdict
from spark_durable.publish.relay.lanes import LaneRunner, PlannedEvent
from spark_durable.publish.relay.model import Assignment
from tests.conftest import Server
from tests.faults import PASS, Fault, FaultProxy, Kind, Request
from tests.publish.conftest import read_messages

LANES, BODIES = 4, 5


@pytest.fixture
def proxy(embedded: Server) -> Iterator[FaultProxy]:
    with FaultProxy(embedded.url) as running:
        yield running


def send(proxy: FaultProxy, url: str, seconds: float = 20) -> list[Verdict]:
    address = proxy.through(url)
    planned = [
        PlannedEvent(
            Event(event_id=f"{lane}-{seq}", event_type="t", payload=f"[{lane},{seq}]".encode()),
            Assignment(address, f"lane-{lane}", 0, seq, 0),
        )
        for lane in range(LANES)
        for seq in range(BODIES)
    ]
    publisher = DurableStreamsPublisher(address)
    runner = LaneRunner(publisher, max_attempts=3, deadline=time.time() + seconds)
    verdicts = [outcome.verdict for outcome in runner.run(planned)]
    publisher.close()
    return verdicts


class Refusing:
    """Refuses the appends of these numbers, counted from 1."""

    def __init__(self, when: set[int], retry_after: str | None) -> None:
        self._when = when
        self._answer = Fault(Kind.REFUSE, status=429, retry_after=retry_after)
        self.posts = 0

    def __call__(self, request: Request) -> Fault:
        if request.method != "POST" or not request.is_append:
            return PASS
        self.posts += 1
        return self._answer if self.posts in self._when else PASS


def test_a_pause_whose_end_is_told_is_waited_for(proxy: FaultProxy, embedded: Server) -> None:
    url = embedded.stream("patience")
    proxy.script = Refusing({2, 9, 10, 17}, retry_after="0")
    assert send(proxy, url) == [Verdict.DELIVERED] * LANES * BODIES
    assert proxy.seen(Kind.REFUSE) == 4
    messages = read_messages(url)
    assert len(messages) == len(set(messages)) == LANES * BODIES
    for lane in range(LANES):
        seqs = [seq for n, seq in map(json.loads, messages) if n == lane]
        assert seqs == list(range(BODIES))


def test_a_pause_without_an_end_is_none_that_a_run_waits_for(
    proxy: FaultProxy, embedded: Server
) -> None:
    proxy.script = Refusing(set(range(2, 1000)), retry_after=None)
    verdicts = send(proxy, embedded.stream("outage"))
    assert verdicts.count(Verdict.DELIVERED) == 1
    assert set(verdicts) == {Verdict.DELIVERED, Verdict.PAUSE}
    assert proxy.script.posts <= 1 + LANES


def test_a_pause_beyond_the_deadline_ends_the_address(proxy: FaultProxy, embedded: Server) -> None:
    proxy.script = Refusing({1}, retry_after="60")
    started = time.time()
    assert Verdict.PAUSE in send(proxy, embedded.stream("late"), seconds=5)
    assert time.time() - started < 5


def test_a_target_that_only_ever_asks_for_patience_is_left_alone(
    proxy: FaultProxy, embedded: Server
) -> None:
    proxy.script = Refusing(set(range(1, 1000)), retry_after="0")
    verdicts = send(proxy, embedded.stream("never"))
    assert verdicts == [Verdict.PAUSE] * LANES
    assert proxy.script.posts <= 10 * LANES
