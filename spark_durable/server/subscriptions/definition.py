"""Subscription requests: JSON in, checked values out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from .model import Definition, SubscriptionError
from .webhook_url import check_webhook_url

_DEFAULT_LEASE_MS: Final = 30_000
_MIN_LEASE_MS: Final = 1_000
_MAX_LEASE_MS: Final = 600_000
_MAX_TEXT: Final = 1024
_MAX_STREAMS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker says about a wake."""

    wake_id: str
    generation: int
    acks: tuple[tuple[str, str], ...]
    done: bool


def bad_request(message: str) -> SubscriptionError:
    return SubscriptionError(400, "INVALID_REQUEST", message)


def parse_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise bad_request("the body is not valid JSON") from None
    if not isinstance(value, dict):
        raise bad_request("the body must be a JSON object")
    return value


def parse_definition(value: dict[str, Any], *, webhooks: bool) -> Definition:
    kind = value.get("type")
    if kind not in ("webhook", "pull-wake"):
        raise bad_request('type must be "webhook" or "pull-wake"')
    pattern = _optional_path(value, "pattern")
    streams = parse_streams(value.get("streams", []))
    if pattern is None and not streams:
        raise bad_request("at least one of pattern and streams is needed")
    lease = value.get("lease_ttl_ms", _DEFAULT_LEASE_MS)
    if type(lease) is not int or not _MIN_LEASE_MS <= lease <= _MAX_LEASE_MS:
        raise bad_request(f"lease_ttl_ms is a whole number from {_MIN_LEASE_MS} to {_MAX_LEASE_MS}")
    webhook_url = wake_stream = None
    if kind == "webhook":
        if not webhooks:
            raise bad_request("this server was started without webhooks; pull-wake works always")
        webhook_url = _webhook_url(value.get("webhook"))
    else:
        wake_stream = _optional_path(value, "wake_stream")
        if wake_stream is None:
            raise bad_request("a pull-wake subscription needs wake_stream")
    return Definition(
        type=kind,
        pattern=pattern,
        streams=streams,
        webhook_url=webhook_url,
        wake_stream=wake_stream,
        lease_ttl_ms=lease,
        description=_optional_text(value, "description"),
    )


def parse_streams(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MAX_STREAMS:
        raise bad_request(f"streams must be a list of at most {_MAX_STREAMS} stream paths")
    paths = []
    for path in value:
        if not isinstance(path, str) or not path.strip("/") or len(path) > _MAX_TEXT:
            raise bad_request("streams must hold stream paths relative to the stream root")
        paths.append(path.strip("/"))
    return tuple(paths)


def parse_worker(value: dict[str, Any]) -> str:
    worker = _optional_text(value, "worker")
    if not worker:
        raise bad_request("worker must be a name")
    return worker


def parse_report(value: dict[str, Any]) -> Report:
    wake_id, generation = value.get("wake_id"), value.get("generation")
    if not isinstance(wake_id, str) or type(generation) is not int:
        raise bad_request("wake_id and generation of the wake are needed")
    acks = value.get("acks", [])
    if not isinstance(acks, list) or len(acks) > _MAX_STREAMS:
        raise bad_request("acks must be a list")
    pairs = []
    for ack in acks:
        stream = ack.get("stream") if isinstance(ack, dict) else None
        offset = ack.get("offset") if isinstance(ack, dict) else None
        if not isinstance(stream, str) or not isinstance(offset, str):
            raise bad_request("an ack names a stream and an offset")
        pairs.append((stream.strip("/"), offset))
    return Report(wake_id, generation, tuple(pairs), value.get("done") is True)


def _optional_text(value: dict[str, Any], name: str) -> str | None:
    text = value.get(name)
    if text is None:
        return None
    if not isinstance(text, str) or len(text) > _MAX_TEXT:
        raise bad_request(f"{name} must be a text of at most {_MAX_TEXT} characters")
    return text


def _optional_path(value: dict[str, Any], name: str) -> str | None:
    text = _optional_text(value, name)
    return (text.strip("/") or None) if text is not None else None


def _webhook_url(webhook: Any) -> str:
    url = webhook.get("url") if isinstance(webhook, dict) else None
    if not isinstance(url, str) or not url:
        raise bad_request("a webhook subscription needs webhook.url")
    check_webhook_url(url)
    return url
