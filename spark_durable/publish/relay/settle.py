"""From outcomes to the events' new states. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from spark_durable.publish.contract import BAD_EVENT, NOT_TRIED, Verdict, shortened
from spark_durable.publish.relay.model import Lane, OpenEvent, Outcome, Settled, Status
from spark_durable.publish.relay.plan import Plan
from spark_durable.publish.relay.policy import RelayPolicy


@dataclass(frozen=True, slots=True)
class Settlement:
    """``settled`` were tried; ``released`` follow a refused body and may be planned anew.

    Events in neither keep their plan: they were held back. ``stop`` is why the relay must not go
    on.
    """

    settled: tuple[Settled, ...]
    released: tuple[OpenEvent, ...]
    stop: str | None


def settle(
    plan: Plan, outcomes: Mapping[str, Outcome], *, now: float, policy: RelayPolicy, random: Random
) -> Settlement:
    settled = [_bad(event, now) for event in plan.bad]
    refused: dict[Lane, int] = {}
    stop: str | None = None
    delays: dict[tuple[Lane, int], float] = {}
    for event in plan.sent:
        outcome = outcomes.get(event.event_id)
        if outcome is None:
            continue
        assert event.assignment is not None
        lane, seq = event.assignment.lane, event.assignment.seq
        if outcome.verdict in (Verdict.DEAD, Verdict.SPLIT):
            # Nothing after a refused seq can have been applied: the rest needs a new epoch.
            refused[lane] = min(seq, refused.get(lane, seq))
        if outcome.verdict is Verdict.STOP:
            stop = outcome.error
        # One delay for a whole body, so that it comes due as it was planned.
        if (lane, seq) not in delays:
            delays[lane, seq] = policy.backoff(event.attempts + 1, random)
        settled.append(_settle_one(event, outcome, now, delays[lane, seq], policy))
    tried = {item.event.event_id for item in settled}
    released = [
        replace(event, assignment=None, ambiguous=False)
        for event in plan.sent
        if event.event_id not in tried and _after_refusal(event, refused)
    ]
    return Settlement(tuple(settled), tuple(released), stop)


def _after_refusal(event: OpenEvent, refused: Mapping[Lane, int]) -> bool:
    assert event.assignment is not None
    seq = refused.get(event.assignment.lane)
    return seq is not None and event.assignment.seq > seq


def _settle_one(
    event: OpenEvent, outcome: Outcome, now: float, delay: float, policy: RelayPolicy
) -> Settled:
    match outcome.verdict:
        case Verdict.DELIVERED:
            done = replace(event, attempts=event.attempts + 1)
            return Settled(done, Status.DELIVERED, outcome)
        case Verdict.DEAD:
            dead = replace(event, attempts=event.attempts + 1, assignment=None)
            return Settled(dead, Status.DEAD, outcome)
        case Verdict.SPLIT:
            cut = event.cut if outcome.code == NOT_TRIED else 1
            again = replace(event, assignment=None, cut=cut, ambiguous=False)
            return Settled(again, Status.PENDING, outcome, recorded=outcome.code != NOT_TRIED)
        case Verdict.RETRY:
            waiting = replace(
                event,
                attempts=event.attempts + 1,
                available_at=now + delay,
                ambiguous=event.ambiguous or outcome.ambiguous,
            )
            return Settled(waiting, Status.PENDING, outcome)
        case _:
            pause = policy.pause_s if outcome.retry_after is None else outcome.retry_after
            paused = replace(
                event,
                available_at=now + pause,
                ambiguous=event.ambiguous or outcome.ambiguous,
            )
            return Settled(paused, Status.PENDING, outcome, recorded=False)


def _bad(event: OpenEvent, now: float) -> Settled:
    outcome = Outcome(
        event_id=event.event_id,
        verdict=Verdict.DEAD,
        code=BAD_EVENT,
        error=shortened(event.problem or "bad event"),
        duplicate=False,
        ambiguous=False,
        retry_after=None,
        receipt=None,
        started_at=now,
        finished_at=now,
    )
    return Settled(event, Status.DEAD, outcome)


def outcomes_by_id(outcomes: Sequence[Outcome]) -> dict[str, Outcome]:
    return {outcome.event_id: outcome for outcome in outcomes}
