"""When to try again: an immutable policy that asks whether the request may have been applied."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from spark_durable.protocol.errors import (
    DurableError,
    NotSentError,
    OutcomeUnknownError,
    OverloadedError,
    RetriesExhaustedError,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with jitter, until ``deadline_s`` seconds have passed.

    A request that never left, or that the server declined for overload, is always sent again. One
    that may have been applied is sent again only if the caller says that a repetition is harmless
    (a read, or the same bytes under the same producer triple). Everything else is final.
    """

    deadline_s: float = 120.0
    base_delay_s: float = 0.1
    max_delay_s: float = 10.0
    jitter: float = 0.5  # share of each delay that is random, so that tasks do not retry in step

    def run(
        self,
        attempt: Callable[[], T],
        *,
        resend_unknown: bool,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> T:
        """Call ``attempt`` until it succeeds, fails for good, or the deadline leaves no time.

        A pause the server asks for is kept; if it reaches past the deadline the policy gives up at
        once rather than wait in vain.
        """
        started = clock()
        tries = 0
        while True:
            tries += 1
            try:
                return attempt()
            except DurableError as failure:
                if not self.retryable(failure, resend_unknown=resend_unknown):
                    raise
                pause = self.pause(tries, failure, uniform)
                elapsed = clock() - started
                if elapsed + pause > self.deadline_s:
                    raise RetriesExhaustedError(
                        f"gave up after {tries} attempts in {elapsed:.1f} s (retryTimeout is "
                        f"{self.deadline_s:g} s). The last failure: {failure}",
                        attempts=tries,
                        elapsed_s=elapsed,
                        last=type(failure).__name__,
                    ) from failure
                sleep(pause)

    @staticmethod
    def retryable(failure: DurableError, *, resend_unknown: bool) -> bool:
        """Whether sending the same request again can help and cannot harm."""
        if isinstance(failure, NotSentError | OverloadedError):
            return True
        return resend_unknown and isinstance(failure, OutcomeUnknownError)

    def pause(
        self,
        tries: int,
        failure: DurableError,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> float:
        """Seconds to wait after the ``tries``-th failure."""
        exponent = min(tries - 1, 32)  # past this the cap holds anyway; avoids float overflow
        delay = min(self.max_delay_s, self.base_delay_s * 2.0**exponent)
        delay *= 1 - uniform(0, self.jitter)
        asked = failure.retry_after if isinstance(failure, OverloadedError) else None
        if asked is None:
            return delay
        # Jitter on top of what was asked for, so that clients told the same second spread out.
        return asked + uniform(0, self.jitter) * min(asked, self.base_delay_s * 10)
