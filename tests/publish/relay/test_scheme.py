"""The producer scheme end to end without Spark: plan, lanes and settlement against a real server.

State is kept as the stores keep it: a plan is committed before sending, results after. The process
"dies" at random points by throwing away everything that was not committed.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import replace

import pytest

from spark_durable.publish import DurableStreamsPublisher, Event, OpenPublisher
from spark_durable.publish.relay.lanes import LaneRunner, PlannedEvent
from spark_durable.publish.relay.model import OpenEvent, Status
from spark_durable.publish.relay.plan import Plan, make_plan
from spark_durable.publish.relay.policy import RelayPolicy
from spark_durable.publish.relay.settle import outcomes_by_id, settle
from tests.conftest import Server
from tests.faults import PASS, Fault, FaultProxy, Kind, Request
from tests.publish.conftest import read_messages

POLICY = RelayPolicy(
    lanes=7,
    batch_events=9,
    max_events=150,
    max_attempts=4,
    backoff_s=0.001,
    max_backoff_s=0.002,
    pause_s=0.001,
)


class Killed(Exception):
    pass


class Committed:
    """What survives a kill."""

    def __init__(self, events: list[OpenEvent]) -> None:
        self.open = {event.event_id: event for event in events}
        self.final: dict[str, tuple[Status, str | None]] = {}
        self.run = 0


class Faults:
    """Refuses and loses at random; a body with a poisoned event is always refused."""

    def __init__(self, rng: random.Random, share: float) -> None:
        self._rng = rng
        self._share = share
        self.outage = False

    def __call__(self, request: Request) -> Fault:
        if self.outage:
            return Fault(Kind.REFUSE, status=503)
        if request.method != "POST" or not request.is_append:
            return PASS
        if b"poison" in request.body:
            return Fault(Kind.REFUSE, status=400)
        if self._rng.random() >= self._share:
            return PASS
        return self._rng.choice(
            [
                Fault(Kind.REFUSE, status=429, retry_after="0"),
                Fault(Kind.REFUSE, status=503),
                Fault(Kind.REFUSE, status=500),
                Fault(Kind.LOSE_ANSWER),
                Fault(Kind.LOSE_REQUEST),
            ]
        )


def one_run(
    state: Committed,
    payloads: dict[str, Event],
    publisher: DurableStreamsPublisher,
    rng: random.Random,
    kill_share: float,
) -> None:
    run = state.run + 1
    plan = make_plan(
        list(state.open.values()),
        relay_id="sim",
        run=run,
        now=1e12,  # every wait is over: time is not what this is about
        policy=POLICY,
        capabilities=publisher.capabilities,
    )
    if rng.random() < kill_share:
        raise Killed
    if plan.assigned:
        state.run = run
        state.open |= {event.event_id: event for event in plan.assigned}
    sent = _some(plan, rng) if rng.random() < kill_share else plan.sent
    runner = LaneRunner(publisher, POLICY.max_attempts, deadline=1e12, concurrency=4)
    planned = [
        PlannedEvent(
            replace(payloads[event.event_id], attempts=event.attempts),
            event.assignment,  # type: ignore[arg-type]
            event.ambiguous,
        )
        for event in sent
    ]
    outcomes = outcomes_by_id(list(runner.run(planned)))
    if sent is not plan.sent:
        raise Killed  # sent, but nothing written down
    settlement = settle(plan, outcomes, now=0.0, policy=POLICY, random=rng)
    assert settlement.stop is None, settlement.stop
    for item in settlement.settled:
        if item.status is Status.PENDING:
            state.open[item.event.event_id] = item.event
        else:
            del state.open[item.event.event_id]
            state.final[item.event.event_id] = (item.status, item.outcome.error)
    state.open |= {event.event_id: event for event in settlement.released}


def _some(plan: Plan, rng: random.Random) -> list[OpenEvent]:
    """The beginnings of some lanes: as far as a relay gets before it is killed."""
    lanes: dict[object, list[OpenEvent]] = defaultdict(list)
    for event in plan.sent:
        assert event.assignment is not None
        lanes[event.assignment.lane].append(event)
    found = []
    for members in lanes.values():
        last = rng.randint(0, max(e.assignment.seq for e in members if e.assignment))
        found += [e for e in members if e.assignment and e.assignment.seq <= last]
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("lanes", [7, 0])
def test_no_double_no_loss_no_order_break_under_faults_and_kills(
    embedded: Server, seed: int, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.POLICY", replace(POLICY, lanes=lanes))
    rng = random.Random(seed)
    url = embedded.stream("sim")
    keys = [f"key {n}" for n in range(12)]
    payloads: dict[str, Event] = {}
    opened: list[OpenEvent] = []
    poisoned = set()
    for number in range(600):
        event_id = f"e{number}"
        key = rng.choice([*keys, None])
        text = {"n": number, "k": key}
        if rng.random() < 0.02:
            text["x"] = "poison"
            poisoned.add(event_id)
        payload = json.dumps(text).encode()
        payloads[event_id] = Event(event_id, "t", payload, ordering_key=key)
        opened.append(OpenEvent(event_id, "", key, len(payload)))
    state = Committed(opened)
    kills = 0
    with FaultProxy(embedded.url) as proxy:
        proxy.script = Faults(random.Random(seed + 100), 0.3)
        publisher = DurableStreamsPublisher(proxy.through(url))
        for event in state.open.values():
            state.open[event.event_id] = replace(
                event, address=publisher.address(payloads[event.event_id])
            )
        with OpenPublisher(publisher):
            for _ in range(1000):
                if not state.open:
                    break
                try:
                    one_run(state, payloads, publisher, rng, kill_share=0.2)
                except Killed:
                    kills += 1
        lost = proxy.seen(Kind.LOSE_ANSWER)
    assert not state.open
    assert kills > 3
    assert lost > 1
    arrived = [json.loads(message) for message in read_messages(url)]
    numbers = [message["n"] for message in arrived]
    dead = {event_id for event_id, (status, _) in state.final.items() if status is Status.DEAD}
    assert len(numbers) == len(set(numbers)), "an event arrived twice"
    assert {f"e{n}" for n in numbers} | dead == set(payloads), "an event was lost"
    assert not {f"e{n}" for n in numbers} & dead, "a dead event arrived"
    assert poisoned <= dead
    for key in keys:
        of_key = [message["n"] for message in arrived if message["k"] == key]
        assert of_key == sorted(of_key), f"order of {key}"


def test_an_outage_burns_no_attempt(embedded: Server) -> None:
    url = embedded.stream("sim")
    rng = random.Random(5)
    payloads = {f"e{n}": Event(f"e{n}", "t", b"%d" % n) for n in range(20)}
    with FaultProxy(embedded.url) as proxy:
        proxy.script = faults = Faults(rng, 0.0)
        publisher = DurableStreamsPublisher(proxy.through(url), create_if_missing=False)
        with OpenPublisher(DurableStreamsPublisher(url)) as direct:
            assert direct.publish(Event("first", "t", b'"first"')).ok
        state = Committed(
            [OpenEvent(e.event_id, publisher.address(e), None, 2) for e in payloads.values()]
        )
        faults.outage = True
        with OpenPublisher(publisher):
            for _ in range(POLICY.max_attempts * 3):
                one_run(state, payloads, publisher, rng, kill_share=0.0)
            assert {event.attempts for event in state.open.values()} == {0}
            faults.outage = False
            one_run(state, payloads, publisher, rng, kill_share=0.0)
    assert not state.open
    assert len(read_messages(url)) == 21


def test_attempts_exhausted_after_a_lost_answer_end_as_delivered(embedded: Server) -> None:
    """The last attempt was applied, though nobody said so: the probe finds it."""
    url = embedded.stream("sim")
    rng = random.Random(6)
    payloads = {"e": Event("e", "t", b"1")}
    with FaultProxy(embedded.url) as proxy:
        proxy.script = lambda request: Fault(Kind.LOSE_ANSWER) if request.is_append else PASS
        publisher = DurableStreamsPublisher(proxy.through(url))
        state = Committed([OpenEvent("e", publisher.address(payloads["e"]), None, 1)])
        with OpenPublisher(publisher):
            for _ in range(POLICY.max_attempts):
                one_run(state, payloads, publisher, rng, kill_share=0.0)
    assert state.final["e"][0] is Status.DELIVERED
    assert len(read_messages(url)) == 1


def test_attempts_exhausted_by_refusals_end_dead_alone_after_a_split(embedded: Server) -> None:
    """An event that makes the target fail dies; those that shared its body arrive."""
    url = embedded.stream("sim")
    rng = random.Random(7)
    payloads = {f"e{n}": Event(f"e{n}", "t", b'{"n":%d}' % n, ordering_key="k") for n in range(6)}
    with FaultProxy(embedded.url) as proxy:
        proxy.script = lambda request: (
            Fault(Kind.REFUSE, status=500)
            if request.is_append and b'"n":3' in request.body
            else PASS
        )
        publisher = DurableStreamsPublisher(proxy.through(url))
        state = Committed(
            [OpenEvent(e.event_id, publisher.address(e), "k", 8) for e in payloads.values()]
        )
        with OpenPublisher(publisher):
            for _ in range(20):
                if state.open:
                    one_run(state, payloads, publisher, rng, kill_share=0.0)
    assert not state.open
    assert {e for e, (status, _) in state.final.items() if status is Status.DEAD} == {"e3"}
    assert "500" in (state.final["e3"][1] or "")
    assert [json.loads(m)["n"] for m in read_messages(url)] == [0, 1, 2, 4, 5]
