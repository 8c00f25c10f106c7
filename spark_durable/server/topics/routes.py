"""The HTTP surface of topics."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from spark_durable.server.http.context import Context
from spark_durable.server.http.request import Request
from spark_durable.server.http.responses import HttpError, Response
from spark_durable.server.http.routing import decode_segment
from spark_durable.server.store import errors as store

from .entries import StoredRecord
from .errors import TopicError, not_found
from .model import MAX_BODY_BYTES, check_name, decode_json, parse_write
from .service import Topics
from .topic import Topic

ROOT: Final = "/v0/topics"

_any_json: Final = msgspec.json.Decoder()
_DEFAULT_LIMIT: Final = 256
_MAX_LIMIT: Final = 1000

Handler = Callable[["TopicRoutes", Context, Request, str], Awaitable[tuple[int, dict[str, Any]]]]


class TopicRoutes:
    """The mount: every answer is JSON, refusals in the one error shape."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics

    async def __call__(self, context: Context, request: Request) -> Response:
        started = time.perf_counter()
        try:
            context.access.check(request, [None])
            status, document = await self._answer(context, request)
        except TopicError as error:
            return _response(error.status, error.document(), error.headers)
        except HttpError as error:
            return refuse(error)
        except store.StoreError as error:
            return _response(*_from_store(error))
        elapsed = round((time.perf_counter() - started) * 1000, 3)
        return _response(status, {**document, "performance": {"server_total_ms": elapsed}})

    async def _answer(self, context: Context, request: Request) -> tuple[int, dict[str, Any]]:
        raw = request.raw_path.removeprefix(ROOT.encode()).strip(b"/")
        segments = [decode_segment(part) for part in raw.split(b"/")] if raw else []
        match segments:
            case []:
                handlers: dict[str, Handler] = {"GET": _list}
                name = ""
            case [name]:
                handlers = {"GET": _state, "PUT": _put, "POST": _write, "DELETE": _delete}
            case [name, "records"]:
                handlers = {"GET": _records}
            case _:
                raise TopicError(404, "not_found", "there is nothing at this path")
        if request.method not in handlers:
            allowed = ", ".join(handlers)
            raise TopicError(
                405,
                "method_not_allowed",
                f"this resource answers to {allowed}",
                headers={"Allow": allowed},
            )
        if segments:
            check_name(name)
        return await handlers[request.method](self, context, request, name)


async def _put(
    routes: TopicRoutes, context: Context, request: Request, name: str
) -> tuple[int, dict[str, Any]]:
    async with request.body(MAX_BODY_BYTES, context.bodies) as body:
        _check_content_type(request, body)
        changes = decode_json(body, _any_json) if body.strip() else {}
    config, created = await routes.topics.put(name, changes)
    document = {"topic": name, "created": created, "config": config.document()}
    return (201 if created else 200), document


async def _delete(
    routes: TopicRoutes, context: Context, request: Request, name: str
) -> tuple[int, dict[str, Any]]:
    return 200, {"topic": name, "deleted": await routes.topics.delete(name)}


async def _write(
    routes: TopicRoutes, context: Context, request: Request, name: str
) -> tuple[int, dict[str, Any]]:
    with_seqs = request.param("return_seqs") != "false"
    async with request.body(MAX_BODY_BYTES, context.bodies) as body:
        _check_content_type(request, body)
        write = parse_write(body, request.header("Idempotency-Key"))
        receipt, created = await routes.topics.write(name, write)
    document: dict[str, Any] = {
        "topic": name,
        "first_seq": receipt.first_seq,
        "last_seq": receipt.last_seq,
        "seqs": list(range(receipt.first_seq, receipt.last_seq + 1)),
        "head_seq": receipt.head_seq,
        "count": receipt.last_seq - receipt.first_seq + 1,
        "created": created,
        "deduped": receipt.deduped,
    }
    if not with_seqs:
        del document["seqs"]
    return (201 if created else 200), document


