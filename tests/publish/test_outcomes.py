"""The two tables: what each answer means for an event."""

from __future__ import annotations

import pytest

from spark_durable.protocol import errors as e
from spark_durable.protocol.results import AppendOutcome, AppendResult, ProducerTriple
from spark_durable.publish import outcomes
from spark_durable.publish.contract import Scope, Verdict

TRIPLE = ProducerTriple("p", 4, 2)


@pytest.mark.parametrize(
    ("error", "verdict", "ambiguous"),
    [
        (e.BadRequestError("x", status=400), Verdict.SPLIT, False),
        (e.PayloadTooLargeError("x", status=413), Verdict.SPLIT, False),
        (e.UnauthorizedError("x", status=401), Verdict.PAUSE, False),
        (e.StaleEpochError("x", status=403, current_epoch=5), Verdict.PAUSE, False),
        (e.NotFoundError("x", status=404), Verdict.DEAD, False),
        (e.NotSupportedError("x", status=405), Verdict.DEAD, False),
        (e.ContentTypeMismatchError("x", status=409), Verdict.DEAD, False),
        (e.StreamClosedError("x", status=409), Verdict.DEAD, False),
        (e.SequenceGapError("x", status=409), Verdict.STOP, False),
        (e.RefusedError("x", status=415), Verdict.DEAD, False),
        (e.OverloadedError("x", status=429), Verdict.PAUSE, False),
        (e.ProducerLimitError("x", status=429), Verdict.PAUSE, False),
        (e.OverloadedError("x", status=503), Verdict.PAUSE, False),
        (e.OutcomeUnknownError("x", status=500), Verdict.RETRY, True),
        (e.OutcomeUnknownError("x"), Verdict.RETRY, True),
        (e.MalformedResponseError("x"), Verdict.RETRY, True),
        (e.NotSentError("x"), Verdict.PAUSE, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_failures_of_durable_streams(
    error: e.DurableError, verdict: Verdict, ambiguous: bool
) -> None:
    result = outcomes.append_failure(error, TRIPLE)
    assert result.verdict is verdict
    assert result.ambiguous is ambiguous
    assert result.error == "x"
    assert not result.ok
    on_target = verdict in (Verdict.PAUSE, Verdict.STOP)
    assert result.scope is (Scope.TARGET if on_target else Scope.EVENT)


@pytest.mark.parametrize(
    ("epoch", "seq", "delivered"), [(4, 2, True), (4, 9, True), (4, 1, False), (5, 9, False)]
)
def test_a_closed_stream_tells_what_it_took(epoch: int, seq: int, delivered: bool) -> None:
    closed = e.StreamClosedError("x", status=409, producer_epoch=epoch, producer_seq=seq)
    assert outcomes.append_failure(closed, TRIPLE).ok is delivered


def test_both_successes_are_delivered_and_only_one_is_new() -> None:
    new = outcomes.appended(AppendResult(AppendOutcome.APPENDED, "7"))
    old = outcomes.appended(AppendResult(AppendOutcome.DUPLICATE))
    assert (new.ok, new.duplicate, new.receipt, new.code) == (True, False, "7", "200")
    assert (old.ok, old.duplicate, old.receipt, old.code) == (True, True, None, "204")


@pytest.mark.parametrize(
    ("status", "verdict", "ambiguous"),
    [
        (400, Verdict.SPLIT, False),
        (401, Verdict.PAUSE, False),
        (403, Verdict.PAUSE, False),
        (404, Verdict.DEAD, False),
        (405, Verdict.SPLIT, False),
        (409, Verdict.PAUSE, False),
        (413, Verdict.SPLIT, False),
        (415, Verdict.SPLIT, False),
        (418, Verdict.SPLIT, False),
        (422, Verdict.RETRY, False),
        (429, Verdict.PAUSE, False),
        (500, Verdict.RETRY, True),
        (502, Verdict.RETRY, True),
        (503, Verdict.PAUSE, False),
    ],
)
def test_failures_of_topics(status: int, verdict: Verdict, ambiguous: bool) -> None:
    result = outcomes.topics_failure(status, "some_code", "why", 3.0)
    assert result.verdict is verdict
    assert result.ambiguous is ambiguous
    assert result.code == f"{status} some_code"
    assert result.retry_after == 3.0


def test_texts_are_one_line_and_bounded() -> None:
    result = outcomes.topics_failure(500, None, "a\n" * 5000, None)
    assert result.error is not None
    assert "\n" not in result.error
    assert len(result.error) <= 1000
