"""Bootstrap: the snapshot and every retained message after it, as one multipart response."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from typing import Final

from spark_durable.protocol import headers as h
from spark_durable.server.store.model import DEFAULT_CONTENT_TYPE, Bootstrap

from .context import Context
from .offsets import format_incarnation, format_offset
from .request import Request
from .responses import NO_STORE, HttpError, Response
from .routing import BootstrapTarget

# What one step may hold of messages and their part headers.
_STEP_BYTES: Final = 2 << 20


async def bootstrap(context: Context, request: Request, target: BootstrapTarget) -> Response:
    """Fixed when the request arrives: appends and snapshots that come later are not part of it."""
    if request.param(h.PARAM_LIVE) is not None:
        raise HttpError(400, "bootstrap is one answer; follow it with a live read of the stream")
    context.store.stat(target.stream.key, touch=True)
    state = context.store.bootstrap(target.stream.key)
    # Long and random: no content holds it by chance, and none can be made to.
    boundary = f"part-{secrets.token_hex(24)}"
    snapshot = state.snapshot
    headers = {
        "Content-Type": f"multipart/mixed; boundary={boundary}",
        "Cache-Control": NO_STORE,
        h.STREAM_SNAPSHOT_OFFSET: (
            h.OFFSET_BEGINNING if snapshot is None else format_offset(snapshot.offset)
        ),
        h.STREAM_NEXT_OFFSET: format_offset(state.end),
        h.STREAM_UP_TO_DATE: "true",
        h.STREAM_INCARNATION: format_incarnation(state.stat.stream_id),
    }
    if state.stat.closed:
        headers[h.STREAM_CLOSED] = "true"
    return Response(200, headers, _parts(context, request, state, boundary.encode()))


async def _parts(
    context: Context, request: Request, state: Bootstrap, boundary: bytes
) -> AsyncGenerator[bytes, None]:
    delimiter = b"\r\n--" + boundary + b"\r\nContent-Type: "
    snapshot = state.snapshot
    first_type = DEFAULT_CONTENT_TYPE if snapshot is None else snapshot.content_type
    async with context.live.watch(request) as over:
        head = delimiter[2:] + first_type.encode("latin-1") + b"\r\n\r\n"
        if snapshot is None:
            yield head
        else:
            async with context.responses.share(snapshot.size):
                yield head + snapshot.read()
        part = delimiter + state.stat.content_type.encode("latin-1") + b"\r\n\r\n"
        while not over.done():
            async with context.responses.share(_STEP_BYTES):
                messages = next(state.chunks, None)
                if messages is None:
                    break
                yield part + part.join(messages)
        else:
            if context.live.stopped:
                # Cut the connection: an answer that just ends would look whole to some clients.
                raise RuntimeError("the server stops in the middle of a bootstrap")
            return
        yield b"\r\n--" + boundary + b"--\r\n"
