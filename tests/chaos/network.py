"""The proxy between all clients and the server, with storms that come and go."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter

from tests.chaos.schedule import Strike
from tests.faults import PASS, Exchange, Fault, FaultProxy, Kind, Request

_FAULTS: dict[Strike, list[Fault]] = {
    Strike.ANSWERS_LOST: [Fault(Kind.LOSE_ANSWER)],
    Strike.REQUESTS_RESET: [Fault(Kind.LOSE_REQUEST)],
    Strike.REQUESTS_CUT: [Fault(Kind.CUT_REQUEST)],
    Strike.ANSWERS_CUT: [Fault(Kind.CUT_ANSWER)],
    Strike.STORM_429: [
        Fault(Kind.REFUSE, status=429, retry_after="0"),
        Fault(Kind.REFUSE, status=429, retry_after="1"),
    ],
    Strike.STORM_503: [
        Fault(Kind.REFUSE, status=503),
        Fault(Kind.REFUSE, status=503, retry_after="1"),
    ],
    Strike.DELAYS: [Fault(delay_s=0.2), Fault(delay_s=1.0)],
    Strike.TRICKLE: [Fault(Kind.TRICKLE)],
}
# Refusals come in storms that hit nearly everyone, the others here and there.
_SHARE = {Strike.STORM_429: 0.9, Strike.STORM_503: 0.9}


class Network(FaultProxy):
    """Counts what it does to requests, and keeps no record of them."""

    def __init__(self, upstream: str, seed: int) -> None:
        super().__init__(upstream, self._fault)
        self._rng = random.Random(f"network {seed}")
        self._guard = threading.Lock()
        self._storms: list[tuple[float, Strike]] = []
        self.hit: Counter[Strike] = Counter()
        self.requests = 0
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]

    def storm(self, strike: Strike, lasting_s: float) -> None:
        with self._guard:
            self._storms.append((time.monotonic() + lasting_s, strike))

    def calm(self) -> None:
        with self._guard:
            self._storms.clear()

    def _fault(self, request: Request) -> Fault:
        with self._guard:
            self.requests += 1
            now = time.monotonic()
            self._storms = [storm for storm in self._storms if storm[0] > now]
            for _, strike in self._storms:
                if self._rng.random() < _SHARE.get(strike, 0.4):
                    self.hit[strike] += 1
                    return self._rng.choice(_FAULTS[strike])
        return PASS

    def note(self, exchange: Exchange) -> None:
        """A run has too many of them to keep."""
