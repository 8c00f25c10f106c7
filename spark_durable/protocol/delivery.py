"""Connections that note when a request begins to leave, and refuse an answer cut in its head.

The exceptions of urllib3 do not tell a failed handshake from a failed read, and whether an append
may be repeated hangs on just that. So the connection itself keeps the note.
"""

from __future__ import annotations

import http.client
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

# A timeout on sendall() covers the whole call, so large bodies go out in slices of this size:
# the timeout then bounds a stall and not the upload.
_SLICE = 1 << 20

# Bodies up to this size leave in one packet train with their head: half the system calls, and the
# server wakes up once.
_TOGETHER = 1 << 14


@dataclass(slots=True)
class Delivery:
    """The state of one attempt. ``begun`` turns true just before the request's first byte."""

    stall_timeout: float
    begun: bool = False


# The connection runs in the thread of its caller, far below it: a context variable links the two.
current: ContextVar[Delivery] = ContextVar("delivery")


class _Lines:
    """The lines of an answer's head. The standard library takes an end of file for their end."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._begun = False

    def readline(self, limit: int = -1) -> bytes:
        line: bytes = self._file.readline(limit)
        if not line and self._begun:
            raise http.client.IncompleteRead(b"")
        self._begun = True
        return line

    def close(self) -> None:
        self._file.close()


class _WholeHeadResponse(http.client.HTTPResponse):
    """Refuses an answer that is cut in its headers, where the ones that matter may be missing."""

    def begin(self) -> None:
        file = self.fp
        self.fp = _Lines(file)  # type: ignore[assignment]
        try:
            super().begin()
        finally:
            if self.fp is not None:
                self.fp = file


class _NotingConnection(HTTPConnection):
    response_class = _WholeHeadResponse
    _joins_body = False
    _held_head: Any = None

    def request(
        self, method: str, url: str, body: Any = None, headers: Any = None, **kwargs: Any
    ) -> None:
        self._joins_body = isinstance(body, bytes | bytearray) and 0 < len(body) <= _TOGETHER
        self._held_head = None
        super().request(method, url, body, headers, **kwargs)

    def endheaders(self, message_body: Any = None, *, encode_chunked: bool = False) -> None:
        if self.sock is None:
            self.connect()
        delivery = current.get()
        # Until here the socket had the connect timeout, which says nothing about sending.
        self.sock.settimeout(delivery.stall_timeout)
        delivery.begun = True
        if self._joins_body:
            self._held_head = b""
        super().endheaders(message_body, encode_chunked=encode_chunked)

    def send(self, data: Any) -> None:
        if self._held_head == b"":
            self._held_head = data
        elif self._held_head is not None:
            head, self._held_head = self._held_head, None
            super().send(head + data)
        elif not isinstance(data, bytes | bytearray | memoryview) or len(data) <= _SLICE:
            super().send(data)
        else:
            view = memoryview(data)
            for start in range(0, len(view), _SLICE):
                super().send(view[start : start + _SLICE])


class _NotingTlsConnection(_NotingConnection, HTTPSConnection):
    pass


class NotingPool(HTTPConnectionPool):
    ConnectionCls = _NotingConnection


class NotingTlsPool(HTTPSConnectionPool):
    ConnectionCls = _NotingTlsConnection
