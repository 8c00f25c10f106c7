"""Sending lanes: one body after another in each, several lanes at once. No Spark in it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby

from spark_durable.protocol.results import ProducerTriple
from spark_durable.publish.contract import Event, Inquiring, Publisher, PublishResult, Verdict
from spark_durable.publish.relay.model import Assignment, Outcome

# A refusal of what an event holds is clear; after any other failure the target itself is asked.
_NO_PING = ("422",)
# A target that refuses so many times in a row, having been waited for each time, is left alone.
_PATIENCE = 5


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """An event with its payload and its place in the plan."""

    event: Event
    assignment: Assignment
    ambiguous: bool = False


@dataclass(slots=True)
class LaneRunner:
    """Sends planned events until a lane fails, its address pauses or the deadline passes.

    A failure ends its lane for this run: what follows is held, so nothing overtakes. A pause holds
    for every lane of its address: where the target has said until when, it is waited for and the
    same body sent again under its triple, else the address is done with for this run. Nothing new
    is begun after ``deadline`` (a ``time.time()``).
    """

    publisher: Publisher
    max_attempts: int
    deadline: float
    concurrency: int = 8

    def run(self, planned: Iterable[PlannedEvent]) -> Iterator[Outcome]:
        """Outcomes of the events that were tried, in no particular order."""
        lanes: dict[object, list[PlannedEvent]] = {}
        doors: dict[str, _Door] = {}
        for item in planned:
            lanes.setdefault(item.assignment.lane, []).append(item)
            doors.setdefault(item.assignment.address, _Door(self.deadline))
        with ThreadPoolExecutor(self.concurrency) as pool:
            for outcomes in pool.map(lambda lane: self._run_lane(lane, doors), lanes.values()):
                yield from outcomes

    def _run_lane(self, lane: list[PlannedEvent], doors: Mapping[str, _Door]) -> list[Outcome]:
        lane.sort(key=lambda item: (item.assignment.seq, item.assignment.position))
        found: list[Outcome] = []
        for _, members in groupby(lane, key=lambda item: item.assignment.seq):
            outcomes = self._deliver(body := list(members), doors[body[0].assignment.address])
            found += outcomes
            if not outcomes or any(item.verdict is not Verdict.DELIVERED for item in outcomes):
                break
        return found

    def _deliver(self, body: Sequence[PlannedEvent], door: _Door) -> list[Outcome]:
        """What came of a body at last; nothing if it could not be begun."""
        outcomes: list[Outcome] = []
        while door.wait():
            outcomes = self._attempt(body)
            refused = next((item for item in outcomes if item.verdict is Verdict.PAUSE), None)
            if refused is None:
                door.passed()
                break
            door.refused(refused.started_at, None if refused.ambiguous else refused.retry_after)
        return outcomes

    def _attempt(self, body: Sequence[PlannedEvent]) -> list[Outcome]:
        events = [_with_triple(item) for item in body]
        started = time.time()
        results = self.publisher.publish_batch(events)
        if results[0].verdict is Verdict.RETRY:
            ambiguous = results[0].ambiguous or any(item.ambiguous for item in body)
            result = self._after_failure(events, replace(results[0], ambiguous=ambiguous))
            results = [result] * len(events)
        finished = time.time()
        return [
            Outcome(
                event_id=event.event_id,
                verdict=result.verdict,
                code=result.code,
                error=result.error,
                duplicate=result.duplicate,
                ambiguous=result.ambiguous,
                retry_after=result.retry_after,
                receipt=result.receipt,
                started_at=started,
                finished_at=finished,
            )
            for event, result in zip(events, results, strict=True)
        ]

    def _after_failure(self, events: Sequence[Event], result: PublishResult) -> PublishResult:
        """A failure while the target is down is a pause; the last attempt must end in an answer."""
        if result.code not in _NO_PING:
            ping = self.publisher.ping()
            if not ping.ok:
                text = f"{result.error} Then the target did not answer: {ping.error}"
                return replace(result, verdict=Verdict.PAUSE, error=text)
        if max(event.attempts for event in events) + 1 < self.max_attempts:
            return result
        return self._give_up(events, result)

    def _give_up(self, events: Sequence[Event], result: PublishResult) -> PublishResult:
        alone = len(events) == 1
        if isinstance(self.publisher, Inquiring):
            answer = self.publisher.inquire(events)
            if answer.verdict is not Verdict.DEAD:
                error = None if answer.ok else f"{result.error} Then: {answer.error}"
                return replace(answer, error=error)
            # It certainly is not there, so another plan for the same events is safe.
            verdict = Verdict.DEAD if alone else Verdict.SPLIT
            return replace(result, verdict=verdict, ambiguous=False)
        if result.ambiguous:
            text = f"{result.error} It may have been delivered: look before you replay it."
            return replace(result, verdict=Verdict.DEAD, error=text)
        return replace(result, verdict=Verdict.DEAD if alone else Verdict.SPLIT)


class _Door:
    """Whether an address takes anything, for all of its lanes."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._lock = threading.Lock()
        self._opens = 0.0
        self._refused = 0.0  # when it was last found shut
        self._times = 0  # in a row

    def wait(self) -> bool:
        """Waits until it opens. False if that is not within this run."""
        while (now := time.time()) < self._opens < self._deadline:
            time.sleep(self._opens - now)
        return now < self._deadline and self._opens < self._deadline

    def passed(self) -> None:
        with self._lock:
            self._times = 0

    def refused(self, begun: float, retry_after: float | None) -> None:
        """``begun`` is when the refused request was: those begun together are refused as one."""
        now = time.time()
        with self._lock:
            if begun >= self._refused:
                self._refused = now
                self._times += 1
            if retry_after is None or self._times > _PATIENCE:
                self._opens = math.inf
            else:
                self._opens = max(self._opens, now + retry_after)


def _with_triple(item: PlannedEvent) -> Event:
    place = item.assignment
    return replace(item.event, triple=ProducerTriple(place.producer_id, place.epoch, place.seq))
