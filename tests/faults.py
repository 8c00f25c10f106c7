"""A proxy that fails on purpose: between client and server, by script or by seeded chance.

``with FaultProxy(server_url, script) as proxy:`` gives ``proxy.url``; what is asked there goes to
the server, unless the script says otherwise.
"""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class Kind(Enum):
    PASS = "pass"
    LOSE_ANSWER = "lose answer"  # the server does it and answers; the client never hears of it
    LOSE_REQUEST = "lose request"  # the connection breaks before the server sees anything
    CUT_REQUEST = "cut request"  # the server sees half of the body, then the end
    CUT_ANSWER = "cut answer"  # the client gets half of the answer's body, then the end
    TRICKLE = "trickle"  # the answer begins in drops, each a little later
    REFUSE = "refuse"  # answered here, with `status`, `retry_after` and `text`


@dataclass(frozen=True, slots=True)
class Fault:
    kind: Kind = Kind.PASS
    delay_s: float = 0.0
    status: int = 503
    retry_after: str | None = None
    text: str = ""


PASS = Fault()


@dataclass(frozen=True, slots=True)
class Request:
    """What the script decides by. ``number`` counts all requests from 0."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    size: int
    body: bytes = b""

    @property
    def is_append(self) -> bool:
        return self.method == "POST" and self.headers.get("producer-seq") != str(2**53 - 1)


@dataclass(frozen=True, slots=True)
class Exchange:
    """What became of a request: ``status`` is the server's, None if it gave no answer."""

    request: Request
    fault: Fault
    status: int | None


Script = Callable[[Request], Fault]


def seeded(seed: int, share: float, *faults: Fault) -> Script:
    """One of the faults for about ``share`` of the requests, the same ones for the same seed."""
    rng = random.Random(seed)
    lock = threading.Lock()

    def script(request: Request) -> Fault:
        with lock:
            return rng.choice(faults) if rng.random() < share else PASS

    return script


class FaultProxy:
    """Forwards HTTP/1.1 to ``upstream``, which may be changed while it runs."""

    def __init__(self, upstream: str, script: Script = lambda request: PASS) -> None:
        self.upstream = upstream
        self.script = script
        self.exchanges: list[Exchange] = []
        self._lock = threading.Lock()
        self._count = 0
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The upstream's URL with this proxy in the place of the server."""
        parts = urlsplit(self.upstream)
        return parts._replace(netloc=f"127.0.0.1:{self._server.server_port}").geturl()

    def through(self, url: str) -> str:
        """Any URL of the upstream server, by way of this proxy."""
        netloc = f"127.0.0.1:{self._server.server_port}"
        return urlsplit(url)._replace(netloc=netloc).geturl()

    def number(self) -> int:
        with self._lock:
            self._count += 1
            return self._count - 1

    def note(self, exchange: Exchange) -> None:
        with self._lock:
            self.exchanges.append(exchange)

    def seen(self, kind: Kind) -> int:
        """How often a fault has happened: a test that saw none has shown nothing."""
        with self._lock:
            return sum(exchange.fault.kind is kind for exchange in self.exchanges)

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    owner: FaultProxy
    protocol_version = "HTTP/1.1"
    # Small answers must not wait for the client's delayed acknowledgement.
    disable_nagle_algorithm = True

    def log_message(self, *args: Any) -> None:
        pass

    def _handle(self) -> None:
        body = self._body()
        names = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.owner.number(), self.command, self.path, names, len(body), body)
        fault = self.owner.script(request)
        if fault.delay_s:
            time.sleep(fault.delay_s)
        try:
            if fault.kind in _FORWARDED:
                self._forward(request, body, fault)
                return
            self.owner.note(Exchange(request, fault, None))
            if fault.kind is Kind.REFUSE:
                self._refuse(fault)
                return
            if fault.kind is Kind.CUT_REQUEST:
                self._send_half(body)
            self._hang_up()
        except (OSError, http.client.HTTPException):
            self._hang_up()  # the server is away, or the client is

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _handle

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            pieces = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _forward(self, request: Request, body: bytes, fault: Fault) -> None:
        with self._upstream() as connection:
            headers = {n: v for n, v in self.headers.items() if n.lower() not in _HOP}
            headers["Content-Length"] = str(len(body))
            try:
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException):
                self.owner.note(Exchange(request, fault, None))
                raise
            # Before the client hears of it, so that a test finds it noted.
            self.owner.note(Exchange(request, fault, answer.status))
            if fault.kind is Kind.LOSE_ANSWER:
                answer.read()
                self._hang_up()
            else:
                self._relay(answer, fault.kind)

    @contextmanager
    def _upstream(self) -> Iterator[http.client.HTTPConnection]:
        parts = urlsplit(self.owner.upstream)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        try:
            yield connection
        finally:
            connection.close()

    def _relay(self, answer: http.client.HTTPResponse, kind: Kind) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP - {"content-length"}:
                self.send_header(name, value)
        bodiless = self.command == "HEAD" or answer.status in (204, 304)
        chunked = not bodiless and answer.getheader("Content-Length") is None
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if bodiless:
            return
        if kind is Kind.CUT_ANSWER:
            whole = answer.read()
            half = whole[: len(whole) // 2]
            self.wfile.write(b"%x\r\n%b" % (len(whole), half) if chunked else half)
            self._hang_up()
            return
        drops = _DROPS if kind is Kind.TRICKLE else 0
        while piece := answer.read1(_DROP_BYTES if drops else 1 << 16):
            if drops:
                drops -= 1
                time.sleep(_DROP_EVERY_S)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            self.wfile.flush()
        if chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _refuse(self, fault: Fault) -> None:
        self.send_response_only(fault.status)
        if fault.retry_after is not None:
            self.send_header("Retry-After", fault.retry_after)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(fault.text.encode())))
        self.end_headers()
        self.wfile.write(fault.text.encode())

    def _send_half(self, body: bytes) -> None:
        parts = urlsplit(self.owner.upstream)
        lines = [f"{self.command} {self.path} HTTP/1.1"]
        lines += [f"{n}: {v}" for n, v in self.headers.items() if n.lower() not in _HOP - {"host"}]
        head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
        with socket.create_connection((parts.hostname or "", parts.port or 80), 10) as connection:
            connection.sendall(head.encode("latin-1") + body[: len(body) // 2])

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):  # gone already
            self.connection.shutdown(socket.SHUT_RDWR)


_FORWARDED = {Kind.PASS, Kind.LOSE_ANSWER, Kind.CUT_ANSWER, Kind.TRICKLE}
_DROPS, _DROP_BYTES, _DROP_EVERY_S = 100, 256, 0.02
_HOP = {"host", "connection", "keep-alive", "transfer-encoding", "content-length", "te", "upgrade"}
