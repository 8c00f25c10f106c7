"""Spark's writers: made on the driver for each write, pickled into its tasks, then committed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from spark_durable.options import SinkOptions, WireProtocol
from spark_durable.protocol.errors import OptionError
from spark_durable.sink.commit import commit_write
from spark_durable.sink.identity import Place, WriteIdentity
from spark_durable.sink.plan import Census, RunMark, SinkPlan
from spark_durable.sink.prepare import prepare
from spark_durable.sink.replay import RunMarks, discard, running_batch, take_census
from spark_durable.sink.rows import StreamWriterBase, WritesBatches
from spark_durable.sink.task import TaskReport, run_task
from spark_durable.worker import before_rows

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_RUN_ID = "spark.jobGroup.id"


def batch_writer(options: SinkOptions, schema: StructType) -> DataSourceWriter:
    """The writer of one batch write.

    With txnAppId and txnVersion a rerun of the job has the same identity and adds nothing. Without,
    an id made up here protects against retried tasks only. The ids of a streaming query around a
    foreachBatch are not taken over: two writes in one call would share them.
    """
    if options.protocol is WireProtocol.TOPICS:
        from spark_durable.sink import topics  # it builds on this module

        return topics.batch_writer(options, schema)
    repeats = options.txn_app_id is not None
    prepared = prepare(options, schema, repeats=repeats)
    identity = WriteIdentity(
        options.txn_app_id or uuid.uuid4().hex,
        options.txn_version or 0,
        repeats=repeats,
        prefix=options.producer_prefix,
    )
    plan = SinkPlan(options, schema, prepared.cut, identity, created=prepared.created)
    return DurableBatchWriter(_with_census(plan, identity) if repeats else plan)


def stream_writer(
    options: SinkOptions, schema: StructType, checkpoint: str | None = None
) -> DataSourceStreamWriter:
    """The writer of one micro-batch of a streaming query."""
    if options.txn_app_id is not None:
        raise OptionError(
            "txnAppId and txnVersion identify batch writes; a streaming query has its own identity."
        )
    if options.close_stream:
        raise OptionError("closeStream closes after a batch write; a streaming query has no end.")
    if options.protocol is WireProtocol.TOPICS:
        from spark_durable.sink import topics  # it builds on this module

        return topics.stream_writer(options, schema)
    prepared = prepare(options, schema, repeats=True)
    plan = SinkPlan(options, schema, prepared.cut, created=prepared.created)
    return DurableStreamWriter(plan, checkpoint)


class DurableBatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame once. Replays of its tasks add nothing."""

    def __init__(self, plan: SinkPlan) -> None:
        self._plan = plan

    def write(  # type: ignore[override]  # an Arrow writer is given batches
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        assert self._plan.identity is not None
        place = Place(self._plan.identity, _task().partitionId())
        return run_task(self._plan, place, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        commit_write(self._plan.options, _reports(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What tasks have sent stays: a rerun under the same identity finds and completes it."""
        assert self._plan.identity is not None
        discard(self._plan.identity)


class StreamingWrite(WritesBatches):
    """Writes one micro-batch. A replay of the batch adds nothing."""

    def __init__(self, plan: SinkPlan, checkpoint: str | None) -> None:
        self._plan = plan
        self._checkpoint = checkpoint

    def __getstate__(self) -> dict[str, Any]:
        """Pickled, the writer goes to tasks: the moment to ask whether this is a replay.

        Not earlier, because Spark makes another writer just to commit or abort the batch.
        """
        self._plan = _with_history(self._plan, self._checkpoint)
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        before_rows()

    @property
    def schema(self) -> StructType:
        return self._plan.schema

    def write_batches(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return run_task(self._plan, streaming_place(self._plan.options), batches)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        reports = _reports(messages)
        commit_write(self._plan.options, reports)
        if reports and reports[0].run is not None:
            RunMarks(self._checkpoint).write(RunMark(reports[0].run, batchId))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """What tasks have sent stays: the replay of the batch finds and completes it."""
        RunMarks(self._checkpoint).clear()
        identity = running_batch(self._checkpoint, self._plan.options.producer_prefix)
        if identity is not None:
            discard(identity)


class DurableStreamWriter(StreamingWrite, StreamWriterBase):
    """What Spark is given."""


def _with_history(plan: SinkPlan, checkpoint: str | None) -> SinkPlan:
    """The plan with what the driver knows of earlier runs of the batch."""
    if plan.mark is not None or plan.census is not None:
        return plan
    mark = RunMarks(checkpoint).read()
    running = running_batch(checkpoint, plan.options.producer_prefix)
    if mark is not None and running is not None and mark.batch == running.batch - 1:
        return replace(plan, mark=mark)
    return plan if running is None else _with_census(plan, running)


def _with_census(plan: SinkPlan, identity: WriteIdentity) -> SinkPlan:
    """Where rows name their streams nobody can be asked beforehand."""
    if plan.options.stream_column is not None:
        return plan
    if plan.created:
        return replace(plan, census=Census(identity, frozenset()))
    return replace(plan, census=take_census(plan.options, identity))


def _reports(messages: Sequence[WriterCommitMessage | None]) -> list[TaskReport]:
    return [message for message in messages if isinstance(message, TaskReport)]


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None
    return task


def streaming_place(options: SinkOptions) -> Place:
    """Query, batch and run, which Spark gives to tasks as local properties and nowhere else."""
    task = _task()
    query, batch = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
    if not query or not batch:
        raise OptionError(
            "This Spark does not tell its tasks the streaming query's id and batch, without which "
            "rows could be lost or doubled; nothing was sent. Write from foreachBatch with "
            "txnAppId and txnVersion=<batch id> instead."
        )
    identity = WriteIdentity(query, int(batch), prefix=options.producer_prefix)
    return Place(identity, task.partitionId(), task.getLocalProperty(_RUN_ID))
