"""``protocol=topics``: rows as records of a topic, each write under an idempotency key.

A key is made of the write's identity (query or application, batch), the partition, the number of
the write in it and a digest of its records. A retried task or replayed batch repeats the same keys,
and the server appends nothing while they are within the topic's ``idempotency_window_ms``. Past the
window, or with other rows than before, records are appended again: doubled, never lost.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from spark_durable.options import SinkOptions
from spark_durable.protocol import RetryPolicy
from spark_durable.protocol.errors import BadRowError, NotFoundError, OptionError
from spark_durable.protocol.headers import CONTENT_TYPE_JSON
from spark_durable.protocol.refusals import Operation, refusal
from spark_durable.protocol.transport import Transport
from spark_durable.protocol.types import is_json
from spark_durable.protocol.urls import join, redact
from spark_durable.sink.cut import DEFAULT_APPEND_BYTES, BodyForm, Cut
from spark_durable.sink.identity import Place, WriteIdentity
from spark_durable.sink.messages import MessageMaker
from spark_durable.sink.plan import SinkPlan
from spark_durable.sink.routes import by_stream
from spark_durable.sink.rows import StreamWriterBase
from spark_durable.sink.task import messages_of
from spark_durable.sink.writer import streaming_place

# A write takes this many records, and a record this many bytes.
MAX_RECORDS = 10_000
MAX_RECORD_BYTES = 1 << 20
MAX_KEY = 256


def batch_writer(options: SinkOptions, schema: StructType) -> DataSourceWriter:
    """With txnAppId and txnVersion a rerun within the window appends nothing."""
    identity = WriteIdentity(
        options.txn_app_id or uuid.uuid4().hex,
        options.txn_version or 0,
        repeats=options.txn_app_id is not None,
        prefix=options.producer_prefix,
    )
    return TopicsBatchWriter(SinkPlan(options, schema, _prepare(options, schema), identity))


def stream_writer(options: SinkOptions, schema: StructType) -> DataSourceStreamWriter:
    """A replay of a micro-batch within the window appends nothing."""
    return TopicsStreamWriter(SinkPlan(options, schema, _prepare(options, schema)))


def _prepare(options: SinkOptions, schema: StructType) -> Cut:
    """What would fail, fails here, on the driver; a missing topic is created here."""
    if options.close_stream:
        raise OptionError("closeStream: a topic has no end; leave it out with protocol=topics.")
    if not is_json(options.content_type):
        raise OptionError("protocol=topics sends JSON; leave contentType as it is.")
    MessageMaker(schema, options)
    if options.stream_column is None:
        with _TopicClient(options) as client:
            client.ensure(options.url)
    return Cut(BodyForm.SINGLE, options.max_append_bytes or DEFAULT_APPEND_BYTES)


class TopicsBatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame once, for as long as the topic remembers its keys."""

    def __init__(self, plan: SinkPlan) -> None:
        self._plan = plan

    def write(  # type: ignore[override]  # an Arrow writer is given batches
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        task = TaskContext.get()
        assert task is not None
        assert self._plan.identity is not None
        return run_task(self._plan, Place(self._plan.identity, task.partitionId()), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Every record was acknowledged before its task returned."""

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """What tasks have written stays: a rerun within the window finds it."""


class TopicsStreamWriter(StreamWriterBase):
    """Writes one micro-batch once, for as long as the topic remembers its keys."""

    def __init__(self, plan: SinkPlan) -> None:
        self._plan = plan

    @property
    def schema(self) -> StructType:
        return self._plan.schema

    def write_batches(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return run_task(self._plan, streaming_place(self._plan.options), batches)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Every record was acknowledged before its task returned."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """What tasks have written stays: the replay of the batch finds it."""


@dataclass(frozen=True)
class TopicsReport(WriterCommitMessage):
    """A task that has done its part."""

    records: int
    deduped: int


def run_task(plan: SinkPlan, place: Place, batches: Iterator[pa.RecordBatch]) -> TopicsReport:
    """Writes one partition. When it returns, every row has its seq in its topic."""
    records = deduped = 0
    open_writes: dict[str, _OpenWrite] = {}
    with _TopicClient(plan.options) as client:
        for url, data in _records(plan, batches):
            write = open_writes.setdefault(url, _OpenWrite(url))
            if write.data and write.full(len(data), plan.cut.limit):
                deduped += client.write(write, place)
            write.add(data)
            records += 1
        for write in open_writes.values():
            if write.data:
                deduped += client.write(write, place)
    return TopicsReport(records, deduped)


def _records(plan: SinkPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, bytes]]:
    url = plan.options.url
    for messages in messages_of(plan, batches):
        texts = messages.texts.cast(pa.large_binary())
        if messages.streams is None:
            for text in texts:
                yield url, text.as_py()
        else:
            for name, part in by_stream(texts, messages.streams):
                topic = join(url, name)
                for text in part:
                    yield topic, text.as_py()


@dataclass(slots=True)
class _OpenWrite:
    """The next write to one topic: records gathered so far, and its number."""

    url: str
    seq: int = 0
    size: int = 0
    data: list[bytes] = field(default_factory=list)

    def full(self, further: int, limit: int) -> bool:
        return len(self.data) >= MAX_RECORDS or self.size + further > limit

    def add(self, data: bytes) -> None:
        if len(data) > MAX_RECORD_BYTES:
            raise BadRowError(
                f"A row makes a record of {len(data)} bytes; a topic takes up to "
                f"{MAX_RECORD_BYTES}. Shorten it, or write to a stream (protocol=durable)."
            )
        self.data.append(data)
        self.size += len(data)

    def take(self, place: Place) -> bytes:
        """The body of the write, under a key that the same records always get again."""
        records = b",".join(b'{"data":' + data + b"}" for data in self.data)
        key = _key(place, self.seq, hashlib.sha256(records).hexdigest()[:24])
        self.seq, self.size, self.data = self.seq + 1, 0, []
        return b'{"idempotency_key":' + json.dumps(key).encode() + b',"records":[' + records + b"]}"


def _key(place: Place, seq: int, digest: str) -> str:
    identity = place.identity
    key = f"{identity.producer(place.partition)}/{identity.batch}/{seq}/{digest}"
    if len(key) > MAX_KEY:
        key = hashlib.sha256(key.encode()).hexdigest()
    return key


class _TopicClient:
    """Writes with retries; a repeated write has the same key, so it may be repeated freely."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._transport = Transport(options.client_settings())
        self._retry = RetryPolicy(deadline_s=options.retry_timeout)
        self._known: set[str] = set()

    def __enter__(self) -> _TopicClient:
        return self

    def __exit__(self, *failure: object) -> None:
        self._transport.close()

    def ensure(self, url: str) -> None:
        """Creates the topic, or finds out that it is missing."""
        if url in self._known:
            return
        if self._options.create_if_missing:
            self._ask("create", "PUT", url, b"{}")
        else:
            try:
                self._ask("look at", "GET", url, None)
            except NotFoundError as missing:
                raise NotFoundError(
                    f"{redact(url)} does not exist, and createIfMissing is false: create the "
                    "topic, or let the sink do it.",
                    **missing.facts,
                ) from None
        self._known.add(url)

    def write(self, write: _OpenWrite, place: Place) -> int:
        """1 if the server had these records already."""
        if self._options.stream_column is not None:
            self.ensure(write.url)
        answer = self._ask("write to", "POST", write.url, write.take(place))
        return int(bool(answer.get("deduped")))

    def _ask(self, verb: str, method: str, url: str, body: bytes | None) -> dict[str, object]:
        operation = Operation(verb, url, content_type=CONTENT_TYPE_JSON)
        headers = {"Content-Type": CONTENT_TYPE_JSON}

        def attempt() -> dict[str, object]:
            what = str(operation)
            with self._transport.send(what, method, url, headers=headers, body=body) as answer:
                if answer.status not in (200, 201):
                    raise refusal(operation, answer, self._transport.settings)
                found: dict[str, object] = json.loads(answer.read())
                return found

        return self._retry.run(attempt, resend_unknown=True)
