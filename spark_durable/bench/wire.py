"""HTTP spoken by hand: a client that costs little enough not to be what is measured."""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from types import TracebackType
from typing import Final
from urllib.parse import urlsplit

_JSON: Final = "Content-Type: application/json"


def request(method: str, url: str, *headers: str, body: bytes = b"") -> bytes:
    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {path} HTTP/1.1", f"Host: {parts.netloc}", *headers]
    if body or method in ("POST", "PUT"):
        lines += [_JSON, f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Wire:
    """One keep-alive connection, one request at a time; bodies are received and dropped."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), 120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(1 << 20)

    def send(self, message: bytes) -> tuple[int, dict[str, str], int]:
        """Status, headers (lower case) and length of the body of the answer."""
        self._socket.sendall(message)
        head = b""
        while (end := head.find(b"\r\n\r\n")) < 0:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the server hung up")
            head += data
        status, headers = _parse_head(head[:end])
        rest = head[end + 4 :]
        if "content-length" in headers:
            return status, headers, self._counted(int(headers["content-length"]), len(rest))
        if headers.get("transfer-encoding") == "chunked":
            return status, headers, self._chunked(rest)
        return status, headers, 0

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _counted(self, length: int, received: int) -> int:
        while received < length:
            count = self._socket.recv_into(self._buffer, min(len(self._buffer), length - received))
            if not count:
                raise ConnectionError("the body was cut off")
            received += count
        return length

    def _chunked(self, pending: bytes) -> int:
        total = 0
        while True:
            while (end := pending.find(b"\r\n")) < 0:
                pending += self._socket.recv(65536)
            size = int(pending[:end], 16)
            pending = pending[end + 2 :]
            needed = size + 2
            if needed <= len(pending):
                pending = pending[needed:]
            else:
                self._counted(needed, len(pending))
                pending = b""
            if size == 0:
                return total
            total += size


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return int(first.split()[1]), headers


def append_rate(url: str, body: bytes, connections: int, seconds: float) -> float:
    """Appends a second over several connections, each with one request in flight.

    The loop is as bare as Python allows: it shares the machine with the server it measures.
    """
    parts = urlsplit(url)
    message = request("POST", url, body=body)
    poll = select.epoll()
    sockets = []
    for _ in range(connections):
        connection = socket.create_connection((parts.hostname or "", parts.port or 80), 30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(message)
        poll.register(connection.fileno(), select.EPOLLIN)
        sockets.append(connection)
    read, write, clock = os.read, os.write, time.perf_counter
    answered = 0
    started = clock()
    deadline = started + seconds
    while clock() < deadline:
        for descriptor, _ in poll.poll(1.0):
            answer = read(descriptor, 4096)
            if answer[9:11] != b"20":
                raise RuntimeError(f"an append was answered {answer[:60]!r}")
            answered += 1
            write(descriptor, message)
    elapsed = clock() - started
    for connection in sockets:
        connection.close()
    return answered / elapsed


if __name__ == "__main__":
    # A process of its own, so that the generator and its caller do not share an interpreter.
    target, text, clients, duration = sys.argv[1:5]
    print(append_rate(target, text.encode(), int(clients), float(duration)))
