"""Appending to a stream and closing it."""

from __future__ import annotations

from spark_durable.protocol import headers as h
from spark_durable.protocol.errors import MalformedResponseError
from spark_durable.protocol.refusals import Operation, flag, integer, refusal
from spark_durable.protocol.results import AppendOutcome, AppendResult, ProducerTriple
from spark_durable.protocol.transport import Answer, Body, Transport


def producer_headers(producer: ProducerTriple) -> dict[str, str]:
    return {
        h.PRODUCER_ID: producer.id,
        h.PRODUCER_EPOCH: str(producer.epoch),
        h.PRODUCER_SEQ: str(producer.seq),
    }


def append(
    transport: Transport,
    url: str,
    body: Body,
    *,
    content_type: str,
    producer: ProducerTriple | None,
    stream_seq: str | None,
    close: bool,
) -> AppendResult:
    operation = Operation(
        "append", url, producer, stream_seq, content_type=content_type, body_bytes=len(body)
    )
    headers = {"Content-Type": content_type}
    if stream_seq is not None:
        headers[h.STREAM_SEQ] = stream_seq
    if close:
        headers[h.STREAM_CLOSED] = "true"
    return _post(transport, operation, headers, body)


def close_stream(
    transport: Transport, url: str, *, producer: ProducerTriple | None
) -> AppendResult:
    operation = Operation("close", url, producer)
    return _post(transport, operation, {h.STREAM_CLOSED: "true"}, b"")


def _post(
    transport: Transport, operation: Operation, headers: dict[str, str], body: Body
) -> AppendResult:
    if operation.producer is not None:
        headers |= producer_headers(operation.producer)
    answer = transport.send(operation, "POST", operation.url, headers=headers, body=body)
    if answer.status not in (200, 204):
        raise refusal(operation, answer, transport.settings)
    answer.drain()
    return _result(operation, answer)


def _result(operation: Operation, answer: Answer) -> AppendResult:
    next_offset = answer.headers.get(h.STREAM_NEXT_OFFSET) or None
    epoch = integer(answer.headers, h.PRODUCER_EPOCH)
    if answer.status == 200 and next_offset is None and epoch is None:
        # A login page or a plain web server says 200 to anything; that is no acknowledgement.
        raise MalformedResponseError(
            f"{operation} was answered 200 without any header of the protocol: is the URL that of "
            "a Durable Streams server?",
            **operation.facts(),
        )
    # Without a producer an append is answered 204; with one, 204 says that the seq was there.
    # A close without a body is 204 either way: to the caller both are one.
    repeated = answer.status == 204 and operation.producer is not None
    if operation.verb == "close":
        repeated = False
    return AppendResult(
        outcome=AppendOutcome.DUPLICATE if repeated else AppendOutcome.APPENDED,
        next_offset=next_offset,
        closed=flag(answer.headers, h.STREAM_CLOSED),
        producer_epoch=epoch,
        producer_seq=integer(answer.headers, h.PRODUCER_SEQ),
    )
