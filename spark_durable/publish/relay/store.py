"""What the engine needs of a place where outbox events and their state are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from spark_durable.publish.contract import Event, Publisher
from spark_durable.publish.relay.model import Assignment, OpenEvent, Settled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Batch:
    """The open events a run may work on, in their order.

    ``run`` is above the number of every run before it that has committed a plan: it is the epoch of
    new assignments. ``token`` proves that the events are still ours when results are written.
    ``next_due`` is when a planned event outside this batch may be tried again.
    """

    run: int
    events: tuple[OpenEvent, ...]
    taken_in: int = 0
    token: str = ""
    next_due: float | None = None


class OutboxStore(Protocol):
    """Keeps events and state. Every commit is atomic; after a crash, ``begin`` finds them all."""

    def begin(self) -> Batch:
        """Takes in new events and claims what this run may work on."""

    def commit_plan(self, batch: Batch, assigned: Sequence[OpenEvent]) -> None:
        """After this returns, the assignments survive any crash. Sending may begin."""

    def planned(self, batch: Batch, events: Sequence[OpenEvent]) -> DataFrame:
        """The committed plan of ``events`` with their payloads, ready to publish."""

    def commit_results(
        self, batch: Batch, settled: Sequence[Settled], released: Sequence[OpenEvent]
    ) -> None:
        """Writes down what came of the run, and lets go of what it had claimed."""

    def release(self, batch: Batch) -> None:
        """Lets go of a batch without results. Its plan stays."""


def open_event(
    row: Mapping[str, Any], publisher: Publisher, problem: str | None, *, replan: bool
) -> OpenEvent:
    """A row of any store as the engine sees it: no payload, the committed plan unless ``replan``.

    ``problem`` is what the store finds wrong with the row; without one the event gets an address.
    """
    event = Event(
        row["event_id"],
        row["event_type"] or "",
        b"",
        partition_key=row["partition_key"],
        ordering_key=row["ordering_key"],
        destination=row["destination"],
    )
    address = ""
    if problem is None:
        problem, address = _addressed(publisher, event)
    place = None
    if row["producer_id"] is not None and not replan:
        place = Assignment(
            row["address"], row["producer_id"], row["epoch"], row["seq"], row["position"]
        )
    return OpenEvent(
        event_id=row["event_id"],
        address=address,
        key=row["ordering_key"],
        size=row["size"] or 0,
        attempts=row["attempts"],
        available_at=row["available_at"],
        assignment=place,
        cut=row["cut"],
        ambiguous=row["ambiguous"],
        problem=problem,
    )


def _addressed(publisher: Publisher, event: Event) -> tuple[str | None, str]:
    """Why the event has no address, or the address; its payload is not looked at here."""
    try:
        address = publisher.address(event)
    except (TypeError, ValueError) as error:
        return f"the event has no address: {error}", ""
    return None, address
