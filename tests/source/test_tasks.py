from __future__ import annotations

import pickle

import pytest

from spark_durable.options import SourceOptions
from spark_durable.protocol.errors import CheckpointError
from spark_durable.source.offset_json import Begin, SourceOffset, StreamMark
from spark_durable.source.partition import (
    CarriedPart,
    Part,
    PiecePart,
    RangePart,
    SnapshotPart,
    StartPart,
)
from spark_durable.source.planner import Carried
from spark_durable.source.position import Piece, Position, Unit
from spark_durable.source.tasks import tasks

OPTIONS = SourceOptions(url="http://h/b", max_partition_bytes=100)
NOTHING = SourceOffset("/b", {})


def offset(**marks: StreamMark) -> SourceOffset:
    return SourceOffset("/b", marks)


def at(position: int, **rest: object) -> StreamMark:
    return StreamMark(Position(f"{position:04d}"), **rest)  # type: ignore[arg-type]


def parts(
    start: SourceOffset, end: SourceOffset, options: SourceOptions = OPTIONS, **rest: object
) -> list[list[Part]]:
    found = tasks(start, end, options, **rest)  # type: ignore[arg-type]
    return [list(partition.parts) for partition in pickle.loads(pickle.dumps(found))]


def test_a_long_range_is_split() -> None:
    found = parts(offset(s=at(0)), offset(s=at(250)))
    ranges = [part.range for [part] in found if isinstance(part, RangePart)]
    assert [(r.start, r.end, r.first, r.last) for r in ranges] == [
        (0, 83, True, False),
        (83, 166, False, False),
        (166, 250, False, True),
    ]
    assert all(part.width == 4 for [part] in found if isinstance(part, RangePart))


def test_short_ranges_share_a_task() -> None:
    start = offset(a=at(0), b=at(0), c=at(0), d=at(7))
    end = offset(a=at(40), b=at(50), c=at(60), d=at(7))
    assert [[part.of.stream for part in group] for group in parts(start, end)] == [
        ["a", "b"],
        ["c"],
    ]


def test_min_partitions() -> None:
    options = SourceOptions(url="http://h/b", max_partition_bytes=1000, min_partitions=5)
    assert len(parts(offset(s=at(0)), offset(s=at(500)), options)) == 5


def test_the_beginning_is_in_the_end() -> None:
    begun = at(90, begin=Begin(Position("0050"), "0050"))
    [[snapshot, updates]] = parts(NOTHING, offset(s=begun))
    assert isinstance(snapshot, SnapshotPart)
    assert snapshot.offset == "0050"
    assert isinstance(updates, RangePart)
    assert (updates.range.start, updates.range.end) == (50, 90)
    # of the next batch it is no part
    [[only]] = parts(offset(s=begun), offset(s=at(95)))
    assert isinstance(only, RangePart)
    assert only.range.start == 90


def test_only_a_first_attempt_may_begin_elsewhere() -> None:
    begun = offset(s=at(90, begin=Begin(Position("0050"), "0050")))
    [[part]] = parts(NOTHING, begun, replay=False)
    assert isinstance(part, StartPart)
    assert part.end == "0090"
    large = offset(s=at(900, begin=Begin(Position("0050"), "0050")))
    assert not any(
        isinstance(part, StartPart)
        for group in parts(NOTHING, large, replay=False)
        for part in group
    )


def test_pieces_of_one_response_stay_together() -> None:
    pieces = (
        Piece("a", 0, 90, Unit.BYTES),
        Piece("a", 90, 90, Unit.BYTES),
        Piece("c", 0, 90, Unit.BODY),
    )
    end = offset(s=StreamMark(Position("d"), pieces=pieces))
    [[first], [second]] = parts(offset(s=StreamMark(Position("a"))), end)
    assert isinstance(first, PiecePart)
    assert isinstance(second, PiecePart)
    assert (first.pieces, first.end) == (pieces[:2], "c")
    assert (second.pieces, second.end) == (pieces[2:], "d")


def test_carried_content_goes_along_if_it_is_of_this_batch() -> None:
    carried = {"s": Carried(Position("0000"), Position("0020"), (b"1", b"2"), 2)}
    [[part]] = parts(offset(s=at(0)), offset(s=at(20)), carried=carried)
    assert isinstance(part, CarriedPart)
    [[part]] = parts(offset(s=at(0)), offset(s=at(30)), carried=carried)
    assert isinstance(part, RangePart)


def test_nothing_to_read_is_no_task() -> None:
    assert parts(offset(s=at(5)), offset(s=at(5, life="x"))) == []


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (offset(s=at(9)), offset(s=at(5)), "read backwards"),
        (NOTHING, offset(s=at(5)), "where stream s began"),
        (offset(s=StreamMark(Position("a"))), offset(s=StreamMark(Position("b"))), "how stream s"),
    ],
)
def test_offsets_that_do_not_fit(start: SourceOffset, end: SourceOffset, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        tasks(start, end, OPTIONS)


@pytest.mark.parametrize("cold", [True, False])
def test_a_stream_that_must_not_be_split_is_read_by_one_task_in_order(cold: bool) -> None:
    whole = SourceOptions(url="http://h/b", max_partition_bytes=100, split_streams=False)
    pieces = tuple(Piece(f"{n:04d}", 0, 400, Unit.MESSAGES) for n in range(3))
    end = offset(
        a=at(1000, begin=Begin(Position("0000"))),
        b=at(3, begin=Begin(Position("0000")), pieces=pieces),
        c=at(40, begin=Begin(Position("0000"))),
        d=at(40, begin=Begin(Position("0000"))),
    )
    found = parts(NOTHING, end, whole, replay=cold)
    assert [[part.of.stream for part in task] for task in found] == [
        ["a"],
        ["b", "b", "b"],
        ["c", "d"],
    ]
    assert [part.pieces[0].anchor for part in found[1] if isinstance(part, PiecePart)] == [
        "0000",
        "0001",
        "0002",
    ]
    assert len(parts(NOTHING, end, OPTIONS)) > 3
