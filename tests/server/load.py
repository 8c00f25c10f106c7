"""Many clients at once on one event loop: producers, long-polls and SSE readers.

Each checks what it gets. A producer wants every append acknowledged as new; a reader wants bytes
without gaps: as many as the offsets it was given are apart. Anything else is an error of the run.

    python -m tests.server.load URL CLIENTS      until standard input ends; 1 on an error
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import threading
import time
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

# Occurs in no header or event, so that counting it counts payload.
LETTER = b"z"
BODY = LETTER * 100
_NEXT_OFFSET = re.compile(rb'"streamNextOffset":"(\d+)"')


class LoadError(Exception):
    """A client got what it must not get."""


@dataclass(slots=True)
class Totals:
    appends: int = 0
    polls: int = 0
    events: int = 0
    read_bytes: int = 0
    errors: list[str] = field(default_factory=list)


class Connection:
    """HTTP/1.1 with as little as it takes."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname, parts.port)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, target: str, headers: str = "", body: bytes = b"") -> Answer:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(*self._address)
        assert self._reader is not None
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{headers}{length}\r\n"
        self._writer.write(head.encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        found = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(b":")
            found[name.lower()] = value.strip()
        answer = Answer(int(lines[0].split()[1]), found)
        if found.get(b"transfer-encoding") != b"chunked":
            answer.body = await self._reader.readexactly(int(found.get(b"content-length", 0)))
        return answer

    async def chunk(self) -> bytes:
        """The next part of a chunked response; empty at its end."""
        assert self._reader is not None
        size = int(await self._reader.readuntil(b"\r\n"), 16)
        return (await self._reader.readexactly(size + 2))[:-2]

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None


@dataclass(slots=True)
class Answer:
    status: int
    headers: dict[bytes, bytes]
    body: bytes = b""

    @property
    def next_offset(self) -> int:
        return int(self.headers[b"stream-next-offset"])


class Load:
    """Clients on the streams of one server, until `stop` is set."""

    def __init__(self, url: str, streams: int) -> None:
        self._url = url
        self.streams = [f"/v1/stream/load-{uuid.uuid4().hex[:10]}" for _ in range(streams)]
        self.totals = Totals()
        self.stop = asyncio.Event()

    async def create_streams(self) -> None:
        connection = Connection(self._url)
        for stream in self.streams:
            answer = await connection.ask("PUT", stream, "Content-Type: text/plain\r\n")
            if answer.status != 201:
                raise LoadError(f"PUT {stream}: {answer.status} {answer.body!r}")
        connection.close()

    def clients(self, producers: int, long_polls: int, sse: int) -> list[asyncio.Task[None]]:
        def spread(kind: Any, count: int) -> list[Coroutine[Any, Any, None]]:
            return [kind(self.streams[each % len(self.streams)]) for each in range(count)]

        work = [
            *spread(self._produce, producers),
            *spread(self._poll, long_polls),
            *spread(self._listen, sse),
        ]
        return [asyncio.create_task(self._guard(each)) for each in work]

    async def finish(self, clients: list[asyncio.Task[None]]) -> None:
        """Ends all clients; readers in the middle of waiting are cut off."""
        self.stop.set()
        done, waiting = await asyncio.wait(clients, timeout=5)
        for client in waiting:
            client.cancel()
        await asyncio.gather(*done, *waiting, return_exceptions=True)

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (LoadError, OSError, asyncio.IncompleteReadError, ValueError, KeyError) as error:
            self.totals.errors.append(f"{type(error).__name__}: {error}")

    async def _produce(self, stream: str) -> None:
        connection = Connection(self._url)
        producer, seq = uuid.uuid4().hex, 0
        with contextlib.closing(connection):
            while not self.stop.is_set():
                headers = f"Content-Type: text/plain\r\nProducer-Id: {producer}\r\n"
                headers += f"Producer-Epoch: 0\r\nProducer-Seq: {seq}\r\n"
                answer = await connection.ask("POST", stream, headers, BODY)
                if answer.status != 200:
                    raise LoadError(f"append {seq}: {answer.status} {answer.body!r}")
                seq += 1
                self.totals.appends += 1

    async def _poll(self, stream: str) -> None:
        connection = Connection(self._url)
        with contextlib.closing(connection):
            offset = (await connection.ask("GET", f"{stream}?offset=now")).next_offset
            while not self.stop.is_set():
                answer = await connection.ask("GET", f"{stream}?offset={offset}&live=long-poll")
                if answer.status not in (200, 204):
                    raise LoadError(f"long-poll: {answer.status} {answer.body!r}")
                self._count(offset, answer.next_offset, len(answer.body))
                offset = answer.next_offset
                self.totals.polls += 1

    async def _listen(self, stream: str) -> None:
        connection = Connection(self._url)
        with contextlib.closing(connection):
            offset = (await connection.ask("GET", f"{stream}?offset=now")).next_offset
            while not self.stop.is_set():
                answer = await connection.ask("GET", f"{stream}?offset={offset}&live=sse")
                if answer.status != 200:
                    raise LoadError(f"SSE: {answer.status} {answer.body!r}")
                while event := await connection.chunk():
                    found = _NEXT_OFFSET.search(event)
                    if found is None:  # a heartbeat
                        continue
                    self._count(offset, int(found[1]), event.count(LETTER))
                    offset = int(found[1])
                    self.totals.events += 1
                    if self.stop.is_set():
                        return

    def _count(self, start: int, end: int, payload: int) -> None:
        if end - start != payload:
            raise LoadError(f"{payload} bytes between the offsets {start} and {end}")
        self.totals.read_bytes += payload


async def run(url: str, clients: int, over: threading.Event) -> Totals:
    """Half producers, a quarter each long-polls and SSE readers, until ``over`` is set."""
    load = Load(url, streams=8)
    await load.create_streams()
    tasks = load.clients(clients // 2, clients // 4, clients - clients // 2 - clients // 4)
    while not over.is_set():
        await asyncio.sleep(0.05)
    await load.finish(tasks)
    return load.totals


def main() -> int:
    url, clients = sys.argv[1], int(sys.argv[2])
    over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    began = time.monotonic()
    totals = asyncio.run(run(url, clients, over))
    seconds = time.monotonic() - began
    print(f"{clients} clients for {seconds:.0f} s: {totals.appends} appends", *totals.errors[:5])
    return 1 if totals.errors or not totals.appends else 0


if __name__ == "__main__":
    raise SystemExit(main())
