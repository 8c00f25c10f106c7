"""How the work of a batch is divided over tasks. Pure: the same ranges and options give the same
tasks, so a replayed batch is planned like the first time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

T = TypeVar("T")

# Each range costs a request of its own, so many small streams are bounded by number, not by size.
MAX_RANGES_PER_TASK: Final = 512


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The messages that start in ``[start, end)``.

    ``first``: a message is known to start at ``start``; else the reader looks for the next one.
    ``last``: a message is known to end at ``end``; anything else found there is an error.
    """

    start: int
    end: int
    first: bool
    last: bool


def task_size(total: int, max_partition_bytes: int, min_partitions: int | None) -> int:
    """Bytes a task should read, so that there are at least ``min_partitions`` where possible."""
    if min_partitions is None:
        return max_partition_bytes
    return max(1, min(max_partition_bytes, -(-total // min_partitions)))


def split(start: int, end: int, size: int) -> list[ByteRange]:
    """``[start, end)`` in equal parts of ``size`` bytes at most. None for an empty range."""
    length = end - start
    if length <= 0:
        return []
    count = -(-length // size)
    cuts = [start + length * i // count for i in range(count + 1)]
    return [ByteRange(low, high, low == start, high == end) for low, high in pairwise(cuts)]


def pack(sized: Iterable[tuple[T, int]], size: int) -> list[list[T]]:
    """Neighbours together until ``size`` is reached, in order; something larger stands alone."""
    packed: list[list[T]] = []
    room = 0
    for item, weight in sized:
        if packed and weight <= room and len(packed[-1]) < MAX_RANGES_PER_TASK:
            packed[-1].append(item)
            room -= weight
        else:
            packed.append([item])
            room = size - weight
    return packed
