"""A batch that was planned by an earlier run and is read again.

Its offsets fix what it holds. What can have changed is the stream: created again, or trimmed by
retention. By default that is an error. With ``failOnDataLoss`` false the batch is read as far as
there is something to read, or the query could never get past it.
"""

from __future__ import annotations

from dataclasses import replace

from spark_durable.options import SourceOptions
from spark_durable.protocol import DurableClient
from spark_durable.protocol.errors import NotFoundError, OffsetGoneError
from spark_durable.protocol.types import is_json
from spark_durable.source import loss
from spark_durable.source.bootstrap import SNAPSHOT, State, before, begin, readable, state
from spark_durable.source.discover import Place
from spark_durable.source.offset_json import Begin, SourceOffset, StreamMark
from spark_durable.source.plan_counted import units_between
from spark_durable.source.position import Piece, Position, Unit
from spark_durable.source.tail import Tail, Tails
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire


class Replay:
    """Checks the streams of a batch before it is read again."""

    def __init__(self, options: SourceOptions, place: Place, wire: Wire, tails: Tails) -> None:
        self._lenient = not options.fail_on_data_loss
        self._place = place
        self._wire = wire
        self._tails = tails

    def checked(self, start: SourceOffset, end: SourceOffset) -> SourceOffset:
        """``end`` itself, unless data is lost and the query is to go on without it."""
        moving = [name for name, mark in end.marks.items() if _moves(mark, start.marks.get(name))]
        tails = self._tails.look(moving) if moving else {}
        marks = dict(end.marks)
        for name in moving:
            marks[name] = self._mark(name, start.marks.get(name), marks[name], tails.get(name))
        return replace(end, marks=marks)

    def _mark(
        self, name: str, prior: StreamMark | None, mark: StreamMark, tail: Tail | None
    ) -> StreamMark:
        if tail is None or state(mark, tail) is State.OTHER_LIFE:
            if self._lenient:
                return _nothing(mark)
            if tail is None:
                raise loss.deleted(name)
            raise loss.created_again(name, f"it is at {tail.offset}, incarnation {tail.life}")
        if not self._lenient:
            return mark  # the tasks find out, and say what is lost
        begun = mark.begin or Begin(prior.at if prior is not None else mark.at)
        target = Target(name, self._place.url(name), mark.life, len(tail.offset))
        if self._whole(target, begun, mark, tail):
            return mark
        return self._what_is_left(target, mark, tail)

    def _whole(self, target: Target, begun: Begin, mark: StreamMark, tail: Tail) -> bool:
        if begun.snapshot is not None and not self._has_snapshot(target, begun.snapshot):
            return False
        if begun.position == mark.at:
            return True
        found = state(replace(mark, at=begun.position), tail)
        if found is State.UNSURE or not tail.described:
            return readable(self._wire, target, begun.position.anchor)
        return found is State.READABLE

    def _has_snapshot(self, target: Target, offset: str) -> bool:
        def ask(client: DurableClient) -> bool:
            with client.snapshot(target.url, offset):
                return True

        try:
            return self._wire.call(ask)
        except (NotFoundError, OffsetGoneError):
            return False

    def _what_is_left(self, target: Target, mark: StreamMark, tail: Tail) -> StreamMark:
        """From the newest snapshot (or the oldest message) to where the batch ends. If the snapshot
        lies beyond, nothing: the next batch then begins with it."""
        if not tail.described:
            tail = self._tails.describe([target.name])[target.name] or tail
        anew = begin(SNAPSHOT, target.name, tail, later=True)
        if not before(anew.position.anchor, mark.at.anchor):
            return _nothing(mark)
        if mark.pieces is None:
            return replace(mark, begin=anew)
        json = is_json(mark.content_type)
        first, last = anew.position.anchor, mark.at.anchor
        take = units_between(self._wire, target, first, last, json=json) + mark.at.skip
        piece = Piece(first, 0, take, Unit.MESSAGES if json else Unit.BYTES)
        return replace(mark, begin=anew, pieces=(piece,))


def _moves(mark: StreamMark, prior: StreamMark | None) -> bool:
    return mark.begin is not None or prior is None or prior.at != mark.at


def _nothing(mark: StreamMark) -> StreamMark:
    return replace(mark, begin=Begin(Position(mark.at.anchor, mark.at.skip)), pieces=None)
