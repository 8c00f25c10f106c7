"""The ASGI application: from a request to its handler, and from every outcome to an answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from spark_durable.protocol import headers as h
from spark_durable.server.config import ServerConfig
from spark_durable.server.store import Store
from spark_durable.server.store.errors import StoreError
from spark_durable.server.subscriptions import routes as subscriptions
from spark_durable.server.subscriptions.manager import SubscriptionManager

from . import bootstrap, buckets, live, reads, snapshots, streams
from .budget import ByteBudget
from .context import Context
from .cors import Origins, preflight
from .failures import to_http
from .lifecycle import LiveReaders
from .request import Request
from .responses import ClientGone, HttpError, Response, method_not_allowed
from .routing import (
    BootstrapTarget,
    BucketTarget,
    ControlTarget,
    LatestSnapshotTarget,
    ListingTarget,
    SnapshotTarget,
    StreamTarget,
    bucket_of,
    resolve,
)
from .security import Access
from .types import Receive, Scope, Send

logger = logging.getLogger("spark_durable.server")

Handler = Callable[[Context, Request, Any], Awaitable[Response]]
# A surface beside the streams takes a request under its prefix and answers it. It checks the token
# and its rights itself, so that its refusal has its own shape.
Mount = Callable[[Context, Request], Awaitable[Response]]


async def _read(context: Context, request: Request, target: StreamTarget) -> Response:
    query = reads.parse_query(context, request)
    if query.live == h.LIVE_LONG_POLL:
        return await live.long_poll(context, request, target, query)
    if query.live == h.LIVE_SSE:
        return await live.server_sent_events(context, request, target, query)
    return await reads.catch_up(context, request, target, query)


_HANDLERS: Final[dict[type, dict[str, Handler]]] = {
    StreamTarget: {
        "GET": _read,
        "HEAD": streams.head,
        "POST": streams.append,
        "PUT": streams.create,
        "DELETE": streams.delete,
    },
    BucketTarget: {
        "GET": buckets.metadata,
        "HEAD": buckets.metadata,
        "PUT": buckets.create,
        "DELETE": buckets.delete,
    },
    ListingTarget: {
        "GET": buckets.listing,
        "HEAD": buckets.listing,
        "POST": buckets.reserved,
        "PUT": buckets.reserved,
        "DELETE": buckets.reserved,
    },
    LatestSnapshotTarget: {"GET": snapshots.latest, "HEAD": snapshots.latest},
    SnapshotTarget: {
        "GET": snapshots.read,
        "HEAD": snapshots.read,
        "PUT": snapshots.publish,
        "DELETE": snapshots.delete,
    },
    BootstrapTarget: {"GET": bootstrap.bootstrap},
}


class Application:
    """Durable Streams over ASGI. ``mounts`` maps path prefixes to further surfaces; ``/`` is the
    root page alone."""

    def __init__(
        self,
        config: ServerConfig,
        store: Store,
        subscription_manager: SubscriptionManager,
        mounts: Mapping[str, Mount] | None = None,
    ) -> None:
        self.context = Context(
            config=config,
            store=store,
            subscriptions=subscription_manager,
            access=Access(config),
            live=LiveReaders(config.max_long_polls_per_client, config.max_sse_per_client),
            bodies=ByteBudget(config.body_budget_bytes, config.budget_timeout),
            responses=ByteBudget(config.response_budget_bytes, config.budget_timeout),
        )
        self._mounts = {prefix.encode(): mount for prefix, mount in (mounts or {}).items()}
        self._origins = Origins(config)

    def stop_live_reads(self) -> None:
        """Ends every long-poll and SSE response, as a shutdown must not wait for them."""
        self.context.live.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"this application serves http, not {scope['type']}")
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except HttpError as refusal:
            response = refusal.response()
        except StoreError as refusal:
            response = to_http(refusal).response()
        except ClientGone:
            return
        except Exception:
            logger.exception("%s %s failed", request.method, request.raw_path)
            response = HttpError(500, "internal error; the server's log has the details").response()
        common = self._origins.headers(request)
        await response.send(send, common, to_head=request.method == "HEAD")

    async def _answer(self, request: Request) -> Response:
        context = self.context
        context.access.check_host(request)
        if request.method == "OPTIONS":
            return preflight()
        self._origins.check(request)
        target = resolve(request.raw_path)
        if isinstance(target, ControlTarget):
            return await subscriptions.handle(context, request, target)
        if target is None:
            return await self._mounted(request)
        context.access.check(request, [bucket_of(target)])
        handlers = _HANDLERS[type(target)]
        handler = handlers.get(request.method)
        if handler is None:
            raise method_not_allowed(*handlers)
        return await handler(context, request, target)

    async def _mounted(self, request: Request) -> Response:
        path = request.raw_path
        for prefix, mount in self._mounts.items():
            if path == prefix or (prefix != b"/" and path.startswith(prefix + b"/")):
                return await mount(self.context, request)
        self.context.access.check_token(request)
        raise HttpError(404, "nothing here: streams are under /v1/stream/ and /ds/{bucket}/")
