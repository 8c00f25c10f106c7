"""What the page asks for that the protocol does not tell: JSON, read only, page by page.

Each handler checks the token and its rights: nothing is told of what its holder may not read.
"""

from __future__ import annotations

from typing import Any, Final

from spark_durable.server.http.buckets import entry
from spark_durable.server.http.context import Context
from spark_durable.server.http.offsets import format_incarnation, format_offset
from spark_durable.server.http.request import Request
from spark_durable.server.http.responses import HttpError, Response, json_response
from spark_durable.server.http.routing import BUCKET_ID, bucket_of_key, stream_target
from spark_durable.server.store.inspection import StreamDetail

_PAGE: Final = 1000
_PRODUCERS: Final = 100
_MAX_SKIP: Final = 10_000_000


async def buckets(context: Context, request: Request) -> Response:
    """Buckets by name, with how many streams each holds. A token for some sees those."""
    rights = context.access.check_token(request)
    limit = request.int_param("limit", 1, _PAGE) or _PAGE
    inspection = context.store.inspection
    page = inspection.buckets(after=request.param("after"), limit=limit, only=rights.buckets)
    return json_response(
        200,
        {
            "buckets": [
                {"bucket_id": each.bucket, "streams": each.streams} for each in page.buckets
            ],
            "next_cursor": page.next_cursor,
            "unbucketed_streams": None if rights.buckets else inspection.unbucketed(),
        },
    )


async def streams(context: Context, request: Request) -> Response:
    """Streams of ``bucket``, or without one those under /v1/stream, as a bucket's listing has
    them; only those with ``contains`` in their names. An empty page with a cursor is no end."""
    rights = context.access.check_token(request)
    bucket = request.param("bucket")
    if bucket is not None:
        context.access.check(request, [bucket])
        if not BUCKET_ID.fullmatch(bucket):
            raise HttpError(400, "a bucket id has 4 to 64 of a-z, 0-9, _ and -")
    page = context.store.inspection.search(
        bucket,
        contains=request.param("contains") or "",
        after=request.param("after"),
        limit=request.int_param("limit", 1, _PAGE) or _PAGE,
        may_see=lambda key: rights.missing([bucket_of_key(key)], write=False) is None,
    )
    return json_response(
        200, {"streams": [entry(each) for each in page.streams], "next_cursor": page.next_cursor}
    )


async def stream(context: Context, request: Request) -> Response:
    """One stream by its URL's ``path``, with its snapshots and a page of its producers, newest
    first, after ``skip`` of them."""
    context.access.check_token(request)
    path = request.param("path")
    target = None if path is None else stream_target(path)
    if target is None:
        raise HttpError(400, "the query parameter path must be the path of a stream")
    context.access.check(request, [bucket_of_key(target.key)])
    detail = context.store.inspection.stream(
        target.key,
        skip_producers=request.int_param("skip", 0, _MAX_SKIP) or 0,
        max_producers=request.int_param("limit", 1, _PAGE) or _PRODUCERS,
    )
    return json_response(200, {"path": target.path, **_document(detail)})


def _document(detail: StreamDetail) -> dict[str, Any]:
    stat = detail.stat
    return {
        "content_type": stat.content_type,
        "json": stat.json,
        "closed": stat.closed,
        "next_offset": format_offset(stat.tail),
        "retained_offset": format_offset(stat.retained),
        "incarnation": format_incarnation(stat.stream_id),
        "created_at_ms": stat.created_at_ms,
        "last_write_at_ms": stat.last_write_at_ms,
        "ttl_s": stat.ttl_s,
        "expires_at": stat.expires_at_text,
        "forked_from": stat.forked_from,
        "fork_offset": None if stat.fork_offset is None else format_offset(stat.fork_offset),
        "appends": detail.appends,
        "forks": detail.forks,
        "readers": detail.readers,
        "producer_count": detail.producer_count,
        "producers": [
            {
                "id": producer.id,
                "epoch": producer.epoch,
                "seq": producer.seq,
                "used_at_ms": producer.used_at_ms,
            }
            for producer in detail.producers
        ],
        "snapshots": [
            {
                "offset": format_offset(snapshot.offset),
                "content_type": snapshot.content_type,
                "size": snapshot.size,
                "superseded_at_ms": snapshot.superseded_at_ms,
            }
            for snapshot in detail.snapshots
        ],
    }
