"""From a status that is no success to the error that names it, with the diagnostics it carried."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from spark_durable.protocol import headers as h
from spark_durable.protocol import urls
from spark_durable.protocol.errors import (
    BadRequestError,
    ConfigurationMismatchError,
    ConflictError,
    ContentTypeMismatchError,
    DurableError,
    MalformedResponseError,
    NotFoundError,
    NotSupportedError,
    OffsetBeyondTailError,
    OffsetGoneError,
    OutcomeUnknownError,
    OverloadedError,
    PayloadTooLargeError,
    ProducerLimitError,
    RefusedError,
    SequenceGapError,
    SequenceRegressionError,
    StaleEpochError,
    StreamClosedError,
    UnauthorizedError,
)
from spark_durable.protocol.results import ProducerTriple
from spark_durable.protocol.settings import ClientSettings
from spark_durable.protocol.transport import Answer
from spark_durable.protocol.types import essence

_CONTENT_TYPE = re.compile("content[-_ ]?type")


@dataclass(frozen=True, slots=True)
class Operation:
    """What was asked, as far as texts and the reading of a refusal need it."""

    verb: str  # "append", "create", "read", …
    url: str
    producer: ProducerTriple | None = None
    stream_seq: str | None = None
    offset: str | None = None
    content_type: str | None = None
    body_bytes: int | None = None

    def __str__(self) -> str:
        details = []
        if self.offset is not None:
            details.append(f"offset {self.offset}")
        if self.producer is not None:
            triple = self.producer
            details.append(f"producer {triple.id}, epoch {triple.epoch}, seq {triple.seq}")
        suffix = f" ({'; '.join(details)})" if details else ""
        return f"{self.verb} {urls.redact(self.url)}{suffix}"

    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"url": urls.redact(self.url)}
        if self.producer is not None:
            facts.update(
                producer_id=self.producer.id, epoch=self.producer.epoch, seq=self.producer.seq
            )
        if self.offset is not None:
            facts["offset"] = self.offset
        return facts


def integer(headers: Mapping[str, str], name: str) -> int | None:
    """A header's number; None where it is missing or no number."""
    text = headers.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() else None


def flag(headers: Mapping[str, str], name: str) -> bool:
    """A presence header is set by the value ``true`` in any case, and by nothing else."""
    return headers.get(name, "").strip().lower() == "true"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from either form of the header."""
    text = headers.get(h.RETRY_AFTER, "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return max(0.0, (moment - datetime.now(timezone.utc)).total_seconds())


def told(text: str) -> str:
    """The message inside an error body: JSON of the usual shapes, or plain text."""
    text = text.strip()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return " ".join(text.split())[:500]
    error = document.get("error", document) if isinstance(document, dict) else document
    if isinstance(error, dict):
        parts = [str(error[key]) for key in ("code", "message", "detail") if error.get(key)]
        return " ".join(": ".join(parts).split())[:500]
    return " ".join(str(error).split())[:500]


def refusal(operation: Operation, answer: Answer, settings: ClientSettings) -> DurableError:
    """The error for an answer that is not one of the operation's successes. Closes the answer."""
    said = settings.scrub(told(answer.excerpt()))
    return _Refusal(operation, answer.status, answer.headers, said).error()


