"""Reading content types: the part before the parameters, in lower case."""

from __future__ import annotations

from spark_durable.protocol.headers import CONTENT_TYPE_JSON, CONTENT_TYPE_NDJSON

_NDJSON = (CONTENT_TYPE_NDJSON, "application/ndjson", "application/jsonl")


def essence(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def is_json(content_type: str | None) -> bool:
    return essence(content_type) == CONTENT_TYPE_JSON


def is_ndjson(content_type: str | None) -> bool:
    return essence(content_type) in _NDJSON
