"""A small server that reads like Ursula: what the source must live with, beside our own server.

Offsets are ``%020d`` payload bytes and a GET may start at any of them. JSON comes back as NDJSON,
capped, and a cap may fall inside a message. An offset past the tail is 416. There is no listing.
HEAD tells incarnation, retained offset and snapshot; ``/snapshot`` without an offset is 405, and
publishing a snapshot trims nothing until retention is set.
"""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, unquote, urlsplit

WIDTH = 20


@dataclass
class Stream:
    content_type: str
    incarnation: str = field(default_factory=lambda: uuid.uuid4().hex)
    data: bytearray = field(default_factory=bytearray)
    retained: int = 0
    closed: bool = False
    snapshots: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    latest_snapshot: int | None = None

    @property
    def json(self) -> bool:
        return self.content_type.startswith("application/json")


class UrsulaLike:
    """Runs in a thread; ``cap`` is how many bytes one answer holds at most."""

    def __init__(self, cap: int = 8 << 20) -> None:
        self.cap = cap
        self.streams: dict[str, Stream] = {}
        self.changed = threading.Condition()
        self.requests: list[tuple[str, str]] = []
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> UrsulaLike:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def retain_from(self, path: str, offset: str) -> None:
        with self.changed:
            self.streams[path].retained = int(offset)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        return None  # readers hang up in the middle of answers they do not need


class _Handler(BaseHTTPRequestHandler):
    owner: UrsulaLike
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        return None

    # -- verbs -----------------------------------------------------------------------------------

    def do_PUT(self) -> None:
        path, body = self._path(), self._body()
        if "/snapshot/" in path:
            return self._publish(path, body)
        with self.owner.changed:
            created = path not in self.owner.streams
            if created:
                kind = self.headers.get("Content-Type") or "application/octet-stream"
                self.owner.streams[path] = Stream(kind)
            stream = self.owner.streams[path]
        return self._answer(201 if created else 200, self._described(stream))

    def do_POST(self) -> None:
        path, body = self._path(), self._body()
        with self.owner.changed:
            stream = self.owner.streams.get(path)
            if stream is None:
                return self._refuse(404, "STREAM_NOT_FOUND")
            if body and stream.closed:
                return self._refuse(409, "STREAM_CLOSED")
            stream.data += _stored(stream, body)
            stream.closed |= self.headers.get("Stream-Closed") == "true"
            self.owner.changed.notify_all()
        return self._answer(204, self._described(stream))

    def do_DELETE(self) -> None:
        with self.owner.changed:
            gone = self.owner.streams.pop(self._path(), None)
            self.owner.changed.notify_all()
        return self._answer(204 if gone else 404, {})

    def do_HEAD(self) -> None:
        stream = self.owner.streams.get(self._path())
        if stream is None:
            return self._answer(404, {})
        return self._answer(200, self._described(stream))

    def do_GET(self) -> None:
        path, query = self._path(), parse_qs(urlsplit(self.path).query)
        if path.endswith("/snapshot"):
            return self._refuse(405, "METHOD_NOT_ALLOWED")
        if "/snapshot/" in path:
            return self._snapshot(path)
        stream = self.owner.streams.get(path)
        if stream is None:
            return self._refuse(404, "STREAM_NOT_FOUND")
        text = query.get("offset", ["-1"])[0]
        offset = {"-1": 0, "now": len(stream.data)}.get(text)
        if offset is None:
            if not text.isdigit():
                return self._refuse(400, "INVALID_OFFSET")
            offset = int(text)
        if offset < stream.retained:
            headers = {"Stream-Retained-Offset": _offset(stream.retained)}
            return self._refuse(410, "OFFSET_EXPIRED", headers)
        if offset > len(stream.data):
            headers = {"Stream-Next-Offset": _offset(len(stream.data))}
            return self._refuse(416, "OFFSET_PAST_TAIL", headers)
        if query.get("live") == ["long-poll"]:
            timeout = int(query.get("timeout_ms", ["1000"])[0]) / 1000
            with self.owner.changed:
                self.owner.changed.wait_for(
                    lambda: len(stream.data) > offset or stream.closed, timeout
                )
            if len(stream.data) == offset:
                return self._answer(204, self._described(stream) | _up_to_date(stream))
        end = min(len(stream.data), offset + self._cap(query))
        headers = self._described(stream)
        headers["Stream-Next-Offset"] = _offset(end)
        if stream.json:
            headers["Content-Type"] = "application/x-ndjson"
        if end == len(stream.data):
            headers |= _up_to_date(stream)
        return self._answer(200, headers, bytes(stream.data[offset:end]))

    def _cap(self, query: dict[str, list[str]]) -> int:
        return min(self.owner.cap, int(query.get("max_bytes", [self.owner.cap])[0]))

    # -- snapshots -------------------------------------------------------------------------------

    def _publish(self, path: str, body: bytes) -> None:
        stream_path, _, offset = path.rpartition("/snapshot/")
        with self.owner.changed:
            stream = self.owner.streams[stream_path]
            stream.latest_snapshot = int(offset)
            kind = self.headers.get("Content-Type") or "application/octet-stream"
            stream.snapshots[int(offset)] = (kind, body)
        return self._answer(204, {})

    def _snapshot(self, path: str) -> None:
        stream_path, _, offset = path.rpartition("/snapshot/")
        stream = self.owner.streams.get(stream_path)
        found = None if stream is None else stream.snapshots.get(int(offset))
        if found is None:
            return self._refuse(404, "SNAPSHOT_NOT_FOUND")
        headers = {"Content-Type": found[0], "Stream-Snapshot-Offset": _offset(int(offset))}
        headers["Stream-Next-Offset"] = headers["Stream-Snapshot-Offset"]
        return self._answer(200, headers, found[1])

    # -- answers ---------------------------------------------------------------------------------

    def _described(self, stream: Stream) -> dict[str, str]:
        headers = {
            "Content-Type": stream.content_type,
            "Stream-Next-Offset": _offset(len(stream.data)),
            "Stream-Retained-Offset": _offset(stream.retained),
            "Stream-Incarnation": stream.incarnation,
            "Ursula-Max-Request-Bytes": str(32 << 20),
        }
        if stream.latest_snapshot is not None:
            headers["Stream-Snapshot-Offset"] = _offset(stream.latest_snapshot)
        if stream.closed and self.command == "HEAD":
            headers["Stream-Closed"] = "true"
        return headers

    def _refuse(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        body = json.dumps({"error": {"code": code, "message": code.lower()}}).encode()
        return self._answer(status, {"Content-Type": "application/json", **(headers or {})}, body)

    def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.owner.requests.append((self.command, self.path))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _path(self) -> str:
        return unquote(urlsplit(self.path).path)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))


def _offset(position: int) -> str:
    return f"{position:0{WIDTH}d}"


def _up_to_date(stream: Stream) -> dict[str, str]:
    return {"Stream-Up-To-Date": "true"} | ({"Stream-Closed": "true"} if stream.closed else {})


def _stored(stream: Stream, body: bytes) -> bytes:
    if not stream.json or not body:
        return body
    value = json.loads(body)
    messages = value if isinstance(value, list) else [value]
    return b"".join(json.dumps(m, separators=(",", ":")).encode() + b"\n" for m in messages)
