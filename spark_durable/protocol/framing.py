"""Splitting bodies into messages as they arrive, without parsing the messages.

The splitters hold no more than the message in progress and about a megabyte beside it, and give the
same messages however the body is cut into pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

import msgspec

from spark_durable.protocol.errors import MalformedResponseError

_SPACE = b" \t\r\n"
_QUOTE, _COMMA = ord('"'), ord(",")
_OPENING = {ord("["), ord("{")}
_CLOSING = {ord("]"): ord("["), ord("}"): ord("{")}

# Outside strings only brackets matter, and commas between messages. A string that is complete in
# the buffer is skipped in one match; a lone quotation mark is one that goes on past it.
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_BETWEEN = re.compile(_STRING + rb'|["\[\]{},]', re.DOTALL)
_WITHIN = re.compile(_STRING + rb'|["\[\]{}]', re.DOTALL)
_STRING_END = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STRING_PART = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)

# Separators as servers write them, and where in them the comma is. Between messages or inside one:
# that shows when it is tried, the last few of each kind, the kind that succeeded last time first.
_SEPARATORS = ((b",\n", 0), (b"},{", 1), (b"],[", 1), (b",", 0))
_TRIES = 4

# A buffer that msgspec could not split is scanned once it has grown to this size.
_SCAN_AT = 1 << 20

# Only a buffer that ends like this can hold the end of the array.
_MAY_END = (b"]", b" ", b"\t", b"\r", b"\n")

_run_decoder = msgspec.json.Decoder(list[msgspec.Raw])


class Splitter(Protocol):
    """Feed it the body piece by piece, then finish it."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The messages that this piece completes."""
        ...

    def finish(self) -> bytes:
        """What the body holds of a message it cut off; b"" if it ended between messages."""
        ...


class ArraySplitter:
    """The elements of one JSON array, each as the text that was sent.

    Whole runs of messages are split by msgspec, up to a comma near the end of the buffer that
    proves to stand between messages: the run up to it parses as an array, which it could not if a
    bracket or a string were open. What cannot be decided that way (very long messages, very deep
    ones, texts that msgspec is stricter about than JSON) is scanned bracket by bracket.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()  # from the first byte of the message in progress
        self._scanned = 0  # how much of that message the scan has seen
        self._open: list[int] = []  # brackets it has open there
        self._in_string = False
        self._place = "before"  # the array, "inside" it or "after" it
        self._count = 0
        self._try_at = 0  # buffer size below which splitting a run is not tried again
        self._separators = list(_SEPARATORS)

    def feed(self, chunk: bytes) -> list[bytes]:
        self._buffer += chunk
        messages: list[bytes] = []
        if self._place == "before":
            self._enter()
        if self._place == "inside":
            if self._scanned:
                self._scan(messages, whole_buffer=False)
            if self._place == "inside" and not self._scanned:
                self._split_run(messages)
                if len(self._buffer) > _SCAN_AT or self._buffer.endswith(_MAY_END):
                    self._scan(messages, whole_buffer=True)
        if self._place == "after":
            self._leave()
        return messages

    def finish(self) -> bytes:
        if self._place != "after":
            raise MalformedResponseError(
                f"the body ends before its JSON array does, after {self._count} whole messages"
            )
        return b""

    def _enter(self) -> None:
        buffer = self._buffer
        del buffer[: len(buffer) - len(buffer.lstrip(_SPACE))]
        if buffer:
            if buffer[0] != ord("["):
                raise MalformedResponseError("the body is not a JSON array")
            del buffer[:1]
            self._place = "inside"

    def _leave(self) -> None:
        if self._buffer.strip(_SPACE):
            raise MalformedResponseError("the body goes on after the end of its JSON array")
        self._buffer.clear()

    def _split_run(self, messages: list[bytes]) -> None:
        buffer = self._buffer
        if len(buffer) < self._try_at:
            return
        for separator, cut in self._likely_cuts():
            try:
                with memoryview(buffer) as view:
                    text = b"".join((b"[", view[:cut], b"]"))
                run = _run_decoder.decode(text)
            except (msgspec.DecodeError, RecursionError):
                continue
            if run:
                messages += map(bytes, run)
                self._count += len(run)
                self._try_at = 0
                self._separators.sort(key=lambda kind: kind is not separator)
                del buffer[: cut + 1]
                return
        self._try_at = 2 * len(buffer)  # else a body in tiny pieces would be tried at each of them

    def _likely_cuts(self) -> Iterator[tuple[tuple[bytes, int], int]]:
        seen: set[int] = set()
        for separator in list(self._separators):
            text, comma = separator
            end = len(self._buffer)
            for _ in range(_TRIES):
                found = self._buffer.rfind(text, 0, end)
                if found < 0:
                    break
                if found + comma not in seen:
                    seen.add(found + comma)
                    yield separator, found + comma
                end = found + len(text) - 1

    def _scan(self, messages: list[bytes], *, whole_buffer: bool) -> None:
        """Go on from where the scan stopped, to the end of the buffer or of one message."""
        buffer, position, start = self._buffer, self._scanned, 0
        self._try_at = 0
        while True:
            if self._in_string:
                end = _STRING_END.match(buffer, position)
                if end is None:
                    part = _STRING_PART.match(buffer, position)
                    position = part.end() if part else position
                    break
                self._in_string, position = False, end.end()
            found = (_WITHIN if self._open else _BETWEEN).search(buffer, position)
            if found is None:
                position = len(buffer)
                break
            position = found.end()
            byte = buffer[found.start()]
            if byte == _QUOTE:
                self._in_string = position - found.start() == 1
            elif byte in _OPENING:
                self._open.append(byte)
            elif byte != _COMMA and self._open:
                if self._open.pop() != _CLOSING[byte]:
                    raise MalformedResponseError("brackets in the JSON array do not match")
            else:
                self._take(messages, bytes(buffer[start : found.start()]).strip(_SPACE), byte)
                start = position
                if self._place == "after" or not whole_buffer:
                    break
        del buffer[:start]
        self._scanned = position - start

    def _take(self, messages: list[bytes], message: bytes, ended_by: int) -> None:
        if ended_by == ord("}"):
            raise MalformedResponseError("brackets in the JSON array do not match")
        if ended_by == ord("]"):
            self._place = "after"
            if not message and self._count == 0:
                return
        if not message:
            raise MalformedResponseError("the JSON array has an element that is empty")
        messages.append(message)
        self._count += 1


class NdjsonSplitter:
    """The lines of a body, blank ones left out. ``carry`` is what the previous body cut off."""

    def __init__(self, carry: bytes = b"") -> None:
        self._line = bytearray(carry)

    def feed(self, chunk: bytes) -> list[bytes]:
        end = chunk.rfind(b"\n")
        if end < 0:
            self._line += chunk
            return []
        self._line += memoryview(chunk)[:end]
        lines = bytes(self._line).split(b"\n")
        self._line = bytearray(memoryview(chunk)[end + 1 :])
        return [text for line in lines if (text := line.strip(_SPACE))]

    def finish(self) -> bytes:
        return bytes(self._line) if self._line.strip(_SPACE) else b""


def split_array(body: bytes) -> list[bytes]:
    """The messages of a JSON array that is all there."""
    splitter = ArraySplitter()
    messages = splitter.feed(body)
    splitter.finish()
    return messages
