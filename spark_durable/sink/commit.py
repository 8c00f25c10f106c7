"""After all tasks: the driver checks that they agree, sends what they held back, and closes."""

from __future__ import annotations

from collections.abc import Sequence

from spark_durable.options import SinkOptions
from spark_durable.protocol import DurableClient, ProducerTriple, RetryPolicy
from spark_durable.protocol.errors import ReplayMismatchError, StreamClosedError
from spark_durable.protocol.urls import redact
from spark_durable.sink.appender import DurableAppender
from spark_durable.sink.fingerprint import of_write
from spark_durable.sink.guard import Sender
from spark_durable.sink.hold import HeldLane
from spark_durable.sink.identity import Place, WriteIdentity
from spark_durable.sink.outbox import Job, Outbox
from spark_durable.sink.plan import ROUTED_CONNECTIONS
from spark_durable.sink.replay import CENSUS_WIDTH, begun_partitions, discard
from spark_durable.sink.task import TaskReport

# Questions asked about partitions that this run does not have, over all streams of a routed write.
_MOST_PROBES = 2048


def commit_write(options: SinkOptions, reports: Sequence[TaskReport]) -> None:
    """When it returns, every row of the write is in its stream, and the stream closed if asked."""
    if not reports:
        return
    identity = reports[0].identity
    try:
        _check_surplus(options, identity, reports)
        _send_held(options, reports)
    finally:
        discard(identity)
    if options.close_stream:
        _close(options, identity, reports)


def _check_surplus(
    options: SinkOptions, identity: WriteIdentity, reports: Sequence[TaskReport]
) -> None:
    """Partitions of this batch that an earlier run had begun and this one does not have.

    Every task has compared its own partition; those that nobody has now would go unnoticed.
    """
    if not any(report.careful for report in reports):
        return
    if options.accept_doubles_for_batch == identity.batch:
        return
    count = len(reports)
    urls = sorted({url for report in reports for url in report.streams})
    width = min(CENSUS_WIDTH, max(1, _MOST_PROBES // max(1, len(urls))))
    for url in urls:
        partitions = begun_partitions(options, identity, url, range(count, count + width))
        if partitions:
            raise _surplus(identity, url, partitions, reports)


def _surplus(
    identity: WriteIdentity, url: str, partitions: list[int], reports: Sequence[TaskReport]
) -> ReplayMismatchError:
    stored = sum(report.sent.appended for report in reports)
    harm = (
        f"{stored} appends of this run are in the stream by now and may double rows"
        if stored
        else "nothing was sent"
    )
    batch = identity.batch
    return ReplayMismatchError(
        f"Batch {batch} of {identity.name} was begun on {redact(url)} with more partitions than "
        f"the {len(reports)} it has now: producer {identity.producer(partitions[0])} has sent rows "
        f"of it that are now in another partition; {harm}. Ways on: run the batch with the same "
        "parallelism as it was begun (cores, shuffle partitions, AQE), or set "
        f"acceptDoublesForBatch={batch} to send it anew, doubles included. To avoid it: "
        "spark_durable.repeatable(df, partitions).",
        url=redact(url),
        batch=batch,
        partitions=partitions,
    )


def _send_held(options: SinkOptions, reports: Sequence[TaskReport]) -> None:
    with Outbox(options.client_settings(), ROUTED_CONNECTIONS) as outbox:
        number = 0
        for report in reports:
            if report.held is None:
                continue
            for lane, bodies in report.held.bodies():
                place = Place(report.identity, report.partition)
                outbox.submit(number, _sending(options, place, lane, bodies))
                number += 1
        outbox.flush()


def _sending(options: SinkOptions, place: Place, lane: HeldLane, bodies: list[memoryview]) -> Job:
    def job(client: DurableClient) -> None:
        appender = DurableAppender(client, options, Sender.of(lane.url, place))
        standing = appender.begin(lane.fingerprint)
        if standing.closed:
            raise StreamClosedError(
                f"{redact(lane.url)} was closed while the batch was being written.",
                url=redact(lane.url),
            )
        for body in bodies:
            appender.send(body)

    return job


def _close(options: SinkOptions, identity: WriteIdentity, reports: Sequence[TaskReport]) -> None:
    """Closes under a triple that stands for the whole write.

    A repetition of the very same write repeats the triple, and the server answers that the stream
    was closed by it: then everything was there. Any other write gets a conflict.
    """
    ordered = sorted(reports, key=lambda report: report.partition)
    whole = of_write([report.fingerprint for report in ordered])
    triple = ProducerTriple(identity.closer, identity.epoch(whole), 0)
    with DurableClient(options.client_settings()) as client:
        try:
            RetryPolicy(deadline_s=options.retry_timeout).run(
                lambda: client.close_stream(options.url, producer=triple), resend_unknown=True
            )
        except StreamClosedError as closed:
            unsent = any(report.closed for report in reports)
            harm = "so nothing was sent" if unsent else "after the rows had been sent"
            raise StreamClosedError(
                f"{redact(options.url)} was closed by another write or another client, {harm}. "
                f"This write would have closed it as producer {triple.id}, epoch {triple.epoch}. "
                "Write to another stream; if this is a rerun, run it exactly as before.",
                **closed.facts,
            ) from None
