"""Names, configuration and limits of topics: parsing and checking, no state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

import msgspec

from .errors import TopicError, invalid

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,254}", re.ASCII)

MIB: Final = 1 << 20
MAX_RECORDS: Final = 10_000
MAX_RECORD_BYTES: Final = 1 * MIB
MAX_BODY_BYTES: Final = 64 * MIB
MAX_META_BYTES: Final = 16 << 10
MAX_META_KEYS: Final = 64
MAX_TAG_BYTES: Final = 256
MAX_NODE_BYTES: Final = 128
MAX_KEY_CHARS: Final = 256

_MAX_NUMBER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What a topic can be told. All but ``type`` may change at any time.

    Zero means no limit for ``ttl_ms`` and the caps. Every acknowledged write is durable here, so
    ``durable`` is kept and told but changes nothing. ``idempotency_strict`` answers 409 to a key
    that comes again with other records, where the default returns the first write's seqs.
    """

    type: str = "log"
    ttl_ms: int = 0
    cap_records: int = 0
    cap_bytes: int = 0
    discard: str = "old"
    durable: bool = False
    auto_create: bool = True
    idempotency_window_ms: int = 120_000
    idempotency_strict: bool = False

    def document(self) -> dict[str, Any]:
        return asdict(self)


_CHOICES: Final = {"type": ("log", "queue"), "discard": ("old", "reject")}
_KINDS: Final[dict[str, type]] = {field.name: type(field.default) for field in fields(TopicConfig)}


def check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise invalid(
            "a topic name has 1 to 255 of A-Z, a-z, 0-9, '.', '_', ':' and '-', the first a letter "
            "or digit",
            topic=name[:300],
        )
    return name


def merge(config: TopicConfig, changes: Any) -> TopicConfig:
    """``config`` with the fields that a request's object names."""
    if not isinstance(changes, Mapping):
        raise invalid("the configuration must be a JSON object")
    for name, value in changes.items():
        _check_field(name, value)
    return replace(config, **changes)


def _check_field(name: str, value: Any) -> None:
    kind = _KINDS.get(name)
    if kind is None:
        known = ", ".join(_KINDS)
        raise invalid(f"unknown configuration field {name!r}; known are {known}", field=name)
    if type(value) is not kind:
        raise invalid(f"{name} must be a JSON {_JSON_NAMES[kind]}", field=name)
    if isinstance(value, int) and not 0 <= value <= _MAX_NUMBER:
        raise invalid(f"{name} must be 0 or above", field=name)
    if name in _CHOICES and value not in _CHOICES[name]:
        raise invalid(f"{name} must be one of {', '.join(_CHOICES[name])}", field=name)


_JSON_NAMES: Final[dict[type, str]] = {str: "string", int: "number", bool: "boolean"}


class RecordIn(msgspec.Struct, frozen=True):
    """A record of a write; ``data`` and ``meta`` stay the text that was sent."""

    data: msgspec.Raw
    tag: str | None = None
    node: str | None = None
    meta: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def meta_bytes(self) -> bytes | None:
        meta = bytes(self.meta)
        return None if meta == b"null" else meta


class WriteIn(msgspec.Struct, frozen=True):
    """The body of a write. Fields this server does not know are ignored."""

    records: list[RecordIn]
    node: str | None = None
    idempotency_key: str | None = None
    create: bool | None = None
    config: dict[str, Any] | None = None


_write_decoder: Final = msgspec.json.Decoder(WriteIn)


def decode_json(body: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        # The decoder lets broken UTF-8 inside raw values pass.
        body.decode("utf-8")
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(f"the body does not fit: {error}") from None
    except RecursionError:
        raise invalid("the body is nested too deeply") from None


def parse_write(body: bytes, header_key: str | None) -> WriteIn:
    """A write within all limits, its key from the body or else from the header."""
    write: WriteIn = decode_json(body, _write_decoder)
    if not write.records:
        raise invalid("records must hold at least one record")
    if len(write.records) > MAX_RECORDS:
        raise TopicError(
            400,
            "batch_too_large",
            f"a write has at most {MAX_RECORDS} records; this one has {len(write.records)}",
            {"limit": MAX_RECORDS},
        )
    for position, record in enumerate(write.records):
        _check_record(position, record)
    _check_bytes(0, "node", write.node, MAX_NODE_BYTES)
    key = write.idempotency_key if write.idempotency_key is not None else header_key
    if key is not None and len(key) > MAX_KEY_CHARS:
        raise invalid(f"idempotency_key has at most {MAX_KEY_CHARS} characters")
    return msgspec.structs.replace(write, idempotency_key=key or None)


def _check_record(position: int, record: RecordIn) -> None:
    meta = record.meta_bytes or b""
    size = len(record.data) + len(meta)
    if size > MAX_RECORD_BYTES or len(meta) > MAX_META_BYTES:
        raise _record_too_large(position, "data and meta", MAX_RECORD_BYTES)
    _check_bytes(position, "tag", record.tag, MAX_TAG_BYTES)
    _check_bytes(position, "node", record.node, MAX_NODE_BYTES)
    if meta:
        keys = msgspec.json.decode(meta) if meta.lstrip()[:1] == b"{" else None
        if keys is None:
            raise invalid(f"records[{position}].meta must be a JSON object")
        if len(keys) > MAX_META_KEYS:
            raise _record_too_large(position, "meta", MAX_META_KEYS)


def _check_bytes(position: int, name: str, value: str | None, limit: int) -> None:
    if value is not None and len(value.encode()) > limit:
        raise _record_too_large(position, name, limit)


def _record_too_large(position: int, what: str, limit: int) -> TopicError:
    return TopicError(
        400,
        "record_too_large",
        f"records[{position}]: {what} exceeds the limit of {limit}",
        {"record": position, "limit": limit},
    )
