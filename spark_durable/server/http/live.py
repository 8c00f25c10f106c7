"""Live reads: long-poll and Server-Sent Events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Final

from spark_durable.protocol import headers as h
from spark_durable.server.store.errors import NotFound, StoreError
from spark_durable.server.store.model import ReadSlice, StreamStat

from .context import Context
from .cursors import next_cursor
from .lifecycle import wait_unless
from .offsets import format_incarnation, format_offset
from .reads import ReadQuery, cache_control, entity_tag, read_slice, slice_headers
from .request import Request
from .responses import NO_STORE, HttpError, Response
from .routing import StreamTarget
from .sse import HEARTBEAT, DataEncoding, control_event, data_event

_MAX_POLL_MS: Final = 60_000
# One data event; a browser holds it as a string until its last line is there.
_MAX_EVENT_BYTES: Final = 256 << 10


async def long_poll(
    context: Context, request: Request, target: StreamTarget, query: ReadQuery
) -> Response:
    """Data past the offset at once if there is any, else as soon as there is; 204 when it takes
    longer than the timeout, or when the stream has ended."""
    timeout_ms = request.int_param(h.PARAM_TIMEOUT_MS, 1, _MAX_POLL_MS)
    timeout = context.config.long_poll_timeout if timeout_ms is None else timeout_ms / 1000
    stat = context.store.stat(target.key, touch=True)
    offset = stat.tail if query.offset is None else query.offset
    if offset == stat.tail and not stat.closed:
        leave = context.live.long_polls.take(request.client)
        try:
            async with context.live.watch(request) as over:
                stat = await _wait_past(context, over, stat, offset, timeout)
        finally:
            leave()
    if offset == stat.tail:
        return _nothing_new(stat, query)
    piece, release = await read_slice(context, stat, offset, query)
    headers = slice_headers(piece)
    headers["Cache-Control"] = cache_control(context, piece)
    headers["ETag"] = entity_tag(piece)
    headers[h.STREAM_CURSOR] = next_cursor(query.cursor)
    return Response(200, headers, piece.body, release)


def _nothing_new(stat: StreamStat, query: ReadQuery) -> Response:
    headers = {
        "Cache-Control": NO_STORE,
        h.STREAM_NEXT_OFFSET: format_offset(stat.tail),
        h.STREAM_UP_TO_DATE: "true",
        h.STREAM_INCARNATION: format_incarnation(stat.stream_id),
    }
    if stat.closed:
        headers[h.STREAM_CLOSED] = "true"
    else:
        headers[h.STREAM_CURSOR] = next_cursor(query.cursor)
    return Response(204, headers)


async def server_sent_events(
    context: Context, request: Request, target: StreamTarget, query: ReadQuery
) -> Response:
    """A response that stays open. What can be refused (400, 404, 410) is refused beforehand."""
    stat = context.store.stat(target.key, touch=True)
    offset = stat.tail if query.offset is None else query.offset
    query = replace(query, max_bytes=min(query.max_bytes, _MAX_EVENT_BYTES))
    leave = context.live.sse.take(request.client)
    try:
        first = await read_slice(context, stat, offset, query)
    except BaseException:
        leave()
        raise
    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
    encoding = DataEncoding.of(stat.content_type)
    if encoding is DataEncoding.BASE64:
        headers[h.STREAM_SSE_DATA_ENCODING] = encoding.value
    headers[h.STREAM_INCARNATION] = format_incarnation(stat.stream_id)
    return Response(200, headers, _events(context, request, query, first, encoding), leave)


async def _events(
    context: Context,
    request: Request,
    query: ReadQuery,
    first: tuple[ReadSlice, Callable[[], None]],
    encoding: DataEncoding,
) -> AsyncGenerator[bytes, None]:
    config = context.config
    deadline = time.monotonic() + config.sse_duration
    piece, release = first
    try:
        async with context.live.watch(request) as over:
            while True:
                # Resumed when the client has taken the event; until then its memory is counted.
                yield _event(piece, query, encoding)
                release()
                release = _nothing
                ended = piece.closed and piece.end == piece.tail
                stat = piece.stat
                while not ended and stat.tail == piece.end and not stat.closed:
                    patience = min(config.sse_heartbeat, deadline - time.monotonic())
                    if patience <= 0:
                        return
                    stat = await _wait_past(context, over, stat, piece.end, patience)
                    if over.done():
                        return
                    if stat.tail == piece.end and not stat.closed:
                        yield HEARTBEAT
                if ended or over.done():
                    return
                piece, release = await read_slice(context, stat, piece.end, query)
    except (StoreError, HttpError):
        # Deleted, expired or trimmed under the reader: it learns which when it comes back.
        return
    finally:
        release()


async def _wait_past(
    context: Context,
    over: asyncio.Future[None],
    stat: StreamStat,
    offset: int,
    timeout: float,
) -> StreamStat:
    """Waits for bytes past ``offset`` or the end of the stream. A stream created anew under the
    same name is another stream: NotFound."""
    deadline = time.monotonic() + timeout
    while stat.tail <= offset and not stat.closed and not over.done():
        left = deadline - time.monotonic()
        if left <= 0:
            break
        await wait_unless(over, context.store.wait(stat.key, offset, left))
        current = context.store.stat(stat.key, touch=True)
        if current.stream_id != stat.stream_id:
            raise NotFound(stat.key)
        stat = current
    return stat


def _event(piece: ReadSlice, query: ReadQuery, encoding: DataEncoding) -> bytes:
    at_tail = piece.end == piece.tail
    control = control_event(
        format_offset(piece.end),
        cursor=next_cursor(query.cursor),
        up_to_date=at_tail,
        closed=piece.closed and at_tail,
    )
    if piece.start == piece.end:
        return control
    return data_event(bytes(piece.body), encoding) + control


def _nothing() -> None:
    return None
