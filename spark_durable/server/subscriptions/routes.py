"""The control resources under ``/v1/stream/__ds``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_durable.server.http.request import Request
from spark_durable.server.http.responses import (
    HttpError,
    Response,
    json_response,
    method_not_allowed,
)
from spark_durable.server.http.routing import ControlTarget
from spark_durable.server.http.security import bearer_token

from .definition import parse_definition, parse_object, parse_report, parse_streams, parse_worker
from .model import SubscriptionError, bucket_of_path

if TYPE_CHECKING:
    from spark_durable.server.http.context import Context

_MAX_BODY: Final = 1 << 20
_MAX_ID: Final = 256


async def handle(context: Context, request: Request, target: ControlTarget) -> Response:
    try:
        return await _route(context, request, target.segments)
    except SubscriptionError as error:
        return json_response(error.status, error.body())


async def _route(context: Context, request: Request, segments: tuple[str, ...]) -> Response:
    match segments:
        case ("jwks.json",):
            return _jwks(context, request)
        case ("subscriptions", identity) if 0 < len(identity) <= _MAX_ID:
            _check_rights(context, request, identity)
            return await _subscription(context, request, identity)
        case ("subscriptions", identity, "streams"):
            _check_rights(context, request, identity)
            return await _add_streams(context, request, identity)
        case ("subscriptions", identity, "streams", *rest) if rest:
            _check_rights(context, request, identity)
            return await _remove_stream(context, request, identity, "/".join(rest).strip("/"))
        case ("subscriptions", identity, "claim"):
            _check_rights(context, request, identity)
            return await _claim(context, request, identity)
        # These three bring the token of their wake, which only its worker was given.
        case ("subscriptions", identity, "callback" | "ack" | "release" as action):
            return await _report(context, request, identity, action)
        case _:
            raise SubscriptionError(404, "SUBSCRIPTION_NOT_FOUND", "no such control resource")


def _check_rights(context: Context, request: Request, identity: str) -> None:
    """Whoever sees or changes a subscription needs its rights: to the streams it follows, which it
    tells about, and to the stream it writes to."""
    subscription = context.subscriptions.find(identity)
    context.access.check(request, () if subscription is None else subscription.buckets())


def _jwks(context: Context, request: Request) -> Response:
    if request.method not in ("GET", "HEAD"):
        raise method_not_allowed("GET", "HEAD")
    keys = context.subscriptions.jwks()
    if keys is None:
        raise HttpError(404, "this server was started without webhooks and has no keys")
    return json_response(
        200, keys, content_type="application/jwk-set+json", cache_control="public, max-age=300"
    )


async def _subscription(context: Context, request: Request, identity: str) -> Response:
    manager = context.subscriptions
    match request.method:
        case "PUT":
            value = await _body(context, request)
            definition = parse_definition(value, webhooks=manager.webhooks)
            context.access.check(request, definition.buckets())
            described, created = await manager.put(identity, definition)
            return json_response(201 if created else 200, described)
        case "GET" | "HEAD":
            return json_response(200, manager.describe(manager.get(identity)))
        case "DELETE":
            await manager.delete(identity)
            return Response(204)
        case _:
            raise method_not_allowed("GET", "HEAD", "PUT", "DELETE")


async def _add_streams(context: Context, request: Request, identity: str) -> Response:
    _only(request, "POST")
    paths = parse_streams((await _body(context, request)).get("streams"))
    context.access.check(request, map(bucket_of_path, paths))
    await context.subscriptions.add_streams(context.subscriptions.get(identity), paths)
    return Response(204)


async def _remove_stream(context: Context, request: Request, identity: str, path: str) -> Response:
    _only(request, "DELETE")
    await context.subscriptions.remove_stream(context.subscriptions.get(identity), path)
    return Response(204)


async def _claim(context: Context, request: Request, identity: str) -> Response:
    _only(request, "POST")
    worker = parse_worker(await _body(context, request))
    manager = context.subscriptions
    return json_response(200, await manager.claim(manager.get(identity), worker))


async def _report(context: Context, request: Request, identity: str, action: str) -> Response:
    _only(request, "POST")
    token = bearer_token(request)
    if token is None:
        raise SubscriptionError(401, "TOKEN_INVALID", "the wake's token is needed")
    report = parse_report(await _body(context, request))
    manager = context.subscriptions
    subscription = manager.get(identity)
    expected = "webhook" if action == "callback" else "pull-wake"
    if subscription.definition.type != expected:
        raise SubscriptionError(400, "INVALID_REQUEST", f"{action} is for {expected} subscriptions")
    if action == "release":
        await manager.release(subscription, token, report)
        return Response(204)
    return json_response(
        200, {"ok": True, "next_wake": await manager.report(subscription, token, report)}
    )


async def _body(context: Context, request: Request) -> dict[str, Any]:
    async with request.body(_MAX_BODY, context.bodies) as body:
        return parse_object(body)


def _only(request: Request, method: str) -> None:
    if request.method != method:
        raise method_not_allowed(method)
