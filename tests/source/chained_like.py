"""A small server whose offsets say nothing: tokens that sort, and capped arrays with their length.

Messages can be fetched, not computed with. That is what the base protocol promises, and no more.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

_DIGITS = "0123456789abcdefghijklmnopqrstuv"


class ChainedLike:
    """Runs in a thread. ``cap`` messages an answer at most; ``lengths`` False leaves out
    Content-Length; ``separator`` stands between messages; ``decimal`` shows the count as it is."""

    def __init__(
        self, cap: int = 7, *, lengths: bool = True, separator: str = ",", decimal: bool = False
    ) -> None:
        self.cap = cap
        self.decimal = decimal
        self.lengths = lengths
        self.separator = separator
        self.streams: dict[str, list[bytes]] = {}
        self.changed = threading.Condition()
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ChainedLike:
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


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        return None


class _Handler(BaseHTTPRequestHandler):
    owner: ChainedLike
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        return None

    def do_PUT(self) -> None:
        self._body()
        self.owner.streams.setdefault(self._path(), [])
        self._answer(201, {"Stream-Next-Offset": self._token(0)})

    def do_POST(self) -> None:
        value = json.loads(self._body())
        messages = value if isinstance(value, list) else [value]
        with self.owner.changed:
            stream = self.owner.streams[self._path()]
            stream += [json.dumps(m, separators=(",", ":")).encode() for m in messages]
            self.owner.changed.notify_all()
        self._answer(204, {"Stream-Next-Offset": self._token(len(stream))})

    def do_HEAD(self) -> None:
        stream = self.owner.streams.get(self._path())
        if stream is None:
            return self._answer(404, {})
        headers = {
            "Stream-Next-Offset": self._token(len(stream)),
            "Content-Type": "application/json",
        }
        return self._answer(200, headers)

    def do_GET(self) -> None:
        stream = self.owner.streams.get(self._path())
        if stream is None:
            return self._answer(404, {})
        query = parse_qs(urlsplit(self.path).query)
        text = query.get("offset", ["-1"])[0]
        start = 0 if text == "-1" else int(text) if self.owner.decimal else untoken(text)
        if query.get("live") == ["long-poll"]:
            with self.owner.changed:
                self.owner.changed.wait_for(lambda: len(stream) > start, 0.5)
        found = stream[start : start + self.owner.cap]
        end = start + len(found)
        headers = {"Stream-Next-Offset": self._token(end), "Content-Type": "application/json"}
        if end == len(stream):
            headers["Stream-Up-To-Date"] = "true"
        return self._answer(200, headers, b"[%b]" % self.owner.separator.encode().join(found))

    def _answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        chunked = self.command == "GET" and not self.owner.lengths
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if chunked:
            self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        elif self.command != "HEAD":
            self.wfile.write(body)

    def _token(self, position: int) -> str:
        return f"{position:09d}" if self.owner.decimal else token(position)

    def _path(self) -> str:
        return urlsplit(self.path).path

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))


def token(position: int) -> str:
    """A number in disguise: fixed width, sorts as text, is not decimal."""
    digits = ""
    for _ in range(8):
        position, digit = divmod(position, 32)
        digits = _DIGITS[digit] + digits
    return f"t{digits}"


def untoken(text: str) -> int:
    position = 0
    for digit in text[1:]:
        position = position * 32 + _DIGITS.index(digit)
    return position
