"""The policy: what is tried again, when, and how it gives up."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_durable.protocol import (
    BadRequestError,
    DurableError,
    MalformedResponseError,
    NotSentError,
    OutcomeUnknownError,
    OverloadedError,
    ProducerLimitError,
    RetriesExhaustedError,
    RetryPolicy,
    SequenceGapError,
    StaleEpochError,
)


class Clock:
    """Time that passes only by sleeping, or by attempts that take a while."""

    def __init__(self, attempt_takes: float = 0.0) -> None:
        self.now = 1000.0
        self.sleeps: list[float] = []
        self._attempt_takes = attempt_takes

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds

    def run(
        self, policy: RetryPolicy, failures: list[DurableError], *, resend_unknown: bool = False
    ) -> str:
        remaining = iter(failures)

        def attempt() -> str:
            self.now += self._attempt_takes
            for failure in remaining:
                raise failure
            return "done"

        return policy.run(
            attempt,
            resend_unknown=resend_unknown,
            clock=lambda: self.now,
            sleep=self.sleep,
            uniform=lambda low, high: high,
        )


PLAIN = RetryPolicy(jitter=0.0)
UNKNOWN = OutcomeUnknownError("lost")


@pytest.mark.parametrize("failure", [NotSentError("x"), OverloadedError("x", status=503)])
@pytest.mark.parametrize("resend_unknown", [True, False])
def test_what_was_not_applied_is_always_tried_again(
    failure: DurableError, resend_unknown: bool
) -> None:
    clock = Clock()
    assert clock.run(PLAIN, [failure] * 3, resend_unknown=resend_unknown) == "done"
    assert clock.sleeps == pytest.approx([0.1, 0.2, 0.4])


def test_what_may_have_been_applied_is_tried_again_only_if_harmless() -> None:
    assert Clock().run(PLAIN, [UNKNOWN], resend_unknown=True) == "done"
    with pytest.raises(OutcomeUnknownError):
        Clock().run(PLAIN, [UNKNOWN])


@pytest.mark.parametrize(
    "failure",
    [
        BadRequestError("x"),
        StaleEpochError("x"),
        SequenceGapError("x"),
        ProducerLimitError("x", status=429),
        MalformedResponseError("x"),
    ],
)
def test_everything_else_is_final(failure: DurableError) -> None:
    clock = Clock()
    with pytest.raises(type(failure)):
        clock.run(PLAIN, [failure], resend_unknown=True)
    assert clock.sleeps == []


def test_errors_of_others_pass_through() -> None:
    def attempt() -> None:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        PLAIN.run(attempt, resend_unknown=True)


def test_the_pause_asked_for_is_kept() -> None:
    clock = Clock()
    clock.run(PLAIN, [OverloadedError("x", retry_after=7.5)])
    assert clock.sleeps == [7.5]


def test_a_pause_past_the_deadline_is_not_waited_for() -> None:
    clock = Clock()
    with pytest.raises(RetriesExhaustedError, match="try again tomorrow"):
        clock.run(PLAIN, [OverloadedError("try again tomorrow", retry_after=86400.0)])
    assert clock.sleeps == []


def test_at_the_deadline_it_gives_up_and_tells_the_last_failure() -> None:
    clock = Clock(attempt_takes=1.0)
    policy = RetryPolicy(deadline_s=10, jitter=0.0)
    last = OutcomeUnknownError("append to s (producer p, epoch 1, seq 2): reset")
    with pytest.raises(RetriesExhaustedError, match="producer p, epoch 1, seq 2") as caught:
        clock.run(policy, [last] * 100, resend_unknown=True)
    assert caught.value.__cause__ is last
    assert caught.value.facts["attempts"] > 3
    assert clock.now - 1000 <= 10 + 1
    assert "retryTimeout" in str(caught.value)


def test_a_deadline_of_zero_means_one_attempt() -> None:
    clock = Clock()
    with pytest.raises(RetriesExhaustedError):
        clock.run(RetryPolicy(deadline_s=0), [NotSentError("x")])
    assert clock.sleeps == []


@given(
    st.integers(1, 10_000),
    st.floats(0, 1),
    st.floats(0, 1),
    st.none() | st.floats(0, 1000),
)
def test_delays_stay_within_their_bounds(
    tries: int, jitter: float, draw: float, asked: float | None
) -> None:
    policy = RetryPolicy(jitter=jitter)
    failure = OverloadedError("x", **({} if asked is None else {"retry_after": asked}))
    pause = policy.pause(tries, failure, lambda low, high: low + draw * (high - low))
    if asked is None:
        assert 0 <= pause <= policy.max_delay_s
    else:
        assert asked <= pause <= asked + 10 * policy.base_delay_s


def test_it_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(RetryPolicy(deadline_s=3))) == RetryPolicy(deadline_s=3)
    with pytest.raises(AttributeError):
        PLAIN.deadline_s = 5  # type: ignore[misc]
