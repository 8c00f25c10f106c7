"""What runs in an executor: a partition's batches become messages, appends, and a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from spark_durable.options import RowOrder
from spark_durable.protocol import DurableClient
from spark_durable.protocol.errors import StreamClosedError
from spark_durable.protocol.urls import join, redact
from spark_durable.sink.appender import DurableAppender, Sent
from spark_durable.sink.fingerprint import of_cut, of_write
from spark_durable.sink.guard import Sender, Standing
from spark_durable.sink.hold import Held, HeldLane, hold
from spark_durable.sink.identity import Place, WriteIdentity
from spark_durable.sink.lane import Body, Lane
from spark_durable.sink.messages import MessageMaker, Messages
from spark_durable.sink.order import ExternalSort
from spark_durable.sink.outbox import Job, Outbox
from spark_durable.sink.plan import (
    OPEN_BYTES,
    ROUTED_CONNECTIONS,
    SORT_BYTES,
    SPOOL_BYTES,
    RunMark,
    SinkPlan,
)
from spark_durable.sink.routes import by_stream
from spark_durable.sink.spool import Spool
from spark_durable.worker import begin_task, end_task

if TYPE_CHECKING:
    from spark_durable.sink.lane import Texts


@dataclass(frozen=True)
class TaskReport(WriterCommitMessage):
    """A task that has done its part. Nothing but this reaches the driver's ``commit``.

    ``closed``: the stream was closed before, so this task sent nothing; whether all was there the
    driver finds out by the fingerprints. ``held``: what the driver has to send.
    """

    identity: WriteIdentity
    partition: int
    run: str | None = None
    rows: int = 0
    sent: Sent = Sent()
    fingerprint: int = 0
    closed: bool = False
    careful: bool = False
    streams: tuple[str, ...] = ()
    held: Held | None = None


def run_task(plan: SinkPlan, place: Place, batches: Iterator[pa.RecordBatch]) -> TaskReport:
    """Writes one partition. When it returns, every row is in its stream or in the report's hands.

    A second run with the same rows, in the same order where that matters, adds nothing.
    """
    begin_task()
    options = plan.options
    connections = 1 if options.stream_column is None else ROUTED_CONNECTIONS
    with Spool(SPOOL_BYTES) as spool, Outbox(options.client_settings(), connections) as outbox:
        writer = _PartitionWriter(plan, place, spool, outbox)
        for messages in messages_of(plan, batches):
            writer.add(messages)
        report = writer.finish()
    end_task()
    return report


def messages_of(plan: SinkPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[Messages]:
    """A partition's messages behind their separators, in the order in which they are sent."""
    made = _made(plan, batches)
    if plan.options.row_order is not RowOrder.SORT:
        yield from made
        return
    with ExternalSort(SORT_BYTES) as sort:
        for messages in made:
            routing = [] if messages.streams is None else [messages.streams]
            columns = [*routing, *messages.keys, messages.texts]
            sort.add(pa.record_batch(columns, names=[str(n) for n in range(len(columns))]))
        for batch in sort.result():
            streams = None if plan.options.stream_column is None else batch.column(0)
            yield Messages(batch.column(batch.num_columns - 1), streams, ())


