"""How far one stream goes in a batch: the three ways of planning, chosen by what responses show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from spark_durable.options import SourceOptions
from spark_durable.protocol.offsets import formatted, numeric
from spark_durable.protocol.types import is_json
from spark_durable.source import plan_numeric
from spark_durable.source.bootstrap import before
from spark_durable.source.limits import Limit
from spark_durable.source.plan_chained import link
from spark_durable.source.plan_counted import Counted, Counter, units_between
from spark_durable.source.plan_lines import LinePlanner, separator_of
from spark_durable.source.plan_numeric import Style
from spark_durable.source.position import Piece, Position, Unit
from spark_durable.source.tail import Arrival, Tail
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire

# Responses held open between triggers, so that a backlog under a limit is not read again.
_MAX_OPEN: Final = 16

_EMPTY_ARRAY: Final = len(b"[]")


@dataclass(frozen=True, slots=True)
class Advance:
    """Exactly what lies between the start and ``at``. ``pieces`` is None where positions are
    numbers. ``carried`` are the messages themselves, where the driver had to read them."""

    at: Position
    pieces: tuple[Piece, ...] | None
    size: int = 0
    messages: int = 0
    carried: tuple[bytes, ...] | None = None


class Ways:
    """Plans streams of one query, remembering what its server has shown."""

    def __init__(self, wire: Wire, options: SourceOptions) -> None:
        self._wire = wire
        self._line_sep = options.line_sep
        self._piece_bytes = options.max_partition_bytes
        self._styles: dict[bool, Style] = {}
        self._told_lengths = True
        self._counters: dict[str, Counter] = {}
        self._to_target: dict[str, tuple[Position, int]] = {}

    def advance(
        self,
        target: Target,
        start: Position,
        tail: Tail,
        limit: Limit,
        arrival: Arrival | None = None,
        *,
        json: bool,
        exact: bool,
        final: bool,
    ) -> Advance:
        """From ``start`` to the tail or to the limit. What a wait brought need not be read again.

        ``exact``: never past ``tail``, though more may have come. ``final``: nothing will be read
        after this, so a last line needs no separator.
        """
        separator = None if json else separator_of(tail.content_type, self._line_sep)
        if separator is not None:
            return self._lines(target, start, tail, limit, separator, exact=exact, final=final)
        style = self._style(target, start, tail, json=json)
        if style is not Style.OPAQUE:
            return self._numeric(target, start, tail, limit, style)
        if arrival is not None:
            arrived = _arrived(arrival, start, limit, json=json)
            if arrived is not None:
                return arrived
        return self._pieces(target, start, tail, limit, json=json, exact=exact)

    def check_boundary(self, target: Target, start: Position, tail: Tail) -> None:
        """Refuses an offset inside a message where the server would not: there a read may start at
        any byte."""
        json = is_json(tail.content_type)
        position = numeric(start.anchor)
        if json and position and self._style(target, start, tail, json=json) is Style.MESSAGES:
            plan_numeric.check_boundary(self._wire, target, position)

    def numeric_distance(self, start: Position, tail: Tail, *, json: bool) -> int | None:
        """Bytes to the tail, where this server has shown that offsets can be subtracted."""
        first, last = numeric(start.anchor), numeric(tail.offset)
        style = self._styles.get(json, Style.OPAQUE)
        if start.skip or first is None or last is None or style is Style.OPAQUE:
            return None
        return last - first

    # -- numbers ---------------------------------------------------------------------------------

    def _style(self, target: Target, start: Position, tail: Tail, *, json: bool) -> Style:
        if start.skip or numeric(start.anchor) is None or numeric(tail.offset) is None:
            return Style.OPAQUE
        if json not in self._styles:
            shown = plan_numeric.probe(self._wire, target, start.anchor, json=json)
            if shown is None:
                return Style.OPAQUE
            self._styles[json] = shown
        return self._styles[json]

    def _numeric(
        self, target: Target, start: Position, tail: Tail, limit: Limit, style: Style
    ) -> Advance:
        first, last = numeric(start.anchor), numeric(tail.offset)
        if first is None or last is None:
            raise AssertionError("numeric planning needs numbers")
        cut, messages = last, 0
        if limit.max_messages is not None and style is Style.MESSAGES:
            cut, messages = plan_numeric.cut_at_messages(
                self._wire, target, first, last, limit.max_messages
            )
        elif limit.max_messages is not None:  # a row per range: as many ranges as rows are allowed
            room = limit.max_messages * self._piece_bytes
            if last - first > room:
                cut = plan_numeric.cut_at_bytes(self._wire, target, first, last, room, style)
            messages = -(-(cut - first) // self._piece_bytes)
        elif limit.max_bytes is not None and last - first > limit.max_bytes:
            cut = plan_numeric.cut_at_bytes(self._wire, target, first, last, limit.max_bytes, style)
        return Advance(
            Position(formatted(cut, tail.offset)), None, size=cut - first, messages=messages
        )

    # -- pieces ----------------------------------------------------------------------------------

    def _pieces(
        self,
        target: Target,
        start: Position,
        tail: Tail,
        limit: Limit,
        *,
        json: bool,
        exact: bool,
    ) -> Advance:
        chain = self._chain(target, start, tail, limit, json=json, exact=exact)
        if chain.pieces and (limit.max_bytes is not None or self._arrived(chain.at, tail, exact)):
            return chain
        rest = self._counted(target, chain.at, tail, limit, json=json, exact=exact)
        if not chain.pieces:
            return rest
        pieces = (*chain.pieces, *(rest.pieces or ()))
        return Advance(rest.at, pieces, size=chain.size + rest.size, messages=rest.messages)

    @staticmethod
    def _arrived(at: Position, tail: Tail, exact: bool) -> bool:
        return at.anchor == tail.offset if exact else not before(at.anchor, tail.offset)

    def _chain(
        self,
        target: Target,
        start: Position,
        tail: Tail,
        limit: Limit,
        *,
        json: bool,
        exact: bool,
    ) -> Advance:
        """As many whole responses as the limit allows, unread. None where lengths are not told."""
        at, size, pieces = start, 0, list[Piece]()
        while self._told_lengths and not at.skip and limit.max_messages is None:
            if exact and at.anchor == tail.offset:
                break
            step = link(self._wire, target, at.anchor, json=json)
            if step.following == at.anchor or (json and step.size == _EMPTY_ARRAY):
                break
            if step.piece is None:
                self._told_lengths = False
                break
            over_target = exact and before(tail.offset, step.following)
            over_limit = limit.max_bytes is not None and size + step.size > limit.max_bytes
            if over_target or over_limit:
                break
            pieces += self._sized(step.piece)
            at, size = Position(step.following), size + step.size
            if step.to_tail:
                break
        return Advance(at, tuple(pieces), size=size)

    def _counted(
        self,
        target: Target,
        start: Position,
        tail: Tail,
        limit: Limit,
        *,
        json: bool,
        exact: bool,
    ) -> Advance:
        most = limit.max_messages
        if not json and most is not None:
            most *= self._piece_bytes  # a row per piece
        left = None
        if exact:
            left = self._left_to(target, start, tail, json=json)
            if left == 0:
                return Advance(start, ())
            most = left if most is None else min(most, left)
        counter = self._counter(target, start, json=json)
        counted = counter.count(most, limit.max_bytes)
        at = counted.at
        if left is not None:
            if counted.take == left:
                at = Position(tail.offset)
            self._to_target[target.name] = (at, left - counted.take)
        self._keep(target.name, counter, at)
        unit = Unit.MESSAGES if json else Unit.BYTES
        piece = Piece(counted.start.anchor, counted.start.skip, counted.take, unit)
        pieces = tuple(self._sized(piece)) if counted.take else ()
        return Advance(
            at,
            pieces,
            size=counted.size,
            messages=counted.take if json else len(pieces),
            carried=self._carried(counted, pieces),
        )

    @staticmethod
    def _carried(counted: Counted, pieces: tuple[Piece, ...]) -> tuple[bytes, ...] | None:
        if counted.carried is None or len(pieces) != 1:
            return None
        if pieces[0].unit is Unit.BYTES:
            return (b"".join(counted.carried),)
        return tuple(counted.carried)

    def _sized(self, piece: Piece) -> Iterator[Piece]:
        """A row holds a whole piece of a stream without messages, so such pieces are kept small."""
        if piece.unit is not Unit.BYTES:
            yield piece
            return
        for low in range(0, piece.take, self._piece_bytes):
            take = min(self._piece_bytes, piece.take - low)
            yield Piece(piece.anchor, piece.skip + low, take, Unit.BYTES)

    def _left_to(self, target: Target, start: Position, tail: Tail, *, json: bool) -> int:
        """Units up to the tail that must not be passed, counted once and then carried on."""
        known = self._to_target.get(target.name)
        if known is not None and known[0] == start:
            return known[1]
        between = units_between(self._wire, target, start.anchor, tail.offset, json=json)
        return max(0, between - start.skip)

    def _counter(self, target: Target, start: Position, *, json: bool) -> Counter:
        held = self._counters.pop(target.name, None)
        if held is not None:
            if held.at == start and not held.exhausted:
                return held
            held.close()
        return Counter(self._wire, target, start, json=json)

    def _keep(self, name: str, counter: Counter, at: Position) -> None:
        if counter.exhausted or counter.at != at or len(self._counters) >= _MAX_OPEN:
            counter.close()
        else:
            self._counters[name] = counter

    def _lines(
        self,
        target: Target,
        start: Position,
        tail: Tail,
        limit: Limit,
        separator: bytes,
        *,
        exact: bool,
        final: bool,
    ) -> Advance:
        most = self._left_to(target, start, tail, json=False) if exact else None
        plan = LinePlanner(start, separator, self._piece_bytes).plan(
            self._wire,
            target,
            max_lines=limit.max_messages,
            max_bytes=limit.max_bytes,
            stop_after=most,
            with_rest=final or tail.closed,
        )
        return Advance(plan.at, plan.pieces, size=plan.size)


def _arrived(arrival: Arrival, start: Position, limit: Limit, *, json: bool) -> Advance | None:
    """The batch as the wait brought it, if it lies within the limit."""
    at = Position(arrival.tail.offset)
    units = arrival.between(start, at, json=json)
    if not units:
        return None
    size = sum(map(len, units))
    if limit.max_bytes is not None and size > limit.max_bytes:
        return None
    if limit.max_messages is not None and len(units) > limit.max_messages:
        return None
    take, unit = (len(units), Unit.MESSAGES) if json else (size, Unit.BYTES)
    piece = Piece(start.anchor, 0, take, unit)
    return Advance(at, (piece,), size=size, messages=len(units), carried=units)
