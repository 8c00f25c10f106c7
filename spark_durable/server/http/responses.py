"""Responses, and the one way an HTTP handler says no."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from .types import RawHeaders, Send

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
NO_STORE: Final = "no-store"
# What asyncio's transports buffer before they ask for a pause.
_HIGH_WATER: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Response:
    """An answer. Header names are the protocol's; the wire does not care about case.

    A body that is a generator is sent as it comes. ``release`` runs when the client has taken the
    body or is gone: memory counted against a budget is given back then, not before. ``common``
    takes the place of what every response carries: a page needs a content policy of its own.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | bytearray | AsyncGenerator[bytes, None] = b""
    release: Callable[[], None] | None = None
    common: RawHeaders | None = None

    async def send(self, send: Send, common: RawHeaders, *, to_head: bool = False) -> None:
        if self.common is not None:
            common = self.common
        try:
            if isinstance(self.body, (bytes, bytearray)):
                await self._send_whole(send, common, self.body, to_head)
            else:
                async with aclosing(self.body) as parts:
                    await _start(send, self.status, common + encode_headers(self.headers))
                    async for part in parts:
                        await _send_part(send, part)
                        # Returns when the connection's buffer has drained; the generator goes on
                        # only then, so a slow client holds one part and not all.
                        await _send_part(send, b"")
                    await _send_part(send, b"", more=False)
        finally:
            if self.release is not None:
                self.release()

    async def _send_whole(
        self, send: Send, common: RawHeaders, body: bytes | bytearray, to_head: bool
    ) -> None:
        headers = common + encode_headers(self.headers)
        # 204 has no body, 304 and HEAD of a stream describe one without knowing its length.
        if self.status not in (204, 304) and not (to_head and not body):
            headers.append((b"content-length", b"%d" % len(body)))
        await _start(send, self.status, headers)
        if self.release is None or len(body) <= _HIGH_WATER:
            await _send_part(send, body, more=False)
            return
        # The last message waits until the connection's buffer has drained. That is, until so little
        # is left in it that it must be of the end, which is a copy: a client that takes all but the
        # last bytes holds these, and not the body.
        whole = memoryview(body)
        await _send_part(send, whole[:-_HIGH_WATER])
        await _send_part(send, bytes(whole[-_HIGH_WATER:]))
        await _send_part(send, b"", more=False)


class HttpError(Exception):
    """An answer that ends a request early: status, a text for humans, the facts as headers."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = dict(headers or {})

    def response(self) -> Response:
        headers = {"Content-Type": TEXT, "Cache-Control": NO_STORE, **self.headers}
        return Response(self.status, headers, f"{self.text}\n".encode())


class ClientGone(Exception):
    """The client closed the connection; nobody is left to answer."""


def json_response(
    status: int, value: Any, *, content_type: str = JSON, cache_control: str = NO_STORE
) -> Response:
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(status, {"Content-Type": content_type, "Cache-Control": cache_control}, body)


def method_not_allowed(*allowed: str) -> HttpError:
    methods = ", ".join(allowed)
    return HttpError(405, f"this resource answers to {methods} only", {"Allow": methods})


def encode_headers(headers: Mapping[str, str]) -> RawHeaders:
    # Latin-1 is what the wire speaks; what it cannot say is sent as UTF-8 bytes.
    encoded: RawHeaders = []
    for name, value in headers.items():
        try:
            encoded.append((name.lower().encode(), value.encode("latin-1")))
        except UnicodeEncodeError:
            encoded.append((name.lower().encode(), value.encode()))
    return encoded


async def _start(send: Send, status: int, headers: RawHeaders) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _send_part(
    send: Send, body: bytes | bytearray | memoryview, *, more: bool = True
) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})