def _made(plan: SinkPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[Messages]:
    maker = MessageMaker(plan.schema, plan.options, plan.cut.form.separator)
    row = 0
    for batch in batches:
        yield from maker.make(batch, row)
        row += batch.num_rows


@dataclass(slots=True)
class _Delivery:
    """One stream's appends on their way out. Its jobs run in order, on one thread."""

    number: int
    sender: Sender
    lane: Lane
    fingerprint: int = 0
    appender: DurableAppender | None = None
    standing: Standing | None = None

    @property
    def stored(self) -> bool:
        """Whether the stream is closed, or an earlier attempt has sent these appends."""
        return self.standing is not None and (self.standing.begun or self.standing.closed)


class _PartitionWriter:
    """Takes messages, in order, and sees them into their streams."""

    def __init__(self, plan: SinkPlan, place: Place, spool: Spool, outbox: Outbox) -> None:
        self._plan = plan
        self._options = plan.options
        self._place = place
        self._spool = spool
        self._outbox = outbox
        self._deliveries: dict[str, _Delivery] = {}
        self._open_bytes = 0

    def add(self, messages: Messages) -> None:
        if messages.streams is None:
            self._add(self._options.url, messages.texts)
            return
        for name, part in by_stream(messages.texts, messages.streams):
            self._add(join(self._options.url, name), part)
        self._open_bytes += messages.texts.nbytes
        if self._open_bytes > OPEN_BYTES:
            for delivery in self._deliveries.values():
                delivery.lane.park(self._spool)
            self._open_bytes = 0

    def _add(self, url: str, texts: Texts) -> None:
        delivery = self._deliveries.get(url)
        if delivery is None:
            sender = Sender.of(url, self._place)
            delivery = _Delivery(len(self._deliveries), sender, Lane(self._plan.cut))
            self._deliveries[url] = delivery
        delivery.lane.add(texts, self._spool)
        if self._trusts(delivery):
            # What is complete may go.
            if not delivery.fingerprint:
                delivery.fingerprint = of_cut(self._plan.cut.limit)
                self._begin(delivery)
            self._send(delivery)

    def _trusts(self, delivery: _Delivery) -> bool:
        """Whether these are several appends whose content is taken on trust."""
        return self._options.row_order is RowOrder.TRUST and delivery.lane.several

    def finish(self) -> TaskReport:
        careful = self._careful()
        waiting = []
        for delivery in self._deliveries.values():
            fingerprint = delivery.lane.finish(self._spool)
            if not delivery.fingerprint:
                delivery.fingerprint = fingerprint
                self._begin(delivery)
                if careful:
                    waiting.append(delivery)
                    continue
            self._send(delivery)
        self._outbox.flush()
        held = self._hold([delivery for delivery in waiting if not delivery.stored])
        for delivery in waiting:
            if held is None or delivery.stored:
                self._send(delivery)
        self._outbox.flush()
        return self._report(careful, held)

    def _begin(self, delivery: _Delivery) -> None:
        def job(client: DurableClient) -> None:
            delivery.appender = DurableAppender(client, self._options, delivery.sender)
            delivery.standing = delivery.appender.begin(delivery.fingerprint)
            if delivery.standing.closed and not self._may_be_closed:
                raise StreamClosedError(
                    f"{redact(delivery.sender.url)} is closed and takes nothing more: write to "
                    "another stream. Nothing was sent.",
                    **delivery.sender.facts(),
                )

        self._outbox.submit(delivery.number, job)

    def _send(self, delivery: _Delivery) -> None:
        for body in delivery.lane.take_complete():
            self._outbox.submit(delivery.number, self._append_job(delivery, body))

    def _append_job(self, delivery: _Delivery, body: Body) -> Job:
        def job(client: DurableClient) -> None:
            assert delivery.appender is not None
            assert delivery.standing is not None
            if not delivery.standing.closed:
                for append in delivery.lane.appends(body, self._spool):
                    delivery.appender.send(append)
            body.release(self._spool)

        return job

    @property
    def _may_be_closed(self) -> bool:
        """A write that closes the stream may find it closed by its own earlier run."""
        return self._options.close_stream and self._place.identity.repeats

    def _careful(self) -> bool:
        """Whether another run may have begun this batch, so that all tasks must agree first."""
        plan, place = self._plan, self._place
        if not place.identity.repeats or self._options.row_order is RowOrder.TRUST:
            return False
        if place.run is not None and plan.mark == RunMark(place.run, place.identity.batch - 1):
            return False
        if plan.census is not None and plan.census.identity == place.identity:
            return bool(plan.census.begun)
        return True

    def _hold(self, deliveries: list[_Delivery]) -> Held | None:
        if not deliveries:
            return None
        lanes = [
            HeldLane(
                delivery.sender.url,
                delivery.fingerprint,
                tuple(delivery.lane.sizes()),
            )
            for delivery in deliveries
        ]
        bodies = (body for delivery in deliveries for body in delivery.lane.bodies)
        handover = None if self._plan.census is None else self._plan.census.handover
        return hold(lanes, (body.read(self._spool) for body in bodies), handover)

    def _report(self, careful: bool, held: Held | None) -> TaskReport:
        deliveries = self._deliveries.values()
        sent = Sent()
        for delivery in deliveries:
            if delivery.appender is not None:
                sent += delivery.appender.sent
        by_url = sorted((delivery.sender.url, delivery.fingerprint) for delivery in deliveries)
        return TaskReport(
            identity=self._place.identity,
            partition=self._place.partition,
            run=self._place.run,
            rows=sum(delivery.lane.rows for delivery in deliveries),
            sent=sent,
            fingerprint=of_write([fingerprint for _, fingerprint in by_url]),
            closed=any(d.standing is not None and d.standing.closed for d in deliveries),
            careful=careful,
            streams=tuple(url for url, _ in by_url) if careful else (),
            held=held,
        )
