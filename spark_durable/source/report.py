"""What a query's progress shows as the latest offset: tails and lag."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from spark_durable.source.bootstrap import before
from spark_durable.source.offset_json import StreamMark
from spark_durable.source.planner import Standing
from spark_durable.source.position import Position
from spark_durable.source.tail import Tail

# Beyond this, tails one by one would fill the progress with what nobody reads.
_NAMED_STREAMS: Final = 20


def report(
    standings: Sequence[Standing],
    moving: Sequence[Standing],
    moved: Mapping[str, StreamMark],
    distance: Callable[[Position, Tail], int | None],
) -> dict[str, Any] | None:
    """``lagBytes`` is given where offsets can be subtracted; ``lagStreams`` counts those behind."""
    if not standings:
        return None
    lag_bytes: int | None = 0
    lag_streams = 0
    for standing in moving:
        mark = moved.get(standing.name)
        at = standing.start if mark is None else mark.at
        if not at.skip and not before(at.anchor, standing.tail.offset):
            continue
        lag_streams += 1
        behind = distance(at, standing.tail)
        lag_bytes = None if lag_bytes is None or behind is None else lag_bytes + behind
    shown: dict[str, Any] = {"lagStreams": lag_streams, "streamCount": len(standings)}
    if lag_bytes is not None:
        shown["lagBytes"] = lag_bytes
    if len(standings) <= _NAMED_STREAMS:
        shown["tails"] = {standing.name: standing.tail.offset for standing in standings}
    return dict(sorted(shown.items()))
