"""Publishing to a server that speaks ``topics`` (``POST /v0/topics/{topic}``)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import quote

from spark_durable.protocol import urls
from spark_durable.protocol.errors import DurableError
from spark_durable.protocol.headers import CONTENT_TYPE_JSON
from spark_durable.protocol.per_thread import PerThread
from spark_durable.protocol.refusals import retry_after, told
from spark_durable.protocol.settings import ClientSettings
from spark_durable.protocol.transport import Answer, Transport
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

# A write takes 10,000 records and 64 MiB; a record 1 MiB.
MAX_RECORDS = 10_000
MAX_RECORD_BYTES = 1 << 20


class TopicsPublisher:
    """Writes events as records of a topic.

    Success is 200 or 201, deduplicated or not: the records have seqs. The idempotency key of one
    event is its ``event_id``, that of a body a hash over its ordered event ids, so the identical
    body repeated within the topic's ``idempotency_window_ms`` is written once; past the window it
    is written again. Payloads that are JSON go in as they are, other bytes as base64 with
    ``meta.payload_encoding``; headers travel in ``meta``, the partition key as ``tag``.

    ``url`` is the topic's address and may name fields: ``http://host/v0/topics/{destination}``.
    ``create`` is the configuration under which a missing topic is created before its first event
    from here; with None a missing topic is an error.
    """

    def __init__(
        self,
        url: str,
        *,
        settings: ClientSettings | None = None,
        create: Mapping[str, Any] | None = None,
        node: str | None = None,
        max_batch_events: int = 500,
        max_batch_bytes: int = 4 << 20,
    ) -> None:
        addresses.check_template(url)
        self._arguments: dict[str, Any] = {
            "url": url,
            "settings": settings or ClientSettings(),
            "create": None if create is None else dict(create),
            "node": node,
            "max_batch_events": min(max_batch_events, MAX_RECORDS),
            "max_batch_bytes": max_batch_bytes,
        }
        self._url = url
        self._settings: ClientSettings = self._arguments["settings"]
        self._create = self._arguments["create"]
        self._node = node
        self._limits = (self._arguments["max_batch_events"], max_batch_bytes)
        self._transports = PerThread(lambda: Transport(self._settings))
        self._existing: set[str] = set()

    def __reduce__(self) -> tuple[Callable[..., TopicsPublisher], tuple[Any, ...]]:
        return _rebuild, (self._arguments,)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            acknowledgement="200 or 201: the records have their seqs in the topic",
            idempotence="by key: once within the topic's idempotency_window_ms",
            headers=True,
            partitioning=True,
            max_batch_events=self._limits[0],
            max_batch_bytes=self._limits[1],
        )

    def open(self) -> None:
        """Connections are made on first use, one a thread."""

    def close(self) -> None:
        self._transports.close()

    def check(self, event: Event) -> str | None:
        if problem := addresses.missing_field(self._url, event):
            return problem
        if len(event.event_id) > 256:
            return "event_id is longer than the 256 characters of an idempotency key"
        size = len(_data(event))
        if size > MAX_RECORD_BYTES:
            return f"the record has {size} bytes; a topic takes up to {MAX_RECORD_BYTES}"
        return None

    def address(self, event: Event) -> str:
        return urls.redact(addresses.resolve(self._url, event))

    def publish(self, event: Event) -> PublishResult:
        return self.publish_batch([event])[0]

    def publish_batch(self, events: Sequence[Event]) -> list[PublishResult]:
        """One write for neighbours that go to one topic under one triple (or all without one).

        Repeat it with the same events in the same order: another grouping is another key.
        """
        results: list[PublishResult] = []
        for _, body in groupby(events, key=self._body_of):
            results += self._publish_body(list(body))
        return results

    def _body_of(self, event: Event) -> tuple[object, ...]:
        problem = addresses.missing_field(self._url, event)
        return (event.triple, problem, None if problem else self.address(event))

    def _publish_body(self, events: Sequence[Event]) -> list[PublishResult]:
        if (refused := refuse_bad(self, events)) is not None:
            return refused
        url = addresses.resolve(self._url, events[0])
        if (failure := self._ensure(url)) is not None:
            return for_all(failure, events)
        return for_all(self._send("POST", url, write_body(events, self._node)), events)

    def _send(self, method: str, url: str, body: bytes | None) -> PublishResult:
        what = f"{'write to' if method == 'POST' else method} {urls.redact(url)}"
        headers = {"Content-Type": CONTENT_TYPE_JSON}
        try:
            with self._transports.get().send(
                what, method, url, headers=headers, body=body
            ) as answer:
                if answer.status not in (200, 201):
                    return self._refused(what, answer)
                document = json.loads(answer.read())
                return outcomes.topics_success(
                    answer.status, bool(document.get("deduped")), int(document.get("last_seq", 0))
                )
        except DurableError as error:
            return outcomes.transport_failure(error) or PublishResult(
                Verdict.RETRY, type(error).__name__, shortened(str(error)), ambiguous=True
            )
        except (ValueError, TypeError, AttributeError):
            text = f"{what} was answered by something else than a topics server"
            return PublishResult(Verdict.RETRY, "not_topics", text, ambiguous=True)

    def _refused(self, what: str, answer: Answer) -> PublishResult:
        text = answer.excerpt()
        said = self._settings.scrub(told(text))
        return outcomes.topics_failure(
            answer.status,
            _error_code(text),
            f"{what} answered {answer.status}: {said}",
            retry_after(answer.headers),
        )

    def _ensure(self, url: str) -> PublishResult | None:
        if self._create is None or url in self._existing:
            return None
        result = self._send("PUT", url, json.dumps(self._create).encode())
        if result.ok or result.code.startswith("409"):
            self._existing.add(url)
            return None
        if result.code.startswith("400"):
            return result  # no topic can have this name: it is the event's fields that are wrong
        return PublishResult(
            Verdict.PAUSE, result.code, result.error, retry_after=result.retry_after
        )

    def ping(self) -> PublishResult:
        """Asks for the topic, or where the address varies for the list of topics."""
        url = self._url.split("{", 1)[0].rstrip("/")
        result = self._send("GET", url, None)
        if result.ok or result.code.startswith(("404", "405")):
            return PublishResult(Verdict.DELIVERED, result.code)
        return PublishResult(
            Verdict.PAUSE, result.code, result.error, retry_after=result.retry_after
        )


def batch_key(event_ids: Sequence[str]) -> str:
    """The idempotency key of a body: an event's own id, or a hash over the ids in their order."""
    if len(event_ids) == 1:
        return event_ids[0]
    digest = hashlib.sha256()
    for event_id in event_ids:
        text = event_id.encode()
        digest.update(len(text).to_bytes(4, "big") + text)
    return f"batch-{digest.hexdigest()}"


def write_body(events: Sequence[Event], node: str | None) -> bytes:
    """The JSON of one write, payloads spliced in untouched."""
    head: dict[str, Any] = {"idempotency_key": batch_key([event.event_id for event in events])}
    if node is not None:
        head["node"] = node
    records = b",".join(_record(event) for event in events)
    return _object(head)[:-1] + b',"records":[' + records + b"]}"


def _record(event: Event) -> bytes:
    value, encoding = payloads.embedded(event.payload)
    meta = payloads.metadata(event)
    if encoding is not None:
        meta["payload_encoding"] = encoding
    fields: dict[str, Any] = {"meta": meta}
    if event.partition_key is not None:
        fields["tag"] = event.partition_key
    return _object(fields)[:-1] + b',"data":' + value + b"}"


def _data(event: Event) -> bytes:
    return payloads.embedded(event.payload)[0]


def _object(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def _error_code(text: str) -> str | None:
    try:
        code = json.loads(text)["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(code)


def topic_url(base: str, topic: str) -> str:
    """The address of a topic on the server at ``base``."""
    return urls.extend(base, f"v0/topics/{quote(topic, safe='')}")


def _rebuild(arguments: dict[str, Any]) -> TopicsPublisher:
    return TopicsPublisher(**arguments)
