"""The plan of a batch: how far each stream goes, and which tasks read what."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from spark_durable.options import SourceOptions
from spark_durable.protocol.errors import DataLossError, NotFoundError, OffsetGoneError, OptionError
from spark_durable.protocol.offsets import numeric
from spark_durable.protocol.types import is_json
from spark_durable.source import bootstrap, loss
from spark_durable.source.advance import Advance, Ways
from spark_durable.source.bootstrap import State
from spark_durable.source.discover import Place
from spark_durable.source.limits import Limit, shares
from spark_durable.source.offset_json import Begin, SourceOffset, StreamMark
from spark_durable.source.position import Position
from spark_durable.source.tail import Arrival, Tail
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire

log = logging.getLogger("spark_durable.source")

# Content that travels inside the partitions of one batch, over all streams.
_CARRY_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Standing:
    """A stream before a batch: from where it is to be read, and where it ends."""

    name: str
    start: Position
    tail: Tail
    begin: Begin | None  # set when this batch is the first of this stream, or begins it anew
    mark: StreamMark | None

    @property
    def life(self) -> str | None:
        if self.tail.described:
            return self.tail.life
        return None if self.mark is None else self.mark.life


@dataclass(frozen=True, slots=True)
class Carried:
    """Messages of the batch that ends at ``at``, which need not be asked for again."""

    start: Position
    at: Position
    messages: tuple[bytes, ...]
    separator: int | None

    @property
    def size(self) -> int:
        return sum(map(len, self.messages))


@dataclass(frozen=True, slots=True)
class _Moved:
    name: str
    start: Position
    mark: StreamMark
    way: Advance


class Planner:
    """Plans on the driver. What it remembers only saves requests: planning anew from a checkpoint
    gives batches with the same guarantees."""

    def __init__(self, options: SourceOptions, place: Place, wire: Wire) -> None:
        self._options = options
        self._place = place
        self._wire = wire
        self._ways = Ways(wire, options)
        self._nothing_at: dict[str, tuple[Position, str]] = {}  # looked, and no message was there
        self._ended: dict[str, Position] = {}  # closed after they had been read to their end
        self._starting: set[str] = set()  # begun by their snapshot here, in the last batch
        self._last: dict[str, Standing] = {}  # as they were last found, for streams at rest
        self._turn = 0
        self.carried: dict[str, Carried] = {}

    # -- before a batch --------------------------------------------------------------------------

    def standings(
        self, marks: Mapping[str, StreamMark], tails: Mapping[str, Tail | None], *, first: bool
    ) -> list[Standing]:
        """Every stream of the batch. Streams that are gone or passed by retention are an error, or
        with ``failOnDataLoss`` false left out or begun again."""
        found: dict[str, Standing] = {}
        for name in sorted({*marks, *tails}):
            mark, tail = marks.get(name), tails.get(name)
            standing = self._last.get(name)
            if standing is None or standing.mark is not mark or standing.tail is not tail:
                standing = self._standing(name, mark, tail, first)
            if standing is not None:
                found[name] = standing
        self._last = {name: each for name, each in found.items() if each.mark is not None}
        return list(found.values())

    def _standing(
        self, name: str, mark: StreamMark | None, tail: Tail | None, first: bool
    ) -> Standing | None:
        names = self._place.names
        if mark is not None and names is not None and name not in names:
            return self._lost(name, loss.dropped(name), mark)
        if tail is None and mark is not None:
            return self._lost(name, loss.deleted(name), mark)
        if tail is None:
            if not first and not self._options.fail_on_data_loss:
                return None  # it was let go before; should it come again, it is read
            raise NotFoundError(
                f"Stream {name} does not exist under {self._place.path}. Create it (or start "
                "its writer) before the query, or correct its name.",
                status=404,
                stream=name,
            )
        if mark is None:
            start = bootstrap.begin(self._options.starting_offsets, name, tail, later=not first)
            return Standing(name, start.position, tail, start, None)
        state = bootstrap.state(mark, tail)
        if state is State.UNSURE:
            target = Target(name, self._place.url(name), mark.life)
            readable = bootstrap.readable(self._wire, target, mark.at.anchor)
            state = State.READABLE if readable else State.TRIMMED
        if state is State.READABLE:
            self._starting.discard(name)
            if tail.closed and not bootstrap.before(mark.at.anchor, tail.offset):
                self._ended[name] = mark.at
            return Standing(name, mark.at, tail, None, mark)
        return self._anew(name, mark, tail, state)

    def _lost(self, name: str, error: DataLossError, mark: StreamMark) -> Standing | None:
        """A stream that was closed and read to its end may go without loss."""
        if mark.ended or self._ended.get(name) == mark.at:
            tail = Tail(mark.at.anchor, mark.content_type, closed=True, described=False)
            return Standing(name, mark.at, tail, None, mark)
        if self._options.fail_on_data_loss:
            raise error
        log.warning("failOnDataLoss is false: going on without %s. %s", name, error)
        return None

    def _anew(self, name: str, mark: StreamMark, tail: Tail, state: State) -> Standing:
        if state is State.OTHER_LIFE:
            why = f"it is at {tail.offset}, incarnation {tail.life}"
            error = loss.created_again(name, why)
        else:
            error = loss.passed_by_retention(name, mark.at, tail.retained or tail.snapshot)
        if state is State.TRIMMED and name in self._starting:
            log.info("A newer snapshot has overtaken the start of %s: going on from it.", name)
        elif self._options.fail_on_data_loss:
            raise error
        else:
            log.warning("failOnDataLoss is false: beginning %s again. %s", name, error)
        start = bootstrap.begin(bootstrap.SNAPSHOT, name, tail, later=True)
        return Standing(name, start.position, tail, start, None)

    def with_news(self, standings: list[Standing]) -> list[Standing]:
        return list(filter(self._has_news, standings))

    def _has_news(self, standing: Standing) -> bool:
        """Whether a batch would have something of this stream, as far as is known unread."""
        if standing.begin is not None and standing.begin.snapshot is not None:
            return True
        start, tail = standing.start, standing.tail.offset
        if start.anchor == tail and not start.skip:
            return False
        if self._nothing_at.get(standing.name) == (start, tail):
            return False
        if start.skip:
            return True
        first, last = numeric(start.anchor), numeric(tail)
        if first is not None and last is not None:
            return last > first
        return start.anchor != tail

    def distance(self, start: Position, tail: Tail) -> int | None:
        """Bytes to the tail, where this server has shown that offsets can be subtracted."""
        return self._ways.numeric_distance(start, tail, json=is_json(tail.content_type))

    # -- the batch -------------------------------------------------------------------------------

    def plan(
        self,
        moving: list[Standing],
        limit: Limit,
        arrivals: Mapping[str, Arrival] | None = None,
        *,
        exact: bool = False,
        final: bool = False,
    ) -> dict[str, StreamMark]:
        """New marks of those that have news. See ``Ways.advance`` for ``exact`` and ``final``."""
        self.carried.clear()
        moving = self._rotated(moving)
        arrivals = arrivals or {}

        def advance(standing: Standing, quota: Limit) -> _Moved | None:
            return self._advance(
                standing, quota, arrivals.get(standing.name), exact=exact, final=final
            )

        if limit.unlimited:
            # The first shows how this server plans; the others then need not ask again.
            moved = [advance(standing, limit) for standing in moving[:1]]
            moved += self._wire.each(lambda standing: advance(standing, limit), moving[1:])
            return self._kept([each for each in moved if each is not None], arrivals)
        within: list[_Moved] = []
        spent = 0
        for standing, quota in zip(moving, self._quotas(moving, limit), strict=True):
            if _exhausted(limit, spent):
                break
            found = advance(standing, quota)
            if found is not None:
                within.append(found)
                spent += found.way.messages if limit.max_messages else found.way.size
        return self._kept(within, arrivals)

    def _kept(self, moved: list[_Moved], arrivals: Mapping[str, Arrival]) -> dict[str, StreamMark]:
        room = _CARRY_BYTES
        for each in moved:
            carried = _content(each, arrivals.get(each.name))
            if carried is not None and carried.size <= room:
                self.carried[each.name] = carried
                room -= carried.size
        return {each.name: each.mark for each in moved}

    def _rotated(self, standings: list[Standing]) -> list[Standing]:
        """So that under a limit no stream waits for ever."""
        if not standings:
            return []
        self._turn = (self._turn + 1) % len(standings)
        return standings[self._turn :] + standings[: self._turn]

    def _quotas(self, moving: list[Standing], limit: Limit) -> list[Limit]:
        if limit.max_messages is not None:
            given = shares([None] * len(moving), limit.max_messages)
            return [Limit(max_messages=share) for share in given]
        if limit.max_bytes is None:
            raise AssertionError("a limit limits something")
        sizes = [self.distance(standing.start, standing.tail) for standing in moving]
        return [Limit(max_bytes=max(1, share)) for share in shares(sizes, limit.max_bytes)]

    def _advance(
        self,
        standing: Standing,
        limit: Limit,
        arrival: Arrival | None,
        *,
        exact: bool,
        final: bool,
    ) -> _Moved | None:
        if limit.max_messages == 0:
            return None
        begin, start, tail = standing.begin, standing.start, standing.tail
        if standing.start.skip == 0 and not bootstrap.before(start.anchor, tail.offset):
            advance = Advance(start, None)  # a snapshot and nothing after it
        else:
            try:
                if begin is not None and isinstance(self._options.starting_offsets, Mapping):
                    self._ways.check_boundary(self._target(standing), start, tail)
                advance = self._way(standing, limit, arrival, exact=exact, final=final)
            except DataLossError as error:
                if begin is None:
                    raise
                self._explain_given(standing, error)
                if not isinstance(error.__cause__, OffsetGoneError):
                    raise
                # The beginning itself is gone, and HEAD did not tell: ask for the snapshot.
                begin = bootstrap.begin_where_readable(
                    self._wire,
                    self._target(standing),
                    tail,
                    with_snapshot=self._options.starting_offsets != bootstrap.EARLIEST,
                )
                start = begin.position
                standing = replace(standing, begin=begin, start=start)
                advance = self._way(standing, limit, None, exact=exact, final=final)
        empty = advance.pieces == () or advance.at == start
        if empty:
            self._nothing_at[standing.name] = (start, tail.offset)
            if begin is None or begin.snapshot is None:
                return None
        mark = StreamMark(
            at=start if empty else advance.at,
            life=standing.life,
            content_type=tail.content_type,
            ended=tail.closed and not bootstrap.before(advance.at.anchor, tail.offset),
            begin=begin,
            pieces=None if empty else advance.pieces,
        )
        if begin is not None and self._options.starting_offsets == bootstrap.SNAPSHOT:
            self._starting.add(standing.name)
        return _Moved(standing.name, start, mark, advance)

    def _explain_given(self, standing: Standing, error: DataLossError) -> None:
        """An offset that the user gave and the server refuses is a slip, not a loss."""
        given = self._options.starting_offsets
        if isinstance(given, Mapping) and standing.name in given:
            raise OptionError(
                f"startingOffsets: stream {standing.name} cannot be read from "
                f"{given[standing.name]}. {error.__cause__ or error}"
            ) from error

    def _way(
        self,
        standing: Standing,
        limit: Limit,
        arrival: Arrival | None,
        *,
        exact: bool,
        final: bool,
    ) -> Advance:
        return self._ways.advance(
            self._target(standing),
            standing.start,
            standing.tail,
            limit,
            arrival,
            json=is_json(standing.tail.content_type),
            exact=exact,
            final=final,
        )

    def _target(self, standing: Standing) -> Target:
        return Target(
            standing.name,
            self._place.url(standing.name),
            standing.life,
            len(standing.tail.offset),
        )


def _content(moved: _Moved, arrival: Arrival | None) -> Carried | None:
    """The content of a small batch, where the driver has it, for its task."""
    start, at, way = moved.start, moved.mark.at, moved.way
    if way.carried is not None:
        return Carried(start, at, way.carried, None)
    if way.pieces is not None or arrival is None:
        return None
    messages = arrival.between(start, at, json=is_json(moved.mark.content_type))
    separator = None if messages is None else _separator(messages, way.size)
    if messages is None or separator is None:
        return None
    return Carried(start, at, messages, separator)


def _separator(messages: tuple[bytes, ...], size: int) -> int | None:
    """Bytes after each message where they and their positions add up, else None."""
    gaps = size - sum(map(len, messages))
    return gaps // len(messages) if messages and gaps % len(messages) == 0 else None


def _exhausted(limit: Limit, spent: int) -> bool:
    if limit.max_messages is not None:
        return spent >= limit.max_messages
    return limit.max_bytes is not None and spent >= limit.max_bytes


def next_offset(
    place: Place, standings: list[Standing], moved: Mapping[str, StreamMark]
) -> SourceOffset:
    """The end of a batch. A stream that it begins without news is pinned to where it begins, so
    that ``latest`` means the moment the query was started."""
    marks: dict[str, StreamMark] = {}
    for standing in standings:
        if standing.name in moved:
            marks[standing.name] = moved[standing.name]
        elif standing.mark is not None:
            marks[standing.name] = standing.mark.settled()
        else:
            marks[standing.name] = StreamMark(
                at=standing.start,
                life=standing.life,
                content_type=standing.tail.content_type,
                begin=standing.begin,
            )
    return SourceOffset(place.path, marks)
