"""Where a reader stands in a stream.

What never changes is the content that follows an offset the server gave. So a position is such an
offset, the anchor, and how much of what follows it has been read: messages on a JSON stream, bytes
on any other. Where offsets count payload bytes, every message boundary is an offset and ``skip``
stays 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from spark_durable.protocol.offsets import precedes


@dataclass(frozen=True, slots=True)
class Position:
    """``skip`` messages (or bytes) after ``anchor``. Past the end of a response, the response's own
    next offset is the anchor: two positions of one reader with different anchors are ordered by
    them."""

    anchor: str
    skip: int = 0

    def precedes(self, other: Position) -> bool:
        """Whether ``other`` lies strictly further on in the same stream."""
        if self.anchor == other.anchor:
            return self.skip < other.skip
        return precedes(self.anchor, other.anchor)

    def plus(self, count: int) -> Position:
        return Position(self.anchor, self.skip + count)

    def __str__(self) -> str:
        return f"{self.anchor}+{self.skip}" if self.skip else self.anchor


class Unit(Enum):
    """What a piece counts."""

    MESSAGES = "m"  # messages of a JSON stream
    BYTES = "b"  # payload bytes of any other stream
    BODY = "w"  # bytes of the body as the server sent it when the piece was planned


@dataclass(frozen=True, slots=True)
class Piece:
    """Exactly ``take`` units of what a GET at ``anchor`` returns, after the first ``skip``.

    Reading it again gives the same messages however far the tail has moved and however the server
    cuts its responses now.
    """

    anchor: str
    skip: int
    take: int
    unit: Unit
