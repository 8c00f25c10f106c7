"""HEAD and DELETE of a stream, and reading the headers that describe one."""

from __future__ import annotations

from collections.abc import Mapping

from spark_durable.protocol import headers as h
from spark_durable.protocol import urls
from spark_durable.protocol.errors import MalformedResponseError
from spark_durable.protocol.refusals import Operation, flag, integer, refusal
from spark_durable.protocol.results import StreamInfo
from spark_durable.protocol.transport import Transport


def stream_info(operation: Operation, url: str, headers: Mapping[str, str]) -> StreamInfo:
    tail = headers.get(h.STREAM_NEXT_OFFSET)
    if not tail:
        raise MalformedResponseError(
            f"{operation} was answered without {h.STREAM_NEXT_OFFSET}: is the URL that of a "
            "Durable Streams server?",
            **operation.facts(),
        )
    limit = integer(headers, h.STREAM_MAX_APPEND_BYTES)
    snapshot = headers.get(h.STREAM_SNAPSHOT_OFFSET)
    return StreamInfo(
        url=urls.split_userinfo(url)[0],
        content_type=headers.get("Content-Type"),
        tail=tail,
        closed=flag(headers, h.STREAM_CLOSED),
        ttl_s=integer(headers, h.STREAM_TTL),
        expires_at=headers.get(h.STREAM_EXPIRES_AT),
        snapshot_offset=None if snapshot == h.OFFSET_BEGINNING else snapshot,
        retained_offset=headers.get(h.STREAM_RETAINED_OFFSET),
        incarnation=headers.get(h.STREAM_INCARNATION),
        etag=headers.get("ETag"),
        max_append_bytes=limit or integer(headers, h.URSULA_MAX_REQUEST_BYTES),
    )


def head(transport: Transport, url: str) -> StreamInfo:
    operation = Operation("head", url)
    answer = transport.send(operation, "HEAD", url)
    if answer.status != 200:
        raise refusal(operation, answer, transport.settings)
    answer.drain()
    return stream_info(operation, url, answer.headers)


def delete(transport: Transport, url: str) -> None:
    operation = Operation("delete", url)
    answer = transport.send(operation, "DELETE", url)
    if answer.status != 204:
        raise refusal(operation, answer, transport.settings)
    answer.drain()
