"""Wire bodies to messages and back. No byte of a message is lost, changed or taken for another.

A message keeps the text it has on the wire: numbers are not rounded, escapes not resolved, doubled
keys not merged. Only where a message begins and ends is decided here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

import msgspec
import numpy as np
import pyarrow as pa

from spark_durable.codec.buffers import Array, binary_view, mask_of, pc
from spark_durable.protocol.errors import MalformedResponseError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Body: TypeAlias = "bytes | bytearray | memoryview"

_OPEN, _CLOSE, _COMMA, _NEWLINE = b"[],\n"
_SPACE = b" \t\r\n"
_IS_SPACE = np.isin(np.arange(256), list(_SPACE))
_ELEMENTS: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},"]', re.DOTALL)
# Separators of one length are cut out in bulk up to this length: a comma, perhaps one space.
_LONGEST_SEPARATOR = 2


@dataclass(frozen=True, slots=True)
class Lines:
    """Complete lines, and the bytes after the last separator, which may go on in the next body."""

    messages: pa.LargeBinaryArray
    remainder: bytes


def split_array(body: Body) -> pa.LargeBinaryArray:
    """The elements of a body that is one JSON array.

    Raises :class:`MalformedResponseError` if it is none.
    """
    try:
        elements = _ELEMENTS.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        # It refuses valid arrays too, for a lone surrogate or deep nesting inside an element.
        return pa.array(_split_by_structure(bytes(body)), pa.large_binary())
    lengths = np.fromiter(map(len, elements), np.int64, len(elements))
    messages = _cut_evenly(np.frombuffer(body, np.uint8), lengths)
    if messages is None:
        messages = _array_of(pa.py_buffer(b"".join(elements)), _offsets_of(lengths))
    return cast("pa.LargeBinaryArray", messages)


def split_ndjson(body: Body) -> Lines:
    """The messages of newline-delimited JSON. Blank lines are no messages."""
    lines = split_lines(body, b"\n")
    messages: Array = lines.messages
    if not _nonblank_at_ends(messages).all():
        # To JSON, white space around a value is nothing: a line may end with a carriage return.
        texts = messages.view(pa.large_string())
        trimmed = pc.ascii_trim(texts, characters=_SPACE.decode()).view(pa.large_binary())
        messages = trimmed.filter(pc.greater(pc.binary_length(trimmed), 0))
    return Lines(messages, lines.remainder)


def split_lines(body: Body, separator: bytes) -> Lines:
    """The pieces between separators, empty ones too."""
    whole = _array_of(pa.py_buffer(body), np.array([0, len(body)], np.int64))
    pieces = pc.split_pattern(whole, pattern=separator).flatten()
    return Lines(pieces.slice(0, len(pieces) - 1), pieces[-1].as_py())


def join_ndjson(messages: pa.BinaryArray | pa.LargeBinaryArray) -> pa.Buffer:
    """One line per message, none of them null, with a newline after each but the last.

    A message of several lines is written without its white space. If it is no JSON, so that a
    newline in it might be part of a string, it stays as it is, and is several lines.
    """
    lines = _on_one_line(messages.cast(pa.large_binary()))
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(lines)], pa.int64()), lines)
    joined = pc.binary_join(whole, pa.scalar(b"\n", pa.large_binary()))
    text: pa.Buffer = joined[0].as_buffer()
    return text


def _array_of(data: pa.Buffer, offsets: NDArray[np.int64]) -> Array:
    buffers = [None, pa.py_buffer(offsets.data), data]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _offsets_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))


def _cut_evenly(body: NDArray[np.uint8], lengths: NDArray[np.int64]) -> Array | None:
    """The elements, cut out by their lengths; None if separators are not all of one short length.

    That they are is checked, not assumed. The first element begins right after the bracket. If an
    element's begin is known, so is its end; and if a comma, perhaps one white space, and something
    that is no white space follow there, the latter is the begin of the next one.
    """
    count = len(lengths)
    if count < 2:
        return None
    width, rest = divmod(len(body) - 2 - int(lengths.sum()), count - 1)
    if rest or not 1 <= width <= _LONGEST_SEPARATOR:
        return None
    starts = 1 + _offsets_of(lengths + width)
    separators = starts[1:-1] - width
    if (
        body[0] != _OPEN
        or body[-1] != _CLOSE
        or not (body[separators] == _COMMA).all()
        or (width == 2 and not _IS_SPACE[body[separators + 1]].all())
        or _IS_SPACE[body[starts[:-1]]].any()
    ):
        return None
    data = pa.py_buffer(body.data)
    head = pc.binary_slice(_array_of(data, starts[:-1]), 0, -width)
    last = np.array([starts[-2], starts[-1] - width])
    return pa.concat_arrays([head, _array_of(data, last)])


def _split_by_structure(body: bytes) -> list[bytes]:
    """The elements of an array, found by brackets, commas and strings alone."""
    text = body.strip(_SPACE)
    depth, start, end = 0, 1, None
    elements: list[bytes] = []
    for match in _STRUCTURE.finditer(text):
        mark = match[0]
        if mark in (b"[", b"{"):
            depth += 1
        elif mark in (b"]", b"}"):
            depth -= 1
            if depth == 0:
                end = match.start()
                break
        elif mark == b"," and depth == 1:
            elements.append(text[start : match.start()].strip(_SPACE))
            start = match.end()
        elif mark == b'"':  # a string that does not end
            break
    if end is not None:
        last = text[start:end].strip(_SPACE)
        if last or elements:
            elements.append(last)
    if end != len(text) - 1 or text[:1] + text[-1:] != b"[]" or not all(elements):
        raise MalformedResponseError(
            "The body of a JSON stream is not a JSON array: a proxy in between, an answer that was"
            " cut off, or not a Durable Streams server."
        )
    return elements


def _nonblank_at_ends(messages: Array) -> NDArray[np.bool_]:
    offsets, data = binary_view(messages)
    nonempty: NDArray[np.bool_] = np.diff(offsets) > 0
    if not len(data):
        return nonempty
    last = len(data) - 1
    blank_start = _IS_SPACE[data[np.minimum(offsets[:-1], last)]]
    return nonempty & ~blank_start & ~_IS_SPACE[data[np.maximum(offsets[1:] - 1, 0)]]


def _on_one_line(messages: Array) -> Array:
    offsets, data = binary_view(messages)
    # The smallest byte is found much faster than a certain one.
    if data[offsets[0] : offsets[-1]].min(initial=255) > _NEWLINE:
        return messages
    texts = messages.to_pylist()
    for row in np.flatnonzero(mask_of(pc.match_substring(messages, "\n"))).tolist():
        texts[row] = _compact(texts[row])
    return pa.array(texts, pa.large_binary())


def _compact(message: bytes) -> bytes:
    try:
        return msgspec.json.format(message, indent=-1)
    except (msgspec.MsgspecError, RecursionError):
        return message
