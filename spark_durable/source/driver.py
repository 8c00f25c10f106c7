"""The planning side of a streaming query: looks, waits, plans and divides, one batch at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, TypeAlias

from spark_durable.options import SourceOptions
from spark_durable.source import bootstrap, offset_json
from spark_durable.source.discover import Place
from spark_durable.source.limits import spark_limit
from spark_durable.source.offset_json import StreamMark
from spark_durable.source.partition import SourcePartition
from spark_durable.source.planner import Planner, Standing, next_offset
from spark_durable.source.replay import Replay
from spark_durable.source.report import report
from spark_durable.source.tail import MAX_POLLS, Arrival, Tail, Tails
from spark_durable.source.tasks import tasks
from spark_durable.source.wire import Wire

Json: TypeAlias = dict[str, Any]


class Driver:
    """Lives as long as the query's planning process. What it holds saves requests and time; a batch
    depends on its two offsets and the options alone."""

    def __init__(self, options: SourceOptions, place: Place) -> None:
        self._options = options
        self._place = place
        self._wire = Wire(options)
        self._tails = Tails(self._wire, place)
        self._planner = Planner(options, place, self._wire)
        self._target: dict[str, Tail | None] | None = None  # fixed under AvailableNow
        self._standings: list[Standing] = []
        self._moving: list[Standing] = []  # those of them that have news
        self._moved: Mapping[str, StreamMark] = {}
        self._read: tuple[Json, Mapping[str, StreamMark]] = ({}, {})
        self._looked_in_vain: float | None = None
        self._planned: Json | None = None  # the last end that was planned here
        self._last_end: Json | None = None  # Spark before 4.2 does not tell where to start

    def close(self) -> None:
        self._wire.close()

    def latest(self, start: Json | None, limit: object | None) -> Json:
        """Where the next batch ends; ``start`` as it is when there is nothing new.

        Waits at the tail for ``pollTimeout`` at most, and not at all under AvailableNow.
        """
        if start is None:
            start = self._last_end or offset_json.initial_json()
        first = offset_json.is_initial(start)
        marks = self._marks(start)
        arrivals = self._observe(marks, first=first)
        self._moved = self._planner.plan(
            self._moving,
            spark_limit(limit, self._options),
            arrivals,
            exact=self._target is not None,
        )
        pinned = first and self._standings and bootstrap.from_tail(self._options.starting_offsets)
        dropped = marks.keys() - {standing.name for standing in self._standings}
        if not self._moved and not pinned and not dropped:
            self._looked_in_vain = time.monotonic()
            return start
        self._looked_in_vain = None
        end = next_offset(self._place, self._standings, self._moved)
        self._planned = offset_json.to_json(end)
        return self._planned

    def _marks(self, start: Json) -> Mapping[str, StreamMark]:
        """Read once for as long as nothing is new: an offset of many streams is not small."""
        if start != self._read[0]:
            self._read = (start, offset_json.from_json(start, self._place.path).marks)
        return self._read[1]

    def _observe(self, marks: Mapping[str, StreamMark], *, first: bool) -> dict[str, Arrival]:
        """Looks at all streams; with nothing new at any of them, waits for the first that has."""
        tails = self._look(marks)
        self._stand(marks, tails, first)
        if self._target is not None or self._moving:
            return {}
        if len(self._standings) > MAX_POLLS:
            return {}
        waiting = {standing.name: standing.tail for standing in self._standings}
        arrivals = self._tails.wait(waiting, self._options.poll_timeout)
        if arrivals:
            grown = {name: arrival.tail for name, arrival in arrivals.items()}
            self._stand(marks, {**tails, **grown}, first)
        return arrivals

    def _stand(
        self, marks: Mapping[str, StreamMark], tails: Mapping[str, Tail | None], first: bool
    ) -> None:
        self._standings = self._planner.standings(marks, tails, first=first)
        self._moving = self._planner.with_news(self._standings)

    def _look(self, marks: Mapping[str, StreamMark]) -> dict[str, Tail | None]:
        if self._target is not None:
            missing = [name for name in marks if name not in self._target]
            self._target.update(self._tails.describe(missing))
            return self._target
        if self._looked_in_vain is not None and len(self._standings) > MAX_POLLS:
            # Many streams are looked at once per pollTimeout, not as often as Spark asks.
            pause = self._looked_in_vain + self._options.poll_timeout - time.monotonic()
            time.sleep(max(0.0, pause))
        return self._tails.look(marks)

    def fix_target(self) -> None:
        """Under AvailableNow no batch goes past what the streams hold now."""
        self._target = self._tails.look(())

    def partitions(self, start: Json, end: Json) -> list[SourcePartition]:
        """The tasks of a batch. Spark calls this with two equal offsets after a restart."""
        self._last_end = end
        if start == end:
            return []
        begun = offset_json.from_json(start, self._place.path)
        ended = offset_json.from_json(end, self._place.path)
        if end == self._planned:
            return tasks(begun, ended, self._options, self._planner.carried, replay=False)
        replay = Replay(self._options, self._place, self._wire, self._tails)
        return tasks(begun, replay.checked(begun, ended), self._options)

    def report(self) -> Json | None:
        """The tails as they were at the last look, and how far behind the query is."""
        return report(self._standings, self._moving, self._moved, self._planner.distance)
