"""Calling workers to work: wakes, leases, deliveries and their retries.

A subscription with work pending has one wake in flight. It ends when its worker reports it done or
gives it up, or when its lease runs out; a report under an older generation changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import secrets
import time
from collections.abc import Coroutine, Iterable
from typing import Any, Final
from urllib.parse import quote

from spark_durable.server.http.offsets import format_offset, parse_position
from spark_durable.server.http.routing import stream_key
from spark_durable.server.store import Store
from spark_durable.server.store.errors import StoreError
from spark_durable.server.store.model import AppendSpec

from .definition import Report
from .delivery import DeliveryError, post
from .journal import Journal
from .keys import TokenSealer, WebhookSigner
from .model import Link, Subscription, SubscriptionError, Wake
from .webhook_url import check_webhook_url

logger = logging.getLogger("spark_durable.server.subscriptions")

_MIN_RETRY_S: Final = 1.0
_MAX_RETRY_S: Final = 60.0
_JITTER: Final = 0.2
_MAX_DELIVERIES: Final = 32


class Waker:
    def __init__(
        self,
        store: Store,
        journal: Journal | None,
        tokens: TokenSealer,
        signer: WebhookSigner | None,
        control_url: str,
    ) -> None:
        self._store = store
        self._journal = journal
        self._tokens = tokens
        self._signer = signer
        self._control_url = control_url
        self._deliveries = asyncio.Semaphore(_MAX_DELIVERIES)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    # -- what is pending

    def tail(self, path: str) -> int:
        try:
            return self._store.stat(stream_key(path)).tail
        except StoreError:
            return 0

    def stream_infos(self, subscription: Subscription) -> list[dict[str, Any]]:
        infos = []
        for link in subscription.links.values():
            tail = self.tail(link.path)
            infos.append(
                {
                    "path": link.path,
                    "link_type": "explicit" if link.explicit else "glob",
                    "acked_offset": format_offset(link.acked),
                    "tail_offset": format_offset(tail),
                    "has_pending": tail > link.acked,
                }
            )
        return infos

    def pending(self, subscription: Subscription) -> str | None:
        """A stream with work to do, if there is one."""
        for link in subscription.links.values():
            if self.tail(link.path) > link.acked:
                return link.path
        return None

    # -- waking

    def wake_if_pending(self, subscription: Subscription, hint: str | None = None) -> bool:
        """Makes a wake unless one is in flight or a failed delivery waits for its next attempt."""
        if self._stopped or subscription.deleted or subscription.wake is not None:
            return False
        if subscription.next_attempt_at is not None:
            self._schedule_retry(subscription)
            return False
        path = hint if self._is_pending(subscription, hint) else self.pending(subscription)
        if path is None:
            return False
        wake = self._new_wake(subscription)
        if subscription.definition.type == "webhook":
            self._start_lease(subscription)
            self._spawn(self._deliver(subscription, wake))
        else:
            self._spawn(self._announce(subscription, wake, path))
        return True

    def _is_pending(self, subscription: Subscription, path: str | None) -> bool:
        link = subscription.links.get(path) if path is not None else None
        return link is not None and self.tail(link.path) > link.acked

    def _new_wake(self, subscription: Subscription) -> Wake:
        subscription.generation += 1
        tails = {path: self.tail(path) for path in subscription.links}
        wake = Wake(f"w_{secrets.token_hex(12)}", subscription.generation, tails)
        subscription.wake = wake
        return wake

    async def _announce(self, subscription: Subscription, wake: Wake, path: str) -> None:
        """Writes the wake event of a pull-wake subscription to its wake stream."""
        # Durable before anyone hears of it, else a restart could hand out a generation again.
        await self._save(subscription)
        event = {
            "type": "wake",
            "subscription_id": subscription.id,
            "stream": path,
            "generation": wake.generation,
            "ts": int(time.time() * 1000),
        }
        key = stream_key(subscription.definition.wake_stream or "")
        try:
            content_type = self._store.stat(key).content_type
            await self._store.append(
                key, AppendSpec(content_type=content_type, body=json.dumps(event).encode())
            )
        except StoreError as error:
            logger.warning("subscription %r: no wake event written: %s", subscription.id, error)
            # Nobody was called: the next append, or a claim, makes another wake.
            if subscription.wake is wake and wake.holder is None:
                subscription.wake = None

    # -- webhooks

    async def _deliver(self, subscription: Subscription, wake: Wake) -> None:
        await self._save(subscription)
        assert self._signer is not None
        assert subscription.definition.webhook_url is not None
        callback = f"{self._control_url}/subscriptions/{quote(subscription.id, safe='')}/callback"
        body = json.dumps(
            {
                "subscription_id": subscription.id,
                "wake_id": wake.id,
                "generation": wake.generation,
                "streams": self.stream_infos(subscription),
                "callback_url": callback,
                "callback_token": self._tokens.seal(subscription.id, wake.generation),
            }
        ).encode()
        headers = {
            "Content-Type": "application/json",
            "Webhook-Signature": self._signer.signature_header(body),
        }
        try:
            target = check_webhook_url(subscription.definition.webhook_url)
            async with self._deliveries:
                status, answer = await post(target, body, headers)
            if not 200 <= status < 300:
                raise DeliveryError(f"the receiver answered {status}")
        except (DeliveryError, SubscriptionError) as error:
            logger.warning("subscription %r: webhook not delivered: %s", subscription.id, error)
            await self._delivery_failed(subscription, wake)
            return
        subscription.retries = 0
        subscription.next_attempt_at = None
        if _says_done(answer) and subscription.wake is wake:
            self._ack(subscription, wake.tails)
            self._end_wake(subscription)
            await self._save(subscription, subscription.links.values())
            self.wake_if_pending(subscription)
        else:
            await self._save(subscription)

    async def _delivery_failed(self, subscription: Subscription, wake: Wake) -> None:
        if self._stopped or subscription.deleted or subscription.wake is not wake:
            return
        delay = min(_MIN_RETRY_S * 2**subscription.retries, _MAX_RETRY_S)
        delay *= 1 + random.uniform(-_JITTER, _JITTER)  # noqa: S311 - spreads retries, no secret
        subscription.retries = min(subscription.retries + 1, 16)
        subscription.next_attempt_at = time.time() + delay
        self._schedule_retry(subscription)
        await self._save(subscription)

    def _schedule_retry(self, subscription: Subscription) -> None:
        if subscription.retry_timer is None and subscription.next_attempt_at is not None:
            delay = max(0.0, subscription.next_attempt_at - time.time())
            loop = asyncio.get_running_loop()
            subscription.retry_timer = loop.call_later(delay, self._retry, subscription)

    def _retry(self, subscription: Subscription) -> None:
        """The same wake again if its lease still runs, so that a receiver that did hear of it can
        report; a new one otherwise."""
        subscription.retry_timer = None
        subscription.next_attempt_at = None
        if subscription.wake is None:
            self.wake_if_pending(subscription)
        else:
            self._start_lease(subscription)
            self._spawn(self._deliver(subscription, subscription.wake))

    # -- leases

    def _start_lease(self, subscription: Subscription) -> None:
        if subscription.lease_timer is not None:
            subscription.lease_timer.cancel()
        subscription.lease_timer = asyncio.get_running_loop().call_later(
            subscription.definition.lease_ttl_ms / 1000, self._lease_over, subscription
        )

    def _lease_over(self, subscription: Subscription) -> None:
        subscription.lease_timer = None
        subscription.wake = None
        self.wake_if_pending(subscription)

    def _end_wake(self, subscription: Subscription) -> None:
        if subscription.lease_timer is not None:
            subscription.lease_timer.cancel()
            subscription.lease_timer = None
        if subscription.retry_timer is not None:
            subscription.retry_timer.cancel()
            subscription.retry_timer = None
        subscription.retries = 0
        subscription.next_attempt_at = None
        subscription.wake = None

    # -- what workers say

    async def claim(self, subscription: Subscription, worker: str) -> dict[str, Any]:
        wake = subscription.wake
        if wake is not None and wake.holder is not None:
            raise SubscriptionError(
                409,
                "ALREADY_CLAIMED",
                "another worker holds this subscription",
                current_holder=wake.holder,
                generation=wake.generation,
            )
        if self.pending(subscription) is None:
            raise SubscriptionError(409, "NO_PENDING_WORK", "there is nothing to do")
        if wake is None:
            wake = self._new_wake(subscription)
        wake.holder = worker
        self._start_lease(subscription)
        await self._save(subscription)
        return {
            "wake_id": wake.id,
            "generation": wake.generation,
            "token": self._tokens.seal(subscription.id, wake.generation),
            "streams": self.stream_infos(subscription),
            "lease_ttl_ms": subscription.definition.lease_ttl_ms,
        }

    async def report(self, subscription: Subscription, token: str, report: Report) -> bool:
        """Applies acks and keeps the lease, or ends the wake; durable when it returns. True if that
        called for more work at once."""
        self._check(subscription, token, report)
        acks = self._checked_acks(subscription, report)
        self._ack(subscription, acks)
        if report.done:
            self._end_wake(subscription)
        else:
            self._start_lease(subscription)
        await self._save(subscription, [subscription.links[path] for path in acks])
        return self.wake_if_pending(subscription) if report.done else False

    async def release(self, subscription: Subscription, token: str, report: Report) -> None:
        self._check(subscription, token, report)
        self._end_wake(subscription)
        self.wake_if_pending(subscription)

    def _check(self, subscription: Subscription, token: str, report: Report) -> None:
        generation = self._tokens.open(token, subscription.id)
        wake = subscription.wake
        if wake is None or (generation, report.generation, report.wake_id) != (
            wake.generation,
            wake.generation,
            wake.id,
        ):
            raise SubscriptionError(409, "FENCED", "this wake is over; claim or await the next one")

    def _checked_acks(self, subscription: Subscription, report: Report) -> dict[str, int]:
        acks: dict[str, int] = {}
        for path, offset in report.acks:
            link = subscription.links.get(path)
            position = parse_position(offset)
            if link is None:
                raise _bad_ack(f"{path!r} is not part of this subscription")
            if position is None:
                raise _bad_ack(f"{offset!r} is no offset")
            if position < link.acked:
                raise _bad_ack(f"{path!r} is acked up to {format_offset(link.acked)} already")
            if position > self.tail(path):
                raise _bad_ack(f"{offset!r} is past the end of {path!r}")
            acks[path] = position
        return acks

    def _ack(self, subscription: Subscription, acks: dict[str, int]) -> None:
        for path, position in acks.items():
            link = subscription.links.get(path)
            if link is not None:
                link.acked = max(link.acked, position)

    # -- housekeeping

    async def close(self) -> None:
        self._stopped = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _save(self, subscription: Subscription, links: Iterable[Link] = ()) -> None:
        if self._journal is not None and not subscription.deleted:
            await self._journal.save(subscription, links)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _says_done(answer: bytes) -> bool:
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("done") is True


def _bad_ack(message: str) -> SubscriptionError:
    return SubscriptionError(409, "INVALID_OFFSET", message)
