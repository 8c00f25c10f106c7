from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from spark_durable.source.ranges import MAX_RANGES_PER_TASK, pack, split, task_size


@given(st.integers(0, 2**50), st.integers(0, 2**30), st.integers(2**20, 2**30))
def test_parts_cover_the_range_once(start: int, length: int, size: int) -> None:
    parts = split(start, start + length, size)
    assert sum(part.end - part.start for part in parts) == length
    for before, after in pairwise(parts):
        assert before.end == after.start
    assert all(0 < part.end - part.start <= size for part in parts)
    assert [part.first for part in parts] == [i == 0 for i in range(len(parts))]
    assert [part.last for part in parts] == [i == len(parts) - 1 for i in range(len(parts))]


def test_parts_are_even() -> None:
    lengths = {part.end - part.start for part in split(0, 100, 30)}
    assert lengths == {25}


@given(st.lists(st.integers(0, 100)), st.integers(1, 150))
def test_packing_keeps_order_and_size(weights: list[int], size: int) -> None:
    packed = pack(list(enumerate(weights)), size)
    assert [item for group in packed for item in group] == list(range(len(weights)))
    for group in packed:
        assert sum(weights[item] for item in group) <= size or len(group) == 1


def test_many_small_ranges_are_bounded_by_number() -> None:
    packed = pack([(n, 0) for n in range(3 * MAX_RANGES_PER_TASK + 1)], 1 << 30)
    assert [len(group) for group in packed] == [MAX_RANGES_PER_TASK] * 3 + [1]


def test_min_partitions_lowers_the_size() -> None:
    assert task_size(1000, 300, None) == 300
    assert task_size(1000, 300, 2) == 300
    assert task_size(1000, 300, 10) == 100
    assert len(split(0, 1000, task_size(1000, 300, 7))) == 7
    assert task_size(0, 300, 7) == 1
