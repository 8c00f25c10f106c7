"""The subscriptions of a server: which streams they follow, and what streams tell them."""

from __future__ import annotations

import secrets
from datetime import datetime, timezone
from typing import Any, Final

from spark_durable.server.config import ServerConfig
from spark_durable.server.http.routing import CONTROL_SEGMENT, STREAM_ROOT
from spark_durable.server.store import Store
from spark_durable.server.store.model import StreamStat

from .definition import Report
from .globs import matches
from .journal import Journal
from .keys import TokenSealer, WebhookSigner
from .model import Definition, Link, Subscription, SubscriptionError
from .wakes import Waker

_STREAM_PREFIX: Final = f"{STREAM_ROOT}/"
_MAX_SUBSCRIPTIONS: Final = 10_000


class SubscriptionManager:
    """Created on the event loop, after the store. With a data directory everything but a wake in
    flight survives a restart."""

    def __init__(self, config: ServerConfig, store: Store, base_url: str) -> None:
        self.webhooks = config.webhooks
        self._store = store
        self._journal = Journal(config.data_dir / "subscriptions") if config.data_dir else None
        self._control_url = f"{base_url}{STREAM_ROOT}/{CONTROL_SEGMENT}"
        self._signer = WebhookSigner(self._secret("webhook")) if config.webhooks else None
        tokens = TokenSealer(self._secret("tokens"))
        self._waker = Waker(store, self._journal, tokens, self._signer, self._control_url)
        self._subscriptions: dict[str, Subscription] = {}

    def _secret(self, name: str) -> bytes:
        def generate() -> bytes:
            return secrets.token_bytes(32)

        return generate() if self._journal is None else self._journal.secret(name, generate)

    def start(self) -> None:
        """Takes up what the last run left: unlinked streams are new ones, pending work is called
        for, a failed webhook waits for the time set before."""
        if self._journal is None:
            return
        for subscription in self._journal.load():
            self._subscriptions[subscription.id] = subscription
            if subscription.definition.pattern is not None:
                self._link_matching(subscription, from_start=True)
            if subscription.definition.type == "pull-wake" or self.webhooks:
                self._waker.wake_if_pending(subscription)

    async def close(self) -> None:
        for subscription in self._subscriptions.values():
            subscription.stop_timers()
        await self._waker.close()
        if self._journal is not None:
            await self._journal.close()

    # -- told by the streams

    def created(self, stat: StreamStat) -> None:
        """A stream came to be; what a fork inherits is not new."""
        path = self._relative(stat.key)
        if path is None:
            return
        start = stat.fork_offset or 0
        for subscription in self._subscriptions.values():
            link = subscription.links.get(path)
            if link is not None:
                # The name had another stream before; its cursor says nothing about this one.
                link.acked = start
                link.glob = link.glob or self._follows(subscription, path)
                self._save_link(subscription, link)
            elif self._follows(subscription, path):
                self._add_link(subscription, Link(path, start, glob=True))
            else:
                continue
            self._waker.wake_if_pending(subscription, path)

    def appended(self, key: str) -> None:
        path = self._relative(key)
        if path is None:
            return
        for subscription in self._subscriptions.values():
            if path in subscription.links:
                self._waker.wake_if_pending(subscription, path)

    def deleted(self, key: str) -> None:
        """An explicit link waits for the name to come back, a glob's link goes with the stream."""
        path = self._relative(key)
        if path is None:
            return
        for subscription in self._subscriptions.values():
            link = subscription.links.get(path)
            if link is None:
                continue
            if link.explicit:
                link.acked, link.glob = 0, False
                self._save_link(subscription, link)
            else:
                self._drop_link(subscription, path)

    def _relative(self, key: str) -> str | None:
        if not self._subscriptions or not key.startswith(_STREAM_PREFIX):
            return None
        return key[len(_STREAM_PREFIX) :]

    # -- told by clients

    async def put(self, identity: str, definition: Definition) -> tuple[dict[str, Any], bool]:
        """The subscription, and whether it is new. Durable when it returns."""
        known = self._subscriptions.get(identity)
        if known is not None:
            if known.definition.digest() != definition.digest():
                raise SubscriptionError(
                    409,
                    "SUBSCRIPTION_ALREADY_EXISTS",
                    "this subscription exists with another configuration",
                )
            return self.describe(known), False
        if len(self._subscriptions) >= _MAX_SUBSCRIPTIONS:
            raise SubscriptionError(
                429, "TOO_MANY_SUBSCRIPTIONS", f"{_MAX_SUBSCRIPTIONS} subscriptions exist already"
            )
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        subscription = Subscription(identity, definition, now.replace("+00:00", "Z"))
        for path in definition.streams:
            subscription.links[path] = Link(path, self._waker.tail(path), explicit=True)
        if definition.pattern is not None:
            self._link_matching(subscription, from_start=False)
        self._subscriptions[identity] = subscription
        if self._journal is not None:
            await self._journal.save(subscription, subscription.links.values())
        return self.describe(subscription), True

    def find(self, identity: str) -> Subscription | None:
        return self._subscriptions.get(identity)

    def get(self, identity: str) -> Subscription:
        subscription = self._subscriptions.get(identity)
        if subscription is None:
            raise SubscriptionError(404, "SUBSCRIPTION_NOT_FOUND", "no such subscription")
        return subscription

    async def delete(self, identity: str) -> None:
        """Gone when it returns; whoever still works for it is refused from now on."""
        subscription = self._subscriptions.pop(identity, None)
        if subscription is None:
            return
        subscription.deleted = True
        subscription.stop_timers()
        if self._journal is not None:
            await self._journal.remove(identity)

    async def add_streams(self, subscription: Subscription, paths: tuple[str, ...]) -> None:
        """From their current ends on; cursors of streams already linked stay."""
        for path in paths:
            link = subscription.links.get(path)
            if link is None:
                link = subscription.links[path] = Link(path, self._waker.tail(path))
            link.explicit = True
        if self._journal is not None:
            links = [subscription.links[path] for path in paths]
            await self._journal.save_links(subscription.id, links)

    async def remove_stream(self, subscription: Subscription, path: str) -> None:
        link = subscription.links.get(path)
        if link is None or not link.explicit:
            return
        link.explicit = False
        if link.glob:
            self._save_link(subscription, link)
        else:
            self._drop_link(subscription, path)

    async def claim(self, subscription: Subscription, worker: str) -> dict[str, Any]:
        if subscription.definition.type != "pull-wake":
            raise SubscriptionError(400, "INVALID_REQUEST", "webhook subscriptions are not claimed")
        return await self._waker.claim(subscription, worker)

    async def report(self, subscription: Subscription, token: str, report: Report) -> bool:
        return await self._waker.report(subscription, token, report)

    async def release(self, subscription: Subscription, token: str, report: Report) -> None:
        await self._waker.release(subscription, token, report)

    def jwks(self) -> dict[str, Any] | None:
        return None if self._signer is None else self._signer.jwks()

    def describe(self, subscription: Subscription) -> dict[str, Any]:
        definition = subscription.definition
        streams = [
            {name: info[name] for name in ("path", "link_type", "acked_offset")}
            for info in self._waker.stream_infos(subscription)
        ]
        return {
            "id": subscription.id,
            "subscription_id": subscription.id,
            "type": definition.type,
            "pattern": definition.pattern,
            "streams": streams,
            "webhook": self._describe_webhook(definition),
            "wake_stream": definition.wake_stream,
            "lease_ttl_ms": definition.lease_ttl_ms,
            "created_at": subscription.created_at,
            "status": subscription.status,
            "description": definition.description,
        }

    def _describe_webhook(self, definition: Definition) -> dict[str, Any] | None:
        if definition.webhook_url is None:
            return None
        webhook: dict[str, Any] = {"url": definition.webhook_url}
        if self._signer is not None:
            webhook["signing"] = {
                "alg": "ed25519",
                "kid": self._signer.key_id,
                "jwks_url": f"{self._control_url}/jwks.json",
            }
        return webhook

    # -- links

    def _follows(self, subscription: Subscription, path: str) -> bool:
        pattern = subscription.definition.pattern
        return pattern is not None and matches(pattern, path)

    def _link_matching(self, subscription: Subscription, *, from_start: bool) -> None:
        for key in self._store.keys(_STREAM_PREFIX):
            path = key[len(_STREAM_PREFIX) :]
            if not self._follows(subscription, path):
                continue
            link = subscription.links.get(path)
            if link is None:
                stat = self._store.stat(key)
                start = (stat.fork_offset or 0) if from_start else stat.tail
                link = subscription.links[path] = Link(path, start)
            link.glob = True

    def _add_link(self, subscription: Subscription, link: Link) -> None:
        subscription.links[link.path] = link
        self._save_link(subscription, link)

    def _save_link(self, subscription: Subscription, link: Link) -> None:
        # Not awaited: a link lost in a crash is made again at the start, from the stream's start.
        if self._journal is not None:
            self._journal.save_links(subscription.id, [link])

    def _drop_link(self, subscription: Subscription, path: str) -> None:
        del subscription.links[path]
        if self._journal is not None:
            self._journal.remove_link(subscription.id, path)
