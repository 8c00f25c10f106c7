"""Sending one webhook: a POST to a checked address, without redirects, within time and size."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

import httptools

from .webhook_url import WebhookTarget, allows

_TIMEOUT_S: Final = 15.0
_MAX_RESPONSE: Final = 64 << 10


class DeliveryError(Exception):
    """The receiver could not be reached, or gave no answer that could be read."""


async def post(target: WebhookTarget, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """Status and body of the receiver's answer. A redirect is an answer like any other."""
    try:
        return await asyncio.wait_for(_post(target, body, headers), _TIMEOUT_S)
    except asyncio.TimeoutError:
        raise DeliveryError("the receiver took too long") from None
    except (OSError, ssl.SSLError, httptools.HttpParserError) as error:
        raise DeliveryError(f"the receiver failed: {error}") from error


async def _post(target: WebhookTarget, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    # The address that was checked is the one connected to: a second lookup might differ.
    address = await _resolve(target)
    context = ssl.create_default_context() if target.tls else None
    reader, writer = await asyncio.open_connection(
        address, target.port, ssl=context, server_hostname=target.host if target.tls else None
    )
    try:
        lines = [f"POST {target.path} HTTP/1.1", f"Host: {target.authority}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
        writer.write("\r\n".join(lines).encode("latin-1") + body)
        await writer.drain()
        return await _read_response(reader)
    finally:
        writer.close()


async def _resolve(target: WebhookTarget) -> str:
    loop = asyncio.get_running_loop()
    for *_, sockaddr in await loop.getaddrinfo(target.host, target.port):
        address = str(sockaddr[0])
        if allows(target.host, address):
            return address
    raise DeliveryError(f"{target.host} resolves to no address webhooks may go to")


class _Response:
    """Collects what httptools' parser finds."""

    def __init__(self) -> None:
        self.body: list[bytes] = []
        self.size = 0
        self.complete = False

    def on_body(self, body: bytes) -> None:
        self.size += len(body)
        self.body.append(body)

    def on_message_complete(self) -> None:
        self.complete = True


async def _read_response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    response = _Response()
    parser = httptools.HttpResponseParser(response)
    received = 0
    while not response.complete:
        data = await reader.read(16 << 10)
        received += len(data)
        if received > _MAX_RESPONSE:
            raise DeliveryError(f"the receiver's answer exceeds {_MAX_RESPONSE} bytes")
        if not data:
            break
        parser.feed_data(data)
    status = parser.get_status_code()
    if not status:
        raise DeliveryError("the receiver closed without an answer")
    return status, b"".join(response.body)
