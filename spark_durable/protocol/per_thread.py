"""One connection a thread, and all of them closed together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class _Closable(Protocol):
    def close(self) -> None: ...


Connection = TypeVar("Connection", bound=_Closable)


class PerThread(Generic[Connection]):
    """Makes what each thread has to itself on its first use. After ``close`` it is made anew."""

    def __init__(self, make: Callable[[], Connection]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._local = threading.local()
        self._made: list[Connection] = []

    def get(self) -> Connection:
        mine: Connection | None = getattr(self._local, "mine", None)
        if mine is None:
            mine = self._local.mine = self._make()
            with self._lock:
                self._made.append(mine)
        return mine

    def close(self) -> None:
        with self._lock:
            for connection in self._made:
                connection.close()
            self._made.clear()
            self._local = threading.local()
