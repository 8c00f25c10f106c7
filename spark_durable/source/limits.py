"""Read limits, and how a limit is shared among streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_durable.options import SourceOptions


@dataclass(frozen=True, slots=True)
class Limit:
    """How much one micro-batch may take over all streams. Bytes are a soft limit: a message is
    never cut, and one always goes through. Messages are exact."""

    max_bytes: int | None = None
    max_messages: int | None = None

    @property
    def unlimited(self) -> bool:
        return self.max_bytes is None and self.max_messages is None


def spark_limit(limit: object | None, options: SourceOptions) -> Limit:
    """What Spark asks for. It knows the options through ``getDefaultReadLimit`` and may still say
    "all available", which then holds. Before Spark 4.2 it says nothing, and the options hold."""
    if limit is None:
        return Limit(options.max_bytes_per_trigger, options.max_records_per_trigger)
    return Limit(getattr(limit, "max_bytes", None), getattr(limit, "max_rows", None))


def shares(sizes: Sequence[int | None], limit: int) -> list[int]:
    """Divides ``limit`` so that small streams are served whole and large ones share the rest.

    ``None`` is a size not known. A stream gets no more than its size; when there is less than one
    unit for each, the first ones get it: the caller rotates the order between batches.
    """
    if limit < len(sizes):
        return [1 if i < limit else 0 for i in range(len(sizes))]
    given = [0] * len(sizes)
    left = limit
    order = sorted(range(len(sizes)), key=lambda i: _known(sizes[i]))
    for rank, i in enumerate(order):
        given[i] = int(min(_known(sizes[i]), left // (len(order) - rank)))
        left -= given[i]
    return given


def _known(size: int | None) -> float:
    return float("inf") if size is None else size
