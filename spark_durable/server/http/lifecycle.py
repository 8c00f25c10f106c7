"""Live readers: what wakes them besides data."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from .request import Request
from .responses import HttpError


class Places:
    """So many at a time for each client; one more is told to come back."""

    def __init__(self, what: str, per_client: int) -> None:
        self._what = what
        self._per_client = per_client
        self._taken: Counter[str] = Counter()

    def take(self, client: str) -> Callable[[], None]:
        """Takes a place and returns what gives it back, once."""
        if self._taken[client] >= self._per_client:
            raise HttpError(
                429,
                f"this client has {self._per_client} {self._what} open; end some first",
                {"Retry-After": "1"},
            )
        self._taken[client] += 1
        return partial(self._give_back, client)

    def _give_back(self, client: str) -> None:
        self._taken[client] -= 1
        if not self._taken[client]:
            del self._taken[client]


class LiveReaders:
    """The readers that wait for data now. Each is told when its client leaves or the server stops,
    so that neither keeps a connection open for nobody. A client has so many places of each kind."""

    def __init__(self, long_polls: int = 2**31, sse: int = 2**31) -> None:
        self.long_polls = Places("long-polls", long_polls)
        self.sse = Places("SSE readers", sse)
        self._waiting: set[asyncio.Future[None]] = set()
        self._stopped = False

    @asynccontextmanager
    async def watch(self, request: Request) -> AsyncIterator[asyncio.Future[None]]:
        """A future that completes when there is nobody left to wait for."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._stopped:
            over.set_result(None)
        self._waiting.add(over)
        watcher = asyncio.create_task(_until_gone(request, over))
        try:
            yield over
        finally:
            self._waiting.discard(over)
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher

    @property
    def stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        self._stopped = True
        for over in self._waiting:
            if not over.done():
                over.set_result(None)


async def _until_gone(request: Request, over: asyncio.Future[None]) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    if not over.done():
        over.set_result(None)


async def wait_unless(over: asyncio.Future[None], work: Coroutine[Any, Any, None]) -> None:
    """Awaits ``work`` until it is done or ``over`` is; work that lost the race is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task, over), return_when=asyncio.FIRST_COMPLETED)
    finally:
        if task.done():
            task.result()
        else:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
