"""From two offsets to tasks. Pure: start, end and options decide, so a replay reads the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, groupby
from typing import Final

from spark_durable.options import SourceOptions
from spark_durable.protocol.errors import CheckpointError
from spark_durable.protocol.offsets import numeric
from spark_durable.source.offset_json import SourceOffset, StreamMark
from spark_durable.source.partition import (
    CarriedPart,
    Of,
    Part,
    PiecePart,
    RangePart,
    SnapshotPart,
    SourcePartition,
    StartPart,
)
from spark_durable.source.planner import Carried
from spark_durable.source.position import Piece, Position, Unit
from spark_durable.source.ranges import ByteRange, pack, split, task_size

# A guess, only used to divide counted messages over tasks.
_MESSAGE_BYTES: Final = 256


def tasks(
    start: SourceOffset,
    end: SourceOffset,
    options: SourceOptions,
    carried: Mapping[str, Carried] | None = None,
    *,
    replay: bool = True,
) -> list[SourcePartition]:
    """The tasks between two offsets, each stream in its own order.

    ``carried`` holds content that need not be fetched; it changes nothing in the rows. ``replay``
    is False for a batch that nobody can have seen anything of.
    """
    total = 0
    work: list[tuple[str, StreamMark, Position]] = []
    for name in sorted(end.marks):
        mark = end.marks[name]
        begun = _begun(name, mark, start.marks.get(name))
        if mark.at.precedes(begun):
            raise CheckpointError(
                f"Stream {name} would be read backwards, from {begun} to {mark.at}. The checkpoint "
                "does not fit the query: restore it, or start with a new one."
            )
        work.append((name, mark, begun))
        total += _size(mark, begun)
    size = task_size(total, options.max_partition_bytes, options.min_partitions)
    # What must stay in one task, and how much it is.
    sized: list[tuple[tuple[Part, ...], int]] = []
    for name, mark, begun in work:
        if not replay and _starts(mark, begun, size, options):
            parts = list(_start(name, mark, begun))
        else:
            largest = size if options.split_streams else max(size, _size(mark, begun))
            parts = list(_parts(name, mark, begun, largest, (carried or {}).get(name)))
        if options.split_streams:
            sized += [((part,), weight) for part, weight in parts]
        elif parts:
            sized.append((tuple(part for part, _ in parts), sum(weight for _, weight in parts)))
    return [SourcePartition(tuple(chain.from_iterable(group))) for group in pack(sized, size)]


def _starts(mark: StreamMark, begun: Position, size: int, options: SourceOptions) -> bool:
    """Whether the stream begins in this batch by its snapshot, and is short enough to be held."""
    if mark.begin is None or mark.pieces is not None or begun.skip:
        return False
    by_snapshot = mark.begin.snapshot is not None or options.starting_offsets == "snapshot"
    return by_snapshot and _size(mark, begun) <= size


def _start(name: str, mark: StreamMark, begun: Position) -> Iterator[tuple[Part, int]]:
    of = Of(name, mark.content_type, mark.life)
    snapshot = None if mark.begin is None else mark.begin.snapshot
    first, last = numeric(begun.anchor), numeric(mark.at.anchor)
    updates = None
    if first is not None and last is not None and first < last:
        whole = ByteRange(first, last, first=True, last=True)
        updates = RangePart(of, whole, len(mark.at.anchor))
    if snapshot is not None or updates is not None:
        yield StartPart(of, snapshot, updates, mark.at.anchor), _size(mark, begun)


def _begun(name: str, mark: StreamMark, before: StreamMark | None) -> Position:
    if mark.begin is not None:
        return mark.begin.position
    if before is None:
        raise CheckpointError(
            f"The checkpoint does not say where stream {name} began. Restore the checkpoint "
            "directory, or start with a new one."
        )
    return before.at


def _size(mark: StreamMark, begun: Position) -> int:
    if mark.pieces is not None:
        return sum(map(_weight, mark.pieces))
    first, last = numeric(begun.anchor), numeric(mark.at.anchor)
    return 0 if first is None or last is None else last - first


def _weight(piece: Piece) -> int:
    return piece.take * _MESSAGE_BYTES if piece.unit is Unit.MESSAGES else piece.take


def _parts(
    name: str, mark: StreamMark, begun: Position, size: int, carried: Carried | None
) -> Iterator[tuple[Part, int]]:
    of = Of(name, mark.content_type, mark.life)
    if mark.begin is not None and mark.begin.snapshot is not None:
        yield SnapshotPart(of, mark.begin.snapshot), 0
    if begun == mark.at:
        return
    if carried is not None and (carried.start, carried.at) == (begun, mark.at):
        weight = carried.size
        width = len(mark.at.anchor)
        yield CarriedPart(of, carried.messages, begun.anchor, carried.separator, width), weight
        return
    if mark.pieces is not None:
        groups = [tuple(group) for _, group in groupby(mark.pieces, lambda piece: piece.anchor)]
        ends = [*(group[0].anchor for group in groups[1:]), mark.at.anchor]
        for group, end in zip(groups, ends, strict=True):
            yield PiecePart(of, group, end), sum(map(_weight, group))
        return
    first, last = numeric(begun.anchor), numeric(mark.at.anchor)
    if first is None or last is None:
        raise CheckpointError(
            f"The checkpoint does not say how stream {name} was read up to {mark.at}. Restore the "
            "checkpoint directory, or start with a new one."
        )
    for part in split(first, last, size):
        yield RangePart(of, part, len(mark.at.anchor)), part.end - part.start
