"""Offsets are opaque and sort as text. Only where a server is seen to count payload bytes in
decimal may they be read as numbers; these helpers keep that assumption in one place."""

from __future__ import annotations

from spark_durable.protocol.headers import OFFSET_BEGINNING, OFFSET_NOW


def numeric(offset: str | None) -> int | None:
    """The number a purely decimal offset denotes (the beginning is 0), else None."""
    if offset == OFFSET_BEGINNING:
        return 0
    if offset is None or not offset.isascii() or not offset.isdigit():
        return None
    return int(offset)


def distance(start: str | None, end: str | None) -> int | None:
    """Payload bytes between two offsets where both are decimal and in order, else None."""
    first, last = numeric(start), numeric(end)
    if first is None or last is None or last < first:
        return None
    return last - first


def formatted(number: int, like: str) -> str:
    """``number`` as an offset of the same width as ``like``."""
    return f"{number:0{len(like)}d}"


def precedes(first: str, second: str) -> bool:
    """Whether ``first`` lies strictly before ``second`` in one stream.

    Two decimal offsets compare as numbers (a server may widen its padding one day), everything else
    as text, which is what the protocol promises. The beginning precedes all but itself.
    """
    if OFFSET_NOW in (first, second):
        raise ValueError("the offset 'now' has no place in an order")
    if OFFSET_BEGINNING in (first, second):
        return first == OFFSET_BEGINNING != second
    left, right = numeric(first), numeric(second)
    if left is not None and right is not None:
        return left < right
    return first < second
