"""What a subscription is made of."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Literal

from spark_durable.server.http.routing import bucket_of_key, stream_key

SubscriptionType = Literal["webhook", "pull-wake"]


class SubscriptionError(Exception):
    """A refusal: its status, the code clients branch on, and a text."""

    def __init__(self, status: int, code: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.facts = facts

    def body(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "message": self.message, **self.facts}}


def bucket_of_path(path: str) -> str | None:
    """The bucket of a stream's path or of a pattern; None if it has none, or several."""
    bucket = bucket_of_key(stream_key(path))
    return None if bucket is None or "*" in bucket else bucket


@dataclass(frozen=True, slots=True)
class Definition:
    """What the client asked for. Two requests with equal definitions are the same subscription."""

    type: SubscriptionType
    pattern: str | None
    streams: tuple[str, ...]
    webhook_url: str | None
    wake_stream: str | None
    lease_ttl_ms: int
    description: str | None

    def to_json(self) -> str:
        return json.dumps(
            {
                "type": self.type,
                "pattern": self.pattern,
                "streams": sorted(set(self.streams)),
                "webhook_url": self.webhook_url,
                "wake_stream": self.wake_stream,
                "lease_ttl_ms": self.lease_ttl_ms,
                "description": self.description,
            },
            sort_keys=True,
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str) -> Definition:
        value = json.loads(text)
        return cls(**{**value, "streams": tuple(value["streams"])})

    def buckets(self) -> set[str | None]:
        """Those of all streams it names; None among them where it may reach into any."""
        paths = [*self.streams]
        if self.wake_stream is not None:
            paths.append(self.wake_stream)
        found = {bucket_of_path(path) for path in paths}
        if self.pattern is not None:
            found.add(bucket_of_path(self.pattern))
        return found

    def digest(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()


@dataclass(slots=True)
class Link:
    """One stream of a subscription. Everything before ``acked`` is processed."""

    path: str
    acked: int
    explicit: bool = False
    glob: bool = False


@dataclass(slots=True)
class Wake:
    """One call for work: its tails as they were when it was made, and who works on it."""

    id: str
    generation: int
    tails: dict[str, int]
    holder: str | None = None


@dataclass(slots=True)
class Subscription:
    """A definition, its cursors, and at most one wake in flight.

    Definition, cursors, generation and retry schedule are durable. A wake is not: after a restart
    work that is still pending is called for anew, under the next generation.
    """

    id: str
    definition: Definition
    created_at: str
    links: dict[str, Link] = field(default_factory=dict)
    generation: int = 0
    retries: int = 0
    next_attempt_at: float | None = None
    wake: Wake | None = None
    deleted: bool = False
    lease_timer: asyncio.TimerHandle | None = None
    retry_timer: asyncio.TimerHandle | None = None

    @property
    def status(self) -> str:
        return "failed" if self.next_attempt_at is not None else "active"

    def buckets(self) -> set[str | None]:
        return self.definition.buckets() | {bucket_of_path(path) for path in self.links}

    def stop_timers(self) -> None:
        for timer in (self.lease_timer, self.retry_timer):
            if timer is not None:
                timer.cancel()
        self.lease_timer = self.retry_timer = None
