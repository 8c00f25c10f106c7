"""What becomes of an append: a record to be logged, a repetition, or a refusal.

Checked against the written state, so that requests in flight count. The order of the checks is
the protocol's: closed, content type, producer, Stream-Seq, then the body itself. A repetition is
recognised before its body is looked at.
"""

from __future__ import annotations

from . import json_messages, records
from .errors import (
    Closed,
    ContentTypeMismatch,
    EmptyBody,
    SequenceRegression,
    TooLarge,
)
from .model import Appended, AppendSpec, Buffer, StoreConfig
from .streams import Stream, media_type


class Repetition:
    """Nothing to write: the stream holds this already, or is closed already."""


def decide(
    stream: Stream, spec: AppendSpec, config: StoreConfig, now: float
) -> tuple[records.Appended, Buffer] | Repetition:
    if not spec.body and not spec.close:
        raise EmptyBody()
    if len(spec.body) > config.max_append_bytes:
        raise TooLarge("an append", len(spec.body), config.max_append_bytes)
    if stream.written.closed:
        return _on_closed(stream, spec)
    if spec.body and media_type(spec.content_type) != media_type(stream.content_type):
        raise ContentTypeMismatch(stream.key, stream.content_type, spec.content_type)
    if spec.producer is not None and stream.producers.is_repetition(
        stream.key,
        spec.producer,
        now,
        idle_s=config.producer_idle_s,
        limit=config.max_producers,
    ):
        return Repetition()
    last, sent = stream.stream_seq, spec.stream_seq
    if last is not None and sent is not None and sent.encode() <= last.encode():
        raise SequenceRegression(last, sent)
    payload, messages = encode(stream.json, spec.body)
    if spec.body and not messages:
        raise EmptyBody("an append of an empty array adds nothing; leave it out")
    record = records.Appended(
        stream=stream.id,
        offset=stream.written.tail,
        at_ms=int(now * 1000),
        messages=messages,
        new_segment=_needs_segment(stream, len(payload), config.segment_bytes),
        close=spec.close,
        producer=spec.producer,
        stream_seq=spec.stream_seq,
    )
    return record, payload


def encode(json: bool, body: Buffer) -> tuple[Buffer, int]:
    """The stored form of a body and its number of messages."""
    if not body:
        return b"", 0
    return json_messages.encode(body) if json else (body, 1)


def _on_closed(stream: Stream, spec: AppendSpec) -> Repetition:
    if spec.producer is None:
        if spec.body:
            raise Closed(stream.key, stream.written.tail)
        return Repetition()
    if spec.producer == stream.closed_by:
        return Repetition()
    state = stream.producers.get(spec.producer.id)
    raise Closed(
        stream.key,
        stream.written.tail,
        state.epoch if state else None,
        state.seq if state else None,
    )


def repeated(stream: Stream, spec: AppendSpec) -> Appended:
    """The answer to a repetition: what the stream holds, with the producer's newest state."""
    state = stream.producers.get(spec.producer.id) if spec.producer else None
    return Appended(
        outcome="duplicate" if spec.producer else "closed",
        next_offset=stream.durable.tail,
        closed=stream.durable.closed,
        producer_epoch=state.epoch if state else None,
        producer_seq=state.seq if state else None,
    )


def _needs_segment(stream: Stream, length: int, segment_bytes: int) -> bool:
    """A segment ends on the append that would take it past its size; it holds one at least."""
    if not length:
        return False
    if not stream.segments:
        return True
    start = stream.segments[-1].base
    return stream.written.tail > start and stream.written.tail + length - start > segment_bytes
