"""The one tree of errors.

::

    DurableError
    ├── TransportError ─────── no usable answer
    │   ├── NotSentError            the request never left: resend freely
    │   └── OutcomeUnknownError     it may have been applied: resend the same bytes and triple
    ├── MalformedResponseError      an answer that breaks the protocol
    ├── RefusedError ───────── the server said no
    │   ├── BadRequestError         400
    │   ├── UnauthorizedError       401, 403 without an epoch
    │   ├── StaleEpochError         403, the producer is fenced
    │   ├── NotFoundError           404
    │   ├── NotSupportedError       405, 501
    │   ├── ConflictError           409
    │   │   ├── StreamClosedError
    │   │   ├── SequenceGapError
    │   │   ├── SequenceRegressionError
    │   │   ├── ContentTypeMismatchError
    │   │   └── ConfigurationMismatchError
    │   ├── OffsetGoneError         410, retention passed the offset (or the stream is soft-deleted)
    │   ├── PayloadTooLargeError    413
    │   ├── OffsetBeyondTailError   416
    │   ├── ProducerLimitError      429 that waiting does not mend
    │   └── OverloadedError         429, 503: retry after a pause
    ├── RetriesExhaustedError       the last failure is its __cause__
    ├── OptionError                 an option is unknown, malformed or contradictory
    ├── UnsupportedTypeError        a column's type cannot travel
    ├── BadRowError                 a row that cannot be sent or read
    ├── ReplayMismatchError         a replayed batch differs from what was begun
    ├── DataLossError               a position that can no longer be read
    ├── CheckpointError             an offset in a checkpoint that is not ours
    └── RelayError                  the outbox relay cannot go on without a human
        ├── RelayStopped                the target's state contradicts the committed plan
        └── LeaseLostError              another relay has taken over

From an executor only the text of an error reaches the driver, so each text carries stream,
producer, epoch and seq where they apply, and says what to do next. No text carries credentials. All
errors pickle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _rebuild(cls: type[DurableError], message: str, facts: dict[str, Any]) -> DurableError:
    return cls(message, **facts)


class DurableError(Exception):
    """Root of every error this package raises. ``facts`` holds the diagnostics by name."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __reduce__(
        self,
    ) -> tuple[
        Callable[[type[DurableError], str, dict[str, Any]], DurableError],
        tuple[type[DurableError], str, dict[str, Any]],
    ]:
        return _rebuild, (type(self), self.message, self.facts)


class TransportError(DurableError):
    """No usable answer arrived."""


class NotSentError(TransportError):
    """The request never reached the server; sending it again is always safe."""


class OutcomeUnknownError(TransportError):
    """The request may have been applied. Resend only the same bytes under the same triple."""


class MalformedResponseError(DurableError):
    """The answer breaks the protocol: a proxy in between, or not a Durable Streams server."""


class RefusedError(DurableError):
    """The server answered no. ``status`` is the HTTP status."""

    @property
    def status(self) -> int:
        return int(self.facts.get("status", 0))


class BadRequestError(RefusedError):
    """400: headers, parameters or body are malformed."""


class UnauthorizedError(RefusedError):
    """401, or 403 that names no epoch: the credentials are missing, wrong or not enough."""


class StaleEpochError(RefusedError):
    """403: a newer epoch of this producer is current; this sender is a zombie."""

    @property
    def current_epoch(self) -> int | None:
        epoch = self.facts.get("current_epoch")
        return None if epoch is None else int(epoch)


class NotFoundError(RefusedError):
    """404: stream, bucket or snapshot does not exist."""


class NotSupportedError(RefusedError):
    """405 or 501: this server has no such operation for this resource."""


class ConflictError(RefusedError):
    """409 that none of the narrower conflicts explains."""


class StreamClosedError(ConflictError):
    """409 with ``Stream-Closed``: nothing can be appended any more.

    ``producer_epoch`` and ``producer_seq`` are the last ones applied, where the server tells.
    """

    @property
    def final_offset(self) -> str | None:
        offset = self.facts.get("final_offset")
        return None if offset is None else str(offset)

    @property
    def producer_epoch(self) -> int | None:
        epoch = self.facts.get("producer_epoch")
        return None if epoch is None else int(epoch)

    @property
    def producer_seq(self) -> int | None:
        seq = self.facts.get("producer_seq")
        return None if seq is None else int(seq)


class SequenceGapError(ConflictError):
    """409: an earlier seq of this epoch is missing at the server."""

    @property
    def expected_seq(self) -> int | None:
        seq = self.facts.get("expected_seq")
        return None if seq is None else int(seq)

    @property
    def received_seq(self) -> int | None:
        seq = self.facts.get("received_seq")
        return None if seq is None else int(seq)


class SequenceRegressionError(ConflictError):
    """409: ``Stream-Seq`` did not grow."""


class ContentTypeMismatchError(ConflictError):
    """409: the stream has another content type."""


class ConfigurationMismatchError(ConflictError):
    """409 on create: the resource exists with another configuration."""


class OffsetGoneError(RefusedError):
    """410: the offset is before what the server retains, or the stream was soft-deleted."""

    @property
    def retained_offset(self) -> str | None:
        offset = self.facts.get("retained_offset")
        return None if offset is None else str(offset)


class PayloadTooLargeError(RefusedError):
    """413: the body exceeds the server's limit."""


class OffsetBeyondTailError(RefusedError):
    """416: the offset is past the tail. ``tail`` is where the stream ends now."""

    @property
    def tail(self) -> str | None:
        offset = self.facts.get("tail")
        return None if offset is None else str(offset)


class ProducerLimitError(RefusedError):
    """429 that waiting does not mend: the stream holds as many producers as the server keeps."""


class OverloadedError(RefusedError):
    """429 or 503: the server asks for a pause. ``retry_after`` is in seconds, None if untold."""

    @property
    def retry_after(self) -> float | None:
        seconds = self.facts.get("retry_after")
        return None if seconds is None else float(seconds)


class RetriesExhaustedError(DurableError):
    """The retry policy gave up. The last failure is ``__cause__`` and part of the text."""


class OptionError(DurableError):
    """An option is unknown, malformed, missing or contradicts another."""


class UnsupportedTypeError(DurableError):
    """A column's type has no faithful form on the wire (or none into this column)."""


class BadRowError(DurableError):
    """A row that cannot be sent as it is, or a message that cannot be read (FAILFAST)."""


class ReplayMismatchError(DurableError):
    """A replayed batch would send something else than what was begun. Nothing was sent."""


class DataLossError(DurableError):
    """A position this query needs can no longer be read."""


class CheckpointError(DurableError):
    """An offset in a checkpoint is malformed, of a newer version, or belongs to another stream."""


class RelayError(DurableError):
    """The outbox relay cannot go on without a human; nothing was lost."""


class RelayStopped(RelayError):
    """The target's state contradicts the plan that the relay has committed."""


class LeaseLostError(RelayError):
    """Another relay has taken over what this one was working on; its results count, not ours."""
