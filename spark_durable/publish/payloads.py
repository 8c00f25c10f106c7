"""Payloads on targets that speak JSON: valid JSON goes as it is, other bytes as marked base64."""

from __future__ import annotations

import base64
import json

import msgspec

from spark_durable.publish.contract import Event

BASE64 = "base64"

_check_json = msgspec.json.Decoder(msgspec.Raw)


def json_problem(payload: bytes) -> str | None:
    """Why ``payload`` is not one JSON value in UTF-8, or None."""
    try:
        payload.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"payload is not UTF-8 (byte {error.start})"
    try:
        _check_json.decode(payload)
    except msgspec.DecodeError as error:
        return f"payload is not JSON: {error}"
    except RecursionError:
        return "payload is not JSON that servers take: nested too deeply"
    return None


def embedded(payload: bytes, *, always_encode: bool = False) -> tuple[bytes, str | None]:
    """``payload`` as a JSON value to splice into a document, and its encoding if it has one."""
    if not always_encode and json_problem(payload) is None:
        return payload, None
    return b'"' + base64.b64encode(payload) + b'"', BASE64


def extracted(value: bytes, encoding: str | None) -> bytes:
    """The payload again, from the value's text and the mark beside it."""
    if encoding is None:
        return value
    if encoding != BASE64:
        raise ValueError(f"unknown payload encoding {encoding!r}")
    return base64.b64decode(json.loads(value))


def metadata(event: Event) -> dict[str, object]:
    """What travels beside the payload where the target has room for it."""
    found: dict[str, object] = {"event_id": event.event_id, "event_type": event.event_type}
    if event.headers:
        found["headers"] = dict(event.headers)
    if event.partition_key is not None:
        found["partition_key"] = event.partition_key
    if event.ordering_key is not None:
        found["ordering_key"] = event.ordering_key
    if event.created_at is not None:
        found["created_at"] = event.created_at.isoformat()
    return found


def envelope(event: Event, *, always_encode: bool = False) -> bytes:
    """One JSON object: the event's metadata and its payload, spliced in untouched."""
    value, encoding = embedded(event.payload, always_encode=always_encode)
    fields = metadata(event)
    if encoding is not None:
        fields["payload_encoding"] = encoding
    head = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
    return head[:-1] + b',"payload":' + value + b"}"
