"""How much a run takes on, how long a failure waits and when an event is given up. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from random import Random

from spark_durable.protocol.errors import OptionError


@dataclass(frozen=True, slots=True)
class RelayPolicy:
    """Limits of one relay.

    ``lanes`` is how many producers share an address; keys are hashed onto them. A lane waits for
    its oldest open body, so a failing event holds back the keys of its lane until it is delivered
    or dead. Zero gives each ordering key a lane of its own: a failing event then holds back its own
    key only, at the cost of a producer per key at the server.
    """

    lanes: int = 64
    max_events: int = 20_000
    max_bytes: int = 256 << 20
    batch_events: int = 500
    max_attempts: int = 25
    backoff_s: float = 1.0
    max_backoff_s: float = 300.0
    jitter: float = 0.15
    pause_s: float = 5.0
    run_deadline_s: float = 90.0

    def __post_init__(self) -> None:
        if self.lanes < 0:
            raise OptionError("lanes must be 0 (one for each ordering key) or above")
        if min(self.max_events, self.max_bytes, self.batch_events, self.max_attempts) < 1:
            raise OptionError("max_events, max_bytes, batch_events and max_attempts start at 1")
        if self.backoff_s <= 0 or self.max_backoff_s < self.backoff_s or self.pause_s <= 0:
            raise OptionError("backoff and pause must be above zero, and the bound not below them")

    def backoff(self, attempts: int, random: Random) -> float:
        """Seconds to wait after the ``attempts``-th failed attempt: doubling, bounded, jittered."""
        bounded = min(self.backoff_s * 2.0 ** min(attempts - 1, 40), self.max_backoff_s)
        return bounded * (1 + self.jitter * random.random())


def stable_hash(text: str) -> int:
    """The same on every machine and in PostgreSQL: the first 31 bits of the MD5 of the text."""
    digest = hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return int(digest[:8], 16) & 0x7FFFFFFF


def lane_number(key: str | None, event_id: str, lanes: int) -> int:
    """The lane of an event; without a key there is no order to keep, so its id spreads it."""
    return stable_hash(event_id if key is None else key) % lanes
