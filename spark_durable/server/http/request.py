"""A request as handlers see it: headers and query as text, the body within limits."""

from __future__ import annotations

import ipaddress
from functools import cache
from types import TracebackType
from typing import Final
from urllib.parse import unquote_to_bytes

from .budget import ByteBudget, overloaded
from .responses import ClientGone, HttpError
from .types import Receive, Scope

# A body without a length takes its share of the budget in steps of this size.
_STEP: Final = 64 << 10


class Request:
    """One HTTP request. Values of a repeated header are joined with a comma, as HTTP has it."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.raw_path: bytes = scope["raw_path"]
        self.receive = receive
        self._scope = scope
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            headers[name] = headers[name] + b", " + value if name in headers else value
        self._headers = headers
        self._query: dict[str, list[str]] | None = None

    def header(self, name: str) -> str | None:
        value = self._headers.get(_wire_name(name))
        return None if value is None else value.decode("latin-1").strip()

    def flag(self, name: str) -> bool:
        """True only for the value ``true``, in any case; any other value counts as absent."""
        value = self.header(name)
        return value is not None and value.lower() == "true"

    def param(self, name: str) -> str | None:
        """A query parameter given at most once. Parameters nobody asks for are ignored."""
        values = self.query.get(name)
        if values is None:
            return None
        if len(values) > 1:
            raise HttpError(400, f"the query parameter {name} is given more than once")
        return values[0]

    def int_param(self, name: str, low: int, high: int) -> int | None:
        text = self.param(name)
        if text is None:
            return None
        if text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high:
            return int(text)
        raise HttpError(400, f"the query parameter {name} must be a number from {low} to {high}")

    @property
    def query(self) -> dict[str, list[str]]:
        if self._query is None:
            self._query = _parse_query(self._scope["query_string"])
        return self._query

    @property
    def base_url(self) -> str:
        """Scheme and authority as the client wrote them."""
        host = self.header("Host")
        if not host:
            name, port = self._scope["server"]
            host = f"{name}:{port}"
        return f"{self._scope['scheme']}://{host}"

    @property
    def client(self) -> str:
        """The address the request comes from, the same for all that one client may use."""
        peer = self._scope.get("client")
        return client_of(peer[0]) if peer else ""

    def content_length(self) -> int | None:
        text = self.header("Content-Length")
        if text is None:
            return None
        if not (text.isascii() and text.isdigit()):
            raise HttpError(400, "Content-Length must be a number")
        return int(text)

    def body(self, limit: int, budget: ByteBudget) -> _Body:
        """The whole body, held against ``budget`` until the block is left.

        Past ``limit`` the answer is 413, told before the body is read where its length is known.
        A client that leaves in the middle raises ClientGone: half a body is never handed out.
        """
        return _Body(self, limit, budget)

    def __contains__(self, header: str) -> bool:
        return _wire_name(header) in self._headers


class _Body:
    """What ``Request.body`` gives: every request passes here, and a generator costs twice as much.

    >>> async with request.body(limit, budget) as body: ...
    """

    __slots__ = ("_budget", "_held", "_limit", "_request")

    def __init__(self, request: Request, limit: int, budget: ByteBudget) -> None:
        self._request = request
        self._limit = limit
        self._budget = budget
        self._held = 0

    async def __aenter__(self) -> bytes:
        length = self._request.content_length()
        if not length and "Transfer-Encoding" not in self._request:
            return b""
        if length is not None and length > self._limit:
            raise _too_large(self._limit)
        await self._budget.take(length or 0)
        self._held = length or 0
        try:
            return await self._whole()
        except BaseException:
            self._give_back()
            raise

    async def _whole(self) -> bytes:
        parts: list[bytes] = []
        received = 0
        while True:
            message = await self._request.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            part = message["body"]
            received += len(part)
            if received > self._limit:
                raise _too_large(self._limit)
            while received > self._held:
                # Asked for without waiting: two growing bodies must not wait for each other.
                if not self._budget.try_take(_STEP):
                    raise overloaded()
                self._held += _STEP
            parts.append(part)
            if not message["more_body"]:
                return parts[0] if len(parts) == 1 else b"".join(parts)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._give_back()

    def _give_back(self) -> None:
        self._budget.give_back(self._held)
        self._held = 0


@cache  # only names that the code itself asks for
def _wire_name(name: str) -> bytes:
    return name.lower().encode()


def client_of(address: str) -> str:
    """Whom an address belongs to: behind IPv6 a client has 2^64 of them."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))


def _too_large(limit: int) -> HttpError:
    return HttpError(413, f"the body exceeds {limit} bytes; send it in smaller pieces")


def _parse_query(raw: bytes) -> dict[str, list[str]]:
    query: dict[str, list[str]] = {}
    if not raw:
        return query
    for pair in raw.split(b"&"):
        name, _, value = pair.partition(b"=")
        query.setdefault(_decode(name), []).append(_decode(value))
    return query


def _decode(raw: bytes) -> str:
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError:
        raise HttpError(400, "the query is not UTF-8") from None
