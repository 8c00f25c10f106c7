"""Who may ask: tokens, their rights, and the names this server goes by."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from spark_durable.server.config import ServerConfig, is_loopback
from spark_durable.server.tokens import Rights

from .request import Request
from .responses import HttpError
from .types import RawHeaders

BASE_HEADERS: Final[RawHeaders] = [
    (b"x-content-type-options", b"nosniff"),
    # Whatever a stream or snapshot holds, a browser that is led to it runs none of it.
    (b"content-security-policy", b"default-src 'none'; sandbox"),
]

_READS: Final = ("GET", "HEAD")
_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Access:
    """The bearer tokens with their rights, and the Host names this server answers to."""

    def __init__(self, config: ServerConfig) -> None:
        # Digests have one length: comparing them tells nothing about that of a secret.
        self._tokens = [
            (_digest(token.read()), Rights(token.write, _bucket_set(token.buckets)))
            for token in config.all_tokens
        ]
        self._hosts = _allowed_hosts(config)
        self._any_address = not is_loopback(config.host)

    def check_host(self, request: Request) -> None:
        """Refuses a name we do not go by: a web page may point its own name at our address."""
        if self._hosts is None:
            return
        host = request.header("Host")
        if host is None:
            return
        name = host_name(host)
        if name in self._hosts or (self._any_address and _is_address(name)):
            return
        raise HttpError(421, "this server does not answer to that Host; see allowed_hosts")

    def check_token(self, request: Request) -> Rights:
        """The rights of whoever asks. Every token is compared, in constant time; without a
        configured one everyone may do everything."""
        if not self._tokens:
            return Rights()
        presented = _digest((bearer_token(request) or "").encode("latin-1"))
        found: Rights | None = None
        for digest, rights in self._tokens:
            if hmac.compare_digest(presented, digest):
                found = rights
        if found is None:
            raise HttpError(
                401,
                "a bearer token is needed: send it as 'Authorization: Bearer ...'",
                {"WWW-Authenticate": "Bearer"},
            )
        return found

    def check(self, request: Request, buckets: Iterable[str | None]) -> None:
        """401 without a token, 403 with one that lacks the right to do this to these buckets."""
        self.check_all(request, buckets, write=request.method not in _READS)

    def check_all(self, request: Request, buckets: Iterable[str | None], *, write: bool) -> None:
        missing = self.check_token(request).missing(buckets, write=write)
        if missing is not None:
            raise HttpError(403, missing)

    @property
    def shared_cache_control(self) -> str:
        """Answers to a token's holder are for that holder's cache only."""
        return "private" if self._tokens else "public"


def bearer_token(request: Request) -> str | None:
    scheme, _, token = (request.header("Authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def host_name(host: str) -> str:
    """The name of a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def _bucket_set(buckets: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if buckets is None else frozenset(buckets)


def _allowed_hosts(config: ServerConfig) -> frozenset[str] | None:
    if config.allowed_hosts is not None:
        return frozenset(name.lower() for name in config.allowed_hosts)
    own = {config.host.lower()}
    if config.public_url is not None and (name := urlsplit(config.public_url).hostname):
        own.add(name)
    if is_loopback(config.host):
        return _LOOPBACK_NAMES | own
    if config.requires_token:
        return None
    return _LOOPBACK_NAMES | own | {socket.gethostname().lower()}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
