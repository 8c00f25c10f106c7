"""Web pages: whose may use this server, and the headers that tell their browsers."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from spark_durable.protocol import headers as h
from spark_durable.server.config import ServerConfig, is_loopback

from .request import Request
from .responses import HttpError, Response
from .security import BASE_HEADERS
from .types import RawHeaders

_METHODS: Final = "GET, HEAD, POST, PUT, DELETE, OPTIONS"
_REQUEST_HEADERS: Final = (
    "Authorization",
    "Content-Type",
    "If-None-Match",
    h.STREAM_SEQ,
    h.STREAM_TTL,
    h.STREAM_EXPIRES_AT,
    h.STREAM_CLOSED,
    h.STREAM_FORKED_FROM,
    h.STREAM_FORK_OFFSET,
    h.STREAM_FORK_SUB_OFFSET,
    h.PRODUCER_ID,
    h.PRODUCER_EPOCH,
    h.PRODUCER_SEQ,
)
_EXPOSE: Final = (b"access-control-expose-headers", b"*")


class Origins:
    """Where a token is asked for, any page may try: it has to know the token. A server that asks
    for none would let every page its user visits read and write; it serves pages of the machine it
    runs on and its own, and refuses requests that name another origin."""

    def __init__(self, config: ServerConfig) -> None:
        origins = config.cors_origins
        if origins is None and config.requires_token:
            origins = ("*",)
        self._any = origins is not None and "*" in origins
        self._listed = frozenset(origin.lower().rstrip("/") for origin in origins or ())
        self._loopback = origins is None and is_loopback(config.host)
        self._to_any: RawHeaders = [
            *BASE_HEADERS,
            (b"cross-origin-resource-policy", b"cross-origin"),
            (b"access-control-allow-origin", b"*"),
            _EXPOSE,
        ]
        self._to_others: RawHeaders = [
            *BASE_HEADERS,
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"vary", b"Origin"),
        ]

    def check(self, request: Request) -> None:
        """Refuses what a foreign page sends: some requests need no leave of ours to be sent, only
        their answers are kept from the page."""
        origin = request.header("Origin")
        if origin is not None and not self._allows(request, origin):
            raise HttpError(403, "pages of this origin may not use this server; see cors_origins")

    def headers(self, request: Request) -> RawHeaders:
        """What every response carries."""
        if self._any:
            return self._to_any
        origin = request.header("Origin")
        if origin is None or not self._allows(request, origin):
            return self._to_others
        allow = (b"access-control-allow-origin", origin.encode("latin-1"))
        return [*self._to_others, allow, _EXPOSE]

    def _allows(self, request: Request, origin: str) -> bool:
        if self._any or origin.lower() in self._listed:
            return True
        if origin.lower() == request.base_url.lower():
            return True
        if not self._loopback:
            return False
        try:
            parts = urlsplit(origin)
            return parts.scheme in ("http", "https") and is_loopback(parts.hostname or "")
        except ValueError:
            return False


def preflight() -> Response:
    return Response(
        204,
        {
            "Access-Control-Allow-Methods": _METHODS,
            "Access-Control-Allow-Headers": ", ".join(_REQUEST_HEADERS),
            "Access-Control-Max-Age": "86400",
        },
    )
