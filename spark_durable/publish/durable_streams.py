"""Publishing to Durable Streams."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import quote

from spark_durable.protocol import urls
from spark_durable.protocol.client import DurableClient
from spark_durable.protocol.errors import (
    BadRequestError,
    ConfigurationMismatchError,
    DurableError,
    NotFoundError,
    NotSupportedError,
    OptionError,
)
from spark_durable.protocol.headers import CONTENT_TYPE_JSON
from spark_durable.protocol.per_thread import PerThread
from spark_durable.protocol.results import ProbeState, ProducerTriple
from spark_durable.protocol.settings import ClientSettings
from spark_durable.protocol.types import is_json
from spark_durable.publish import addresses, outcomes, payloads
from spark_durable.publish.contract import (
    Capabilities,
    Event,
    PublishResult,
    Verdict,
    for_all,
    refuse_bad,
    shortened,
)

_MAX_PRODUCER_ID = 200


class DurableStreamsPublisher:
    """Appends each event to the stream its address names.

    Success is the server's 200 or 204: the event is durable in the stream. An event with a triple
    travels under it, so every repetition of a committed plan is stored once. A bare event travels
    as producer ``event_id``, epoch 0, seq 0: repeated at any time it is stored once, but each event
    costs the server a producer, which servers cap (4,096 a stream) or forget (after days); past
    that the repetition is stored again. Events that share a triple are one append, stored together
    or not at all. JSON streams only: elsewhere an append is a message, so each event travels alone.

    ``url`` may name fields of the event, as in ``http://host/ds/shop/{destination}``. Streams have
    no headers on a message: with ``envelope`` each message is a JSON object of metadata and
    payload, without it the message is the payload and nothing else.
    """

    def __init__(
        self,
        url: str,
        *,
        settings: ClientSettings | None = None,
        content_type: str = CONTENT_TYPE_JSON,
        create_if_missing: bool = True,
        envelope: bool = False,
        max_batch_events: int = 500,
        max_batch_bytes: int = 1 << 20,
    ) -> None:
        addresses.check_template(url)
        if envelope and not is_json(content_type):
            raise OptionError(f"an envelope is JSON: it cannot travel as {content_type}")
        self._arguments: dict[str, Any] = {
            "url": url,
            "settings": settings or ClientSettings(),
            "content_type": content_type,
            "create_if_missing": create_if_missing,
            "envelope": envelope,
            "max_batch_events": max_batch_events,
            "max_batch_bytes": max_batch_bytes,
        }
        self._url = url
        self._settings: ClientSettings = self._arguments["settings"]
        self._content_type = content_type
        self._json = is_json(content_type)
        self._create_if_missing = create_if_missing
        self._envelope = envelope
        self._limits = (max_batch_events if self._json else 1, max_batch_bytes)
        self._clients = PerThread(lambda: DurableClient(self._settings))
        self._existing: set[str] = set()

    def __reduce__(self) -> tuple[Callable[..., DurableStreamsPublisher], tuple[Any, ...]]:
        return _rebuild, (self._arguments,)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            acknowledgement="200 or 204: the append is durable in the stream",
            idempotence="by triple: once for as long as the server remembers the producer",
            headers=self._envelope,
            partitioning=addresses.uses(self._url, "partition_key") or self._envelope,
            max_batch_events=self._limits[0],
            max_batch_bytes=self._limits[1],
            can_inquire=True,
        )

    def open(self) -> None:
        """Connections are made on first use, one client a thread."""

    def close(self) -> None:
        self._clients.close()

    def check(self, event: Event) -> str | None:
        if problem := addresses.missing_field(self._url, event):
            return problem
        if self._envelope:
            return None
        if self._json:
            return payloads.json_problem(event.payload)
        return None if event.payload else "payload is empty, and an append must not be"

    def address(self, event: Event) -> str:
        return urls.redact(addresses.resolve(self._url, event))

    def publish(self, event: Event) -> PublishResult:
        return self.publish_batch([event])[0]

    def publish_batch(self, events: Sequence[Event]) -> list[PublishResult]:
        """Neighbours that share address and triple are one append; every other event is its own."""
        results: list[PublishResult] = []
        for _, body in groupby(enumerate(events), key=self._body_of):
            results += self._publish_body([event for _, event in body])
        return results

    def _body_of(self, numbered: tuple[int, Event]) -> tuple[object, ...]:
        position, event = numbered
        if event.triple is None or not self._json:
            return (position,)
        return (event.triple, addresses.missing_field(self._url, event), self.address(event))

    def _publish_body(self, events: Sequence[Event]) -> list[PublishResult]:
        if (refused := refuse_bad(self, events)) is not None:
            return refused
        url = addresses.resolve(self._url, events[0])
        triple = events[0].triple or bare_triple(events[0].event_id)
        if (failure := self._ensure(url)) is not None:
            return for_all(failure, events)
        try:
            result = self._clients.get().append(
                url, self._body(events), content_type=self._content_type, producer=triple
            )
        except DurableError as error:
            return for_all(outcomes.append_failure(error, triple), events)
        return for_all(outcomes.appended(result), events)

    def _body(self, events: Sequence[Event]) -> bytes:
        if not self._json:
            return events[0].payload
        messages = [
            payloads.envelope(event) if self._envelope else event.payload for event in events
        ]
        # Always an array: a payload that is one itself must arrive as one message.
        return b"[" + b",".join(messages) + b"]"

    def _ensure(self, url: str) -> PublishResult | None:
        """Creates the stream before its first event from here; None when it is there."""
        if not self._create_if_missing or url in self._existing:
            return None
        try:
            self._clients.get().create(url, content_type=self._content_type)
        except ConfigurationMismatchError:
            pass  # it is there; whether it takes our content type is for the append to say
        except BadRequestError as error:
            # No stream can have this name: it is the event's fields that are wrong.
            return PublishResult(Verdict.SPLIT, str(error.status), shortened(str(error)))
        except DurableError as error:
            return _about_target(error)
        self._existing.add(url)
        return None

    def ping(self) -> PublishResult:
        """Asks for the stream, or where the address varies for what lies above it."""
        url = self._url.split("{", 1)[0].rstrip("/")
        try:
            self._clients.get().head(url)
        except (NotFoundError, NotSupportedError):
            return PublishResult(Verdict.DELIVERED, "404")  # it answers
        except DurableError as error:
            return _about_target(error)
        return PublishResult(Verdict.DELIVERED, "200")

    def inquire(self, events: Sequence[Event]) -> PublishResult:
        """By a probe that never writes: a seq below the applied count is in the stream."""
        triple = events[0].triple or bare_triple(events[0].event_id)
        url = addresses.resolve(self._url, events[0])
        try:
            found = self._clients.get().probe(
                url, triple.id, triple.epoch, content_type=self._content_type
            )
        except NotFoundError as error:
            return PublishResult(Verdict.DEAD, "404", shortened(str(error)))
        except DurableError as error:
            return _about_target(error)
        if found.applied is not None and found.applied > triple.seq:
            return PublishResult(Verdict.DELIVERED, "probe", duplicate=True)
        if found.state is ProbeState.NEWER_EPOCH:
            text = f"a newer epoch ({found.current_epoch}) of producer {triple.id} is current"
            return PublishResult(Verdict.PAUSE, "probe", text)
        return PublishResult(Verdict.DEAD, "probe", "the stream does not have it")


def bare_triple(event_id: str) -> ProducerTriple:
    """The identity of an event that no plan has placed, fit for a header whatever the id holds."""
    name = quote(event_id, safe="/:#+,;=@!$*")
    if len(name) > _MAX_PRODUCER_ID:
        name = hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).hexdigest()
    return ProducerTriple(name, 0, 0)


def _about_target(error: DurableError) -> PublishResult:
    failure = outcomes.append_failure(error, ProducerTriple("", 0, 0))
    return PublishResult(
        Verdict.PAUSE, failure.code, failure.error, retry_after=failure.retry_after
    )


def _rebuild(arguments: dict[str, Any]) -> DurableStreamsPublisher:
    return DurableStreamsPublisher(**arguments)
