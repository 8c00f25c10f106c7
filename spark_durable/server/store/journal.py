"""The way from a decided change to a durable one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from .errors import MemoryFull
from .memory import Usage
from .model import Buffer
from .records import Record
from .segments import Segments
from .state import Effect

_T = TypeVar("_T")


class Change:
    """A record on its way to the disk. It is published, undone or abandoned, once.

    Afterwards it holds its outcome only: streams keep their last change, not its bytes.
    """

    __slots__ = ("_abandoned", "_error", "_settled", "_waiting", "effect", "payload", "record")

    def __init__(self, record: Record, payload: Buffer, effect: Effect) -> None:
        self.record = record
        self.payload = payload
        self.effect = effect
        self._settled = False
        self._abandoned = False
        self._error: Exception | None = None
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def settled(self) -> bool:
        """Whether it is durable or taken back. What was abandoned never is either, and whoever
        finds it in the state has to be told so by `wait`."""
        return self._settled and not self._abandoned

    def publish(self) -> None:
        self.effect.publish()
        self._settle(None)

    def undo(self, error: Exception) -> None:
        self.effect.undo()
        self._settle(error)

    def abandon(self, error: Exception) -> None:
        """Neither shown nor taken back: nobody knows what the disk holds."""
        self._abandoned = True
        self._settle(error)

    def _settle(self, error: Exception | None) -> None:
        self._settled = True
        self._error = error
        del self.record, self.payload, self.effect
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def wait(self) -> None:
        """Returns when the change is durable; raises what kept it from becoming so."""
        if not self._settled:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        if self._error is not None:
            raise self._error


class Journal(Protocol):
    def make_room(self, length: int) -> None:
        """Raises `Overloaded` when too much is in flight, `StoreFailed` after a failure."""

    def submit(self, change: Change) -> None:
        """Takes changes in order; each is published or undone later, in order, on the loop."""

    async def aside(self, work: Callable[[], _T]) -> _T:
        """Runs file work that others need not wait for."""

    async def close(self) -> None:
        """Returns when all that was submitted has been settled."""


class MemoryJournal:
    """Without a disk a change is as durable as it will ever be at once."""

    def __init__(self, segments: Segments, usage: Usage, limit: int) -> None:
        self._segments = segments
        self._usage = usage
        self._limit = limit

    def make_room(self, length: int) -> None:
        # What shrinks the store, and what adds nothing, is always taken.
        if length and self._usage.bytes + length > self._limit:
            raise MemoryFull(self._limit)

    def submit(self, change: Change) -> None:
        if change.effect.write is not None:
            self._segments.write([change.effect.write])
        change.publish()

    async def aside(self, work: Callable[[], _T]) -> _T:
        return work()

    async def close(self) -> None:
        """Nothing is ever in flight."""
