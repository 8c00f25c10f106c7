"""A shared allowance of bytes: what bodies in flight may hold together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .responses import HttpError


class ByteBudget:
    """Hands out bytes in the order asked. Never more than ``total`` are out, so memory is bounded.

    A share is taken whole before the work begins; a holder never waits for more, so holders cannot
    block one another.
    """

    def __init__(self, total: int, timeout: float) -> None:
        self.total = total
        self._free = total
        self._timeout = timeout
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def free(self) -> int:
        return self._free

    def try_take(self, size: int) -> bool:
        """Takes ``size`` now, unless others wait or too little is left."""
        size = min(size, self.total)
        if self._waiters or size > self._free:
            return False
        self._free -= size
        return True

    async def take(self, size: int) -> None:
        """Takes ``size``, waiting for its turn; past the timeout the client hears 503."""
        if self.try_take(size):
            return
        size = min(size, self.total)
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        entry = (size, turn)
        self._waiters.append(entry)
        timer = loop.call_later(self._timeout, _expire, turn)
        try:
            await turn
        except BaseException:
            self._withdraw(entry)
            raise
        finally:
            timer.cancel()

    def give_back(self, size: int) -> None:
        self._free += min(size, self.total)
        self._grant()

    @asynccontextmanager
    async def share(self, size: int) -> AsyncIterator[None]:
        await self.take(size)
        try:
            yield
        finally:
            self.give_back(size)

    def _withdraw(self, entry: tuple[int, asyncio.Future[None]]) -> None:
        size, turn = entry
        granted = turn.done() and not turn.cancelled() and turn.exception() is None
        if granted:
            self.give_back(size)
            return
        if entry in self._waiters:
            self._waiters.remove(entry)
        self._grant()

    def _grant(self) -> None:
        while self._waiters and self._waiters[0][0] <= self._free:
            size, turn = self._waiters.popleft()
            if not turn.done():
                self._free -= size
                turn.set_result(None)


def _expire(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_exception(overloaded())


def overloaded() -> HttpError:
    return HttpError(503, "too much is in flight; try again", {"Retry-After": "1"})
