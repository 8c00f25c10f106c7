"""Bodies to messages, as Arrow arrays and without a Python object per message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_durable.codec.messages import split_array
from spark_durable.protocol.errors import MalformedResponseError

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive messages. ``starts`` are their byte positions where offsets are numbers, with
    ``end`` the position after the last; else all that is known is the ``anchor`` before them."""

    messages: pa.BinaryArray
    starts: Positions | None = None
    end: int = 0
    anchor: str = ""

    def slice(self, low: int, high: int) -> Span:
        """Messages ``low`` to ``high`` (not included)."""
        count = len(self.messages)
        if low == 0 and high == count:
            return self
        end = self.end
        if self.starts is not None and high < count:
            end = int(self.starts[high])
        starts = None if self.starts is None else self.starts[low:high]
        return Span(self.messages.slice(low, high - low), starts, end, self.anchor)


def lines(body: bytes, position: int) -> Span:
    """The lines of a body that starts at ``position``; the last one is whole, ended or not."""
    messages = _split(body, 0, len(body) - body.endswith(b"\n"), "\n")
    sizes = pc.binary_length(messages).to_numpy(zero_copy_only=False).astype(np.int64) + 1
    starts = _starts(sizes, position)
    end = position + len(body)
    if (sizes == 1).any():  # blank lines are no messages
        kept = np.flatnonzero(sizes > 1)
        messages, starts = messages.take(kept), starts[kept]
    return Span(messages, starts, end)


def aligned_array(body: bytes, position: int) -> Span:
    """The messages of an array from a server that aligns reads.

    Such a server separates messages by a comma and a newline and has no other newline in a body, so
    that positions of messages can be told from their lengths. Both are checked.
    """
    if body == b"[]":
        return Span(pa.array([], pa.binary()), np.empty(0, np.int64), position)
    if body[:1] != b"[" or body[-1:] != b"]":
        raise MalformedResponseError(f"the body at offset {position} is not a JSON array")
    lines = _split(body, 1, len(body), "\n")
    sizes = pc.binary_length(lines).to_numpy(zero_copy_only=False).astype(np.int64) + 1
    starts = _starts(sizes, position)
    # Each line has one byte after its message: a comma, in the last one the closing bracket.
    separators = np.frombuffer(body, np.uint8)[starts[1:] - position - 1]
    if (separators != ord(",")).any() or (sizes == 2).any():
        raise MalformedResponseError(
            f"the body at offset {position} does not hold one message a line, as this server "
            "otherwise does: positions inside it cannot be told"
        )
    return Span(pc.binary_slice(lines, 0, -1), starts, position + len(body))


def array(body: bytes, anchor: str) -> Span:
    """The messages of any JSON array."""
    messages: Any = split_array(body).cast(pa.binary())
    return Span(messages, anchor=anchor)


def listed(messages: list[bytes], anchor: str) -> Span:
    return Span(pa.array(messages, pa.binary()), anchor=anchor)


def _split(body: bytes, low: int, high: int, separator: str) -> pa.BinaryArray:
    # The one long value shares the body's memory; Arrow copies each part once, into the result.
    bounds = np.array([low, high], np.int32)
    whole = _array(pa.binary(), bounds, pa.py_buffer(body))
    parts: pa.BinaryArray = pc.split_pattern(whole, pattern=separator).flatten()
    return parts


def _array(kind: pa.DataType, bounds: npt.NDArray[np.int32], data: pa.Buffer) -> Any:
    return pa.Array.from_buffers(kind, len(bounds) - 1, [None, pa.py_buffer(bounds.data), data])


def _starts(sizes: Positions, position: int) -> Positions:
    starts = np.empty(len(sizes), np.int64)
    if len(sizes):
        starts[0] = position
        np.cumsum(sizes[:-1], out=starts[1:])
        starts[1:] += position
    return starts


def padded(positions: Positions, width: int) -> pa.StringArray:
    """Positions as offsets: decimal, zero-padded to ``width``."""
    count = len(positions)
    digits = np.full((count, width), ord("0"), np.uint8)
    rest = positions.astype(np.uint64)
    for column in range(width - 1, -1, -1):
        quotient = rest // np.uint64(10)
        digits[:, column] += (rest - quotient * np.uint64(10)).astype(np.uint8)
        rest = quotient
        if not rest.any():
            break
    bounds = np.arange(count + 1, dtype=np.int32) * width
    offsets: pa.StringArray = _array(pa.string(), bounds, pa.py_buffer(digits.data))
    return offsets
