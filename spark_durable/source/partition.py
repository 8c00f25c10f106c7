"""What a task is told. Nothing else reaches an executor but the options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql.datasource import InputPartition

from spark_durable.source.position import Piece
from spark_durable.source.ranges import ByteRange


@dataclass(frozen=True, slots=True)
class Of:
    """Which stream a part belongs to, in which of its lives."""

    stream: str
    content_type: str
    life: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """The snapshot at an offset, as it was published."""

    of: Of
    offset: str


@dataclass(frozen=True, slots=True)
class RangePart:
    """Messages by their byte positions; offsets have ``width`` digits."""

    of: Of
    range: ByteRange
    width: int


@dataclass(frozen=True, slots=True)
class PiecePart:
    """Messages by what they follow: pieces of one response, to be read in one pass. ``end`` is the
    anchor of what follows them."""

    of: Of
    pieces: tuple[Piece, ...]
    end: str


@dataclass(frozen=True, slots=True)
class CarriedPart:
    """Messages that the planner had to read anyway, with what a task would otherwise ask for."""

    of: Of
    messages: tuple[bytes, ...]
    offset: str  # the anchor, or the position of the first message
    separator: int | None  # bytes between two messages where offsets are positions, else None
    width: int


@dataclass(frozen=True, slots=True)
class StartPart:
    """The beginning of a stream: its snapshot if there is one, and the updates after it.

    Read as one: should a newer snapshot replace it before it has been read, then that one and what
    follows it up to the same end. Only the first attempt at a batch may do so; a replay reads what
    its offsets say.
    """

    of: Of
    snapshot: str | None
    updates: RangePart | None
    end: str


Part: TypeAlias = SnapshotPart | RangePart | PiecePart | CarriedPart | StartPart


class SourcePartition(InputPartition):
    """The parts of one task, in stream order per stream."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        super().__init__(None)
        self.parts = parts
