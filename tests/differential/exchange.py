"""One call, sent to both servers, and what of their answers has to be equal.

Offsets are opaque, so they are compared by what they name: each pair of offsets that the servers
gave for the same position of a stream is kept, and a pair that contradicts an earlier one is a
difference. A call names such a position; each server is sent its own offset for it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

# Headers with a meaning in the protocol, compared as they are. `Stream-Next-Offset` is compared by
# its position; of the others only the presence counts, their values are the server's own.
COMPARED = (
    "Stream-Closed",
    "Stream-Up-To-Date",
    "Stream-TTL",
    "Stream-Expires-At",
    "Stream-SSE-Data-Encoding",
    "Producer-Epoch",
    "Producer-Seq",
    "Producer-Expected-Seq",
    "Producer-Received-Seq",
    "X-Content-Type-Options",
)
PRESENT = ("ETag", "Stream-Cursor", "Location")
NEXT_OFFSET = "Stream-Next-Offset"
MISSING = None


@dataclass(frozen=True, slots=True)
class At:
    """The position that both servers named as the ``index``-th one of a stream."""

    index: int


@dataclass(frozen=True, slots=True)
class Call:
    operation: str
    method: str
    stream: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    query: Mapping[str, str] = field(default_factory=dict)
    offset: At | str | None = None
    # A fork's source, with the offset to branch off at.
    source: str | None = None
    fork_offset: At | str | None = None
    # Send back the ETag that the server gave for the same read.
    conditional: bool = False
    # The stream's content type, where a difference depends on it.
    note: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said, in terms that both share."""

    status: int
    facts: Mapping[str, Any]
    next_offset: str | None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class Side:
    """One of the two servers."""

    def __init__(self, base: str) -> None:
        self._root = f"{base}/v1/stream"
        self._session = requests.Session()
        self._session.headers["Accept-Encoding"] = "identity"

    def path(self, name: str) -> str:
        return f"/v1/stream/{name}"

    def send(
        self, call: Call, name: str, source: str | None, offset: str | None, fork: str | None
    ) -> Answer:
        headers = dict(call.headers)
        if source is not None:
            headers["Stream-Forked-From"] = self.path(source)
        if fork is not None:
            headers["Stream-Fork-Offset"] = fork
        query = dict(call.query)
        if offset is not None:
            query["offset"] = offset
        url = f"{self._root}/{name}"
        if call.conditional:
            first = self._session.get(url, params=query, timeout=30)
            headers["If-None-Match"] = first.headers.get("ETag", '"none"')
        response = self._session.request(
            call.method,
            url,
            params=query,
            headers={"Content-Type": None, **headers},  # type: ignore[dict-item]
            data=call.body or None,
            timeout=30,
            stream=True,
        )
        with response:
            if response.ok and "text/event-stream" in response.headers.get("Content-Type", ""):
                return _events(response)
            return _answer(response, call.method)


def _answer(response: requests.Response, method: str) -> Answer:
    content = response.content
    facts: dict[str, Any] = {name: response.headers.get(name, MISSING) for name in COMPARED}
    facts |= {name: name in response.headers for name in PRESENT}
    if response.ok and method in ("GET", "HEAD", "PUT") and response.status_code in (200, 201):
        facts["Content-Type"] = response.headers.get("Content-Type")
    if response.ok and method == "HEAD":
        facts["Cache-Control"] = response.headers.get("Cache-Control")
    if response.ok and method == "GET":
        is_json = "json" in response.headers.get("Content-Type", "").lower()
        facts["body"] = json.loads(content) if is_json and content else content
    return Answer(response.status_code, facts, response.headers.get(NEXT_OFFSET))


def _events(response: requests.Response) -> Answer:
    """Reads events until the server says that there is no more for now."""
    encoding = response.headers.get("Stream-SSE-Data-Encoding")
    data: list[str] = []
    control: dict[str, Any] = {}
    kind, lines = "", []
    for raw in response.iter_lines():
        line = raw.decode()
        if line.startswith("event:"):
            kind = line[6:].strip()
        elif line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
        elif not line and kind:
            if kind == "data":
                data.append("\n".join(lines))
            else:
                control = json.loads("\n".join(lines))
            kind, lines = "", []
            if control.get("upToDate") or control.get("streamClosed"):
                break
    facts = {
        "Stream-SSE-Data-Encoding": encoding,
        "events": _decode(data, encoding),
        "upToDate": control.get("upToDate"),
        "streamClosed": control.get("streamClosed"),
        "streamCursor": "streamCursor" in control,
    }
    return Answer(response.status_code, facts, control.get("streamNextOffset"))


def _decode(data: list[str], encoding: str | None) -> Any:
    if encoding == "base64":
        return b"".join(base64.b64decode(part) for part in data)
    try:
        return [message for part in data for message in json.loads(part)]
    except (ValueError, TypeError):
        return "".join(data)
