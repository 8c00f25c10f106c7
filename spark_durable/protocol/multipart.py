"""``multipart/mixed`` (RFC 2046) as it arrives: part by part, piece by piece, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.message import Message
from enum import Enum, auto
from typing import NamedTuple

from spark_durable.protocol.errors import MalformedResponseError

_MAX_HEADER_BYTES = 1 << 16
_LINE_END = b"\r\n"
_HEADERS_END = b"\r\n\r\n"
# After the boundary: two dashes close the entity; else padding (bounded, so that it need not be
# kept) and the line's end.
_BOUNDARY_REST = re.compile(rb"--|[ \t]{0,1024}\r\n")
_BOUNDARY_REST_PREFIX = re.compile(rb"-?|[ \t]{0,1024}\r?")


class PartBegin(NamedTuple):
    """A part and its headers, names in lower case."""

    headers: dict[str, str]


class PartData(NamedTuple):
    """The next bytes of the part's body, never empty."""

    data: bytes


class PartEnd(NamedTuple):
    """The part's body is complete."""


Event = PartBegin | PartData | PartEnd
_END = PartEnd()


def boundary_of(content_type: str | None) -> bytes:
    """The boundary of a ``multipart/…`` content type."""
    message = Message()
    message["Content-Type"] = content_type or ""
    boundary = message.get_boundary()
    if message.get_content_maintype() != "multipart" or not boundary or not boundary.isascii():
        raise MalformedResponseError(
            f"expected a multipart body with a boundary, got the content type {content_type!r}"
        )
    return boundary.encode("ascii")


class _Phase(Enum):
    PREAMBLE = auto()
    HEADERS = auto()
    BODY = auto()
    DONE = auto()


class MultipartParser:
    """Feed it pieces and iterate the events of each; then finish it.

    However the input is cut, the events are the same but for the slicing of data. What stands
    before the first and after the closing boundary is skipped, as the RFC has it.
    """

    def __init__(self, boundary: bytes) -> None:
        self._delimiter = _LINE_END + b"--" + boundary
        # A boundary is found by the line end before it. That line end may be the one that closes
        # the part's headers, or missing before the very first boundary: so both are kept in the
        # buffer, and `_skip` says how much of its beginning is no content.
        self._buffer = bytearray(_LINE_END)
        self._skip = len(_LINE_END)
        self._phase = _Phase.PREAMBLE
        self._known_headers: dict[bytes, dict[str, str]] = {}

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Run the iterator to its end before feeding the next piece."""
        self._buffer += chunk
        position = 0
        while self._phase is not _Phase.DONE:
            if self._phase is _Phase.HEADERS:
                end = self._buffer.find(_HEADERS_END, position)
                if (end if end >= 0 else len(self._buffer)) - position > _MAX_HEADER_BYTES:
                    raise MalformedResponseError("a part of the multipart body has endless headers")
                if end < 0:
                    break
                yield PartBegin(self._headers(bytes(self._buffer[position:end])))
                position = end + len(_LINE_END)
                self._phase, self._skip = _Phase.BODY, len(_LINE_END)
                continue
            found = self._buffer.find(self._delimiter, position)
            content_end = found if found >= 0 else len(self._buffer) - len(self._delimiter) + 1
            if content_end > position + self._skip:
                if self._phase is _Phase.BODY:
                    yield PartData(bytes(self._buffer[position + self._skip : content_end]))
                position, self._skip = content_end, 0
            if found < 0:
                break
            rest = _BOUNDARY_REST.match(self._buffer, found + len(self._delimiter))
            if rest is None:
                self._check_rest(found + len(self._delimiter))
                break
            if self._phase is _Phase.BODY:
                yield _END
            self._phase = _Phase.DONE if rest.group() == b"--" else _Phase.HEADERS
            position = rest.end() - len(_LINE_END)  # the line end is where headers may end at once
        del self._buffer[:position]
        if self._phase is _Phase.DONE:
            self._buffer.clear()

    def finish(self) -> None:
        """Raise unless the closing boundary was seen: all parts are then complete."""
        if self._phase is not _Phase.DONE:
            raise MalformedResponseError("the multipart body ends before its closing boundary")

    def _check_rest(self, start: int) -> None:
        if not _BOUNDARY_REST_PREFIX.fullmatch(self._buffer, start):
            raise MalformedResponseError("a boundary of the multipart body does not end its line")

    def _headers(self, block: bytes) -> dict[str, str]:
        """Parts of one stream mostly have the same headers, so a few parsed blocks are kept."""
        if block in self._known_headers:
            return self._known_headers[block]
        headers: dict[str, str] = {}
        name = ""
        for line in block.decode("latin-1").split("\r\n"):
            if not line:
                continue
            if line[0] in " \t" and name:
                headers[name] += " " + line.strip()
                continue
            name, colon, value = line.partition(":")
            name = name.strip().lower()
            if not colon or not name:
                raise MalformedResponseError("a part of the multipart body has a broken header")
            headers[name] = value.strip()
        if len(self._known_headers) < 16:
            self._known_headers[block] = headers
        return headers
