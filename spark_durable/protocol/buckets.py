"""Buckets: create, describe, list, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from spark_durable.protocol import headers as h
from spark_durable.protocol import urls
from spark_durable.protocol.errors import MalformedResponseError, NotSupportedError
from spark_durable.protocol.refusals import Operation, refusal
from spark_durable.protocol.results import BucketInfo, ListedStream, StreamListing
from spark_durable.protocol.transport import Transport


def create_bucket(transport: Transport, url: str) -> None:
    operation = Operation("create bucket", url)
    answer = transport.send(operation, "PUT", url, body=b"")
    if answer.status != 201:
        raise refusal(operation, answer, transport.settings)
    answer.drain()
    if h.STREAM_NEXT_OFFSET in answer.headers:
        raise NotSupportedError(
            f"{operation} made a stream: this server has no buckets. Delete that stream, and use "
            "stream URLs without a bucket.",
            status=answer.status,
            **operation.facts(),
        )


def get_bucket(transport: Transport, url: str) -> BucketInfo:
    operation = Operation("get bucket", url)
    document = _json_object(transport, operation, url)
    try:
        return BucketInfo(bucket_id=str(document["bucket_id"]), streams=int(document["streams"]))
    except (KeyError, TypeError, ValueError):
        raise _not_a_bucket(operation) from None


def list_streams(
    transport: Transport, url: str, *, prefix: str | None, after: str | None, limit: int
) -> StreamListing:
    operation = Operation("list streams of", url)
    params = {"prefix": prefix, "after": after, "limit": limit}
    document = _json_object(transport, operation, urls.extend(url, "streams"), params)
    try:
        return StreamListing(
            streams=tuple(_listed(row) for row in document["streams"]),
            next_cursor=document.get("next_cursor"),
            has_more=bool(document.get("has_more", False)),
        )
    except (KeyError, TypeError, AttributeError):
        raise _not_a_bucket(operation) from None


def delete_bucket(transport: Transport, url: str) -> None:
    operation = Operation("delete bucket", url)
    answer = transport.send(operation, "DELETE", url)
    if answer.status != 204:
        raise refusal(operation, answer, transport.settings)
    answer.drain()


def _listed(row: dict[str, Any]) -> ListedStream:
    return ListedStream(
        stream_id=row["stream_id"],
        closed=str(row.get("status", "")).lower() == "closed",
        content_type=row.get("content_type"),
        tail_offset=row.get("tail_offset"),
        created_at_ms=row.get("created_at_ms"),
        last_write_at_ms=row.get("last_write_at_ms"),
        next_offset=row.get("next_offset"),
        incarnation=row.get("incarnation"),
        retained_offset=row.get("retained_offset"),
        snapshot_offset=row.get("snapshot_offset"),
    )


def _json_object(
    transport: Transport,
    operation: Operation,
    url: str,
    params: Mapping[str, str | int | None] | None = None,
) -> dict[str, Any]:
    answer = transport.send(operation, "GET", url, params=params)
    if answer.status != 200:
        raise refusal(operation, answer, transport.settings)
    with answer:
        if h.STREAM_NEXT_OFFSET in answer.headers:
            raise _not_a_bucket(operation)
        try:
            document = msgspec.json.decode(answer.read())
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            document = None
    if not isinstance(document, dict):
        raise _not_a_bucket(operation)
    return document


def _not_a_bucket(operation: Operation) -> MalformedResponseError:
    return MalformedResponseError(
        f"{operation} was not answered with a bucket: the URL is that of a stream, or this server "
        "has no buckets",
        **operation.facts(),
    )
