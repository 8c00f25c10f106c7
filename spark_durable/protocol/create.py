"""Creating a stream, or a fork of one."""

from __future__ import annotations

from spark_durable.protocol import headers as h
from spark_durable.protocol.metadata import stream_info
from spark_durable.protocol.refusals import Operation, refusal
from spark_durable.protocol.results import CreateResult
from spark_durable.protocol.transport import Body, Transport


def create(
    transport: Transport,
    url: str,
    *,
    content_type: str | None,
    ttl_s: int | None,
    expires_at: str | None,
    closed: bool,
    body: Body,
    forked_from: str | None,
    fork_offset: str | None,
    fork_sub_offset: int | None,
) -> CreateResult:
    operation = Operation("create", url, content_type=content_type, body_bytes=len(body))
    optional = {
        "Content-Type": content_type,
        h.STREAM_TTL: ttl_s,
        h.STREAM_EXPIRES_AT: expires_at,
        h.STREAM_CLOSED: "true" if closed else None,
        h.STREAM_FORKED_FROM: forked_from,
        h.STREAM_FORK_OFFSET: fork_offset,
        h.STREAM_FORK_SUB_OFFSET: fork_sub_offset,
    }
    headers = {name: str(value) for name, value in optional.items() if value is not None}
    answer = transport.send(operation, "PUT", url, headers=headers, body=body)
    if answer.status not in (200, 201):
        raise refusal(operation, answer, transport.settings)
    answer.drain()
    info = stream_info(operation, url, answer.headers)
    return CreateResult(created=answer.status == 201, info=info)
