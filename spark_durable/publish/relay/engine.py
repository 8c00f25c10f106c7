"""A relay run, and runs in a row: bounded, until nothing is due, or for ever."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from random import Random
from typing import Any, Protocol

from spark_durable.protocol.errors import RelayStopped
from spark_durable.publish.contract import Publisher, Verdict
from spark_durable.publish.relay.model import Status
from spark_durable.publish.relay.plan import Plan, make_plan
from spark_durable.publish.relay.policy import RelayPolicy
from spark_durable.publish.relay.settle import Settlement, outcomes_by_id, settle
from spark_durable.publish.relay.spark_publish import publish_planned
from spark_durable.publish.relay.store import Batch, OutboxStore


@dataclass(frozen=True, slots=True)
class RunReport:
    """The figures of one run. ``open`` counts what was not final when the run ended.

    ``next_due`` is when the earliest event that waits for another attempt may be tried again; an
    event that its producer dated into the future does not count.
    """

    run: int
    taken_in: int
    delivered: int
    duplicates: int
    failed: int
    dead: int
    paused: int
    held: int
    open: int
    seconds: float
    next_due: float | None = None
    pause_reason: str | None = None

    @property
    def events_per_second(self) -> float:
        return self.delivered / self.seconds if self.seconds else 0.0

    @property
    def idle(self) -> bool:
        """Nothing moved: no event came in, was tried or given up."""
        return not (self.taken_in or self.delivered or self.failed or self.dead)

    def document(self) -> dict[str, Any]:
        figures = asdict(self)
        figures["seconds"] = round(self.seconds, 3)
        figures["events_per_second"] = round(self.events_per_second, 1)
        if self.next_due is not None:
            figures["next_due"] = round(self.next_due, 3)
        return figures


class Stopping(Protocol):
    """Someone who may ask the relay to end after the run in hand."""

    @property
    def requested(self) -> bool: ...

    def wait(self, seconds: float) -> bool: ...


class Never:
    """Nobody asks; waits are waited out."""

    requested = False

    def wait(self, seconds: float) -> bool:
        time.sleep(seconds)
        return False


NEVER = Never()


class Relay:
    """Brings open events to their target through one store and one publisher.

    A plan is committed before anything is sent under it, results after. Killed at any point, the
    next run repeats what was not written down, under the same triples.
    """

    def __init__(
        self,
        store: OutboxStore,
        publisher: Publisher,
        policy: RelayPolicy,
        *,
        relay_id: str,
        concurrency: int = 8,
        random: Random | None = None,
        on_run: Callable[[RunReport], None] = lambda report: None,
    ) -> None:
        self._store = store
        self._publisher = publisher
        self._policy = policy
        self._relay_id = relay_id
        self._concurrency = concurrency
        self._random = random or Random()  # noqa: S311 - jitter, not a secret
        self._on_run = on_run

    def run_once(self) -> RunReport:
        """One bounded run: at most ``max_events`` events, at most ``run_deadline_s`` of sending."""
        started = time.time()
        batch = self._store.begin()
        try:
            report = self._run(batch, started)
        except BaseException:
            self._store.release(batch)
            raise
        self._on_run(report)
        return report

    def _run(self, batch: Batch, started: float) -> RunReport:
        plan = make_plan(
            batch.events,
            relay_id=self._relay_id,
            run=batch.run,
            now=started,
            policy=self._policy,
            capabilities=self._publisher.capabilities,
        )
        settlement = self._send(batch, plan)
        if settlement.settled or settlement.released:
            self._store.commit_results(batch, settlement.settled, settlement.released)
        else:
            self._store.release(batch)
        if settlement.stop is not None:
            raise RelayStopped(
                "the target is missing earlier appends of this relay's plan, or has forgotten the "
                f"producer: {settlement.stop} Look at the stream; --replan plans the open events "
                "anew and may deliver some of them twice."
            )
        return _report(batch, plan, settlement, time.time() - started)

    def _send(self, batch: Batch, plan: Plan) -> Settlement:
        if plan.assigned:
            self._store.commit_plan(batch, plan.assigned)
        outcomes = []
        if plan.sent:
            planned = self._store.planned(batch, plan.sent)
            outcomes = publish_planned(
                planned, self._publisher, self._policy, concurrency=self._concurrency
            )
        return settle(
            plan,
            outcomes_by_id(outcomes),
            now=time.time(),
            policy=self._policy,
            random=self._random,
        )

    def run_until_idle(
        self, stop: Stopping = NEVER, max_seconds: float | None = None
    ) -> list[RunReport]:
        """Runs until no event is open that time alone could move, or until ``max_seconds``.

        Waits for retries that come due; a paused target is tried again after its pause.
        """
        deadline = None if max_seconds is None else time.time() + max_seconds
        reports: list[RunReport] = []
        while not stop.requested:
            report = self.run_once()
            reports.append(report)
            if report.idle and report.next_due is None:
                break
            wait = 0.0 if report.next_due is None else max(0.0, report.next_due - time.time())
            if report.delivered or report.dead or report.taken_in:
                wait = 0.0
            if deadline is not None and time.time() + wait >= deadline:
                break
            stop.wait(wait)
        return reports

    def run_continuously(self, stop: Stopping, interval_s: float) -> None:
        """Runs for ever; between runs that moved nothing it waits up to ``interval_s``."""
        while not stop.requested:
            report = self.run_once()
            if report.idle:
                wait = interval_s
                if report.next_due is not None:
                    wait = min(wait, max(0.05, report.next_due - time.time()))
                stop.wait(wait)


def _report(batch: Batch, plan: Plan, settlement: Settlement, seconds: float) -> RunReport:
    statuses = Counter(item.status for item in settlement.settled)
    verdicts = Counter(item.outcome.verdict for item in settlement.settled)
    after = {event.event_id: event for event in batch.events}
    after |= {event.event_id: event for event in plan.assigned}
    after |= {event.event_id: event for event in settlement.released}
    for item in settlement.settled:
        if item.status is Status.PENDING:
            after[item.event.event_id] = item.event
        else:
            after.pop(item.event.event_id, None)
    due = [event.available_at for event in after.values() if event.assignment]
    due += [] if batch.next_due is None else [batch.next_due]
    pauses = [i.outcome for i in settlement.settled if i.outcome.verdict is Verdict.PAUSE]
    return RunReport(
        run=batch.run,
        taken_in=batch.taken_in,
        delivered=statuses[Status.DELIVERED],
        duplicates=sum(item.outcome.duplicate for item in settlement.settled),
        failed=verdicts[Verdict.RETRY] + verdicts[Verdict.SPLIT],
        dead=statuses[Status.DEAD],
        paused=len(pauses),
        held=plan.held,
        open=len(after),
        seconds=seconds,
        next_due=min(due, default=None),
        pause_reason=pauses[0].error if pauses else None,
    )
