"""Buckets: created explicitly, listed page by page, deleted when empty."""

from __future__ import annotations

from typing import Final

from spark_durable.server.store.model import ListedStream

from .context import Context
from .offsets import format_incarnation, format_offset
from .request import Request
from .responses import HttpError, Response, json_response
from .routing import MAX_STREAM_ID_BYTES, BucketTarget, ListingTarget, reserved_stream_id

_PAGE: Final = 1000


async def create(context: Context, request: Request, target: BucketTarget) -> Response:
    await context.store.create_bucket(target.bucket)
    return Response(201, {"Location": f"{request.base_url}/ds/{target.bucket}"})


async def metadata(context: Context, _request: Request, target: BucketTarget) -> Response:
    stat = context.store.bucket(target.bucket)
    return json_response(200, {"bucket_id": stat.bucket, "streams": stat.streams})


async def delete(context: Context, _request: Request, target: BucketTarget) -> Response:
    await context.store.delete_bucket(target.bucket)
    return Response(204)


async def listing(context: Context, request: Request, target: ListingTarget) -> Response:
    """One page of a bucket, by name. Tail offsets are numbers here: one listing replaces as many
    HEAD requests as it has entries."""
    prefix = _stream_name(request, "prefix") or ""
    after = _stream_name(request, "after")
    limit = request.int_param("limit", 1, _PAGE)
    page = context.store.list_streams(
        target.bucket, prefix=prefix, after=after, limit=_PAGE if limit is None else limit
    )
    return json_response(
        200,
        {
            "bucket_id": target.bucket,
            "prefix": prefix,
            "stream_count": len(page.streams),
            "streams": [entry(stream) for stream in page.streams],
            "next_cursor": page.next_cursor,
            "has_more": page.has_more,
        },
    )


async def reserved(_context: Context, _request: Request, _target: ListingTarget) -> Response:
    raise reserved_stream_id()


def entry(stream: ListedStream) -> dict[str, str | int]:
    entry: dict[str, str | int] = {
        "stream_id": stream.stream_id,
        "status": "Closed" if stream.closed else "Open",
        "content_type": stream.content_type,
        "tail_offset": stream.tail,
        "created_at_ms": stream.created_at_ms,
        "last_write_at_ms": stream.last_write_at_ms,
        # As HEAD has them, so that a listing can replace it.
        "next_offset": format_offset(stream.tail),
        "retained_offset": format_offset(stream.retained),
        "incarnation": format_incarnation(stream.incarnation),
    }
    if stream.snapshot_offset is not None:
        entry["snapshot_offset"] = format_offset(stream.snapshot_offset)
    return entry


def _stream_name(request: Request, parameter: str) -> str | None:
    """A stream id, or the beginning of one."""
    text = request.param(parameter)
    if text is None:
        return None
    if "/" in text or "\0" in text or len(text.encode()) > MAX_STREAM_ID_BYTES:
        raise HttpError(400, f"the query parameter {parameter} is no stream id")
    return text
