"""Before any task runs: what would fail, fails here, on the driver."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import StructType

from spark_durable.options import SinkOptions
from spark_durable.protocol import DurableClient, RetryPolicy, StreamInfo
from spark_durable.protocol.errors import (
    ContentTypeMismatchError,
    NotFoundError,
    RefusedError,
    StreamClosedError,
    UnauthorizedError,
)
from spark_durable.protocol.types import essence
from spark_durable.protocol.urls import redact
from spark_durable.sink.appender import create_stream
from spark_durable.sink.cut import DEFAULT_APPEND_BYTES, Cut
from spark_durable.sink.messages import MessageMaker, body_form


@dataclass(frozen=True, slots=True)
class Prepared:
    """``created``: the stream did not exist, so that no earlier run can have written to it."""

    cut: Cut
    created: bool = False


def prepare(options: SinkOptions, schema: StructType, *, repeats: bool) -> Prepared:
    """Checks schema and stream, creates the stream if it is missing, and fixes the cut.

    ``repeats``: the write may be a repetition, so that a stream it is to close may be closed.
    """
    MessageMaker(schema, options)
    retry = RetryPolicy(deadline_s=options.retry_timeout)
    created, announced = False, None
    with DurableClient(options.client_settings()) as client:
        if options.stream_column is not None:
            _check_base(client, retry, options)
        else:
            created, info = _stream(client, retry, options)
            _check_stream(info, options, may_be_closed=options.close_stream and repeats)
            announced = info.max_append_bytes
    limit = options.max_append_bytes or DEFAULT_APPEND_BYTES
    return Prepared(Cut(body_form(options), min(limit, announced or limit), announced), created)


def _stream(
    client: DurableClient, retry: RetryPolicy, options: SinkOptions
) -> tuple[bool, StreamInfo]:
    try:
        return False, retry.run(lambda: client.head(options.url), resend_unknown=True)
    except NotFoundError as missing:
        if not options.create_if_missing:
            raise NotFoundError(
                f"{redact(options.url)} does not exist, and createIfMissing is false: create the "
                "stream, or let the sink do it.",
                **missing.facts,
            ) from None
    created = create_stream(client, retry, options.url, options.content_type)
    return created, retry.run(lambda: client.head(options.url), resend_unknown=True)


def _check_stream(info: StreamInfo, options: SinkOptions, *, may_be_closed: bool) -> None:
    if info.closed and not may_be_closed:
        raise StreamClosedError(
            f"{redact(options.url)} is closed and takes nothing more: write to another stream.",
            url=redact(options.url),
            final_offset=info.tail,
        )
    if info.content_type is not None and essence(info.content_type) != essence(
        options.content_type
    ):
        raise ContentTypeMismatchError(
            f"{redact(options.url)} has content type {info.content_type}, not "
            f"{options.content_type}: set contentType to the stream's, or write to another stream.",
            url=redact(options.url),
            content_type=info.content_type,
        )


def _check_base(client: DurableClient, retry: RetryPolicy, options: SinkOptions) -> None:
    """Where rows name their streams, only the door can be tried: is it there, does it open?

    A server without buckets refuses the question in one way or another, which says nothing.
    """
    try:
        retry.run(lambda: client.get_bucket(options.url), resend_unknown=True)
    except UnauthorizedError:
        raise
    except RefusedError:
        return
