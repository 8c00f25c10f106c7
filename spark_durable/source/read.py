"""What a task does: the parts it was given, in order, into Arrow batches.

A second thread fetches the next body while this one splits and parses the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_durable.codec.messages import split_lines
from spark_durable.options import SourceOptions
from spark_durable.protocol import DurableClient
from spark_durable.protocol.errors import (
    DataLossError,
    NotFoundError,
    OffsetGoneError,
    OptionError,
    RefusedError,
    UnsupportedTypeError,
)
from spark_durable.protocol.offsets import numeric
from spark_durable.protocol.types import essence, is_json, is_ndjson
from spark_durable.source import loss, read_numeric, read_pieces, spans
from spark_durable.source.discover import Place
from spark_durable.source.partition import (
    CarriedPart,
    Of,
    Part,
    PiecePart,
    RangePart,
    SnapshotPart,
    StartPart,
)
from spark_durable.source.plan_lines import separator_of
from spark_durable.source.prefetch import prefetch
from spark_durable.source.ranges import ByteRange
from spark_durable.source.read_numeric import Body
from spark_durable.source.rows import RowMaker
from spark_durable.source.schema import KIND_SNAPSHOT, KIND_UPDATE, Columns
from spark_durable.source.session import time_zone
from spark_durable.source.spans import Span
from spark_durable.source.target import Target
from spark_durable.source.wire import Wire, open_wire
from spark_durable.worker import begin_task, end_task

# Snapshots that follow each other faster than they can be read are given up, and the error told.
_MAX_OVERTAKEN: Final = 20


@dataclass(frozen=True, slots=True)
class _Fetched:
    """Messages of one stream: ready, or still in the body they came in."""

    of: Of
    content: Span | Body
    kind: str = KIND_UPDATE
    width: int = 0

    def span(self) -> Span:
        return self.content.span() if isinstance(self.content, Body) else self.content


class PartReader:
    """Reads parts with the options of the query. Nothing is kept between two tasks."""

    def __init__(self, options: SourceOptions, place: Place, columns: Columns) -> None:
        self._options = options
        self._place = place
        self._columns = columns

    def read(self, parts: tuple[Part, ...]) -> Iterator[pa.RecordBatch]:
        begin_task()
        rows = RowMaker(self._columns, self._options, time_zone())
        with open_wire(self._options) as wire:
            for fetched in prefetch(self._fetch(wire, parts)):
                span = fetched.span()
                if len(span.messages):
                    yield rows.rows(fetched.of, span, fetched.kind, fetched.width)
        end_task()

    def _fetch(self, wire: Wire, parts: tuple[Part, ...]) -> Iterator[_Fetched]:
        for part in parts:
            if isinstance(part, StartPart):
                yield from self._start(wire, part)
            elif isinstance(part, SnapshotPart):
                yield self._snapshot(wire, part)
            elif isinstance(part, CarriedPart):
                yield self._carried(part)
            elif is_json(part.of.content_type):
                yield from self._messages(wire, part)
            else:
                yield from self._plain(wire, part)

    def _target(self, of: Of, width: int = 0) -> Target:
        return Target(of.stream, self._place.url(of.stream), of.life, width)

    # -- JSON ------------------------------------------------------------------------------------

    def _messages(self, wire: Wire, part: RangePart | PiecePart) -> Iterator[_Fetched]:
        if isinstance(part, RangePart):
            target = self._target(part.of, part.width)
            for body in read_numeric.fetch_messages(wire, target, part.range):
                yield _Fetched(part.of, body, width=part.width)
            return
        target = self._target(part.of)
        for span in read_pieces.fetch_messages(wire, target, part.pieces, part.end):
            yield _Fetched(part.of, span)

    def _carried(self, part: CarriedPart) -> _Fetched:
        messages = list(part.messages)
        if not is_json(part.of.content_type):
            return self._plain_rows(part.of, b"".join(messages), part.offset)
        start = numeric(part.offset)
        if part.separator is None or start is None:
            return _Fetched(part.of, spans.listed(messages, part.offset))
        sizes = np.array([len(message) + part.separator for message in messages], np.int64)
        positions = start + np.concatenate(([0], np.cumsum(sizes)))
        span = Span(pa.array(messages, pa.binary()), positions[:-1], int(positions[-1]))
        return _Fetched(part.of, span, width=part.width)

    # -- streams without messages ----------------------------------------------------------------

    def _plain(self, wire: Wire, part: RangePart | PiecePart) -> Iterator[_Fetched]:
        if isinstance(part, RangePart):
            target = self._target(part.of, part.width)
            content = b"".join(read_numeric.fetch_bytes(wire, target, part.range))
            if content:
                yield self._plain_rows(part.of, content, target.offset(part.range.start))
            return
        target = self._target(part.of)
        for content in read_pieces.fetch_bytes(wire, target, part.pieces):
            yield self._plain_rows(part.of, content, part.pieces[0].anchor)

    def _plain_rows(self, of: Of, content: bytes, offset: str) -> _Fetched:
        """Lines if the option says how they end, else one value for the whole range."""
        separator = separator_of(of.content_type, self._options.line_sep)
        if separator is not None:
            lines = split_lines(content, separator)
            found: Any = lines.messages.cast(pa.binary())
            if lines.remainder:
                rest: Any = pa.array([lines.remainder], pa.binary())
                found = pa.concat_arrays([found, rest])
            return _Fetched(of, Span(found, anchor=offset))
        if not self._columns.raw:
            raise OptionError(
                f"Stream {of.stream} is {of.content_type}, which has no message boundaries to "
                "parse JSON between: set lineSep if its lines are JSON, or read it without a "
                "schema."
            )
        return _Fetched(of, spans.listed([content], offset))

    # -- the beginning of a stream ---------------------------------------------------------------

    def _start(self, wire: Wire, part: StartPart) -> list[_Fetched]:
        """All of it before any of it is handed on, from whichever snapshot is still whole."""
        for _ in range(_MAX_OVERTAKEN):
            try:
                found = []
                if part.snapshot is not None:
                    found.append(self._snapshot(wire, SnapshotPart(part.of, part.snapshot)))
                if part.updates is not None:
                    found += self._updates(wire, part.updates)
                return found
            except DataLossError as error:
                newer = self._newer(wire, part)
                if newer is None:
                    raise
                lost, part = error, newer
        raise lost

    def _updates(self, wire: Wire, part: RangePart) -> Iterator[_Fetched]:
        return (self._messages if is_json(part.of.content_type) else self._plain)(wire, part)

    def _newer(self, wire: Wire, part: StartPart) -> StartPart | None:
        """From the newest snapshot on, None if there is none newer. Where it lies past the end of
        the batch, it is all: the next batch goes on from it."""
        try:
            info = wire.call(lambda client: client.head(self._target(part.of).url))
        except RefusedError:
            return None
        newest = info.snapshot_offset
        if newest in (None, part.snapshot) or part.of.life not in (None, info.incarnation):
            return None
        first, last = numeric(newest), numeric(part.end)
        updates = None
        if first is not None and last is not None and first < last:
            whole = ByteRange(first, last, first=True, last=True)
            updates = RangePart(part.of, whole, len(part.end))
        return replace(part, snapshot=newest, updates=updates)

    # -- snapshots -------------------------------------------------------------------------------

    def _snapshot(self, wire: Wire, part: SnapshotPart) -> _Fetched:
        target = self._target(part.of)

        def ask(client: DurableClient) -> tuple[str, bytes]:
            with client.snapshot(target.url, part.offset) as snapshot:
                return snapshot.content_type, snapshot.read()

        try:
            content_type, body = wire.call(ask)
        except (NotFoundError, OffsetGoneError) as error:
            raise loss.snapshot_superseded(part.of.stream, part.offset) from error
        of = Of(part.of.stream, content_type, part.of.life)
        if self._columns.raw:
            return _Fetched(of, spans.listed([body], part.offset), KIND_SNAPSHOT)
        return _Fetched(of, _snapshot_rows(of, body, part.offset), KIND_SNAPSHOT)


def _snapshot_rows(of: Of, body: bytes, offset: str) -> Span:
    if is_ndjson(of.content_type):
        return spans.listed([line for line in body.split(b"\n") if line.strip()], offset)
    if is_json(of.content_type) and body.lstrip()[:1] == b"[":
        return spans.array(body, offset)
    raise UnsupportedTypeError(
        f"The snapshot of stream {of.stream} at offset {offset} is {essence(of.content_type)}"
        f"{' but no array' if is_json(of.content_type) else ''}: only a JSON array or NDJSON "
        "becomes rows under a schema. Read without a schema, or set startingOffsets to earliest."
    )
