"""Snapshots: publish, read (the latest or one by offset), delete."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from spark_durable.protocol import headers as h
from spark_durable.protocol import metadata, urls
from spark_durable.protocol.errors import MalformedResponseError, NotFoundError, NotSupportedError
from spark_durable.protocol.refusals import Operation, flag, refusal
from spark_durable.protocol.transport import CHUNK, Answer, Body, Transport


class Snapshot:
    """A snapshot's description; its body is still on the wire and is read once, as a stream."""

    def __init__(self, offset: str, answer: Answer) -> None:
        self._answer = answer
        self.offset = offset
        self.content_type = answer.headers.get("Content-Type", h.CONTENT_TYPE_BYTES)
        self.next_offset = answer.headers.get(h.STREAM_NEXT_OFFSET) or offset
        self.up_to_date = flag(answer.headers, h.STREAM_UP_TO_DATE)
        self.content_length = answer.content_length

    def chunks(self, size: int = CHUNK) -> Iterator[bytes]:
        yield from self._answer.chunks(size)

    def read(self) -> bytes:
        return self._answer.read()

    def close(self) -> None:
        self._answer.close()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def publish_snapshot(
    transport: Transport, url: str, offset: str, body: Body, *, content_type: str
) -> None:
    operation = Operation("publish snapshot of", url, offset=offset, body_bytes=len(body))
    target = urls.snapshot_url(url, offset)
    answer = transport.send(
        operation, "PUT", target, headers={"Content-Type": content_type}, body=body
    )
    if answer.status == 201 and h.STREAM_NEXT_OFFSET in answer.headers:
        answer.drain()
        raise NotSupportedError(
            f"{operation} made a stream at {urls.redact(target)}: this server has no snapshots. "
            "Delete that stream.",
            status=answer.status,
            **operation.facts(),
        )
    if answer.status != 204:
        raise refusal(operation, answer, transport.settings)
    answer.drain()


def snapshot(transport: Transport, url: str, offset: str | None) -> Snapshot:
    operation = Operation("read snapshot of", url, offset=offset)
    answer = transport.send(operation, "GET", urls.snapshot_url(url, offset))
    if answer.status == 405 and offset is None:
        # Some servers name the latest snapshot only on HEAD.
        answer.drain()
        return snapshot(transport, url, _latest(transport, operation, url))
    if answer.status != 200:
        raise refusal(operation, answer, transport.settings)
    found = answer.headers.get(h.STREAM_SNAPSHOT_OFFSET)
    if not found:
        # On a server without snapshots the URL may be that of some stream.
        answer.close()
        raise MalformedResponseError(
            f"{operation} was answered without {h.STREAM_SNAPSHOT_OFFSET}: that is no snapshot",
            **operation.facts(),
        )
    return Snapshot(found, answer)


def _latest(transport: Transport, operation: Operation, url: str) -> str:
    latest = metadata.head(transport, url).snapshot_offset
    if latest is None:
        raise NotFoundError(
            f"{operation}: the stream has no snapshot; read it from its beginning",
            status=404,
            **operation.facts(),
        )
    return latest


def delete_snapshot(transport: Transport, url: str, offset: str) -> None:
    operation = Operation("delete snapshot of", url, offset=offset)
    answer = transport.send(operation, "DELETE", urls.snapshot_url(url, offset))
    if answer.status != 204:
        raise refusal(operation, answer, transport.settings)
    answer.drain()