async def _state(
    routes: TopicRoutes, context: Context, request: Request, name: str
) -> tuple[int, dict[str, Any]]:
    topic = await routes.topics.get(name)
    state = topic.state
    return 200, {**_summary(name, topic), "next_seq": state.next_seq, "type": state.config.type}


async def _list(
    routes: TopicRoutes, context: Context, request: Request, name: str
) -> tuple[int, dict[str, Any]]:
    names = routes.topics.names(request.param("prefix") or "")
    after = request.param("cursor")
    size = request.int_param("page_size", 1, _MAX_LIMIT) or 100
    names = [name for name in names if after is None or name > after]
    found = [(name, await routes.topics.find(name)) for name in names[:size]]
    document: dict[str, Any] = {
        "topics": [_summary(name, topic) for name, topic in found if topic is not None]
    }
    if len(names) > size:
        document["next_cursor"] = names[size - 1]
    return 200, document


def _summary(name: str, topic: Topic) -> dict[str, Any]:
    topic.state.evict(topic.now_ms())
    return {
        "topic": name,
        "head_seq": topic.state.head_seq,
        "earliest_seq": topic.state.earliest_seq,
        "count": topic.state.count,
        "bytes": topic.state.bytes,
        "last_write_ts": topic.state.last_write_ms,
        "config": topic.state.config.document(),
    }


async def _records(
    routes: TopicRoutes, context: Context, request: Request, name: str
) -> tuple[int, dict[str, Any]]:
    from_seq = request.int_param("from_seq", 0, 2**63 - 1) or 0
    limit = request.int_param("limit", 1, _MAX_LIMIT) or _DEFAULT_LIMIT
    topic = await routes.topics.get(name)
    page = topic.page(from_seq, limit)
    return 200, {
        "topic": name,
        "records": [_record(*found) for found in page.records],
        "next_from_seq": page.next_from_seq,
        "head_seq": topic.state.head_seq,
        "earliest_seq": topic.state.earliest_seq,
        "caught_up": page.next_from_seq >= topic.state.head_seq,
    }


def _record(seq: int, at_ms: int, record: StoredRecord) -> dict[str, Any]:
    document: dict[str, Any] = {"$seq": seq, "$ts": at_ms, "data": msgspec.Raw(record.data)}
    if record.node is not None:
        document["$node"] = record.node
    if record.tag is not None:
        document["$tag"] = record.tag
    if record.meta is not None:
        document["meta"] = msgspec.Raw(record.meta)
    return document


def _check_content_type(request: Request, body: bytes) -> None:
    sent = (request.header("Content-Type") or "").partition(";")[0].strip().lower()
    if body and sent != "application/json":
        raise TopicError(
            415, "unsupported_media_type", "send the body with Content-Type: application/json"
        )


_CODES: Final = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    413: "payload_too_large",
    429: "throttled",
    503: "not_ready",
}


def refuse(error: HttpError) -> Response:
    """A refusal of the layers below, in the shape of this surface."""
    code = _CODES.get(error.status, "invalid_request" if error.status < 500 else "internal")
    found = TopicError(error.status, code, error.text)
    return _response(error.status, found.document(), error.headers)


def _from_store(error: store.StoreError) -> tuple[int, dict[str, Any], dict[str, str]]:
    match error:
        case store.Overloaded():
            found = TopicError(429, "throttled", str(error))
            return 429, found.document(), {"Retry-After": str(error.retry_after)}
        case store.StreamLimit():
            return 429, TopicError(429, "throttled", str(error)).document(), {}
        case store.TooLarge():
            return 413, TopicError(413, "payload_too_large", str(error)).document(), {}
        case store.NotFound():
            return 404, not_found("deleted meanwhile").document(), {}
        case _:
            return 500, TopicError(500, "internal", str(error)).document(), {}


def _response(
    status: int, document: dict[str, Any], headers: dict[str, str] | None = None
) -> Response:
    body = msgspec.json.encode(document)
    return Response(
        status,
        {"Content-Type": "application/json", "Cache-Control": "no-store", **(headers or {})},
        body,
    )
