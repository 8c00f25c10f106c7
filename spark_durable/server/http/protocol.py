"""The connection: uvicorn's HTTP/1.1 protocol with bounds on what a client may cost.

uvicorn buffers a request head of any size, waits for its end for ever, and does so for bodies and
for readers that stop reading. Here a head has a size and a deadline, and whoever sends a body or
reads a response must keep up a minimal rate. Requests that arrive whole never start a timer.
A connection too many is told so when it asks for something, and closed.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from spark_durable.server.config import ServerConfig

from .connections import Connections
from .request import client_of
from .security import BASE_HEADERS

# What is still read and thrown away after an early answer (413, say), so that a client in the
# middle of sending gets to see it.
_DISCARD_LIMIT: Final = 64 << 20


# What connections may read before their handlers take it: all together, and each one.
_READ_AHEAD_TOTAL: Final = 32 << 20
_READ_AHEAD_MOST: Final = 8 << 20
_READ_AHEAD_LEAST: Final = 64 << 10

# How long a connection too many is kept, to be told so when its request comes.
_REFUSAL_S: Final = 1.0


class _HeadTooLarge(Exception):
    pass


class _Parts(bytearray):
    """Takes the place of the buffer in which uvicorn gathers a body, without copying: handed out
    part by part, a body is copied once, when it is joined."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._size = 0

    def __iadd__(self, part: bytes) -> _Parts:  # type: ignore[override, misc]
        self._parts.append(part)
        self._size += len(part)
        return self

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


def protocol_class(limits: ServerConfig) -> type[HttpToolsProtocol]:
    """The protocol with its limits filled in, as uvicorn wants a class and not an object."""
    admissions = Connections(limits)

    class Protocol(BoundedProtocol):
        def __init__(
            self,
            config: Config,
            server_state: ServerState,
            app_state: dict[str, Any],
            _loop: asyncio.AbstractEventLoop | None = None,
        ) -> None:
            super().__init__(config, server_state, app_state, _loop)
            self.limits = limits
            self.admissions = admissions

    return Protocol


