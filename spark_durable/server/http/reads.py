"""Catch-up reads: a slice of whole messages, with all a client or cache needs to go on from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from spark_durable.protocol import headers as h
from spark_durable.server.store.model import ReadSlice, StreamStat

from .context import Context
from .offsets import format_incarnation, format_offset, parse_read_offset
from .request import Request
from .responses import NO_STORE, HttpError, Response
from .routing import StreamTarget

_MAX_AGE_S: Final = 60
_STALE_S: Final = 300

Align = Literal["exact", "next"]


@dataclass(frozen=True, slots=True)
class ReadQuery:
    """What a GET asks for. ``offset`` None is the tail, wherever it is now."""

    offset: int | None
    live: str | None
    cursor: str | None
    align: Align
    max_bytes: int


def parse_query(context: Context, request: Request) -> ReadQuery:
    text = request.param(h.PARAM_OFFSET)
    live = request.param(h.PARAM_LIVE)
    if live not in (None, h.LIVE_LONG_POLL, h.LIVE_SSE):
        raise HttpError(400, f"live must be {h.LIVE_LONG_POLL} or {h.LIVE_SSE}")
    if live is not None and text is None:
        raise HttpError(400, f"live={live} needs an offset")
    cap = context.config.max_read_bytes
    max_bytes = request.int_param(h.PARAM_MAX_BYTES, 1, 2**53)
    return ReadQuery(
        offset=parse_read_offset(text),
        live=live,
        cursor=request.param(h.PARAM_CURSOR),
        align=_align(request),
        max_bytes=cap if max_bytes is None else min(cap, max_bytes),
    )


def _align(request: Request) -> Align:
    match request.param(h.PARAM_ALIGN):
        case None | "exact":
            return "exact"
        case "next":
            return "next"
        case _:
            raise HttpError(400, f"{h.PARAM_ALIGN} must be exact or next")


async def catch_up(
    context: Context, request: Request, target: StreamTarget, query: ReadQuery
) -> Response:
    stat = context.store.stat(target.key, touch=True)
    if query.offset is None:
        return _at_tail(stat)
    piece, release = await read_slice(context, stat, query.offset, query)
    headers = slice_headers(piece)
    headers["Cache-Control"] = cache_control(context, piece)
    etag = headers["ETag"] = entity_tag(piece)
    if query.align == "next":
        headers[h.STREAM_START_OFFSET] = format_offset(piece.start)
    if matches(request.header("If-None-Match"), etag):
        return Response(304, headers, release=release)
    return Response(200, headers, piece.body, release)


async def read_slice(
    context: Context, stat: StreamStat, offset: int, query: ReadQuery
) -> tuple[ReadSlice, Callable[[], None]]:
    """A slice, and what gives its share of the response budget back."""
    size = min(query.max_bytes, max(0, stat.tail - offset))
    await context.responses.take(size)
    try:
        piece = context.store.read(stat.key, offset, query.max_bytes, align=query.align)
    except BaseException:
        context.responses.give_back(size)
        raise
    return piece, partial(context.responses.give_back, size)


def slice_headers(piece: ReadSlice) -> dict[str, str]:
    headers = {
        "Content-Type": piece.stat.content_type,
        h.STREAM_NEXT_OFFSET: format_offset(piece.end),
        h.STREAM_INCARNATION: format_incarnation(piece.stat.stream_id),
    }
    if piece.end == piece.tail:
        headers[h.STREAM_UP_TO_DATE] = "true"
        if piece.closed:
            headers[h.STREAM_CLOSED] = "true"
    return headers


def entity_tag(piece: ReadSlice) -> str:
    """Names the incarnation, so that a stream created anew under the same name never matches, and
    whether the end was told, so that 304 never hides it."""
    ended = ":c" if piece.closed and piece.end == piece.tail else ""
    incarnation = format_incarnation(piece.stat.stream_id)
    return f'"{incarnation}:{piece.start}:{piece.end}{ended}"'


def matches(if_none_match: str | None, etag: str) -> bool:
    if if_none_match is None:
        return False
    candidates = [part.strip().removeprefix("W/") for part in if_none_match.split(",")]
    return etag in candidates or "*" in candidates


def cache_control(context: Context, piece: ReadSlice) -> str:
    """Bytes at an offset never change, so they may be kept; an empty answer at an open tail is the
    one that goes stale with the next append, and is asked for again each time."""
    scope = context.access.shared_cache_control
    if piece.start == piece.end and not piece.closed:
        return f"{scope}, no-cache"
    stat = piece.stat
    if stat.ttl_s is not None or stat.expires_at_text is not None:
        # A cache must not outlive the stream, and should let reads through that keep it alive.
        return f"{scope}, no-cache"
    return f"{scope}, max-age={_MAX_AGE_S}, stale-while-revalidate={_STALE_S}"


def _at_tail(stat: StreamStat) -> Response:
    """``offset=now``: where the stream ends, and nothing of what it holds."""
    headers = {
        "Content-Type": stat.content_type,
        "Cache-Control": NO_STORE,
        h.STREAM_NEXT_OFFSET: format_offset(stat.tail),
        h.STREAM_UP_TO_DATE: "true",
        h.STREAM_INCARNATION: format_incarnation(stat.stream_id),
    }
    if stat.closed:
        headers[h.STREAM_CLOSED] = "true"
    return Response(200, headers, b"[]" if stat.json else b"")
