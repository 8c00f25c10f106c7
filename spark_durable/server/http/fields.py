"""Request headers that mean something to a stream, checked and turned into the store's terms."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Final

from spark_durable.protocol import headers as h
from spark_durable.server.store.model import AppendSpec, CreateSpec, ForkSpec, ProducerTriple

from .offsets import parse_position
from .request import Request
from .responses import HttpError
from .routing import stream_target

_NAME: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_CONTENT_TYPE: Final = re.compile(rf"{_NAME}/{_NAME}\s*(;.*)?", re.ASCII)
_NATURAL: Final = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9]+", re.ASCII)
# RFC 3339: a full date, a full time and a zone.
_TIMESTAMP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
# A century; keeps the sum of now and TTL a date.
_MAX_TTL_S: Final = 100 * 366 * 86_400
_MAX_ID_BYTES: Final = 1024


def content_type(request: Request) -> str | None:
    text = request.header("Content-Type")
    if not text:
        return None
    if not _CONTENT_TYPE.fullmatch(text):
        raise HttpError(400, "Content-Type must be of the form type/subtype")
    return text


def create_spec(request: Request, body: bytes) -> CreateSpec:
    ttl = request.header(h.STREAM_TTL)
    expires_at = request.header(h.STREAM_EXPIRES_AT)
    if ttl is not None and expires_at is not None:
        raise HttpError(400, f"give {h.STREAM_TTL} or {h.STREAM_EXPIRES_AT}, not both")
    return CreateSpec(
        content_type=content_type(request),
        ttl_s=None if ttl is None else _ttl(ttl),
        expires_at=None if expires_at is None else _timestamp(expires_at),
        expires_at_text=expires_at,
        closed=request.flag(h.STREAM_CLOSED),
        body=body,
        fork=_fork(request),
    )


def append_spec(request: Request, body: bytes) -> AppendSpec:
    """The append a POST asks for. An empty body is only sent to close."""
    close = request.flag(h.STREAM_CLOSED)
    producer = _producer(request)
    if not body:
        if not close:
            raise HttpError(
                400, f"the body is empty; without one a POST needs {h.STREAM_CLOSED}: true"
            )
        return AppendSpec(producer=producer, close=True)
    kind = content_type(request)
    if kind is None:
        raise HttpError(400, "an append needs the stream's Content-Type")
    return AppendSpec(
        content_type=kind,
        body=body,
        producer=producer,
        stream_seq=request.header(h.STREAM_SEQ),
        close=close,
    )


def _producer(request: Request) -> ProducerTriple | None:
    names = (h.PRODUCER_ID, h.PRODUCER_EPOCH, h.PRODUCER_SEQ)
    values = [request.header(name) for name in names]
    if all(value is None for value in values):
        return None
    producer_id, epoch, seq = values
    if producer_id is None or epoch is None or seq is None:
        raise HttpError(400, f"{', '.join(names)} come together or not at all")
    if not producer_id:
        raise HttpError(400, f"{h.PRODUCER_ID} must not be empty")
    if len(producer_id) > _MAX_ID_BYTES:
        raise HttpError(400, f"{h.PRODUCER_ID} has at most {_MAX_ID_BYTES} bytes")
    return ProducerTriple(
        producer_id, _number(h.PRODUCER_EPOCH, epoch), _number(h.PRODUCER_SEQ, seq)
    )


def _number(name: str, text: str) -> int:
    if _DIGITS.fullmatch(text) and len(text) <= 32 and int(text) <= h.MAX_SAFE_INTEGER:
        return int(text)
    raise HttpError(400, f"{name} must be a whole number from 0 to {h.MAX_SAFE_INTEGER}")


def _ttl(text: str) -> int:
    if not _NATURAL.fullmatch(text) or len(text) > 16 or int(text) > _MAX_TTL_S:
        raise HttpError(400, f"{h.STREAM_TTL} must be whole seconds without sign or leading zeros")
    return int(text)


def _timestamp(text: str) -> datetime:
    match = _TIMESTAMP.fullmatch(text)
    if match:
        date, time, fraction, zone = match.groups()
        micros = (fraction or ".0")[:7].ljust(7, "0")
        offset = "+00:00" if zone in "Zz" else zone
        try:
            moment = datetime.fromisoformat(f"{date}T{time}{micros}{offset}")
            return moment.astimezone(timezone.utc)
        except (ValueError, OverflowError):
            pass
    raise HttpError(400, f"{h.STREAM_EXPIRES_AT} must be an RFC 3339 timestamp")


def _fork(request: Request) -> ForkSpec | None:
    source = request.header(h.STREAM_FORKED_FROM)
    offset = request.header(h.STREAM_FORK_OFFSET)
    sub_offset = request.header(h.STREAM_FORK_SUB_OFFSET)
    if source is None:
        if offset is not None or sub_offset is not None:
            raise HttpError(
                400,
                f"{h.STREAM_FORK_OFFSET} and {h.STREAM_FORK_SUB_OFFSET} "
                f"need {h.STREAM_FORKED_FROM}",
            )
        return None
    target = stream_target(source)
    if target is None:
        raise HttpError(400, f"{h.STREAM_FORKED_FROM} must be the path of a stream on this server")
    position = None
    if offset is not None:
        position = parse_position(offset)
        if position is None:
            raise HttpError(400, f"{h.STREAM_FORK_OFFSET} must be an offset this server sent")
    refinement = 0
    if sub_offset is not None:
        if not _NATURAL.fullmatch(sub_offset) or len(sub_offset) > 18:
            raise HttpError(400, f"{h.STREAM_FORK_SUB_OFFSET} must be a whole number from 0 on")
        refinement = int(sub_offset)
    if refinement and position is None:
        raise HttpError(400, f"{h.STREAM_FORK_SUB_OFFSET} refines {h.STREAM_FORK_OFFSET}: send it")
    return ForkSpec(target.key, position, refinement)
