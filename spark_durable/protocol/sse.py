"""Server-sent events as they arrive, and the two kinds of event the protocol sends in them."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from spark_durable.protocol.errors import MalformedResponseError

_LINES = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder().decode


class SseEvent(NamedTuple):
    """One event: its type and its data lines joined by newlines."""

    event: str
    data: bytes


@dataclass(frozen=True, slots=True)
class DataEvent:
    """A batch of stream data. It counts only together with the control event that follows."""

    data: bytes


@dataclass(frozen=True, slots=True)
class ControlEvent:
    """Where the stream stands after all data events so far: resume at ``next_offset``."""

    next_offset: str
    cursor: str | None
    up_to_date: bool
    closed: bool


class SseParser:
    """Feed it pieces, get the events they complete. Works on bytes: no character is ever split."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._event = ""
        self._data: list[bytes] = []
        self._started = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        self._rest += chunk
        if not self._started:
            if len(self._rest) < len(_BOM) and _BOM.startswith(bytes(self._rest)):
                return []
            if self._rest.startswith(_BOM):
                del self._rest[: len(_BOM)]
            self._started = True
        elif (
            b"\n" not in chunk and b"\r" not in chunk and self._rest[-len(chunk) - 1 :][:1] != b"\r"
        ):
            return []
        events: list[SseEvent] = []
        # A carriage return at the very end may be the first half of a line end.
        held = b"\r" if self._rest.endswith(b"\r") else b""
        text = bytes(self._rest[: len(self._rest) - len(held)])
        lines = _LINES.split(text) if b"\r" in text else text.split(b"\n")
        self._rest = bytearray(lines.pop() + held)
        for line in lines:
            if line[:6] == b"data: ":  # nearly every line, so it is told apart first
                self._data.append(line[6:])
            elif line:
                self._field(line)
            else:
                if self._data:
                    events.append(SseEvent(self._event or "message", b"\n".join(self._data)))
                    self._data = []
                self._event = ""
        return events

    @property
    def incomplete(self) -> bool:
        """Whether the input so far ends inside an event."""
        return bool(self._data or self._event or self._rest.strip(b"\r"))

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")


def interpret(event: SseEvent, *, encoded: bool) -> DataEvent | ControlEvent | None:
    """What an event means to the protocol; None for events of other types.

    ``encoded`` is whether the response announced base64.
    """
    if event.event == "control":
        return _control(event.data)
    if event.event != "data":
        return None
    if not encoded:
        return DataEvent(event.data)
    text = event.data.replace(b"\n", b"").replace(b"\r", b"")
    try:
        if len(text) % 4:  # the decoder lets superfluous padding pass
            raise binascii.Error
        return DataEvent(base64.b64decode(text, validate=True))
    except binascii.Error:
        raise MalformedResponseError("a data event is not the base64 it is announced as") from None


def _control(data: bytes) -> ControlEvent:
    try:
        fields = _decode(data)
        next_offset = fields["streamNextOffset"]
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError):
        raise MalformedResponseError("a control event without streamNextOffset") from None
    cursor = fields.get("streamCursor")
    closed = fields.get("streamClosed") is True
    return ControlEvent(
        next_offset=str(next_offset),
        cursor=None if cursor is None else str(cursor),
        up_to_date=closed or fields.get("upToDate") is True,
        closed=closed,
    )
