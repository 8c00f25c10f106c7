"""A TCP server that does what a script says, for what no real server does on demand."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


@dataclass
class Wire:
    """One connection, from the server's side."""

    socket: socket.socket
    buffer: bytearray = field(default_factory=bytearray)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Close with a TCP reset instead of an orderly end."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def request(self) -> Request | None:
        """The next request, None when the client has closed."""
        while b"\r\n\r\n" not in self.buffer:
            if not self._receive():
                return None
        head, _, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = {
            name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
        }
        length = int(headers.get("content-length", "0"))
        self.buffer = bytearray(rest)
        while len(self.buffer) < length:
            if not self._receive():
                return None
        body = bytes(self.buffer[:length])
        del self.buffer[:length]
        return Request(method, target, headers, body)

    def _receive(self) -> bool:
        piece = self.socket.recv(65536)
        self.buffer += piece
        return bool(piece)


Step = Callable[[Wire], None]


def head(status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    lines = [
        f"HTTP/1.1 {status} X",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def respond(status: int = 200, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Step:
    """A whole answer with its length; the connection is kept."""
    length = {} if status in (204, 304) else {"Content-Length": str(len(body))}
    return lambda wire: wire.send(head(status, {**length, **(headers or {})}) + body)


def say(*pieces: bytes, then: Callable[[Wire], None] = Wire.close) -> Step:
    """Exactly these bytes, then the end of the connection (or a reset, or nothing)."""

    def step(wire: Wire) -> None:
        for piece in pieces:
            wire.send(piece)
        then(wire)

    return step


def keep(wire: Wire) -> None:
    """As ``then``: leave the connection open and silent."""


def chunked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def stream(headers: Mapping[str, str], pieces: Callable[[], Iterable[bytes]]) -> Step:
    """An answer generated on the fly, in chunked encoding."""

    def step(wire: Wire) -> None:
        wire.send(head(200, {"Transfer-Encoding": "chunked", **headers}))
        for piece in chunked(pieces()):
            wire.send(piece)

    return step


class ScriptedServer:
    """Answers the n-th request with the n-th step; later ones with the last step.

    ``on_connect`` is called with each new connection before anything is read from it.
    """

    def __init__(
        self,
        *steps: Step,
        on_connect: Callable[[Wire], None] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._steps = list(steps)
        self._on_connect = on_connect
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.requests: list[Request] = []
        self.connections = 0
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            self._open.append(connection)
            wire = Wire(connection)
            if self._on_connect is not None:
                self._on_connect(wire)
            while (request := wire.request()) is not None:
                self.requests.append(request)
                self._steps[min(len(self.requests), len(self._steps)) - 1](wire)
        except OSError:
            connection.close()  # the client left, or the script ended the connection

    def wait_for_a_request(self, seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while not self.requests and time.monotonic() < deadline:
            time.sleep(0.005)

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        for connection in self._open:
            connection.close()
