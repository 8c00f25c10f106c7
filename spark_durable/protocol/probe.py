"""Asking what a stream has of a producer, by an append that no server can accept."""

from __future__ import annotations

from spark_durable.protocol import append
from spark_durable.protocol import headers as h
from spark_durable.protocol.errors import (
    BadRequestError,
    DurableError,
    MalformedResponseError,
    SequenceGapError,
    StaleEpochError,
    StreamClosedError,
)
from spark_durable.protocol.refusals import Operation, refusal
from spark_durable.protocol.results import ProbeResult, ProbeState, ProducerTriple
from spark_durable.protocol.transport import Transport
from spark_durable.protocol.types import is_json

# The last seq there is: accepting it would take 2^53 - 1 appends before it. So the server must
# refuse, and how it refuses tells what it knows.
PROBE_SEQ = h.MAX_SAFE_INTEGER


def probe(
    transport: Transport, url: str, producer_id: str, epoch: int, *, content_type: str
) -> ProbeResult:
    producer = ProducerTriple(producer_id, epoch, PROBE_SEQ)
    operation = Operation("probe", url, producer, content_type=content_type)
    # The body must be valid, or a refusal of the body would pass for one of the epoch (both 400).
    body = b"[0]" if is_json(content_type) else b"0"
    headers = {"Content-Type": content_type, **append.producer_headers(producer)}
    answer = transport.send(operation, "POST", url, headers=headers, body=body)
    if answer.status in (200, 204):
        answer.drain()
        raise MalformedResponseError(
            f"{operation} was accepted: this server does not check producer sequences, so nothing "
            "written to it is safe against repetition.",
            **operation.facts(),
        )
    return _reading(producer, refusal(operation, answer, transport.settings))


def _reading(producer: ProducerTriple, refused: DurableError) -> ProbeResult:
    if isinstance(refused, SequenceGapError) and refused.expected_seq is not None:
        if refused.expected_seq == 0:
            return ProbeResult(ProbeState.UNKNOWN_PRODUCER, applied=0)
        return ProbeResult(
            ProbeState.EPOCH_CURRENT, current_epoch=producer.epoch, applied=refused.expected_seq
        )
    if isinstance(refused, BadRequestError):
        return ProbeResult(ProbeState.EPOCH_NOT_BEGUN, applied=0)
    if isinstance(refused, StaleEpochError):
        return ProbeResult(ProbeState.NEWER_EPOCH, current_epoch=refused.current_epoch)
    if isinstance(refused, StreamClosedError):
        same = refused.producer_epoch == producer.epoch and refused.producer_seq is not None
        return ProbeResult(
            ProbeState.CLOSED,
            current_epoch=refused.producer_epoch,
            applied=(refused.producer_seq or 0) + 1 if same else None,
            final_offset=refused.final_offset,
        )
    raise refused
