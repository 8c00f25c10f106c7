"""Create, append, close, delete and HEAD: the verbs that change a stream or describe it."""

from __future__ import annotations

from spark_durable.protocol import headers as h
from spark_durable.server.store.model import Appended, StreamStat

from .context import Context
from .fields import append_spec, create_spec
from .offsets import format_incarnation, format_offset
from .request import Request
from .responses import NO_STORE, Response
from .routing import StreamTarget, bucket_of_key


async def create(context: Context, request: Request, target: StreamTarget) -> Response:
    """201, or 200 when the stream exists as asked. Both are sent once the stream is durable."""
    limit = context.config.max_append_bytes
    async with request.body(limit, context.bodies) as body:
        spec = create_spec(request, body)
        if spec.fork is not None:
            # A fork reads its source, on behalf of whoever asks for it.
            source = bucket_of_key(spec.fork.source_key)
            context.access.check_all(request, [source], write=False)
        created = await context.store.create(target.key, spec)
    stat = created.stat
    headers = {
        "Content-Type": stat.content_type,
        "Cache-Control": NO_STORE,
        h.STREAM_NEXT_OFFSET: format_offset(stat.tail),
        h.STREAM_INCARNATION: format_incarnation(stat.stream_id),
    }
    if stat.closed:
        headers[h.STREAM_CLOSED] = "true"
    if created.created:
        headers["Location"] = request.base_url + target.path
        context.subscriptions.created(stat)
    return Response(201 if created.created else 200, headers)


async def append(context: Context, request: Request, target: StreamTarget) -> Response:
    """Answers when the bytes and the producer's state are durable together."""
    limit = context.config.max_append_bytes
    async with request.body(limit, context.bodies) as body:
        spec = append_spec(request, body)
        appended = await context.store.append(target.key, spec)
    if appended.outcome == "appended":
        context.subscriptions.appended(target.key)
    # New data of a producer is 200; duplicates, bare closes and appends without a producer are 204.
    fresh = appended.outcome == "appended" and spec.producer is not None
    return Response(200 if fresh else 204, _append_headers(appended))


async def delete(context: Context, _request: Request, target: StreamTarget) -> Response:
    await context.store.delete(target.key)
    context.subscriptions.deleted(target.key)
    return Response(204)


async def head(context: Context, _request: Request, target: StreamTarget) -> Response:
    """The stream's facts. Asking does not extend its time to live."""
    stat = context.store.stat(target.key)
    headers = {
        "Content-Type": stat.content_type,
        "Cache-Control": NO_STORE,
        h.STREAM_NEXT_OFFSET: format_offset(stat.tail),
        h.STREAM_RETAINED_OFFSET: format_offset(stat.retained),
        h.STREAM_INCARNATION: format_incarnation(stat.stream_id),
        h.STREAM_MAX_APPEND_BYTES: str(context.config.max_append_bytes),
        **_expiry_headers(stat),
    }
    if stat.closed:
        headers[h.STREAM_CLOSED] = "true"
    if stat.snapshot_offset is not None:
        headers[h.STREAM_SNAPSHOT_OFFSET] = format_offset(stat.snapshot_offset)
    return Response(200, headers)


def _append_headers(appended: Appended) -> dict[str, str]:
    headers = {h.STREAM_NEXT_OFFSET: format_offset(appended.next_offset)}
    if appended.producer_epoch is not None:
        headers[h.PRODUCER_EPOCH] = str(appended.producer_epoch)
    if appended.producer_seq is not None:
        headers[h.PRODUCER_SEQ] = str(appended.producer_seq)
    if appended.closed:
        headers[h.STREAM_CLOSED] = "true"
    return headers


def _expiry_headers(stat: StreamStat) -> dict[str, str]:
    headers = {}
    if stat.ttl_s is not None:
        headers[h.STREAM_TTL] = str(stat.ttl_s)
    if stat.expires_at_text is not None:
        headers[h.STREAM_EXPIRES_AT] = stat.expires_at_text
    return headers
