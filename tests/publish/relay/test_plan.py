"""What a run may send: triples that stick, lanes and keys that wait, bodies within their limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_durable.protocol.errors import RelayError
from spark_durable.publish.contract import Capabilities
from spark_durable.publish.relay.model import OpenEvent
from spark_durable.publish.relay.plan import Plan, make_plan
from spark_durable.publish.relay.policy import RelayPolicy

TARGET = Capabilities("", "", True, True, max_batch_events=4, max_batch_bytes=1000)
POLICY = RelayPolicy(lanes=3, max_events=1000)


def event(number: int, key: str | None = "k", **fields: object) -> OpenEvent:
    return replace(OpenEvent(f"e{number:03}", "http://t/s", key, 10), **fields)  # type: ignore[arg-type]


def plan(
    events: list[OpenEvent], run: int = 1, now: float = 0.0, policy: RelayPolicy = POLICY
) -> Plan:
    return make_plan(events, relay_id="r", run=run, now=now, policy=policy, capabilities=TARGET)


def places(found: Plan) -> list[tuple[str, int, int, int]]:
    return [
        (e.event_id, e.assignment.epoch, e.assignment.seq, e.assignment.position)
        for e in found.assigned
        if e.assignment
    ]


def test_bodies_are_cut_in_order_and_numbered_from_zero() -> None:
    found = plan([event(n) for n in range(6)], run=7)
    assert places(found) == [
        ("e000", 7, 0, 0),
        ("e001", 7, 0, 1),
        ("e002", 7, 0, 2),
        ("e003", 7, 0, 3),
        ("e004", 7, 1, 0),
        ("e005", 7, 1, 1),
    ]


def test_a_body_holds_at_most_the_targets_bytes_but_one_event_always() -> None:
    sizes = [600, 600, 300, 5000, 10]
    found = plan([event(n, size=size) for n, size in enumerate(sizes)])
    assert [seq for _, _, seq, _ in places(found)] == [0, 1, 1, 2, 3]


def test_an_event_of_a_refused_body_travels_alone() -> None:
    found = plan([event(0), event(1, cut=1), event(2, cut=1), event(3)])
    assert [seq for _, _, seq, _ in places(found)] == [0, 1, 2, 3]


def test_an_assignment_sticks_and_its_lane_gets_nothing_new() -> None:
    first = plan([event(0), event(1)], run=1)
    again = plan([*first.assigned, event(2)], run=2)
    assert again.assigned == ()
    assert [e.assignment for e in again.resent] == [e.assignment for e in first.assigned]
    assert again.held == 1


def test_a_lane_waits_for_its_oldest_body() -> None:
    first = plan([event(n) for n in range(6)])
    waiting = [
        replace(e, available_at=50.0) if e.assignment and e.assignment.seq == 0 else e
        for e in first.assigned
    ]
    assert plan(waiting, run=2, now=49.0).resent == ()
    assert len(plan(waiting, run=2, now=50.0).resent) == 6


def test_a_key_with_open_events_waits_even_in_another_lane() -> None:
    """The number of lanes may change between two runs."""
    first = plan([event(0)], policy=replace(POLICY, lanes=3))
    again = plan([*first.assigned, event(1)], run=2, policy=replace(POLICY, lanes=0))
    assert again.assigned == ()


def test_other_lanes_go_on() -> None:
    policy = replace(POLICY, lanes=0)
    first = plan([event(0, "a")], policy=policy)
    again = plan([*first.assigned, event(1, "b")], run=2, policy=policy)
    assert [e.event_id for e in again.assigned] == ["e001"]


def test_one_lane_a_key_and_a_name_any_header_can_carry() -> None:
    found = plan([event(0, "Grüße/\n"), event(1, "x" * 1000)], policy=replace(POLICY, lanes=0))
    for e in found.assigned:
        assert e.assignment is not None
        assert e.assignment.producer_id.isascii()
        assert e.assignment.producer_id.isprintable()
        assert len(e.assignment.producer_id) < 256


def test_an_event_dated_into_the_future_holds_back_nobody() -> None:
    found = plan([event(0, available_at=99.0), event(1)])
    assert [e.event_id for e in found.assigned] == ["e001"]


def test_bad_events_are_not_sent_and_hold_back_nobody() -> None:
    found = plan([event(0, problem="payload is null"), event(1)])
    assert [e.event_id for e in found.bad] == ["e000"]
    assert [e.event_id for e in found.assigned] == ["e001"]


def test_a_changed_target_is_noticed_while_a_plan_is_open() -> None:
    first = plan([event(0)])
    moved = [replace(e, address="http://t/other") for e in first.assigned]
    with pytest.raises(RelayError, match="--replan"):
        plan(moved, run=2)


@given(
    st.lists(
        st.tuples(st.sampled_from([None, "a", "b", "c", "d"]), st.integers(1, 900)), max_size=60
    ),
    st.integers(1, 30),
    st.integers(0, 4),
)
def test_whatever_fits_keeps_the_order_of_every_key(
    drawn: list[tuple[str | None, int]], limit: int, lanes: int
) -> None:
    policy = replace(POLICY, lanes=lanes, max_events=limit, max_bytes=3000)
    events = [event(n, key, size=size) for n, (key, size) in enumerate(drawn)]
    found = plan(events, policy=policy)
    assert len(found.assigned) <= limit
    chosen = {e.event_id for e in found.assigned}
    for key in ("a", "b", "c", "d"):
        of_key = [e.event_id for e in events if e.key == key]
        taken = [e in chosen for e in of_key]
        assert taken == sorted(taken, reverse=True), "a later event was chosen before an earlier"
        placed = [e.event_id for e in found.assigned if e.key == key]
        assert placed == sorted(placed)
