"""Deciding what a run sends, and under which triples. Pure.

An event gets its triple once. The triple stays until the target has answered 200 or 204 or has
finally refused; only then may what is left of the lane be planned again, under a new epoch. A lane
or a key with open assignments gets nothing new: a newer epoch would fence the older one, and a
later event would overtake.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from spark_durable.protocol.errors import RelayError
from spark_durable.publish.contract import Capabilities
from spark_durable.publish.relay.model import Assignment, Lane, OpenEvent
from spark_durable.publish.relay.policy import RelayPolicy, lane_number

_MAX_LANE_NAME = 180


@dataclass(frozen=True, slots=True)
class Plan:
    """``assigned`` is new and must be committed before sending; ``resent`` was planned before.

    ``bad`` can never be sent; ``held`` counts the due events that wait for others.
    """

    assigned: tuple[OpenEvent, ...]
    resent: tuple[OpenEvent, ...]
    bad: tuple[OpenEvent, ...]
    held: int

    @property
    def sent(self) -> tuple[OpenEvent, ...]:
        return self.resent + self.assigned


def make_plan(
    events: Sequence[OpenEvent],
    *,
    relay_id: str,
    run: int,
    now: float,
    policy: RelayPolicy,
    capabilities: Capabilities,
) -> Plan:
    """``events`` are all open events in their order; ``run`` is above every earlier epoch."""
    bad = tuple(event for event in events if event.problem and event.assignment is None)
    open_assigned = [event for event in events if event.assignment is not None]
    _check_addresses(open_assigned)
    resent = _due_lanes(open_assigned, now)
    busy_lanes = {event.assignment.lane for event in open_assigned if event.assignment}
    busy_keys = {event.key for event in open_assigned if event.key is not None}

    room_events = policy.max_events - len(resent)
    room_bytes = policy.max_bytes - sum(event.size for event in resent)
    chosen: dict[Lane, list[OpenEvent]] = {}
    held = len(open_assigned) - len(resent)
    for event in events:
        if event.assignment is not None or event.problem or event.available_at > now:
            continue
        lane = lane_of(event, relay_id, policy.lanes)
        if lane in busy_lanes or event.key in busy_keys:
            held += 1
            continue
        if room_events < 1 or (room_bytes < event.size and chosen):
            # Order within a key: what follows must not slip past what did not fit.
            busy_lanes.add(lane)
            held += 1
            continue
        room_events -= 1
        room_bytes -= event.size
        chosen.setdefault(lane, []).append(event)
    assigned = [
        placed
        for lane, members in chosen.items()
        for placed in _cut(lane, run, members, policy, capabilities)
    ]
    return Plan(tuple(assigned), tuple(resent), bad, held)


def lane_of(event: OpenEvent, relay_id: str, lanes: int) -> Lane:
    if lanes == 0 and event.key is not None:
        name = quote(event.key, safe="")
        if len(name) > _MAX_LANE_NAME:
            name = hashlib.sha256(event.key.encode("utf-8", "surrogatepass")).hexdigest()
    else:
        name = f"~{lane_number(event.key, event.event_id, lanes or 64)}"
    return Lane(event.address, f"{relay_id}/{name}")


def _check_addresses(assigned: Iterable[OpenEvent]) -> None:
    for event in assigned:
        if event.assignment is not None and event.assignment.address != event.address:
            raise RelayError(
                f"event {event.event_id} is planned for {event.assignment.address}, but the target "
                f"is now {event.address}. Whether it has arrived there is open: run once more with "
                "the old target, or give up that plan with --replan (what had arrived at the old "
                "target is then sent to the new one as well)."
            )


def _due_lanes(assigned: Sequence[OpenEvent], now: float) -> list[OpenEvent]:
    """The lanes whose oldest open body may be tried again, whole, in their order."""
    waiting: dict[Lane, float] = {}
    for event in assigned:
        assert event.assignment is not None
        lane = event.assignment.lane
        waiting[lane] = max(waiting.get(lane, 0.0), event.available_at)
    due = [e for e in assigned if e.assignment and waiting[e.assignment.lane] <= now]
    return sorted(due, key=_place)


def _place(event: OpenEvent) -> tuple[str, str, int, int, int]:
    place = event.assignment
    assert place is not None
    return (place.address, place.producer_id, place.epoch, place.seq, place.position)


def _cut(
    lane: Lane,
    run: int,
    members: Sequence[OpenEvent],
    policy: RelayPolicy,
    capabilities: Capabilities,
) -> list[OpenEvent]:
    """Bodies of neighbours within the limits, numbered from 0 in a new epoch."""
    most = min(policy.batch_events, capabilities.max_batch_events)
    placed: list[OpenEvent] = []
    seq, position, size, limit = 0, 0, 0, most
    for event in members:
        own = min(most, event.cut or most)
        full = position >= min(limit, own) or size + event.size > capabilities.max_batch_bytes
        if position and full:
            seq, position, size, limit = seq + 1, 0, 0, most
        limit = min(limit, own)
        place = Assignment(lane.address, lane.producer_id, run, seq, position)
        placed.append(replace(event, assignment=place, ambiguous=False))
        position += 1
        size += event.size
    return placed
