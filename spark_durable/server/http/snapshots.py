"""Snapshots: published at a message boundary, they become the start of what is retained."""

from __future__ import annotations

from functools import partial

from spark_durable.protocol import headers as h
from spark_durable.server.store.errors import SnapshotMissing
from spark_durable.server.store.model import DEFAULT_CONTENT_TYPE

from .context import Context
from .fields import content_type
from .offsets import format_incarnation, format_offset, parse_position
from .request import Request
from .responses import NO_STORE, HttpError, Response
from .routing import LatestSnapshotTarget, SnapshotTarget


async def publish(context: Context, request: Request, target: SnapshotTarget) -> Response:
    """204 when the snapshot and the new retained offset are durable together."""
    offset = parse_position(target.offset)
    if offset is None:
        raise HttpError(400, "a snapshot's offset is one that this server sent")
    kind = content_type(request) or DEFAULT_CONTENT_TYPE
    async with request.body(context.config.max_snapshot_bytes, context.bodies) as body:
        await context.store.publish_snapshot(target.stream.key, offset, kind, body)
    return Response(204, {h.STREAM_SNAPSHOT_OFFSET: format_offset(offset)})


async def latest(context: Context, request: Request, target: LatestSnapshotTarget) -> Response:
    snapshot = context.store.snapshot(target.stream.key)
    offset = format_offset(snapshot.offset)
    return Response(
        307,
        {
            "Location": f"{request.base_url}{target.stream.path}/snapshot/{offset}",
            "Cache-Control": NO_STORE,
            h.STREAM_SNAPSHOT_OFFSET: offset,
        },
    )


async def read(context: Context, _request: Request, target: SnapshotTarget) -> Response:
    key = target.stream.key
    context.store.stat(key, touch=True)
    snapshot = context.store.snapshot(key, _existing(target))
    await context.responses.take(snapshot.size)
    release = partial(context.responses.give_back, snapshot.size)
    try:
        body = snapshot.read()
    except BaseException:
        release()
        raise
    offset = format_offset(snapshot.offset)
    headers = {
        "Content-Type": snapshot.content_type,
        "Cache-Control": NO_STORE,
        h.STREAM_SNAPSHOT_OFFSET: offset,
        h.STREAM_NEXT_OFFSET: offset,
        h.STREAM_UP_TO_DATE: "true" if snapshot.stream.tail == snapshot.offset else "false",
        h.STREAM_INCARNATION: format_incarnation(snapshot.stream.stream_id),
    }
    return Response(200, headers, body, release)


async def delete(context: Context, _request: Request, target: SnapshotTarget) -> Response:
    await context.store.delete_snapshot(target.stream.key, _existing(target))
    return Response(204)


def _existing(target: SnapshotTarget) -> int:
    """An offset that cannot be one names no snapshot."""
    offset = parse_position(target.offset)
    if offset is None:
        raise HttpError(404, str(SnapshotMissing(target.stream.key, None)))
    return offset
