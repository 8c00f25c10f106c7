"""What the relay knows of an event while it is open, and what comes of an attempt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from spark_durable.publish.contract import Verdict


class Status(Enum):
    """Where an event stands, whatever words its table uses."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    DEAD = "DEAD"


@dataclass(frozen=True, slots=True)
class Assignment:
    """An event's place in the committed plan: the body it travels in, on every attempt.

    ``producer_id``, ``epoch`` and ``seq`` are the body's triple, ``position`` the event's place in
    it. ``address`` is where the plan sends it; a target that changes meanwhile is noticed.
    """

    address: str
    producer_id: str
    epoch: int
    seq: int
    position: int

    @property
    def lane(self) -> Lane:
        return Lane(self.address, self.producer_id)


@dataclass(frozen=True, slots=True)
class Lane:
    """What is sent one body after another: a producer at an address."""

    address: str
    producer_id: str


@dataclass(frozen=True, slots=True)
class OpenEvent:
    """An event that is neither delivered nor dead, without its payload.

    ``cut`` is the most events its next body may hold, after a body was refused. ``ambiguous`` says
    that an attempt under the present assignment may have been applied. ``problem`` is why the event
    can never be sent.
    """

    event_id: str
    address: str
    key: str | None
    size: int
    attempts: int = 0
    available_at: float = 0.0
    assignment: Assignment | None = None
    cut: int | None = None
    ambiguous: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attempt brought for one event. Events that were held back have none."""

    event_id: str
    verdict: Verdict
    code: str
    error: str | None
    duplicate: bool
    ambiguous: bool
    retry_after: float | None
    receipt: str | None
    started_at: float
    finished_at: float


@dataclass(frozen=True, slots=True)
class Settled:
    """An event after its attempt: its new state, and what to write down about the attempt.

    ``recorded`` is False for a pause, which is no attempt.
    """

    event: OpenEvent
    status: Status
    outcome: Outcome
    recorded: bool = True