class _Refusal:
    def __init__(
        self, operation: Operation, status: int, headers: Mapping[str, str], said: str
    ) -> None:
        self._operation = operation
        self._status = status
        self._headers = headers
        self._said = said
        self._hint = said.lower()

    def _as(self, kind: type[DurableError], advice: str, **facts: Any) -> DurableError:
        said = f" The server says: {self._said}." if self._said else ""
        text = f"{self._operation} answered {self._status}.{said} {advice}"
        return kind(text, status=self._status, **self._operation.facts(), **facts)

    def error(self) -> DurableError:
        status = self._status
        named = {
            400: self._bad_request,
            401: self._unauthorized,
            403: self._forbidden,
            404: self._not_found,
            405: self._not_supported,
            407: self._unauthorized,
            409: self._conflict,
            410: self._gone,
            413: self._too_large,
            416: self._beyond_tail,
            429: self._too_many,
            501: self._not_supported,
            503: self._overloaded,
        }
        if status in named:
            return named[status]()
        if status == 408 or status >= 500:
            return self._as(
                OutcomeUnknownError,
                "The server or a proxy failed on it, and it may have been applied: repeat it only "
                "with the same bytes and the same producer, epoch and seq.",
            )
        if status >= 400:
            return self._as(RefusedError, "The protocol gives this status no meaning here.")
        return self._as(
            MalformedResponseError,
            "The protocol does not allow this answer: is the URL that of a Durable Streams server?",
        )

    def _bad_request(self) -> DurableError:
        advice = {
            "append": "Check the body (valid JSON, not empty), the content type and the producer: "
            "a new epoch starts at seq 0.",
            "create": "Check the options: a TTL and an expiry time exclude each other, a fork's "
            "offset must lie within its source.",
            "read": "The offset must be one that this server gave for this stream.",
            "publish snapshot of": "The offset must be a message boundary that the server gave.",
        }.get(self._operation.verb, "Check names and parameters.")
        return self._as(BadRequestError, advice)

    def _unauthorized(self) -> DurableError:
        return self._as(
            UnauthorizedError, "Check the token: it is missing, wrong, or not enough for this."
        )

    def _forbidden(self) -> DurableError:
        producer = self._operation.producer
        current = integer(self._headers, h.PRODUCER_EPOCH)
        if producer is None or (current is None and "epoch" not in self._hint):
            return self._unauthorized()
        newer = "a newer epoch" if current is None else f"epoch {current}"
        return self._as(
            StaleEpochError,
            f"{newer[0].upper()}{newer[1:]} of producer {producer.id} is current: another, newer "
            "sender has taken over, and this one must stop.",
            current_epoch=current,
        )

    def _not_found(self) -> DurableError:
        advice = {
            "append": "The stream does not exist: create it first (createIfMissing).",
            "create": "The bucket, or the stream to fork from, does not exist: create it first.",
            "bootstrap": "The stream does not exist, or this server has no bootstrap: read it "
            "from its beginning.",
            "read snapshot of": "There is no such snapshot, or a newer one has replaced it: ask "
            "for the latest, or read the stream from its beginning.",
            "list streams of": "The bucket does not exist, or this server does not list streams.",
        }.get(self._operation.verb, "It does not exist.")
        return self._as(NotFoundError, advice)

    def _not_supported(self) -> DurableError:
        return self._as(NotSupportedError, "This server does not offer that operation here.")

    def _conflict(self) -> DurableError:
        verb = self._operation.verb
        expected = integer(self._headers, h.PRODUCER_EXPECTED_SEQ)
        if flag(self._headers, h.STREAM_CLOSED) and verb in ("append", "close", "probe"):
            return self._as(
                StreamClosedError,
                "The stream is closed and takes nothing more: write to another one.",
                final_offset=self._headers.get(h.STREAM_NEXT_OFFSET) or None,
                producer_epoch=integer(self._headers, h.PRODUCER_EPOCH),
                producer_seq=integer(self._headers, h.PRODUCER_SEQ),
            )
        if expected is not None or (self._operation.producer is not None and "gap" in self._hint):
            received = integer(self._headers, h.PRODUCER_RECEIVED_SEQ)
            return self._as(
                SequenceGapError,
                f"The server expects seq {'(not told)' if expected is None else expected}: an "
                "earlier append of this epoch is missing there, or the server has forgotten this "
                "producer. Do not skip: begin the batch again from seq 0 under its epoch.",
                expected_seq=expected,
                received_seq=received,
            )
        if verb == "create":
            return self._as(
                ConfigurationMismatchError,
                "It exists with another content type, lifetime, closure or origin: use what it "
                "has, or another name.",
            )
        if verb in ("append", "probe"):
            return self._append_conflict()
        advice = {
            "create bucket": "The bucket exists already.",
            "delete bucket": "The bucket is not empty: delete its streams first.",
            "publish snapshot of": "The offset lies past the tail, or another snapshot is there.",
            "delete snapshot of": "The latest snapshot is needed by bootstrap and stays.",
        }.get(verb, "It contradicts the present state of the resource.")
        return self._as(ConflictError, advice)

    def _append_conflict(self) -> DurableError:
        """No header marks the two conflicts that are left, so the text has to tell them apart."""
        sequenced = self._operation.stream_seq is not None
        names_type = _CONTENT_TYPE.search(self._hint) is not None
        names_type = names_type or essence(self._operation.content_type) in self._hint
        if sequenced and "seq" in self._hint and not names_type:
            return self._as(
                SequenceRegressionError,
                f"Stream-Seq {self._operation.stream_seq} is not greater than the last one: "
                "another writer is ahead, or this append is a repetition.",
                stream_seq=self._operation.stream_seq,
            )
        if names_type or not (sequenced or self._said):
            return self._as(
                ContentTypeMismatchError,
                f"The stream has another content type than {self._operation.content_type}: set "
                "contentType to the stream's.",
                content_type=self._operation.content_type,
            )
        return self._as(ConflictError, "It contradicts the present state of the stream.")

    def _gone(self) -> DurableError:
        retained = (
            self._headers.get(h.STREAM_RETAINED_OFFSET)
            or self._headers.get(h.STREAM_SNAPSHOT_OFFSET)
            or None
        )
        if self._operation.offset is None:
            advice = "The stream has been deleted; only its forks still use its data."
        else:
            kept = "" if retained is None else f" (retained from {retained})"
            advice = (
                f"Retention has passed this offset{kept}, or the stream has been deleted: begin "
                "again from the latest snapshot (bootstrap)."
            )
        return self._as(OffsetGoneError, advice, retained_offset=retained)

    def _too_large(self) -> DurableError:
        size = self._operation.body_bytes
        limit = integer(self._headers, h.STREAM_MAX_APPEND_BYTES)
        limit = limit or integer(self._headers, h.URSULA_MAX_REQUEST_BYTES)
        told_limit = "" if limit is None else f", the server takes up to {limit}"
        return self._as(
            PayloadTooLargeError,
            f"The body has {size} bytes{told_limit}: send smaller ones (maxAppendBytes).",
            body_bytes=size,
            limit=limit,
        )

    def _beyond_tail(self) -> DurableError:
        tail = self._headers.get(h.STREAM_NEXT_OFFSET) or None
        return self._as(
            OffsetBeyondTailError,
            f"The offset lies past the tail ({tail or 'not told'}): it is from another stream, or "
            "the stream was deleted and created again.",
            tail=tail,
        )

    def _too_many(self) -> DurableError:
        permanent = h.RETRY_AFTER not in self._headers and "producer" in self._hint
        if not permanent or self._operation.producer is None:
            return self._overloaded()
        return self._as(
            ProducerLimitError,
            "The stream holds as many producers as this server keeps, and waiting does not help: "
            "use few, stable producer ids (txnAppId), or another stream.",
        )

    def _overloaded(self) -> DurableError:
        pause = retry_after(self._headers)
        when = "later" if pause is None else f"in {pause:g} s"
        return self._as(
            OverloadedError, f"The server is overloaded: try again {when}.", retry_after=pause
        )
