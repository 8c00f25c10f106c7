"""What every publisher promises: an event in, one attempt, a result that says what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from types import TracebackType
from typing import Protocol, runtime_checkable

from spark_durable.protocol.results import ProducerTriple

# Longest text kept as `last_error`: enough for a diagnosis, small enough for a table.
MAX_ERROR_TEXT = 1000

# Codes of events that were never sent: bad in themselves, or in a body with a bad one.
BAD_EVENT = "bad_event"
NOT_TRIED = "not_tried"


@dataclass(frozen=True, slots=True)
class Event:
    """One event of an outbox. ``payload`` travels untouched.

    ``triple`` is set by a relay that has committed its plan: the (id, epoch, seq) under which this
    event travels on every attempt. Events of one body share a triple. Without one, publishers
    derive the identity of an attempt from ``event_id``.
    """

    event_id: str
    event_type: str
    payload: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    partition_key: str | None = None
    ordering_key: str | None = None
    destination: str | None = None
    created_at: datetime | None = None
    attempts: int = 0
    triple: ProducerTriple | None = None


class Verdict(Enum):
    """What an attempt means for the event. The relay's reaction follows from it alone."""

    DELIVERED = "delivered"  # the target acknowledged it, now or before
    RETRY = "retry"  # failed, or unknown: the same attempt may succeed later
    DEAD = "dead"  # the target will never take this event
    SPLIT = "split"  # the target refused the body as a whole; nothing of it was applied
    PAUSE = "pause"  # the target takes nothing at present; says nothing about the event
    STOP = "stop"  # the sender's state contradicts the target's: a human must look


class Scope(Enum):
    """What a failure is about."""

    EVENT = "event"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The outcome of one attempt for one event.

    ``error`` is fit for ``last_error``: it names the target and the reason and holds no
    credentials. ``ambiguous`` means that the target may have applied the event although no
    acknowledgement came: repeat it only under the same identity. ``receipt`` is what the target
    gave as a position, where it gives one.
    """

    verdict: Verdict
    code: str
    error: str | None = None
    duplicate: bool = False
    ambiguous: bool = False
    retry_after: float | None = None
    receipt: str | None = None

    @property
    def ok(self) -> bool:
        return self.verdict is Verdict.DELIVERED

    @property
    def retryable(self) -> bool:
        return self.verdict in (Verdict.RETRY, Verdict.PAUSE, Verdict.SPLIT)

    @property
    def scope(self) -> Scope:
        target = self.verdict in (Verdict.PAUSE, Verdict.STOP)
        return Scope.TARGET if target else Scope.EVENT


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a publisher can do, declared so that a relay and a reader need not guess.

    ``acknowledgement`` says what success means. ``max_batch_events`` of 1 means that events of one
    body could not be told apart at the target.
    """

    acknowledgement: str
    idempotence: str
    headers: bool
    partitioning: bool
    max_batch_events: int
    max_batch_bytes: int
    can_inquire: bool = False


class Publisher(Protocol):
    """Delivers events to one target. Safe to use from many threads at once; pickles unopened.

    ``publish`` makes one attempt and never retries. It reports every answer and every failure of
    the transport as a result; it raises only what no attempt can mend (a wrong option). Order and
    retries belong to the caller.
    """

    @property
    def capabilities(self) -> Capabilities: ...

    def open(self) -> None:
        """Prepares to publish; no request is sent. May be called again after ``close``."""

    def check(self, event: Event) -> str | None:
        """Why this event can never be delivered, or None. Sends nothing."""

    def address(self, event: Event) -> str:
        """Where the event goes, without credentials. Events of one address can share a body."""

    def publish(self, event: Event) -> PublishResult:
        """One attempt for one event."""

    def publish_batch(self, events: Sequence[Event]) -> list[PublishResult]:
        """One attempt for each event, results in the same positions."""

    def ping(self) -> PublishResult:
        """Whether the target answers; writes nothing."""

    def close(self) -> None: ...


@runtime_checkable
class Inquiring(Protocol):
    """A publisher that can ask, without writing, whether a body was applied."""

    def inquire(self, events: Sequence[Event]) -> PublishResult:
        """DELIVERED if the body of these events is at the target; DEAD if it certainly is not.

        Any other verdict means that the target could not tell now.
        """


class OpenPublisher:
    """``with`` over a publisher: opened on entry, closed on exit."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    def __enter__(self) -> Publisher:
        self._publisher.open()
        return self._publisher

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._publisher.close()


def shortened(text: str, limit: int = MAX_ERROR_TEXT) -> str:
    """One line of at most ``limit`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def for_all(result: PublishResult, events: Sequence[Event]) -> list[PublishResult]:
    """The answer to a body, repeated for each event in it."""
    if len(events) == 1 and result.verdict is Verdict.SPLIT:
        result = replace(result, verdict=Verdict.DEAD)
    return [result] * len(events)


def refuse_bad(publisher: Publisher, events: Sequence[Event]) -> list[PublishResult] | None:
    """Results for a body that must not be sent because of what it holds; None if it may."""
    problems = [publisher.check(event) for event in events]
    if not any(problems):
        return None
    innocent = PublishResult(Verdict.SPLIT, NOT_TRIED, "another event of its body is bad")
    return [
        innocent if problem is None else PublishResult(Verdict.DEAD, BAD_EVENT, problem)
        for problem in problems
    ]
