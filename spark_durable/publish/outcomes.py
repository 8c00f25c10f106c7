"""What each answer means for an event: the two tables, pure.

Durable Streams                             topics
-----------------------------------------   -----------------------------------------
200, 204          delivered                 200, 201 (deduped too)   delivered
400, 413          split; alone: dead        400 batch_too_large, 413 split; alone: dead
401, 403          pause                     other 400, 405, 415      split; alone: dead
403 with an epoch pause (fenced)            401, 403, 409            pause
404               dead, or create           404                      dead, or create
409 closed, type  dead                      422                      retry
409 gap           stop                      429, 503                 pause, Retry-After
429, 503          pause, Retry-After        500 and above            retry, ambiguous
500 and above     retry, ambiguous          not sent                 pause
not sent          pause                     no answer                retry, ambiguous
no answer         retry, ambiguous

A body of several events that is refused for what it holds is split: which event it was can only be
told of one that travels alone.
"""

from __future__ import annotations

from spark_durable.protocol.errors import (
    BadRequestError,
    DurableError,
    NotSentError,
    OutcomeUnknownError,
    OverloadedError,
    PayloadTooLargeError,
    ProducerLimitError,
    RefusedError,
    SequenceGapError,
    StaleEpochError,
    StreamClosedError,
    UnauthorizedError,
)
from spark_durable.protocol.results import AppendOutcome, AppendResult, ProducerTriple
from spark_durable.publish.contract import PublishResult, Verdict, shortened

# Kinds of failure by the name they get in `code` when there is no HTTP status.
NOT_SENT = "not_sent"
NO_ANSWER = "no_answer"


def appended(result: AppendResult) -> PublishResult:
    """A success of Durable Streams: 200 wrote it, 204 says that an earlier attempt had."""
    duplicate = result.outcome is AppendOutcome.DUPLICATE
    return PublishResult(
        Verdict.DELIVERED,
        code="204" if duplicate else "200",
        duplicate=duplicate,
        receipt=result.next_offset,
    )


def transport_failure(error: DurableError) -> PublishResult | None:
    """The failures that are the same for every HTTP target; None for any other error."""
    text = shortened(str(error))
    if isinstance(error, NotSentError):
        return PublishResult(Verdict.PAUSE, NOT_SENT, text)
    if isinstance(error, OutcomeUnknownError):
        code = str(error.facts.get("status") or NO_ANSWER)
        return PublishResult(Verdict.RETRY, code, text, ambiguous=True)
    return None


_PAUSING = (UnauthorizedError, StaleEpochError, ProducerLimitError, OverloadedError)
_SPLITTING = (BadRequestError, PayloadTooLargeError)


def append_failure(error: DurableError, triple: ProducerTriple) -> PublishResult:
    """A failure of Durable Streams, for a body that travelled under ``triple``."""
    if (result := transport_failure(error)) is not None:
        return result
    text = shortened(str(error))
    code = str(error.status) if isinstance(error, RefusedError) else type(error).__name__
    if isinstance(error, StreamClosedError) and _applied_before_closing(error, triple):
        return PublishResult(Verdict.DELIVERED, code, duplicate=True, receipt=error.final_offset)
    if isinstance(error, _PAUSING):
        pause = error.retry_after if isinstance(error, OverloadedError) else None
        return PublishResult(Verdict.PAUSE, code, text, retry_after=pause)
    if isinstance(error, _SPLITTING):
        return PublishResult(Verdict.SPLIT, code, text)
    if isinstance(error, SequenceGapError):
        return PublishResult(Verdict.STOP, code, text)
    if isinstance(error, RefusedError):
        return PublishResult(Verdict.DEAD, code, text)
    # An answer outside the protocol: a proxy in between. It may have been applied.
    return PublishResult(Verdict.RETRY, code, text, ambiguous=True)


def _applied_before_closing(error: StreamClosedError, triple: ProducerTriple) -> bool:
    """A closed stream tells the last seq it took: anything up to that is in it."""
    if error.producer_epoch is None or error.producer_seq is None:
        return False
    return error.producer_epoch == triple.epoch and triple.seq <= error.producer_seq


def topics_success(status: int, deduped: bool, last_seq: int) -> PublishResult:
    return PublishResult(
        Verdict.DELIVERED, code=str(status), duplicate=deduped, receipt=str(last_seq)
    )


_TOPICS = {
    400: Verdict.SPLIT,
    401: Verdict.PAUSE,
    403: Verdict.PAUSE,
    404: Verdict.DEAD,
    405: Verdict.SPLIT,
    409: Verdict.PAUSE,
    413: Verdict.SPLIT,
    415: Verdict.SPLIT,
    422: Verdict.RETRY,
    429: Verdict.PAUSE,
    503: Verdict.PAUSE,
}


def topics_failure(
    status: int, error_code: str | None, text: str, retry_after: float | None
) -> PublishResult:
    """A refusal of ``topics``. An unnamed 4xx is about the event, anything above a retry."""
    code = f"{status} {error_code}" if error_code else str(status)
    verdict = _TOPICS.get(status, Verdict.SPLIT if 400 <= status < 500 else Verdict.RETRY)
    return PublishResult(
        verdict,
        code,
        shortened(text),
        ambiguous=verdict is Verdict.RETRY and status != 422,
        retry_after=retry_after,
    )