class BoundedProtocol(HttpToolsProtocol):
    limits: ServerConfig
    admissions: Connections

    # Class attributes serve as initial values: a connection allocates only what it changes.
    _head_open = False
    _head_bytes = 0
    _head_began = False
    _head_too_large = False
    _message_open = False
    _body_bytes = 0
    _body_checked = 0
    _discarded = 0
    _unsent_checked = 0
    _admitted: str | None = None
    _refused = False
    _head_timer: asyncio.TimerHandle | None = None
    _body_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    # -- reading

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        client = client_of(self.client[0]) if self.client else ""
        if self.admissions.admit(client):
            self._admitted = client
            self._head_timer = self._later(self.limits.header_timeout, self._head_late)
        elif self.admissions.linger():
            self._refused = True
            self._head_timer = self._later(_REFUSAL_S, self.transport.close)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._body_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._body_timer = self._write_timer = None
        if self._admitted is not None:
            self.admissions.leave(self._admitted)
            self._admitted = None
        elif self._refused:
            self.admissions.go()
            self._refused = False
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._admitted is None:
            # Answered once a request is there: hanging up on unread bytes would undo the answer.
            self._refuse(503, "too many connections are open; try again", retry_after=1)
            return
        self._head_began = False
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._head_open:
            # Data that also held the end of an earlier message is not counted: it would count
            # that message's body as this one's head.
            if not self._head_began:
                self._head_bytes += len(data)
            if self._head_bytes > self.limits.max_header_bytes:
                self._refuse(431, self._head_text())
            elif self._head_timer is None:
                self._head_timer = self._later(self.limits.header_timeout, self._head_late)
        elif self._message_open:
            if self._body_timer is None:
                self._body_checked = self._body_bytes
                self._body_timer = self._later(self.limits.stall_timeout, self._check_body)
        elif self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
            # Empty lines between requests: uvicorn took them for the next one and stopped waiting.
            self._head_timer = self._later(self.limits.header_timeout, self._head_late)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_open = self._head_began = self._message_open = True
        self._head_bytes = self._body_bytes = self._discarded = 0

    def on_headers_complete(self) -> None:
        self._head_open = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        head = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if head > self.limits.max_header_bytes:
            self._head_too_large = True
            raise _HeadTooLarge
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        cycle = self.cycle
        if cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > _DISCARD_LIMIT:
                self.transport.close()
            return
        if not isinstance(cycle.body, _Parts):
            cycle.body = _Parts()
        cycle.body += body
        ahead = len(cycle.body)
        if ahead >= _READ_AHEAD_LEAST and ahead >= self._read_ahead():
            self.flow.pause_reading()
            # The handler wants the whole body: woken for every piece, it would take a turn of the
            # loop for each. The end of the message wakes it by itself.
            cycle.message_event.set()

    def _read_ahead(self) -> int:
        """Much for a few connections, as each pause costs a turn of the loop; little for many."""
        share = _READ_AHEAD_TOTAL // max(1, len(self.connections))
        return max(_READ_AHEAD_LEAST, min(_READ_AHEAD_MOST, share))

    def on_message_complete(self) -> None:
        self._message_open = False
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None
        super().on_message_complete()

    def _head_late(self) -> None:
        self._head_timer = None
        if self._head_open:
            self._refuse(408, "the request's head did not arrive in time")
        else:
            self.transport.close()

    def _check_body(self) -> None:
        # While reading is paused the server is the slow one.
        due = self.limits.min_rate * self.limits.stall_timeout
        slow = self._body_bytes - self._body_checked < due and not self.flow.read_paused
        if slow:
            self._body_timer = None
            self._refuse(408, "the request's body did not arrive in time")
            return
        self._body_checked = self._body_bytes
        self._body_timer = self._later(self.limits.stall_timeout, self._check_body)

    # -- writing

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._unsent_checked = self.transport.get_write_buffer_size()
            self._write_timer = self._later(self.limits.stall_timeout, self._check_write)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def on_response_complete(self) -> None:
        """Also the rest that a transport buffers without asking for a pause has to be taken:
        closing waits for it, for ever if need be."""
        super().on_response_complete()
        unsent = self.transport.get_write_buffer_size()
        if unsent and self._write_timer is None:
            self._unsent_checked = unsent
            self._write_timer = self._later(self.limits.stall_timeout, self._check_write)

    def _check_write(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if not unsent:
            self._write_timer = None
            return
        due = self.limits.min_rate * self.limits.stall_timeout
        if self._unsent_checked - unsent < due:
            self._write_timer = None
            self.transport.abort()
            return
        self._unsent_checked = unsent
        self._write_timer = self._later(self.limits.stall_timeout, self._check_write)

    # -- refusing

    def send_400_response(self, msg: str) -> None:
        """uvicorn's answer to anything its parser, or a callback of it, could not take."""
        if self._head_too_large:
            self._refuse(431, self._head_text())
        else:
            self._refuse(400, "this is not a valid HTTP/1.1 request")

    def _head_text(self) -> str:
        return f"the request's head exceeds {self.limits.max_header_bytes} bytes"

    def _refuse(self, status: int, text: str, *, retry_after: int | None = None) -> None:
        """Answers and hangs up; into a response that has begun nothing more is written."""
        if self.transport.is_closing():
            return
        cycle = self.cycle
        busy = cycle is not None and cycle.response_started and not cycle.response_complete
        if not busy:
            body = f"{text}\n".encode()
            lines = [STATUS_LINE[status]]
            for name, value in (*self.server_state.default_headers, *BASE_HEADERS):
                lines.append(name + b": " + value + b"\r\n")
            lines.append(b"content-type: text/plain; charset=utf-8\r\ncache-control: no-store\r\n")
            if retry_after is not None:
                lines.append(b"retry-after: %d\r\n" % retry_after)
            lines.append(b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body))
            self.transport.write(b"".join((*lines, body)))
        self.transport.close()
        self._later(self.limits.stall_timeout, self.transport.abort)

    def _later(self, delay: float, callback: Any) -> asyncio.TimerHandle:
        return self.loop.call_later(delay, callback)
