"""From outcomes to states: what is burned, what is kept, what is planned anew."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from spark_durable.publish.contract import NOT_TRIED, Capabilities, Verdict
from spark_durable.publish.relay.model import OpenEvent, Outcome, Status
from spark_durable.publish.relay.plan import Plan, make_plan
from spark_durable.publish.relay.policy import RelayPolicy
from spark_durable.publish.relay.settle import Settlement, settle

TARGET = Capabilities("", "", True, True, max_batch_events=2, max_batch_bytes=1000)
POLICY = RelayPolicy(lanes=1, backoff_s=10.0, max_backoff_s=1000.0, jitter=0.0, pause_s=7.0)


def a_plan(count: int = 6, attempts: int = 0) -> Plan:
    events = [OpenEvent(f"e{n}", "t", "k", 1, attempts=attempts) for n in range(count)]
    return make_plan(events, relay_id="r", run=1, now=0.0, policy=POLICY, capabilities=TARGET)


def outcome(event_id: str, verdict: Verdict, **fields: Any) -> Outcome:
    given = {
        "code": "x",
        "error": "why",
        "duplicate": False,
        "ambiguous": False,
        "retry_after": None,
        "receipt": None,
        "started_at": 1.0,
        "finished_at": 2.0,
    }
    return Outcome(event_id=event_id, verdict=verdict, **{**given, **fields})


def settled(plan: Plan, verdicts: dict[str, Outcome]) -> Settlement:
    return settle(plan, verdicts, now=100.0, policy=POLICY, random=Random(1))


def by_id(found: Settlement) -> dict[str, Any]:
    return {item.event.event_id: item for item in found.settled}


def test_delivered_is_final() -> None:
    found = by_id(settled(a_plan(1), {"e0": outcome("e0", Verdict.DELIVERED)}))
    assert found["e0"].status is Status.DELIVERED
    assert found["e0"].event.attempts == 1


def test_a_failure_keeps_its_triple_burns_an_attempt_and_waits() -> None:
    plan = a_plan(2, attempts=2)
    found = by_id(settled(plan, {e: outcome(e, Verdict.RETRY) for e in ("e0", "e1")}))
    for before in plan.assigned:
        after = found[before.event_id].event
        assert after.assignment == before.assignment
        assert after.attempts == 3
        assert after.available_at == 100.0 + 10.0 * 4  # the third wait: twice doubled


def test_a_pause_keeps_its_triple_burns_nothing_and_is_no_attempt() -> None:
    plan = a_plan(2)
    verdicts = {
        "e0": outcome("e0", Verdict.PAUSE, retry_after=3.0),
        "e1": outcome("e1", Verdict.PAUSE),
    }
    found = by_id(settled(plan, verdicts))
    assert found["e0"].event.available_at == 103.0
    assert found["e1"].event.available_at == 107.0
    for item in found.values():
        assert item.event.attempts == 0
        assert item.event.assignment is not None
        assert not item.recorded


def test_after_a_dead_event_the_rest_of_its_lane_is_planned_anew() -> None:
    plan = a_plan(6)  # bodies e0 e1 | e2 e3 | e4 e5
    verdicts = {e: outcome(e, Verdict.DELIVERED) for e in ("e0", "e1")}
    verdicts |= {e: outcome(e, Verdict.DEAD) for e in ("e2", "e3")}
    found = settled(plan, verdicts)
    assert {e.event_id for e in found.released} == {"e4", "e5"}
    assert all(e.assignment is None for e in found.released)
    assert all(e.attempts == 0 for e in found.released)


def test_what_was_held_back_keeps_its_plan() -> None:
    found = settled(a_plan(6), {e: outcome(e, Verdict.RETRY) for e in ("e0", "e1")})
    assert found.released == ()
    assert set(by_id(found)) == {"e0", "e1"}


def test_a_split_body_travels_in_single_events_next_time() -> None:
    found = by_id(settled(a_plan(2), {e: outcome(e, Verdict.SPLIT) for e in ("e0", "e1")}))
    for item in found.values():
        assert item.event.assignment is None
        assert item.event.cut == 1
        assert item.event.attempts == 0
        assert item.status is Status.PENDING


def test_neighbours_of_a_bad_event_are_not_punished() -> None:
    verdicts = {
        "e0": outcome("e0", Verdict.SPLIT, code=NOT_TRIED),
        "e1": outcome("e1", Verdict.DEAD),
    }
    found = by_id(settled(a_plan(2), verdicts))
    assert found["e0"].event.cut is None
    assert not found["e0"].recorded
    assert found["e1"].status is Status.DEAD


def test_a_gap_stops_the_relay() -> None:
    found = settled(a_plan(1), {"e0": outcome("e0", Verdict.STOP, error="expects seq 0")})
    assert found.stop == "expects seq 0"


@pytest.mark.parametrize(("attempts", "wait"), [(1, 10.0), (2, 20.0), (5, 160.0), (40, 1000.0)])
def test_backoff_doubles_up_to_its_bound(attempts: int, wait: float) -> None:
    assert POLICY.backoff(attempts, Random(1)) == wait


def test_jitter_only_lengthens_a_wait() -> None:
    policy = RelayPolicy(backoff_s=10.0, jitter=0.15)
    waits = [policy.backoff(1, Random(seed)) for seed in range(50)]
    assert min(waits) >= 10.0
    assert max(waits) <= 11.5
    assert len(set(waits)) > 40
