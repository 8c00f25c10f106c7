"""What becomes of a PUT: the same stream again, a conflict, or a record that creates one."""

from __future__ import annotations

import secrets

from . import json_messages, records
from .appending import encode
from .errors import (
    AlreadyExists,
    BadOffset,
    ConfigMismatch,
    ContentTypeMismatch,
    OffsetGone,
    TooLarge,
)
from .model import DEFAULT_CONTENT_TYPE, Buffer, CreateSpec, ForkSpec, StoreConfig
from .reading import Reader
from .streams import Stream, media_type


def check_same(stream: Stream, spec: CreateSpec) -> None:
    """Raises unless the request describes the stream that is there."""
    if stream.soft_deleted:
        raise AlreadyExists(stream.key)
    any_type = spec.content_type is None and spec.fork is not None
    if not any_type and media_type(spec.content_type) != media_type(stream.content_type):
        raise ConfigMismatch(stream.key, "content type")
    inherits = spec.fork is not None and spec.ttl_s is None and spec.expires_at is None
    if inherits != stream.expiry_inherited or not inherits:
        expires_at = spec.expires_at.timestamp() if spec.expires_at else None
        if (spec.ttl_s, expires_at) != (stream.ttl_s, stream.expires_at):
            raise ConfigMismatch(stream.key, "expiry")
    if spec.closed != stream.written.closed:
        raise ConfigMismatch(stream.key, "closure status")
    if not _same_fork(stream, spec.fork):
        raise ConfigMismatch(stream.key, "fork origin")


def _same_fork(stream: Stream, asked: ForkSpec | None) -> bool:
    made = stream.fork
    if made is None or asked is None:
        return made is None and asked is None
    return (
        made.source_key == asked.source_key
        and made.sub_offset == asked.sub_offset
        # left out, the offset was the source's tail at that time: the same request again
        and asked.offset in (None, made.anchor)
    )


def plan(
    key: str,
    spec: CreateSpec,
    source: Stream | None,
    reader: Reader,
    config: StoreConfig,
    now: float,
) -> tuple[records.StreamCreated, Buffer]:
    """The record and the first bytes of a new stream; raises before anything has changed."""
    if len(spec.body) > config.max_append_bytes:
        raise TooLarge("a body", len(spec.body), config.max_append_bytes)
    content_type = spec.content_type
    ttl_s = spec.ttl_s
    expires_at = spec.expires_at.timestamp() if spec.expires_at else None
    expires_at_text = spec.expires_at_text
    fork = None
    inherited = False
    if source is not None and spec.fork is not None:
        if content_type is None:
            content_type = source.content_type
        elif media_type(content_type) != media_type(source.content_type):
            raise ContentTypeMismatch(source.key, source.content_type, content_type)
        if ttl_s is None and expires_at is None:
            inherited = True
            ttl_s = source.ttl_s
            expires_at, expires_at_text = source.expires_at, source.expires_at_text
        anchor, at = _resolve(source, spec.fork, reader)
        fork = (source.id, spec.fork.source_key, anchor, spec.fork.sub_offset, at)
    content_type = content_type or DEFAULT_CONTENT_TYPE
    payload, messages = encode(media_type(content_type) == "application/json", spec.body)
    record = records.StreamCreated(
        # an incarnation: no two streams ever share one, a name created again gets another
        stream=secrets.randbits(63),
        key=key,
        content_type=content_type,
        at_ms=int(now * 1000),
        ttl_s=ttl_s,
        expires_at=expires_at,
        expires_at_text=expires_at_text,
        expiry_inherited=inherited,
        closed=spec.closed,
        fork=fork,
        messages=messages,
    )
    return record, payload


def _resolve(source: Stream, fork: ForkSpec, reader: Reader) -> tuple[int, int]:
    """Anchor and branching point of a fork, both message boundaries of what is durable."""
    tail = source.durable.tail
    anchor = tail if fork.offset is None else fork.offset
    if anchor > tail:
        raise BadOffset(f"fork offset {anchor} is past the source's tail {tail}")
    if anchor < source.written.retained:
        raise OffsetGone(source.key, anchor, source.written.retained)
    if not reader.is_boundary(source, anchor):
        raise BadOffset(f"fork offset {anchor} is not a message boundary of the source")
    if not fork.sub_offset:
        return anchor, anchor
    if anchor == tail:
        raise BadOffset("the fork's sub-offset names data after the source's tail")
    end = reader.append_boundary_after(source, anchor)
    if not source.json:
        if anchor + fork.sub_offset > end:
            raise BadOffset(f"the fork's sub-offset goes past the next boundary, offset {end}")
        return anchor, anchor + fork.sub_offset
    messages = json_messages.split(reader.stored(source, anchor, end))
    if fork.sub_offset > len(messages):
        raise BadOffset(f"the fork's sub-offset goes past the {len(messages)} messages there")
    inherited = messages[: fork.sub_offset]
    length = sum(map(len, inherited)) + len(json_messages.SEPARATOR) * len(inherited)
    return anchor, anchor + length
